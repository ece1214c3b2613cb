//! Logging in by NTLM, version 2 ([MS-NLMP]).
//!
//! Three messages: what we can, the server's challenge, our proof that we know the password. The key of the session comes of it. The tokens go as they are,
//! without SPNEGO around them, as Linux' own client sends them. Versions 1 of NTLM and of its answers are not spoken.

use hmac::{Hmac, Mac};
use md_5_of_ntlm::Md5;
use md4::{Digest, Md4};

use super::bytes::{Body, Fields, Malformed};
use super::credentials::Credentials;
use super::name;

const SIGNATURE: &[u8; 8] = b"NTLMSSP\0";
const UNICODE: u32 = 1;
const REQUEST_TARGET: u32 = 4;
const SIGN: u32 = 0x10;
const NTLM: u32 = 0x200;
const ANONYMOUS: u32 = 0x800;
const ALWAYS_SIGN: u32 = 0x8000;
const EXTENDED_SECURITY: u32 = 0x8_0000;
const TARGET_INFO: u32 = 0x80_0000;
const KEY_128: u32 = 0x2000_0000;
const KEY_56: u32 = 0x8000_0000;
const WANTED: u32 =
    UNICODE | REQUEST_TARGET | SIGN | NTLM | ALWAYS_SIGN | EXTENDED_SECURITY | TARGET_INFO | KEY_128 | KEY_56;

/// Fields of the target information.
const END: u16 = 0;
const FLAGS: u16 = 6;
const TIMESTAMP: u16 = 7;
/// The flag that says that the last message has a check of all three.
const HAS_CHECK: u32 = 2;
/// Where the check stands in the last message, and its size.
const CHECK: std::ops::Range<usize> = 72..88;
/// The size of the last message's head.
const HEAD: usize = 88;

/// The last message, and the session's key; a guest has none.
pub(super) struct Proof {
    pub(super) message: Vec<u8>,
    pub(super) key: Option<[u8; 16]>,
}

/// The first message.
pub(super) fn negotiate() -> Vec<u8> {
    Body::default().bytes(SIGNATURE).u32(1).u32(WANTED).zeros(16).0
}

/// The last message, in answer to the server's. `now` is the time of this host as the protocol counts it, `random` has never been used before.
pub(super) fn authenticate(
    credentials: &Credentials,
    negotiate: &[u8],
    challenge: &[u8],
    now: u64,
    random: [u8; 8],
) -> Result<Proof, Malformed> {
    let fields = Fields(challenge);
    if fields.bytes(0, 8)? != SIGNATURE || fields.u32(8)? != 2 {
        return Err(Malformed("it has no challenge of NTLM"));
    }
    let flags = fields.u32(20)? & WANTED;
    if flags & UNICODE == 0 || flags & EXTENDED_SECURITY == 0 {
        return Err(Malformed("it wants a version of NTLM that is not spoken"));
    }
    let server: [u8; 8] = fields.array(24)?;
    if credentials.is_guest() {
        let message = message(flags | ANONYMOUS, [&[0], &[], &[], &[], &[], &[]]);
        return Ok(Proof { message, key: None });
    }
    let info = fields.bytes(fields.u32(44)? as usize, usize::from(fields.u16(40)?))?;
    let (info, time) = target(Fields(info))?;
    let (domain, user) = (wide(&credentials.domain), wide(&credentials.user));
    let key = of_user(credentials);
    let (answer, session) = answer(&key, server, time.unwrap_or(now), random, &info);
    let mut message = message(flags, [&[0; 24], &answer, &domain, &user, &[], &[]]);
    let check = hmac(&session, &[negotiate, challenge, &message]);
    message[CHECK].copy_from_slice(&check);
    Ok(Proof { message, key: Some(session) })
}

/// The last message of the answers, the domain, the user, the host and the encrypted key; without its check.
fn message(flags: u32, parts: [&[u8]; 6]) -> Vec<u8> {
    let mut head = Body::default().bytes(SIGNATURE).u32(3);
    let mut at = HEAD;
    for part in parts {
        head = head.u16(part.len() as u16).u16(part.len() as u16).u32(at as u32);
        at += part.len();
    }
    // Version and check.
    let head = head.u32(flags).zeros(8 + 16);
    parts.iter().fold(head, |message, part| message.bytes(part)).0
}

/// The server's target information with the flag that our message has a check, and its time.
fn target(info: Fields<'_>) -> Result<(Vec<u8>, Option<u64>), Malformed> {
    let (mut at, mut time, mut flags) = (0, None, HAS_CHECK);
    let mut target = Body::default();
    loop {
        let (kind, size) = (info.u16(at)?, usize::from(info.u16(at + 2)?));
        let value = info.bytes(at + 4, size)?;
        match kind {
            END => break,
            FLAGS => flags |= Fields(value).u32(0)?,
            _ => {
                if kind == TIMESTAMP {
                    time = Some(Fields(value).u64(0)?);
                }
                target = target.u16(kind).u16(size as u16).bytes(value);
            }
        }
        at += 4 + size;
    }
    Ok((target.u16(FLAGS).u16(4).u32(flags).u32(0).0, time))
}

/// `NTOWFv2`.
fn of_user(credentials: &Credentials) -> [u8; 16] {
    let of_password: [u8; 16] = Md4::digest(wide(&credentials.password)).into();
    hmac(&of_password, &[&wide(&credentials.user.to_uppercase()), &wide(&credentials.domain)])
}

/// The answer to a challenge, and the session's key.
fn answer(key: &[u8; 16], server: [u8; 8], time: u64, random: [u8; 8], target: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let rest = Body::default().u16(0x0101).zeros(6).u64(time).bytes(&random).u32(0).bytes(target).u32(0).0;
    let proof = hmac(key, &[&server, &rest]);
    ([&proof[..], &rest].concat(), hmac(key, &[&proof]))
}

fn hmac(key: &[u8; 16], parts: &[&[u8]]) -> [u8; 16] {
    let padded = {
        let mut padded = [0; 64];
        padded[..16].copy_from_slice(key);
        padded
    };
    let mut hmac = <Hmac<Md5> as hmac::digest::KeyInit>::new(&padded.into());
    for part in parts {
        hmac.update(part);
    }
    hmac.finalize().into_bytes().into()
}

fn wide(text: &str) -> Vec<u8> {
    name::bytes_of(&text.encode_utf16().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of [MS-NLMP] 4.2.4.
    #[test]
    fn the_answer_to_a_challenge_is_that_of_the_specification() {
        let credentials = Credentials { user: "User".into(), password: "Password".into(), domain: "Domain".into() };
        let key = of_user(&credentials);
        assert_eq!(u128::from_be_bytes(key), 0x0c86_8a40_3bfd_7a93_a300_1ef2_2ef0_2e3f);
        let (domain, server) = (wide("Domain"), wide("Server"));
        let info = Body::default().u16(2).u16(12).bytes(&domain).u16(1).u16(12).bytes(&server).u32(0).0;
        let challenge = 0x0123_4567_89ab_cdef_u64.to_be_bytes();
        let (answer, session) = answer(&key, challenge, 0, [0xaa; 8], &info);
        assert_eq!(answer[..16], 0x68cd_0ab8_51e5_1c96_aabc_927b_ebef_6a1c_u128.to_be_bytes());
        assert_eq!(u128::from_be_bytes(session), 0x8de4_0cca_dbc1_4a82_f15c_b0ad_0de9_5ca3);
    }

    #[test]
    fn a_challenge_that_is_none_is_refused() {
        let credentials = Credentials { user: "User".into(), ..Credentials::default() };
        let info = Body::default().u16(TIMESTAMP).u16(8).u64(7).u32(0).0;
        let whole = Body::default().bytes(SIGNATURE).u32(2).zeros(8).u32(WANTED).zeros(16).u16(16).u16(16).u32(48);
        let whole = whole.bytes(&info).0;
        let proof = |challenge: &[u8]| authenticate(&credentials, &negotiate(), challenge, 0, [1; 8]);
        let message = proof(&whole).expect("a proof").message;
        assert!(message[..8] == *SIGNATURE && message[CHECK] != [0; 16]);
        for size in 0..whole.len() - 4 {
            assert!(proof(&whole[..size]).is_err(), "{size}");
        }
        let mut weak = whole;
        weak[22] = 0;
        assert!(proof(&weak).is_err());
    }
}
