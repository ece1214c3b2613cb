//! The values of buffered writes: short ones beside each other, long ones in allocations that they keep.

use std::fmt;
use std::ops::Range;

use crate::record::Record;
use crate::version::Version;

/// Bytes of a chunk; the first one is smaller, since most transactions need no more.
const CHUNK: usize = 64 << 10;
const FIRST: usize = 2 << 10;

/// Short values, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Values {
    chunks: Vec<Chunk>,
    /// The one that is being filled; those before it are full.
    current: usize,
}

/// Space for values, of which so many bytes are used.
#[derive(Debug)]
struct Chunk {
    bytes: Box<[u8]>,
    used: usize,
}

/// A value that was buffered.
#[derive(Debug)]
pub(super) enum Buffered {
    Short(Place),
    /// Too long for any record: it moves there as it is.
    Long(Version),
}

/// Where a short value is, and how much space is there: in one word, which is handed on in a register.
#[derive(Clone, Copy)]
pub(super) struct Place(u64);

/// Values begin at multiples of this.
const GRAIN: usize = 16;

/// What of a place is below its chunk's number: where the value begins, in grains, its length, and its space, in grains.
const PARTS: [u32; 3] = [12, 10, 6];

const _: () = assert!(CHUNK <= GRAIN << PARTS[0], "a value begins somewhere in its chunk");
const _: () = assert!(Record::LARGEST < 1 << PARTS[1] && Record::LARGEST < GRAIN << PARTS[2], "a value is short");

impl Place {
    #[inline]
    fn new(chunk: usize, start: usize, length: usize, space: usize) -> Self {
        let parts = [(start / GRAIN, PARTS[0]), (length, PARTS[1]), (space / GRAIN, PARTS[2])];
        Self(parts.iter().fold(chunk as u64, |word, (part, bits)| word << bits | *part as u64))
    }

    #[inline]
    fn bits(self, above: u32, bits: u32) -> usize {
        (self.0 >> above) as usize & ((1 << bits) - 1)
    }

    #[inline]
    fn space(self) -> usize {
        self.bits(0, PARTS[2]) * GRAIN
    }

    #[inline]
    fn length(self) -> usize {
        self.bits(PARTS[2], PARTS[1])
    }

    #[inline]
    fn start(self) -> usize {
        self.bits(PARTS[2] + PARTS[1], PARTS[0]) * GRAIN
    }

    #[inline]
    fn chunk(self) -> usize {
        (self.0 >> (PARTS[2] + PARTS[1] + PARTS[0])) as usize
    }

    fn range(self) -> Range<usize> {
        self.start()..self.start() + self.length()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} of {} bytes", self.chunk(), self.range(), self.space())
    }
}

/// How far the space was used at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    chunk: usize,
    length: usize,
}

impl Values {
    /// Buffers a value.
    #[inline]
    pub(super) fn add(&mut self, value: &[u8]) -> Buffered {
        if value.len() > Record::LARGEST {
            return Buffered::Long(Version::new(value));
        }
        let space = value.len().next_multiple_of(GRAIN);
        let has_room = |chunk: &Chunk| chunk.bytes.len() - chunk.used >= space;
        while !self.chunks.get(self.current).is_some_and(has_room) {
            self.go_on();
        }
        let chunk = &mut self.chunks[self.current];
        let start = chunk.used;
        chunk.bytes[start..start + value.len()].copy_from_slice(value);
        chunk.used += space;
        Buffered::Short(Place::new(self.current, start, value.len(), space))
    }

    /// To the next chunk.
    #[cold]
    fn go_on(&mut self) {
        if self.current < self.chunks.len() {
            self.current += 1;
        }
        if self.current == self.chunks.len() {
            let length = if self.current == 0 { FIRST } else { CHUNK };
            self.chunks.push(Chunk { bytes: vec![0; length].into(), used: 0 });
        }
    }

    /// Buffers a value in the place of another one that is not needed any more. False if that place is lost.
    pub(super) fn replace(&mut self, old: &mut Buffered, value: &[u8]) -> bool {
        match old {
            Buffered::Short(place) if value.len() <= place.space() => {
                *place = Place::new(place.chunk(), place.start(), value.len(), place.space());
                self.chunks[place.chunk()].bytes[place.range()].copy_from_slice(value);
                true
            }
            _ => {
                let is_long = matches!(old, Buffered::Long(_));
                *old = self.add(value);
                is_long
            }
        }
    }

    /// How far the space is used.
    pub(super) fn mark(&self) -> Mark {
        Mark { chunk: self.current, length: self.chunks.get(self.current).map_or(0, |chunk| chunk.used) }
    }

    /// Forgets all short values that were added since that mark.
    pub(super) fn truncate(&mut self, mark: Mark) {
        for chunk in self.chunks.iter_mut().skip(mark.chunk + 1) {
            chunk.used = 0;
        }
        if let Some(chunk) = self.chunks.get_mut(mark.chunk) {
            chunk.used = chunk.used.min(mark.length);
        }
        self.current = mark.chunk;
    }

    /// The bytes.
    pub(super) fn get<'a>(&'a self, value: &'a Buffered) -> &'a [u8] {
        match value {
            Buffered::Short(place) => self.at(*place),
            Buffered::Long(version) => version.value(),
        }
    }

    /// The bytes of a short value.
    pub(super) fn at(&self, place: Place) -> &[u8] {
        &self.chunks[place.chunk()].bytes[place.range()]
    }

    /// Forgets all values, and keeps the first chunk.
    pub(super) fn clear(&mut self) {
        self.chunks.truncate(1);
        self.chunks.iter_mut().for_each(|chunk| chunk.used = 0);
        self.current = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_leaves_its_room() {
        let mut values = Values::default();
        values.add(&[1; 100]);
        for _ in 0..3 {
            let mark = values.mark();
            let first = values.add(&[2; 500]);
            (0..300).for_each(|_| drop(values.add(&[3; 1000])));
            values.truncate(mark);
            let again = values.add(&[4; 500]);
            assert_eq!(format!("{first:?}"), format!("{again:?}"), "it has the same place");
            values.truncate(mark);
        }
    }

    #[test]
    fn values_are_kept_apart() {
        let mut values = Values::default();
        for _ in 0..2 {
            let lengths = (0..1003).chain([5000, 0, 100_000]);
            let mut all: Vec<_> = lengths.map(|length| (vec![length as u8; length], length)).collect();
            let mut buffered: Vec<_> = all.iter().map(|(value, _)| values.add(value)).collect();
            for (at, buffered) in buffered.iter_mut().enumerate().step_by(3) {
                let length = at * 7 % 1200;
                all[at].0 = vec![at as u8 ^ 0x55; length];
                values.replace(buffered, &all[at].0);
            }
            for ((value, _), buffered) in all.iter().zip(&buffered) {
                assert_eq!(values.get(buffered), value);
            }
            values.clear();
        }
    }
}
