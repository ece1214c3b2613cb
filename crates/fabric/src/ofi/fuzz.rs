//! The doors for `fuzz/` to what a peer says over libfabric.

use super::incoming::{Incoming, Piece};
use super::words::{Head, INLINE, MESSAGES, OFFER, Offer, RING};
use crate::libfabric::channel::Landing;

/// Reads an offer; says whether it is one.
///
/// # Panics
///
/// If one that was accepted does not read back.
pub fn offer(bytes: &[u8]) -> bool {
    let Some(bytes) = bytes.first_chunk::<OFFER>() else { return false };
    let offer = Offer::decode(bytes);
    assert!(offer.as_ref().is_none_or(|offer| Offer::encode(offer.as_ref()) == *bytes));
    offer.is_some()
}

/// An offer.
pub fn encode_offer() -> Vec<u8> {
    let (landing, address) = (Landing { key: 1, base: 2 }, vec![3; 16]);
    let offer = Offer { provider: "tcp;ofi_rxm".to_owned(), address, landing, secret: [4; 16], process: [5; 16] };
    Offer::encode(Some(&offer)).to_vec()
}

/// Lets messages and writes come as these bytes say, eight for each, and takes what is here; says whether nothing was refused.
/// One more byte, and an odd one, says that writes have no numbers.
///
/// # Panics
///
/// If bytes are to be taken that lie nowhere or are not here, or in another order or number than they were sent.
pub fn messages(bytes: &[u8]) -> bool {
    let numbered = bytes.len() % 8 != 1 || bytes.last().is_none_or(|last| last % 2 == 0);
    let (mut incoming, mut sent, mut taken) = (Incoming::new(numbered), 0_u64, 0_u64);
    let (mut number, mut ring) = (0_u64, 0_u64);
    for step in bytes.chunks_exact(8) {
        let [kind, near, a, b, c, d, low, high] = step else { continue };
        let (length, wide) = (u16::from_le_bytes([*low, *high]), u32::from_le_bytes([*a, *b, *c, *d]));
        let outcome = match kind % 3 {
            0 => {
                let filled = u64::from(wide) % (2 * RING as u64);
                let head = Head {
                    secret: [0; 16],
                    messages: number + u64::from(near % 3),
                    ring: ring + filled,
                    messages_taken: 0,
                    ring_taken: 0,
                };
                let outcome = incoming.message(&head, usize::from(*near), usize::from(length)).map(|_| ());
                if outcome.is_ok() {
                    (number, ring) = (head.messages, head.ring);
                    sent += filled + u64::from(length);
                }
                outcome
            }
            1 => incoming.placed((number as u32).wrapping_add(u32::from(*near)).wrapping_sub(128)),
            _ => {
                take(&mut incoming, wide as usize, &mut taken);
                Ok(())
            }
        };
        assert!(taken <= sent && incoming.ring_taken <= ring && ring - incoming.ring_taken <= RING as u64);
        assert!(number - incoming.messages_taken <= MESSAGES as u64);
        if outcome.is_err() {
            return false;
        }
    }
    true
}

/// Takes at most so many bytes.
fn take(incoming: &mut Incoming, mut most: usize, taken: &mut u64) {
    while most > 0 {
        let length = match incoming.next() {
            Some(Piece::Ring { at, length }) => {
                assert!(length > 0 && at + length <= RING);
                length
            }
            Some(Piece::Slot { at, length, .. }) => {
                assert!(length > 0 && at + length <= INLINE);
                length
            }
            None => return,
        };
        let length = length.min(most);
        incoming.take(length);
        *taken += length as u64;
        most -= length;
    }
}

/// Messages and writes, some early, that are all in order.
pub fn encode_messages() -> Vec<u8> {
    [
        [0, 1, 0, 0, 0, 0, 100, 0],
        [1, 129, 0, 0, 0, 0, 0, 0],
        [0, 1, 0, 4, 0, 0, 0, 0],
        [2, 0, 0, 16, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 1, 0, 4, 0, 0, 9, 0],
        [1, 128, 0, 0, 0, 0, 0, 0],
        [2, 0, 255, 255, 0, 0, 0, 0],
    ]
    .concat()
}
