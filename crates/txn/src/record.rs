//! One key's place in a table: its latest value, and what the protocols need to know.
//!
//! ```text
//! ┌──────┬──────────┬──────┬──────────────────────────────────────────────┐
//! │ word │ position │ form │ value …                                      │   one line of 64 bytes, or a few
//! └──────┴──────────┴──────┴──────────────────────────────────────────────┘
//! ```
//!
//! - The *word* belongs to the optimistic protocol.
//! - The *position* says where in the log the last writer's record is. While a value is being written it says that instead:
//!   who reads without any right, as a checkpoint does, looks at it before and after.
//! - The *form* says how long the value is, or where it lies if there is no room for it here, or that there is none: then the
//!   record is *absent*, a key being inserted, one whose deletion has committed and that is about to leave the index, or no
//!   key's record.
//!
//! All of it is atomics, so a value is copied out, eight bytes at a time, and counts only if nobody was writing meanwhile.
//! Who may write, and when, is the protocol's business.

#![allow(unsafe_code, reason = "a record's form may be an address")]

use ishigaki_base::Position;
use ishigaki_base::sync::atomic::{AtomicU64, Ordering, fence};
use ishigaki_base::sync::thread;
use ishigaki_index::prefetch_soon;
use sdd::Guard;

use crate::copied::Copied;
use crate::memory;
use crate::protocol::{Stamp, Word};
use crate::version::{self, Retired, Version};

/// Bytes of a value that one cell has.
const CELL: usize = size_of::<u64>();

/// Cells of a value in the head, and in each line behind it.
pub(crate) const IN_HEAD: usize = 5;
pub(crate) const IN_LINE: usize = 8;

/// A cache line of a value.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C, align(64))]
pub(crate) struct Line([AtomicU64; IN_LINE]);

/// The first cache line of a record.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C, align(64))]
pub(crate) struct Head {
    word: Word,
    position: AtomicU64,
    /// Zero, `length << 1 | 1`, or the address of a version.
    form: AtomicU64,
    value: [AtomicU64; IN_HEAD],
}

/// A record as it lies in memory: `L` is the lines behind its head.
#[derive(Debug)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C)]
pub(crate) struct Laid<L: ?Sized> {
    head: Head,
    tail: L,
}

/// A record: two words, which are handed on in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a>(&'a Laid<[Line]>);

impl<const L: usize> Default for Laid<[Line; L]> {
    fn default() -> Self {
        Self { head: Head::default(), tail: std::array::from_fn(|_| Line::default()) }
    }
}

impl<const L: usize> Laid<[Line; L]> {
    #[inline]
    pub(crate) fn record(&self) -> Record<'_> {
        Record(self)
    }
}

/// What a record held at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) position: Position,
    pub(crate) value: &'a [u8],
}

/// A value to be written.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    Bytes(&'a [u8]),
    /// One that is too long for any record.
    Outside(Version),
}

/// Lines behind the head of the largest records.
pub(crate) const MOST_LINES: usize = 15;

/// The position of a record that is being written.
const WRITING: u64 = u64::MAX;

impl<'a> Record<'a> {
    /// The word of the optimistic protocol.
    #[inline]
    pub(crate) fn word(self) -> &'a Word {
        &self.0.head.word
    }

    /// Bytes of a value that a record with so many lines behind its head has room for.
    pub(crate) const fn room(lines: usize) -> usize {
        (IN_HEAD + lines * IN_LINE) * CELL
    }

    /// The longest value that any record has room for.
    pub(crate) const LARGEST: usize = Self::room(MOST_LINES);

    pub(crate) fn has_room_for(&self, length: usize) -> bool {
        length <= Self::room(self.0.tail.len())
    }

    /// Asks for its memory.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch_soon(self.0);
    }

    /// Where the last writer's record is in the log.
    #[inline]
    pub(crate) fn position(&self) -> Position {
        Position::from_bits(self.0.head.position.load(Ordering::Relaxed))
    }

    /// True if there is no value.
    pub(crate) fn is_absent(&self) -> bool {
        self.0.head.form.load(Ordering::Acquire) == 0
    }

    /// What belongs together of its word and its value; `None` while somebody has the word locked.
    #[inline]
    pub(crate) fn read<'c>(&'c self, copied: &'c mut Copied, guard: &'c Guard) -> Option<(Stamp, Option<Row<'c>>)> {
        let (stamp, (position, form)) = self.word().read(|| self.copy(copied))?;
        Some((stamp, show(position, form, copied, guard)))
    }

    /// The same without a guard; `None` also if the value lies outside of the record.
    #[inline]
    pub(crate) fn read_here<'c>(&self, copied: &'c mut Copied) -> Option<(Stamp, Option<Row<'c>>)> {
        let (stamp, (position, form)) = self.word().read(|| self.copy(copied))?;
        let value = match form {
            0 => return Some((stamp, None)),
            form => copied.bytes(length_of(form)?),
        };
        Some((stamp, Some(Row { position: Position::from_bits(position), value })))
    }

    /// The value, whoever may be about to write another one.
    pub(crate) fn settled<'c>(&'c self, copied: &'c mut Copied, guard: &'c Guard) -> Option<Row<'c>> {
        loop {
            let before = self.0.head.position.load(Ordering::Acquire);
            if before != WRITING {
                let (_, form) = self.copy(copied);
                fence(Ordering::Acquire);
                if self.0.head.position.load(Ordering::Relaxed) == before {
                    return show(before, form, copied, guard);
                }
            }
            // It takes nobody long to write a value, unless its thread has lost the processor.
            thread::yield_now();
        }
    }

    /// Position and form; the value is in `copied`, if it lies here. Each of them may be of another moment. A line is copied
    /// whole: then the compiler knows of how many words.
    #[inline]
    fn copy(&self, copied: &mut Copied) -> (u64, u64) {
        let position = self.0.head.position.load(Ordering::Relaxed);
        let form = self.0.head.form.load(Ordering::Acquire);
        if let Some(length) = length_of(form) {
            copy_cells(&self.0.head.value, &mut copied.head);
            if length > size_of_val(&copied.head) {
                let lines = (length - size_of_val(&copied.head)).div_ceil(size_of::<Line>());
                for (Line(cells), words) in self.0.tail.iter().take(lines).zip(&mut copied.tail) {
                    copy_cells(cells, words);
                }
            }
        }
        (position, form)
    }

    /// Puts a value, or none, in place of the last one. Only for whoever may write, and locked for all who read by the word.
    pub(crate) fn write(&self, value: Option<Value<'_>>, position: Position) -> Option<Retired> {
        // Whoever sees any of this sees the lock, too.
        self.0.head.position.store(WRITING, Ordering::Release);
        fence(Ordering::Release);
        let form = match value {
            None => 0,
            Some(Value::Outside(version)) => version.into_form(),
            Some(Value::Bytes(bytes)) if !self.has_room_for(bytes.len()) => Version::new(bytes).into_form(),
            Some(Value::Bytes(bytes)) => {
                let (first, rest) = bytes.split_at(bytes.len().min(IN_HEAD * CELL));
                store_cells(&self.0.head.value, first);
                for (Line(cells), bytes) in self.0.tail.iter().zip(rest.chunks(IN_LINE * CELL)) {
                    store_cells(cells, bytes);
                }
                (bytes.len() as u64) << 1 | 1
            }
        };
        // Nobody else writes: an exchange would only cost more.
        let old = self.0.head.form.load(Ordering::Relaxed);
        self.0.head.form.store(form, Ordering::Release);
        self.0.head.position.store(position.to_bits(), Ordering::Release);
        // SAFETY: forms are made above, and this writer, the only one, has just put another in the place of this one.
        unsafe { version::retired(old) }
    }

    /// [`write`](Self::write) where nobody reads by the word: under a protocol that has no use for it, and before there are
    /// transactions. For whoever may write.
    pub(crate) fn overwrite(&self, value: Option<Value<'_>>, position: Position) -> Option<Retired> {
        let old = self.write(value, position);
        self.word().renew();
        old
    }

    /// Bytes of the value that lie outside of the record, with what they cost besides.
    pub(crate) fn outside(&self, guard: &Guard) -> u64 {
        let form = self.0.head.form.load(Ordering::Acquire);
        // SAFETY: `write` makes the forms of records, and this one was read under the guard.
        unsafe { version::of_form(form, guard) }.map_or(0, |version| memory::value_cost(version.value()))
    }

    /// Forgets the value. Only for whoever has the record for himself.
    pub(crate) fn clear(&self) {
        // SAFETY: `write` makes the forms of records; this call has taken it out, and the caller has the record alone.
        drop(unsafe { version::owned(self.0.head.form.swap(0, Ordering::AcqRel)) });
    }
}

/// What a value costs that a record has no room for.
pub(crate) fn outside_cost(record: Record<'_>, value: &[u8]) -> u64 {
    if record.has_room_for(value.len()) { 0 } else { memory::value_cost(value) }
}

/// Stores bytes in the first cells.
#[inline]
fn store_cells<const N: usize>(cells: &[AtomicU64; N], bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<CELL>();
    let store = |(cell, word): (&AtomicU64, &[u8; CELL])| cell.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
    if let Some(words) = words.first_chunk::<N>() {
        return cells.iter().zip(words).for_each(store);
    }
    cells.iter().zip(words).for_each(store);
    if let (false, Some(cell)) = (rest.is_empty(), cells.get(words.len())) {
        let mut last = [0; CELL];
        last[..rest.len()].copy_from_slice(rest);
        store((cell, &last));
    }
}

#[inline]
fn copy_cells<const N: usize>(cells: &[AtomicU64; N], words: &mut [u64; N]) {
    for (word, cell) in words.iter_mut().zip(cells) {
        *word = cell.load(Ordering::Relaxed);
    }
}

/// How long the value is, if it lies in the record.
#[inline]
fn length_of(form: u64) -> Option<usize> {
    (form & 1 == 1).then_some((form >> 1) as usize)
}

/// What was copied.
#[inline]
fn show<'c>(position: u64, form: u64, copied: &'c Copied, guard: &'c Guard) -> Option<Row<'c>> {
    let value = match form {
        0 => return None,
        form => match length_of(form) {
            Some(length) => copied.bytes(length),
            // SAFETY: `write` makes the forms of records, and the caller has read this one under the guard.
            None => unsafe { version::of_form(form, guard) }?.value(),
        },
    };
    Some(Row { position: Position::from_bits(position), value })
}

/// What the model checker gets to see.
pub(crate) mod model {
    use super::{CELL, Copied, Guard, Laid, Line, Position, Record, Row, Value};
    use crate::protocol::Stamp;
    use ishigaki_base::{Lsn, StreamId};

    /// An LSN and two words.
    pub type Shown = (u64, [u64; 2]);

    /// A record of one line, whose values are two words.
    #[derive(Debug, Default)]
    pub struct Pair(Laid<[Line; 0]>);

    impl Pair {
        /// Writes the LSN twice, as a protocol does that has no use for the word.
        pub fn overwrite(&self, lsn: u64) {
            drop(self.record().overwrite(Some(Value::Bytes(&value_of(lsn))), position(lsn)));
        }

        /// Writes the LSN twice, as a protocol does that has locked the word, and makes it the version of that time.
        pub fn install(&self, lsn: u64) {
            drop(self.record().write(Some(Value::Bytes(&value_of(lsn))), position(lsn)));
            self.record().word().store(Stamp::new(lsn, false).locked());
            self.record().word().store(Stamp::new(lsn, false));
        }

        /// Locks the word; false if somebody else has.
        pub fn lock(&self) -> bool {
            self.record().word().try_lock().is_ok()
        }

        /// What it shows without any right.
        pub fn settled(&self) -> Option<Shown> {
            self.record().settled(&mut Copied::borrow(), &Guard::new()).map(told)
        }

        /// The time of the version, and what it shows by the word; `None` while that is locked.
        pub fn read(&self) -> Option<(u64, Option<Shown>)> {
            let (guard, mut copied, record) = (Guard::new(), Copied::borrow(), self.record());
            record.read(&mut copied, &guard).map(|(stamp, row)| (stamp.wts(), row.map(told)))
        }

        fn record(&self) -> Record<'_> {
            self.0.record()
        }
    }

    fn value_of(lsn: u64) -> [u8; 2 * CELL] {
        let mut value = [0; 2 * CELL];
        value[..CELL].copy_from_slice(&lsn.to_ne_bytes());
        value[CELL..].copy_from_slice(&lsn.to_ne_bytes());
        value
    }

    fn position(lsn: u64) -> Position {
        Position::new(Lsn(lsn), StreamId(0))
    }

    fn told(row: Row<'_>) -> Shown {
        let word = |at: usize| row.value[at * CELL..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        (row.position.lsn().0, [word(0), word(1)])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use ishigaki_base::{Lsn, StreamId};

    use super::*;

    fn position(lsn: u64) -> Position {
        Position::new(Lsn(lsn), StreamId(0))
    }

    #[test]
    fn a_record_keeps_values_of_any_length() {
        let laid = Laid::<[Line; 2]>::default();
        let record = laid.record();
        let (guard, mut copied) = (Guard::new(), Copied::borrow());
        assert!(record.settled(&mut copied, &guard).is_none() && record.is_absent());
        for length in (0..=200).chain([1000, 1001, 5000, 3]) {
            let value: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
            drop(record.overwrite(Some(Value::Bytes(&value)), position(length as u64 + 1)));
            let row = record.settled(&mut copied, &guard).unwrap();
            assert_eq!((row.value, row.position), (value.as_slice(), position(length as u64 + 1)));
            assert_eq!(record.outside(&guard) == 0, length <= Record::room(2));
            let (_, row) = record.read(&mut copied, &guard).unwrap();
            assert_eq!(row.unwrap().value, value);
        }
        drop(record.overwrite(None, position(9)));
        assert!(record.settled(&mut copied, &guard).is_none() && record.position() == position(9));
    }

    #[test]
    fn what_is_there_before_all_transactions_is_there_for_them_whatever_the_record_was() {
        let laid = Laid::<[Line; 0]>::default();
        let record = laid.record();
        let gone = Stamp::new(7, true).dead();
        record.word().store(gone);
        drop(record.overwrite(Some(Value::Bytes(b"value")), position(1)));
        let stamp = record.word().load();
        assert!(!stamp.is_dead() && !stamp.is_absent() && !stamp.is_locked() && stamp.wts() > gone.wts());
    }

    #[test]
    fn who_reads_without_any_right_sees_one_write_whole() {
        let laid = Laid::<[Line; 1]>::default();
        let record = laid.record();
        let values: Vec<Vec<u8>> = (0..200_usize).map(|n| vec![n as u8; n * 37 % 140]).collect();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (guard, mut copied) = (Guard::new(), Copied::borrow());
                while !stop.load(Ordering::Relaxed) {
                    if let Some(row) = record.settled(&mut copied, &guard) {
                        let write = row.position.lsn().0 as usize;
                        assert_eq!(row.value, values[write % values.len()]);
                    }
                }
            });
            for write in 1..100_000 {
                drop(record.overwrite(Some(Value::Bytes(&values[write % values.len()])), position(write as u64)));
            }
            stop.store(true, Ordering::Relaxed);
        });
        record.clear();
    }
}
