//! The shared buffer: a ring of words that many threads fill side by side and one empties.
//!
//! The words are atomics, so that no `unsafe` is needed. They are read and written relaxed, which on today's machines are
//! plain loads and stores; what makes a record's words visible is the release of its group
//! ([`Releases`](super::Releases)). A position counts words from the beginning of the log and never wraps.

use ishigaki_base::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
pub(crate) const WORD: usize = 8;

/// Words at positions that never wrap, of which the last `capacity` are kept.
#[derive(Debug)]
pub struct Ring {
    words: Box<[AtomicU64]>,
}

impl Ring {
    /// Of that many words, rounded up to a power of two.
    pub fn new(capacity: usize) -> Self {
        Self { words: (0..capacity.next_power_of_two()).map(|_| AtomicU64::new(0)).collect() }
    }

    /// How many words it keeps.
    pub fn capacity(&self) -> u64 {
        self.words.len() as u64
    }

    fn place(&self, position: u64) -> usize {
        position as usize & (self.words.len() - 1)
    }

    /// Stores one word.
    pub fn put(&self, position: u64, word: u64) {
        self.words[self.place(position)].store(word, Ordering::Relaxed);
    }

    /// Loads one word.
    pub fn get(&self, position: u64) -> u64 {
        self.words[self.place(position)].load(Ordering::Relaxed)
    }

    /// The words from a position on, in the two pieces in which they lie.
    fn stretch(&self, position: u64, words: usize) -> (&[AtomicU64], &[AtomicU64]) {
        let place = self.place(position);
        let before_the_end = words.min(self.words.len() - place);
        (&self.words[place..place + before_the_end], &self.words[..words - before_the_end])
    }

    /// Copies bytes in; the last word is filled up with zeros.
    pub fn write(&self, position: u64, bytes: &[u8]) {
        let (one, two) = self.stretch(position, bytes.len().div_ceil(WORD));
        let (first, second) = bytes.split_at(bytes.len().min(one.len() * WORD));
        fill(one, first);
        fill(two, second);
    }

    /// Copies bytes out, beginning with a whole word.
    pub fn read(&self, position: u64, bytes: &mut [u8]) {
        let (one, two) = self.stretch(position, bytes.len().div_ceil(WORD));
        let middle = bytes.len().min(one.len() * WORD);
        let (first, second) = bytes.split_at_mut(middle);
        drain(one, first);
        drain(two, second);
    }
}

fn fill(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<WORD>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        words[whole.len()].store(u64::from_le_bytes(last), Ordering::Relaxed);
    }
}

fn drain(words: &[AtomicU64], bytes: &mut [u8]) {
    let (whole, rest) = bytes.as_chunks_mut::<WORD>();
    let count = whole.len();
    for (word, bytes) in words.iter().zip(whole) {
        *bytes = word.load(Ordering::Relaxed).to_le_bytes();
    }
    if !rest.is_empty() {
        let last = words[count].load(Ordering::Relaxed).to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_come_back_from_any_position_also_over_the_edge() {
        let ring = Ring::new(16);
        for position in 0..40 {
            for length in 0..=16 * WORD {
                let bytes: Vec<u8> = (0..length).map(|byte| (byte as u64 + position) as u8 | 1).collect();
                ring.write(position, &bytes);
                let mut read = vec![0; length];
                ring.read(position, &mut read);
                assert_eq!(read, bytes, "{length} bytes at {position}");
            }
        }
    }

    #[test]
    fn a_short_last_word_is_filled_up_with_zeros() {
        let ring = Ring::new(4);
        ring.put(6, u64::MAX);
        ring.write(5, &[0xff; 9]);
        assert_eq!((ring.get(5), ring.get(6)), (u64::MAX, 0xff));
    }
}
