//! A key as a node compares it: eight bytes as one number, and what is left.
//!
//! All keys that can come to a node have a first part in common, because the node's place in the tree says so: keys between
//! two others begin as both of them do. A node leaves out as much of that as it needs for its longest key to fit in eight
//! bytes, but keeps none of it: whoever searches has those bytes at hand. What follows is the key's *rest*: its first eight
//! bytes are the *head*, a big-endian number padded with zeros, and its length up to nine is the *class*. Keys are ordered
//! by head and class; only two keys of class nine, with equal heads, need a look at their bytes.

use smallvec::SmallVec;

/// The class of a rest that does not fit in the head.
pub(crate) const LONG: u64 = 9;

/// A whole key on the stack, unless it is long.
pub(crate) type KeyBytes = SmallVec<[u8; 32]>;

/// Head and class of `key` without its first `prefix` bytes. A key that is shorter, as a torn read may make it seem, has an
/// empty rest.
#[inline]
pub(crate) fn encode(key: &[u8], prefix: usize) -> (u64, u64) {
    let rest = key.get(prefix..).unwrap_or_default();
    if let Some(first) = rest.first_chunk::<8>() {
        return (u64::from_be_bytes(*first), if rest.len() == 8 { 8 } else { LONG });
    }
    let class = rest.len();
    // The last eight bytes of the whole key are at hand more often than not; shift out what is not of the rest.
    let head = match key.last_chunk::<8>() {
        Some(_) if class == 0 => 0,
        Some(last) => u64::from_be_bytes(*last) << (8 * (8 - class)),
        None => {
            let mut padded = [0; 8];
            padded[..class].copy_from_slice(rest);
            u64::from_be_bytes(padded)
        }
    };
    (head, class as u64)
}

/// A key on its way through the tree, encoded for the node where it is.
#[derive(Debug)]
pub(crate) struct Probe<'k> {
    pub(crate) key: &'k [u8],
    prefix: usize,
    pub(crate) head: u64,
    pub(crate) class: u64,
}

impl<'k> Probe<'k> {
    #[inline]
    pub(crate) fn new(key: &'k [u8]) -> Self {
        let (head, class) = encode(key, 0);
        Self { key, prefix: 0, head, class }
    }

    /// Encodes the key for a node that leaves out `prefix` bytes.
    #[inline]
    pub(crate) fn fit(&mut self, prefix: usize) {
        if self.prefix != prefix {
            self.prefix = prefix;
            (self.head, self.class) = encode(self.key, prefix);
        }
    }
}

/// How many bytes `a` and `b` begin with in common.
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The shortest key above `below` and not above `above`, where `below < above`.
pub(crate) fn between<'a>(below: &[u8], above: &'a [u8]) -> &'a [u8] {
    above.get(..=common(below, above)).unwrap_or(above)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn heads_and_classes_order_keys_as_their_bytes() {
        let keys: [&[u8]; 12] = [
            b"",
            b"\0",
            b"\0\0",
            b"\0\0\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\0\x01",
            b"a",
            b"a\0",
            b"ab",
            b"abcdefgh",
            b"abcdefghi",
            b"b",
        ];
        for pair in keys.windows(2) {
            assert!(encode(pair[0], 0) < encode(pair[1], 0), "{pair:?}");
        }
    }

    #[test]
    fn a_rest_is_the_same_whatever_was_before_it() {
        let key = b"0123456789abcdefXYZ";
        for end in 0..=key.len() {
            for prefix in 0..=end {
                assert_eq!(encode(&key[..end], prefix), encode(&key[prefix..end], 0), "{prefix} of {end}");
            }
        }
        assert_eq!(encode(b"ab", 3), (0, 0));
    }

    #[test]
    fn what_lies_between_two_keys_is_short() {
        for (below, above, between_them) in
            [("", "a", "a"), ("abc", "abd", "abd"), ("abc", "b", "b"), ("ab", "abcd", "abc"), ("axyz", "bxyz", "b")]
        {
            assert_eq!(between(below.as_bytes(), above.as_bytes()), between_them.as_bytes());
        }
    }
}
