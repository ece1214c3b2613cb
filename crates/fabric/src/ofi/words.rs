//! What both sides say about the stream: the offer at the handshake, and what every message begins with. Pictured in
//! `docs/format/fabric.md`.

use ishigaki_base::Fields;

use crate::libfabric::channel::{LONGEST_ADDRESS, Landing};

/// Bytes of each side's landing ring.
pub(super) const RING: usize = 1 << 20;

/// Bytes of a message at most.
pub(super) const MESSAGE: usize = 4096;

/// Messages with bytes of the stream that a side takes before it has said that it took one.
pub(super) const MESSAGES: usize = 64;

/// Messages beside them that only say what was taken. One is sent when half of the messages or a quarter of the ring was
/// taken since it was last said, so there are never more than a few on their way.
pub(super) const EXTRA: usize = 16;

/// Bytes of an offer.
pub(super) const OFFER: usize = 376;

/// Bytes of a provider's name at most.
const NAME: usize = 64;

/// Bytes that a message begins with.
pub(super) const HEAD: usize = 48;

/// Bytes of the stream that a message has room for.
pub(super) const INLINE: usize = MESSAGE - HEAD;

/// How one side is reached. Without, when there is nothing to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// The provider, with all of its layers.
    pub(super) provider: String,
    /// Where it is reached, in the provider's own format.
    pub(super) address: Vec<u8>,
    pub(super) landing: Landing,
    /// What the peer's messages must begin with.
    pub(super) secret: [u8; 16],
    /// The same for all that one process offers, and for no other process.
    pub(super) process: [u8; 16],
}

impl Offer {
    /// An offer, or that there is none.
    pub(super) fn encode(offer: Option<&Self>) -> [u8; OFFER] {
        let mut bytes = [0; OFFER];
        let Some(offer) = offer else {
            bytes[0] = 1;
            return bytes;
        };
        let (name, address) = (offer.provider.as_bytes(), &offer.address);
        bytes[1] = name.len() as u8;
        bytes[2..4].copy_from_slice(&(address.len() as u16).to_le_bytes());
        bytes[8..16].copy_from_slice(&offer.landing.key.to_le_bytes());
        bytes[16..24].copy_from_slice(&offer.landing.base.to_le_bytes());
        bytes[24..40].copy_from_slice(&offer.secret);
        bytes[40..40 + name.len()].copy_from_slice(name);
        bytes[104..104 + address.len()].copy_from_slice(address);
        bytes[360..].copy_from_slice(&offer.process);
        bytes
    }

    /// Whether it fits.
    pub(super) fn fits(&self) -> bool {
        self.provider.len() <= NAME && (1..=LONGEST_ADDRESS).contains(&self.address.len())
    }

    /// Nothing: these are no offer's bytes. Nothing within: there is no offer.
    #[expect(clippy::option_option, reason = "no offer is something else than no bytes of one")]
    pub(super) fn decode(bytes: &[u8; OFFER]) -> Option<Option<Self>> {
        let fields = Fields(bytes);
        let [status, name, low, high] = fields.array(0);
        let (name, address) = (usize::from(name), usize::from(u16::from_le_bytes([low, high])));
        if status == 1 {
            return bytes[1..].iter().all(|&byte| byte == 0).then_some(None);
        }
        if status != 0 || fields.u32(4) != 0 || name > NAME || !(1..=LONGEST_ADDRESS).contains(&address) {
            return None;
        }
        let provider = String::from_utf8(bytes[40..40 + name].to_vec()).ok()?;
        let landing = Landing { key: fields.u64(8), base: fields.u64(16) };
        let (secret, process) = (fields.array(24), fields.array(360));
        let offer = Self { provider, address: bytes[104..104 + address].to_vec(), landing, secret, process };
        (Self::encode(Some(&offer)) == *bytes).then_some(Some(offer))
    }
}

/// What a message begins with; the rest of it are bytes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// What its receiver has asked for in its offer.
    pub(super) secret: [u8; 16],
    /// How many messages with bytes were sent, with this one.
    pub(super) messages: u64,
    /// How many bytes were written into the ring, up to and with those that come before this message's own.
    pub(super) ring: u64,
    /// How many messages with bytes were taken.
    pub(super) messages_taken: u64,
    /// How many bytes of the ring were taken.
    pub(super) ring_taken: u64,
}

impl Head {
    pub(super) fn encode(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..16].copy_from_slice(&self.secret);
        let numbers = [self.messages, self.ring, self.messages_taken, self.ring_taken];
        for (place, number) in bytes[16..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8; HEAD]) -> Self {
        let fields = Fields(bytes);
        Self {
            secret: fields.array(0),
            messages: fields.u64(16),
            ring: fields.u64(24),
            messages_taken: fields.u64(32),
            ring_taken: fields.u64(40),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_reads_back_and_nothing_else_is_one() {
        let landing = Landing { key: 7, base: 1 << 40 };
        let offer = Offer {
            provider: "tcp;ofi_rxm".to_owned(),
            address: vec![9; 16],
            landing,
            secret: [5; 16],
            process: [6; 16],
        };
        assert!(offer.fits());
        let bytes = Offer::encode(Some(&offer));
        assert_eq!(Offer::decode(&bytes), Some(Some(offer)));
        assert_eq!(Offer::decode(&Offer::encode(None)), Some(None));
        // Status, lengths, zeros, and what lies behind a name and an address.
        for (at, byte) in [(0, 2), (0, 1), (1, 65), (1, 3), (3, 9), (4, 1), (40, 0xff), (103, 1), (359, 1)] {
            let mut other = bytes;
            other[at] = byte;
            assert_eq!(Offer::decode(&other), None, "byte {at}");
        }
    }

    #[test]
    fn the_head_of_a_message_reads_back() {
        let head = Head { secret: [3; 16], messages: 1, ring: 2, messages_taken: 3, ring_taken: 1 << 60 };
        assert_eq!(Head::decode(&head.encode()), head);
    }
}
