//! The records in one stream's chunks.

use std::ops::Range;

use ishigaki_base::{Generation, Lsn, Position, StreamId};

use super::chunks::{Chunk, damage};
use super::segments::Segments;
use super::tail::Place;
use crate::format::{Kind, NO_RECORD, RECORD_HEADER, RecordHeader};
use crate::{CommitRule, Dependencies, Error, Result, Start};

/// A complete record.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) lsn: Lsn,
    pub(crate) kind: Kind,
    /// What the record names.
    pub(crate) dependencies: Dependencies,
    pub(crate) payload: Payload,
}

/// Where a record's payload is.
#[derive(Debug)]
pub(crate) enum Payload {
    /// In the window that holds its chunk.
    Here(Range<usize>),
    /// Joined from several chunks.
    Joined(Vec<u8>),
}

impl Payload {
    /// Its bytes; `window` holds the chunk in which the record ends.
    pub(crate) fn bytes<'w>(&'w self, window: &'w [u8]) -> &'w [u8] {
        match self {
            Self::Here(range) => &window[range.clone()],
            Self::Joined(bytes) => bytes,
        }
    }
}

/// A stream's part of one generation.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    pub(crate) generation: Generation,
    pub(crate) base: Lsn,
    pub(crate) rule: CommitRule,
    pub(crate) chunks: u64,
    pub(crate) records: u64,
    /// Of the complete records; `None` while there is none.
    pub(crate) lsns: Option<(Lsn, Lsn)>,
    /// The largest watermark that a chunk notes: everything up to it was durable.
    pub(crate) watermark: Lsn,
}

impl Passage {
    /// The first LSN of it that is to be judged in a log that is needed from `start` on. What of the start's generation lies
    /// before was kept long ago.
    pub(crate) fn first(&self, start: Start) -> Lsn {
        if self.generation == start.generation { self.base.max(start.lsn) } else { self.base }
    }
}

/// Takes the records out of a stream's chunks, in their order.
#[derive(Debug)]
pub(crate) struct RecordParser {
    stream: StreamId,
    /// Records before it are passed over.
    start: Start,
    /// The beginning of the record that goes on in the next chunk is gone, if there is one.
    lacks_beginning: bool,
    /// What was seen, by generation.
    passages: Vec<Passage>,
    /// The chunk that is being parsed.
    place: Place,
    /// A record that goes on in the next chunk: its header, what it names, and the bytes there are.
    open: Option<(RecordHeader, Dependencies, Vec<u8>)>,
    /// By segment in which there is a part of a record: the last one of those.
    last_records: Vec<(u64, Start)>,
}

impl RecordParser {
    /// Gives the records of these segments from `start` on.
    pub(crate) fn new(segments: &Segments<'_>, start: Start) -> Self {
        let first = segments.first();
        Self {
            stream: segments.stream(),
            start,
            lacks_beginning: first > 0,
            passages: Vec::new(),
            place: Place { segment: first, offset: 0 },
            open: None,
            last_records: Vec::new(),
        }
    }

    /// What was seen, by generation.
    pub(crate) fn passages(&self) -> &[Passage] {
        &self.passages
    }

    /// By segment in which there is a part of a record: the last one of those, also of records that were passed over.
    pub(crate) fn last_records(&self) -> &[(u64, Start)] {
        &self.last_records
    }

    /// Begins a chunk: takes note of its generation and watermark, and of whether the record before goes on in it. Gives
    /// the generation's passage, and what of the chunk's payload is to be parsed.
    pub(crate) fn enter(&mut self, chunk: &Chunk) -> Result<(&Passage, Range<usize>)> {
        let header = &chunk.header;
        self.place = chunk.place;
        if self.passages.last().is_none_or(|last| last.generation != header.generation) {
            // What the generation before left incomplete was never acknowledged.
            self.lacks_beginning &= self.passages.is_empty();
            self.open = None;
            self.passages.push(Passage {
                generation: header.generation,
                base: header.base,
                rule: header.rule,
                chunks: 0,
                records: 0,
                lsns: None,
                watermark: Lsn::ZERO,
            });
        }
        let missing = self.open.as_ref().map_or(0, |(record, _, body)| record.length - body.len() as u64);
        let first = match missing {
            // Where the beginning is gone, the chunk alone knows.
            _ if self.lacks_beginning => header.first_record,
            _ if missing < u64::from(header.payload) => missing as u32,
            _ => NO_RECORD,
        };
        let fits = |passage: &Passage| passage.base == header.base && passage.rule == header.rule;
        if !self.passages.last().is_some_and(fits) || first != header.first_record {
            return Err(self.damage("the header of a chunk contradicts the chunks before it"));
        }
        let mut rest = chunk.payload.clone();
        if self.lacks_beginning {
            rest.start += first.min(header.payload) as usize;
            self.lacks_beginning = first == NO_RECORD;
        }
        let passage = self.passages.last_mut().expect("it was just looked at");
        passage.chunks += 1;
        passage.watermark = passage.watermark.max(header.watermark);
        Ok((passage, rest))
    }

    /// The next complete record of the chunk that does not lie before the start; `None` when all of the chunk was parsed,
    /// which lies in `window`. `rest` is what of its payload has not been.
    pub(crate) fn parse(&mut self, window: &[u8], rest: &mut Range<usize>) -> Result<Option<Record>> {
        loop {
            let record = self.parse_one(window, rest)?;
            if record.as_ref().is_none_or(|record| self.at(record.lsn) >= self.start) {
                return Ok(record);
            }
        }
    }

    fn parse_one(&mut self, window: &[u8], rest: &mut Range<usize>) -> Result<Option<Record>> {
        if let Some((header, ..)) = &self.open {
            self.note(header.lsn);
        }
        let (header, dependencies, payload) = if let Some((header, _, body)) = &mut self.open {
            let missing = header.length - body.len() as u64;
            let here = rest.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
            body.extend_from_slice(&window[rest.start..][..here]);
            rest.start += here;
            if (body.len() as u64) < header.length {
                return Ok(None);
            }
            let (header, dependencies, body) = self.open.take().expect("it was just looked at");
            (header, dependencies, Payload::Joined(body))
        } else if rest.len() >= RECORD_HEADER {
            let (header, dependencies) = self.begin(window, rest)?;
            self.note(header.lsn);
            let start = rest.start;
            if header.length > rest.len() as u64 {
                rest.start = rest.end;
                self.open = Some((header, dependencies, window[start..rest.end].to_vec()));
                return Ok(None);
            }
            rest.start += header.length as usize;
            (header, dependencies, Payload::Here(start..rest.start))
        } else if Range::is_empty(rest) {
            return Ok(None);
        } else {
            return Err(self.damage("a chunk ends with bytes that belong to no record"));
        };
        let passage = self.passages.last_mut().expect("a record lies in a chunk that was entered");
        passage.records += 1;
        passage.lsns = Some((passage.lsns.map_or(header.lsn, |(first, _)| first), header.lsn));
        Ok(Some(Record { lsn: header.lsn, kind: header.kind, dependencies, payload }))
    }

    /// A record's header and what it names.
    fn begin(&self, window: &[u8], rest: &mut Range<usize>) -> Result<(RecordHeader, Dependencies)> {
        let at = rest.start;
        let bytes = window[at..at + RECORD_HEADER].try_into().expect("the range is as long as a header");
        let header = RecordHeader::decode(bytes).ok_or_else(|| self.damage("a record of unknown kind"))?;
        let passage = self.passages.last();
        if passage.is_some_and(|passage| header.lsn < passage.base) {
            return Err(self.damage(&format!("record {} is older than its generation", header.lsn)));
        }
        let last = passage.and_then(|passage| passage.lsns);
        if last.is_some_and(|(_, last)| header.lsn <= last) {
            return Err(self.damage(&format!("record {} is out of order", header.lsn)));
        }
        if header.lsn > Position::MAX_LSN {
            return Err(self.damage("a record with an impossible LSN"));
        }
        if rest.len() < header.size() {
            return Err(self.damage("a record's dependencies go beyond its chunk"));
        }
        let mut dependencies = Dependencies::default();
        for position in window[at + RECORD_HEADER..at + header.size()].chunks_exact(size_of::<Position>()) {
            let bits = u64::from_le_bytes(position.try_into().expect("chunks of eight bytes"));
            let position = Position::from_bits(bits);
            if position.lsn() >= header.lsn {
                return Err(self.damage(&format!("record {} depends on record {}", header.lsn, position.lsn())));
            }
            dependencies.add(position);
        }
        rest.start += header.size();
        Ok((header, dependencies))
    }

    /// A record of the generation that is being parsed.
    fn at(&self, lsn: Lsn) -> Start {
        Start { generation: self.passages.last().map(|passage| passage.generation).unwrap_or_default(), lsn }
    }

    /// Notes that a part of the record lies in the segment that is being parsed.
    fn note(&mut self, lsn: Lsn) {
        let (segment, record) = (self.place.segment, self.at(lsn));
        match self.last_records.last_mut() {
            Some((noted, last)) if *noted == segment => *last = record,
            _ => self.last_records.push((segment, record)),
        }
    }

    fn damage(&self, what: &str) -> Error {
        damage(self.stream, self.place, what)
    }
}
