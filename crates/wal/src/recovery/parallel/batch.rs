//! The records of one stretch of a stream.

use std::ops::Range;
use std::sync::Arc;

use ishigaki_base::{Generation, Lsn, Position, StreamId};

use crate::format::Kind;
use crate::recovery::records::{Passage, Payload, Record};
use crate::recovery::window::Stretch;
use crate::{Dependencies, Error, Result};

use super::Sink;

/// The complete records of some chunks that lie in one stretch of memory, in the stream's order.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) stream: StreamId,
    stretch: Option<Arc<Stretch>>,
    entries: Vec<Entry>,
    /// Of the entries that name something.
    dependencies: Vec<Dependencies>,
    /// Payloads that were put together from several chunks.
    joined: Vec<Vec<u8>>,
    /// By generation: rarely more than one.
    pub(super) sections: Vec<Section>,
}

/// A batch's part of one generation.
#[derive(Debug)]
pub(super) struct Section {
    /// What the stream's chunks of that generation have said so far.
    pub(super) passage: Passage,
    pub(super) entries: Range<usize>,
}

#[derive(Debug)]
struct Entry {
    lsn: Lsn,
    /// Where the payload begins in the stretch, or which of those that were joined it is.
    place: u32,
    /// Its bytes, or [`JOINED`].
    length: u32,
    /// Which of the dependencies it names, or [`NOTHING`].
    names: u32,
    kind: Kind,
}

const JOINED: u32 = u32::MAX;
const NOTHING: u32 = u32::MAX;

impl Batch {
    pub(super) fn new(stream: StreamId) -> Self {
        let (entries, dependencies, joined, sections) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { stream, stretch: None, entries, dependencies, joined, sections }
    }

    /// A chunk begins; all chunks lie in that stretch.
    pub(super) fn enter(&mut self, passage: &Passage, stretch: Option<Arc<Stretch>>) {
        let end = self.entries.len();
        match self.sections.last_mut() {
            Some(section) if section.passage.generation == passage.generation => section.passage = passage.clone(),
            _ => self.sections.push(Section { passage: passage.clone(), entries: end..end }),
        }
        self.stretch = stretch;
    }

    pub(super) fn push(&mut self, record: Record) {
        let names = if record.dependencies.is_empty() {
            NOTHING
        } else {
            self.dependencies.push(record.dependencies);
            self.dependencies.len() as u32 - 1
        };
        let (place, length) = match record.payload {
            Payload::Here(range) => (range.start as u32, range.len() as u32),
            Payload::Joined(bytes) => {
                self.joined.push(bytes);
                (self.joined.len() as u32 - 1, JOINED)
            }
        };
        self.entries.push(Entry { lsn: record.lsn, place, length, names, kind: record.kind });
        if let Some(section) = self.sections.last_mut() {
            section.entries.end = self.entries.len();
        }
    }

    /// The LSNs of some of its records, ascending within a generation.
    pub(super) fn lsns(&self, entries: Range<usize>) -> impl Iterator<Item = Lsn> + '_ {
        self.entries[entries].iter().map(|entry| entry.lsn)
    }

    pub(super) fn lsn(&self, entry: usize) -> Lsn {
        self.entries[entry].lsn
    }

    /// How many of these records, all of one generation, have an LSN up to this one.
    pub(super) fn count_up_to(&self, lsn: Lsn, entries: Range<usize>) -> usize {
        self.entries[entries].partition_point(|entry| entry.lsn <= lsn)
    }

    /// Whether a record would be kept that names what this one does.
    pub(super) fn keeps(&self, entry: usize, rule: impl FnOnce(&Dependencies) -> bool) -> bool {
        self.dependencies.get(self.entries[entry].names as usize).is_none_or(rule)
    }

    /// Gives some of its records to the sink; how many they were, without fillers.
    pub(super) fn give(&self, entries: Range<usize>, sink: &dyn Sink) -> Result<u64> {
        let stretch: &[u8] = self.stretch.as_deref().map_or(&[], |stretch| stretch);
        let mut given = 0;
        for entry in self.entries[entries].iter().filter(|entry| entry.kind == Kind::Payload) {
            let payload = match entry.length {
                JOINED => &self.joined[entry.place as usize][..],
                length => &stretch[entry.place as usize..][..length as usize],
            };
            let lsn = entry.lsn;
            sink.take(Position::new(lsn, self.stream), payload)
                .map_err(|cause| Error::Replay { lsn, cause: cause.into() })?;
            given += 1;
        }
        Ok(given)
    }
}

/// Some records of a batch that lie one after the other, all of one generation. Never empty.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) batch: Arc<Batch>,
    pub(super) entries: Range<usize>,
}

impl Part {
    pub(super) fn first(&self) -> Lsn {
        self.batch.lsn(self.entries.start)
    }

    pub(super) fn last(&self) -> Lsn {
        self.batch.lsn(self.entries.end - 1)
    }

    /// Cuts off the first `count` records; `None` if that is none. What is left may be empty.
    pub(super) fn take(&mut self, count: usize) -> Option<Self> {
        let middle = self.entries.start + count;
        let part = Self { batch: self.batch.clone(), entries: self.entries.start..middle };
        self.entries.start = middle;
        (count > 0).then_some(part)
    }
}

impl Section {
    pub(super) fn generation(&self) -> Generation {
        self.passage.generation
    }
}
