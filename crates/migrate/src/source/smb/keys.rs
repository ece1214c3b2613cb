//! Signing and encrypting of messages, and the keys of both.
//!
//! | Dialect | Signed by | Encrypted by |
//! |---|---|---|
//! | 2.0.2, 2.1 | HMAC-SHA256 | not |
//! | 3.0, 3.0.2 | AES-128-CMAC | AES-128-CCM |
//! | 3.1.1 | AES-128-GMAC or CMAC, as agreed | AES-128-GCM, AES-256-GCM or AES-128-CCM, as agreed |

use std::sync::atomic::{AtomicU64, Ordering};

use aes::Aes128;
use ccm::aead::{AeadInPlace, KeyInit};
use ccm::consts::{U11, U16};
use cmac::{Cmac, Mac};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;

use super::bytes::{Body, Fields, Malformed};

/// Where a message's signature stands.
const SIGNATURE: std::ops::Range<usize> = 48..64;
/// Before an encrypted message.
pub(super) const TRANSFORM: usize = 52;
/// What begins an encrypted message.
pub(super) const SEALED: [u8; 4] = *b"\xfdSMB";
const SIZE_OF_TAG: usize = 16;

/// Numbers of the ways to encrypt, as they are agreed on.
pub(super) const CIPHERS: [u16; 3] = [AES128_GCM, AES256_GCM, AES128_CCM];
pub(super) const AES128_CCM: u16 = 1;
const AES128_GCM: u16 = 2;
const AES256_GCM: u16 = 4;

/// Numbers of the ways to sign.
pub(super) const SIGNINGS: [u16; 2] = [GMAC, CMAC];
pub(super) const CMAC: u16 = 1;
const GMAC: u16 = 2;

/// What keys are made of: the dialect, and from 3.1.1 on all that was said before.
pub(super) struct Basis<'a> {
    pub(super) dialect: u16,
    pub(super) key: [u8; 16],
    pub(super) said: &'a [u8; 64],
}

impl Basis<'_> {
    /// A key for one use ([SP800-108], counter mode).
    fn derive(&self, old: (&[u8], &[u8]), new: &[u8], size: usize) -> Vec<u8> {
        let (label, context) = if self.dialect >= 0x0311 { (new, &self.said[..]) } else { old };
        let bits = size as u32 * 8;
        let text = [&1_u32.to_be_bytes(), label, &[0], context, &bits.to_be_bytes()].concat();
        let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.key), &text);
        key.as_ref()[..size.min(32)].to_vec()
    }
}

/// Signs what is sent, and checks what comes.
pub(super) enum Signing {
    Sha256(hmac::Key),
    Cmac(Box<Cmac<Aes128>>),
    Gmac(Box<LessSafeKey>),
}

impl Signing {
    /// `None` for a way that there is not.
    pub(super) fn new(basis: &Basis<'_>, way: u16) -> Option<Self> {
        if basis.dialect < 0x0300 {
            return Some(Self::Sha256(hmac::Key::new(hmac::HMAC_SHA256, &basis.key)));
        }
        let key = basis.derive((b"SMB2AESCMAC\0", b"SmbSign\0"), b"SMBSigningKey\0", 16);
        match way {
            CMAC => <Cmac<Aes128> as Mac>::new_from_slice(&key).ok().map(Box::new).map(Self::Cmac),
            GMAC => UnboundKey::new(&AES_128_GCM, &key).ok().map(LessSafeKey::new).map(Box::new).map(Self::Gmac),
            _ => None,
        }
    }

    /// The signature of a message, without what stands where the signature goes.
    fn of(&self, message: &[u8], from_server: bool) -> Option<[u8; 16]> {
        let (head, rest) = (message.get(..SIGNATURE.start)?, message.get(SIGNATURE.end..)?);
        match self {
            Self::Sha256(key) => {
                let mut context = hmac::Context::with_key(key);
                for part in [head, &[0; 16], rest] {
                    context.update(part);
                }
                context.sign().as_ref()[..16].try_into().ok()
            }
            Self::Cmac(mac) => {
                let mut mac = mac.as_ref().clone();
                for part in [head, &[0; 16], rest] {
                    mac.update(part);
                }
                Some(mac.finalize().into_bytes().into())
            }
            Self::Gmac(key) => {
                let number = Fields(message).bytes(24, 8).ok()?;
                let mut nonce = [0; 12];
                nonce[..8].copy_from_slice(number);
                nonce[8] = u8::from(from_server);
                let text = [head, &[0; 16], rest].concat();
                let nonce = Nonce::assume_unique_for_key(nonce);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(text), &mut []).ok()?;
                tag.as_ref().try_into().ok()
            }
        }
    }

    /// Signs a message of ours.
    pub(super) fn sign(&self, message: &mut [u8]) {
        if let Some(signature) = self.of(message, false) {
            message[SIGNATURE].copy_from_slice(&signature);
        }
    }

    /// Whether the server has signed that.
    pub(super) fn is_signed(&self, message: &[u8]) -> bool {
        let signature = self.of(message, true);
        let differs = |told: &[u8]| {
            // All of it, however early it differs.
            signature.is_none_or(|right| right.iter().zip(told).fold(0, |sum, (one, other)| sum | (one ^ other)) != 0)
        };
        message.get(SIGNATURE).is_some_and(|told| !differs(told))
    }
}

/// Encrypts what is sent, and decrypts what comes.
pub(super) struct Sealing {
    ours: Cipher,
    theirs: Cipher,
    session: u64,
    next: AtomicU64,
}

enum Cipher {
    Gcm(Box<LessSafeKey>),
    Ccm(Box<ccm::Ccm<Aes128, U16, U11>>),
}

impl Cipher {
    fn new(way: u16, key: &[u8]) -> Option<Self> {
        let gcm = |algorithm| UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new).map(Box::new).map(Self::Gcm);
        match way {
            AES128_CCM => ccm::Ccm::new_from_slice(key).ok().map(Box::new).map(Self::Ccm),
            AES128_GCM => gcm(&AES_128_GCM),
            AES256_GCM => gcm(&AES_256_GCM),
            _ => None,
        }
    }

    fn seal(&self, nonce: &[u8; 16], aad: &[u8], text: &mut [u8]) -> Option<[u8; SIZE_OF_TAG]> {
        match self {
            Self::Gcm(key) => {
                let nonce = Nonce::try_assume_unique_for_key(&nonce[..12]).ok()?;
                key.seal_in_place_separate_tag(nonce, Aad::from(aad), text).ok()?.as_ref().try_into().ok()
            }
            Self::Ccm(key) => key.encrypt_in_place_detached(nonce[..11].into(), aad, text).ok().map(Into::into),
        }
    }

    /// Decrypts `text`, behind which its tag stands.
    fn open(&self, nonce: &[u8; 16], aad: &[u8], tag: [u8; SIZE_OF_TAG], text: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Gcm(key) => {
                let nonce = Nonce::try_assume_unique_for_key(&nonce[..12]).ok()?;
                let size = text.len();
                text.extend(tag);
                key.open_in_place(nonce, Aad::from(aad), text).ok()?;
                text.truncate(size);
                Some(())
            }
            Self::Ccm(key) => key.decrypt_in_place_detached(nonce[..11].into(), aad, text, &tag.into()).ok(),
        }
    }
}

impl Sealing {
    /// `None` for a way that there is not.
    pub(super) fn new(basis: &Basis<'_>, way: u16, session: u64) -> Option<Self> {
        let size = if way == AES256_GCM { 32 } else { 16 };
        let ours = basis.derive((b"SMB2AESCCM\0", b"ServerIn \0"), b"SMBC2SCipherKey\0", size);
        let theirs = basis.derive((b"SMB2AESCCM\0", b"ServerOut\0"), b"SMBS2CCipherKey\0", size);
        let (ours, theirs) = (Cipher::new(way, &ours)?, Cipher::new(way, &theirs)?);
        Some(Self { ours, theirs, session, next: AtomicU64::new(1) })
    }

    /// The encrypted message.
    pub(super) fn seal(&self, mut message: Vec<u8>) -> Option<Vec<u8>> {
        // Each number is used once, and the key lives as long as the connection.
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.next.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        let rest = Body::default().bytes(&nonce).u32(message.len() as u32).u16(0).u16(1).u64(self.session).0;
        let tag = self.ours.seal(&nonce, &rest, &mut message)?;
        Some([&SEALED[..], &tag, &rest, &message].concat())
    }

    /// The message in an encrypted one.
    pub(super) fn open(&self, mut sealed: Vec<u8>) -> Result<Vec<u8>, Malformed> {
        let fields = Fields(&sealed);
        let (tag, nonce) = (fields.array(4)?, fields.array(20)?);
        let aad: [u8; TRANSFORM - 20] = fields.array(20)?;
        if fields.u64(44)? != self.session || fields.u32(36)? as usize != sealed.len() - TRANSFORM {
            return Err(Malformed("an encrypted message is of another session or size"));
        }
        sealed.drain(..TRANSFORM);
        let opened = self.theirs.open(&nonce, &aad, tag, &mut sealed);
        opened.map(|()| sealed).ok_or(Malformed("an encrypted message was not encrypted by the server"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: [u8; 64] = [7; 64];

    /// The server's side of `ours`.
    fn turned(sealing: Sealing) -> Sealing {
        Sealing { ours: sealing.theirs, theirs: sealing.ours, ..sealing }
    }

    #[test]
    fn what_is_encrypted_is_opened_and_a_changed_bit_is_noticed() {
        for way in CIPHERS {
            let basis = Basis { dialect: 0x0311, key: [3; 16], said: &SAID };
            let ours = Sealing::new(&basis, way, 9).expect("a way");
            let theirs = turned(Sealing::new(&basis, way, 9).expect("a way"));
            let message: Vec<u8> = (0..100).collect();
            let first = ours.seal(message.clone()).expect("seals");
            let second = ours.seal(message.clone()).expect("seals");
            assert!(first[TRANSFORM..] != second[TRANSFORM..] && first[TRANSFORM..] != message[..]);
            assert_eq!(theirs.open(first.clone()), Ok(message), "{way}");
            for at in 4..first.len() {
                let mut wrong = first.clone();
                wrong[at] ^= 1;
                assert!(theirs.open(wrong).is_err(), "{way}: byte {at}");
            }
            assert!(theirs.open(first[..30].to_vec()).is_err());
        }
    }

    #[test]
    fn a_changed_bit_of_a_signed_message_is_noticed() {
        for (dialect, way) in [(0x0210, 0), (0x0300, CMAC), (0x0311, CMAC), (0x0311, GMAC)] {
            let basis = Basis { dialect, key: [3; 16], said: &SAID };
            let signing = Signing::new(&basis, way).expect("a way");
            let mut message: Vec<u8> = (0..100).collect();
            let signature = signing.of(&message, true).expect("long enough");
            message[SIGNATURE].copy_from_slice(&signature);
            assert!(signing.is_signed(&message));
            for at in 0..message.len() {
                let mut wrong = message.clone();
                wrong[at] ^= 1;
                assert!(!signing.is_signed(&wrong), "{dialect:x} {way}: byte {at}");
            }
            assert!(!signing.is_signed(&message[..63]));
            assert_eq!(signing.of(&message, false) != signing.of(&message, true), way == GMAC);
        }
    }
}
