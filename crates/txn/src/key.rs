//! Keys as they lie in memory: short ones inline, long ones behind a pointer. What keys and values may be.

use std::borrow::Borrow;
use std::ops::{Bound, Deref};

use ishigaki_base::ByteSize;
use smallvec::SmallVec;

use crate::{Error, Result};

/// The longest key, in bytes.
pub const MAX_KEY: usize = 64 << 10;

/// The longest value, in bytes. The record of a whole transaction has a limit of its own, the log's.
pub const MAX_VALUE: usize = 1 << 30;

/// A range of keys by reference.
pub(crate) type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A key, ordered as its bytes. Up to 23 bytes lie inline: the index compares most keys without following a pointer, and
/// copying them costs no allocation.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(SmallVec<[u8; 23]>);

impl Clone for Key {
    fn clone(&self) -> Self {
        // As a whole, not byte by byte.
        Self(SmallVec::from_slice(&self.0))
    }
}

impl Key {
    /// A copy of `bytes`, if they are not too many.
    pub(crate) fn new(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MAX_KEY {
            return Err(Error::KeyTooLong { length: size(bytes.len()), limit: size(MAX_KEY) });
        }
        Ok(Self(SmallVec::from_slice(bytes)))
    }

    /// A copy of `bytes`, which may be too long for a key that is to be stored: a bound of a range.
    pub(crate) fn of_bound(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }

    /// Bytes outside of the key itself. By length, since two equal keys may differ in capacity.
    pub(crate) fn heap(&self) -> usize {
        if self.0.spilled() { self.0.len() } else { 0 }
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// Refuses a value that is too long.
pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > MAX_VALUE {
        return Err(Error::ValueTooLong { length: size(value.len()), limit: size(MAX_VALUE) });
    }
    Ok(())
}

/// True if no key can lie in the range.
pub(crate) fn is_empty((start, end): KeyRange<'_>) -> bool {
    match (start, end) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
    }
}

/// A number that two keys rarely have in common.
///
/// Fibonacci hashing, eight bytes at a time: it need not be good, only quick and no respecter of neighbours. The upper bits
/// are the better ones.
#[inline]
pub(crate) fn fingerprint(key: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (words, rest) = key.as_chunks::<8>();
    let hash = words.iter().fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(mix(hash, key.len() as u64), |hash, byte| mix(hash, u64::from(*byte)))
}

fn size(bytes: usize) -> ByteSize {
    ByteSize::b(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_their_bytes() {
        let long = [7; 40];
        let keys = [b"".as_slice(), b"\x00", b"a", b"aa", b"b", &long];
        for a in keys {
            for b in keys {
                assert_eq!(Key::new(a).unwrap().cmp(&Key::new(b).unwrap()), a.cmp(b));
            }
        }
    }

    #[test]
    fn keys_have_a_limit() {
        assert!(Key::new(&vec![0; MAX_KEY]).is_ok());
        assert!(matches!(Key::new(&vec![0; MAX_KEY + 1]), Err(Error::KeyTooLong { .. })));
    }

    #[test]
    fn a_range_that_no_key_can_lie_in_is_empty() {
        let (a, b) = (b"a".as_slice(), b"b".as_slice());
        assert!(is_empty((Bound::Included(b), Bound::Included(a))));
        assert!(is_empty((Bound::Included(a), Bound::Excluded(a))));
        assert!(is_empty((Bound::Excluded(a), Bound::Excluded(a))));
        assert!(!is_empty((Bound::Included(a), Bound::Included(a))));
        assert!(!is_empty((Bound::Excluded(a), Bound::Excluded(b))));
        assert!(!is_empty((Bound::Unbounded, Bound::Excluded(b))));
    }
}
