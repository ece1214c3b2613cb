//! The k-way merge: all streams' records in LSN order, kept by the rule that acknowledged them (paper 1, section 4).
//!
//! The order is (generation, LSN). The [`judge`](super::judge) of each generation sees its records in that order and
//! decides at once. This is the plain way of reading a log: recovery in parallel must keep exactly what it keeps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use ishigaki_base::{Generation, Lsn, Position};

use super::judge::{Chain, Extent, Judge};
use super::reader::StreamReader;
use super::records::{Passage, Record};
use crate::format::{Control, Kind};
use crate::{Result, Start};

/// The result of a merge.
#[derive(Debug)]
pub(crate) struct Merged {
    /// The next LSN to draw.
    pub(crate) next: Lsn,
    /// The last LSN kept.
    pub(crate) cut: Lsn,
    /// Payload records given out.
    pub(crate) records: u64,
    /// Records that are not kept.
    pub(crate) dropped: u64,
}

/// Gives every surviving record in LSN order, in O(records · log streams).
#[derive(Debug)]
pub(crate) struct Merge {
    start: Start,
    judge: Option<Judge>,
    chain: Chain,
    /// Generations up to here are in the chain, or lie before the start.
    chained: Generation,
    heads: BinaryHeap<Reverse<Head>>,
    /// The reader that stands at the record given last.
    moved: Option<usize>,
    begun: bool,
    cut: Lsn,
    records: u64,
    dropped: u64,
}

impl Merge {
    /// Of the records from `start` on.
    pub(crate) fn new(start: Start) -> Self {
        Self {
            start,
            judge: None,
            chain: Chain::new(start),
            chained: Generation(start.generation.0.saturating_sub(1)),
            heads: BinaryHeap::new(),
            moved: None,
            begun: false,
            cut: start.lsn.previous(),
            records: 0,
            dropped: 0,
        }
    }

    /// Gives the next surviving record; `None` behind the last one. Always with the same readers, new ones the first
    /// time.
    pub(crate) fn next(&mut self, readers: &mut [StreamReader<'_>]) -> Result<Option<Survivor>> {
        if !self.begun {
            self.begun = true;
            for (place, reader) in readers.iter_mut().enumerate() {
                self.heads.extend(Head::of(reader, place)?);
            }
        }
        if let Some(place) = self.moved.take() {
            self.heads.extend(Head::of(&mut readers[place], place)?);
        }
        while let Some(Reverse(Head { place, generation, record })) = self.heads.pop() {
            let reader = &mut readers[place];
            if self.judge.as_ref().is_none_or(|judge| judge.generation() < generation) {
                let judge = reader.passages().last().map(|passage| Judge::new(passage, self.start));
                self.close(readers, Generation(generation.0 - 1))?;
                self.judge = judge;
            }
            let (reader, judge) = (&mut readers[place], self.judge.as_mut().expect("it was just made"));
            let stream = reader.stream();
            if judge.keeps(stream, record.lsn, &record.dependencies)? {
                self.cut = record.lsn;
                self.records += u64::from(record.kind == Kind::Payload);
                self.moved = Some(place);
                return Ok(Some(Survivor { position: Position::new(record.lsn, stream), place, record }));
            }
            self.dropped += 1;
            self.heads.extend(Head::of(reader, place)?);
        }
        Ok(None)
    }

    /// The last LSN given; before the first one, that before the start.
    pub(crate) fn cut(&self) -> Lsn {
        self.cut
    }

    /// Checks the end, when all was given.
    pub(crate) fn finish(mut self, readers: &[StreamReader<'_>], control: &Control) -> Result<Merged> {
        self.close(readers, Generation(u64::MAX))?;
        let next = self.chain.finish(control)?;
        Ok(Merged { next, cut: self.cut, records: self.records, dropped: self.dropped })
    }

    /// Adds the generations up to `last` to the chain, those without a record, too.
    fn close(&mut self, readers: &[StreamReader<'_>], last: Generation) -> Result<()> {
        let mut generations: BTreeMap<Generation, Vec<&Passage>> = BTreeMap::new();
        for passage in readers.iter().flat_map(|reader| {
            let from = reader.passages().partition_point(|passage| passage.generation <= self.chained);
            &reader.passages()[from..]
        }) {
            if passage.generation <= last {
                generations.entry(passage.generation).or_default().push(passage);
            }
        }
        for (generation, passages) in generations {
            let judged = self.judge.as_ref().filter(|judge| judge.generation() == generation);
            let extent = judged.map_or_else(|| Extent::empty(passages[0].first(self.start)), Judge::extent);
            self.chain.add(extent, passages)?;
            self.chained = generation;
        }
        Ok(())
    }
}

/// A record that is kept.
#[derive(Debug)]
pub(crate) struct Survivor {
    pub(crate) position: Position,
    /// The reader that has its payload.
    place: usize,
    record: Record,
}

impl Survivor {
    pub(crate) fn kind(&self) -> Kind {
        self.record.kind
    }

    pub(crate) fn payload<'w>(&'w self, readers: &'w [StreamReader<'_>]) -> &'w [u8] {
        readers[self.place].payload(&self.record)
    }
}

/// Gives out every surviving record from `start` on in LSN order. What lies before the start was kept or dropped long ago; of
/// its generation all was kept.
pub(crate) fn merge(
    readers: &mut [StreamReader<'_>],
    control: &Control,
    start: Start,
    mut give: impl FnMut(Position, Kind, &[u8]) -> Result<()>,
) -> Result<Merged> {
    let mut merge = Merge::new(start);
    while let Some(survivor) = merge.next(readers)? {
        give(survivor.position, survivor.kind(), survivor.payload(readers))?;
    }
    merge.finish(readers, control)
}

/// The record a reader stands at; ordered by generation and LSN.
#[derive(Debug)]
struct Head {
    generation: Generation,
    record: Record,
    place: usize,
}

impl Head {
    fn of(reader: &mut StreamReader<'_>, place: usize) -> Result<Option<Reverse<Self>>> {
        let record = reader.advance()?;
        let generation = reader.passages().last().map(|passage| passage.generation).unwrap_or_default();
        Ok(record.map(|record| Reverse(Self { generation, record, place })))
    }

    fn key(&self) -> (Generation, Lsn, usize) {
        (self.generation, self.record.lsn, self.place)
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
