//! Keys as they lie in memory: short ones inline, long ones behind a pointer. What keys and values may be.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZero;
use std::ops::{Bound, Deref};

use ishigaki_base::ByteSize;
use zerocopy::IntoBytes;

use crate::{Error, Result};

/// The longest key, in bytes.
pub const MAX_KEY: usize = 64 << 10;

/// The longest value, in bytes. The record of a whole transaction has a limit of its own, the log's.
pub const MAX_VALUE: usize = 1 << 30;

/// A range of keys by reference.
pub(crate) type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A key, ordered as its bytes. A short one lies inline: it is found without following a pointer, and copying it is
/// copying four words.
#[derive(Clone)]
pub(crate) enum Key {
    Short(ShortKey),
    Long(Box<[u8]>),
}

/// A key of a few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortKey {
    /// Its bytes as they lie in memory, with zeros behind them.
    words: [u64; Self::WORDS],
    /// One more than its length: then a key is no larger than a short one. A whole word, so that a key is copied in words.
    end: NonZero<u64>,
}

impl ShortKey {
    /// The key of no bytes.
    pub(crate) const EMPTY: Self = Self { words: [0; Self::WORDS], end: NonZero::<u64>::MIN };

    const WORDS: usize = 3;
    const LONGEST: usize = 8 * Self::WORDS;

    /// A copy of `bytes`, if they are few. It is made in registers: bytes that were just written to memory can be read as
    /// words only after a while, and a copy of any length would be a call.
    #[inline]
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > Self::LONGEST {
            return None;
        }
        let (whole, rest) = bytes.as_chunks::<8>();
        // The rest is the end of the last eight bytes, if there are as many.
        let rest = match bytes.last_chunk::<8>() {
            _ if rest.is_empty() => 0,
            Some(last) => (u64::from_le_bytes(*last) >> (8 * (8 - rest.len()))).to_le(),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)).to_le(),
        };
        let word = |at: usize| match whole.get(at) {
            Some(word) => u64::from_ne_bytes(*word),
            None if at == whole.len() => rest,
            None => 0,
        };
        Some(Self { words: [word(0), word(1), word(2)], end: NonZero::<u64>::MIN.saturating_add(bytes.len() as u64) })
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.words.as_bytes()[..self.end.get() as usize - 1]
    }

    /// A number that two short keys rarely have in common, in its upper bits.
    #[inline]
    pub(crate) fn mixed(&self) -> u64 {
        let [first, second, third] = self.words;
        (first ^ second.rotate_left(17) ^ third.rotate_left(31) ^ self.end.get()).wrapping_mul(FIBONACCI)
    }
}

impl Key {
    /// A copy of `bytes`, if they are not too many.
    #[inline]
    pub(crate) fn new(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MAX_KEY {
            return Err(Error::KeyTooLong { length: size(bytes.len()), limit: size(MAX_KEY) });
        }
        Ok(Self::of_bound(bytes))
    }

    /// A copy of `bytes`, which may be too long for a key that is to be stored: a bound of a range.
    #[inline]
    pub(crate) fn of_bound(bytes: &[u8]) -> Self {
        ShortKey::new(bytes).map_or_else(|| Self::Long(bytes.into()), Self::Short)
    }

    /// Bytes outside of the key itself.
    pub(crate) fn heap(&self) -> usize {
        match self {
            Self::Short(_) => 0,
            Self::Long(bytes) => bytes.len(),
        }
    }
}

impl Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(short) => short.bytes(),
            Self::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Short(mine), Self::Short(theirs)) => mine == theirs,
            _ => **self == **other,
        }
    }
}

impl Eq for Key {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
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

/// The word's share of the golden ratio.
const FIBONACCI: u64 = 0x9E37_79B9_7F4A_7C15;

/// A number that two keys rarely have in common.
///
/// Fibonacci hashing, eight bytes at a time: it need not be good, only quick and no respecter of neighbours. The upper bits
/// are the better ones.
#[inline]
pub(crate) fn fingerprint(key: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(FIBONACCI);
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
        let keys = [b"".as_slice(), b"\x00", b"a", b"aa", b"b", &long, &long[..24], &long[..25]];
        for a in keys {
            for b in keys {
                let (first, second) = (Key::new(a).unwrap(), Key::new(b).unwrap());
                assert_eq!((first.cmp(&second), first == second), (a.cmp(b), a == b));
            }
        }
    }

    #[test]
    fn keys_of_any_length_are_kept_whole() {
        let bytes: Vec<u8> = (1..=100).collect();
        for length in 0..=bytes.len() {
            let key = Key::new(&bytes[..length]).unwrap();
            assert_eq!((&*key, key.heap() > 0), (&bytes[..length], length > ShortKey::LONGEST));
            assert!(key == key.clone() && (length == 0 || key != Key::of_bound(&bytes[1..length])));
        }
        assert_eq!(size_of::<Key>(), 32, "four words");
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
