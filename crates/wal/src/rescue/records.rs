//! The records in the whole chunks of one stream, and between which of them others may be missing.

use std::ops::Range;
use std::sync::Arc;

use ishigaki_base::{Generation, Lsn, Position, StreamId};
use ishigaki_device::{AlignedBuffer, Device, Directory, MAX_BLOCK_SIZE};

use super::scan::{Found, Scanned};
use crate::Dependencies;
use crate::format::{CHUNK_HEADER, Kind, NO_RECORD, RECORD_HEADER, RecordHeader, segment_name};

/// A complete record.
#[derive(Debug)]
pub(super) struct Rescuable {
    pub(super) generation: Generation,
    pub(super) lsn: Lsn,
    pub(super) kind: Kind,
    pub(super) dependencies: Dependencies,
    pub(super) payload: Vec<u8>,
}

/// A record whose end has not been read.
#[derive(Debug)]
struct Open {
    record: Rescuable,
    length: u64,
}

/// Goes through a stream record by record.
#[derive(Debug)]
pub(super) struct StreamRecords<'a> {
    directory: &'a dyn Directory,
    scanned: &'a Scanned,
    /// The next chunk.
    next: usize,
    /// The segment that was read last.
    segment: Option<(u64, Arc<dyn Device>)>,
    memory: AlignedBuffer,
    /// What of the current chunk's payload is still to be parsed, in the memory.
    rest: Range<usize>,
    generation: Generation,
    open: Option<Open>,
    head: Option<Rescuable>,
    /// The record before the one it stands at.
    before: (Generation, Lsn),
    /// Records may be missing between these two.
    hole: bool,
}

impl<'a> StreamRecords<'a> {
    pub(super) fn new(directory: &'a dyn Directory, scanned: &'a Scanned) -> Self {
        Self {
            directory,
            scanned,
            next: 0,
            segment: None,
            memory: AlignedBuffer::zeroed(0),
            rest: 0..0,
            generation: Generation::default(),
            open: None,
            head: None,
            before: (Generation::default(), Lsn::ZERO),
            hole: false,
        }
    }

    pub(super) fn stream(&self) -> StreamId {
        self.scanned.stream
    }

    /// The record it stands at; `None` at the end.
    pub(super) fn head(&self) -> Option<&Rescuable> {
        self.head.as_ref()
    }

    /// That record's place in the order of all records.
    pub(super) fn key(&self) -> Option<(Generation, Lsn)> {
        self.head.as_ref().map(|record| (record.generation, record.lsn))
    }

    /// Whether that record may lie in a hole directly before the one it stands at, or behind its end.
    pub(super) fn may_lack(&self, generation: Generation, lsn: Lsn) -> bool {
        let is_inside = (generation, lsn) > self.before && self.key().is_none_or(|key| (generation, lsn) < key);
        let is_hole = if self.head.is_some() { self.hole } else { self.hole || self.scanned.lacks_end };
        is_inside && is_hole
    }

    /// Whether anything may be missing behind its last record.
    pub(super) fn lacks_end(&self) -> bool {
        self.head.is_none() && (self.hole || self.scanned.lacks_end)
    }

    /// The last record of the stream, once all were passed.
    pub(super) fn last(&self) -> (Generation, Lsn) {
        self.before
    }

    /// Goes to the next complete record.
    pub(super) fn advance(&mut self) {
        if let Some(head) = self.head.take() {
            self.before = (head.generation, head.lsn);
            self.hole = false;
        }
        while self.head.is_none() {
            if self.rest.is_empty() {
                let Some(&chunk) = self.scanned.chunks.get(self.next) else { return };
                self.next += 1;
                self.enter(&chunk);
            } else if !self.parse() {
                // Nothing that a whole chunk has; what it goes on with can not be told.
                self.rest = 0..0;
                self.open = None;
                self.hole = true;
            }
        }
    }

    fn enter(&mut self, chunk: &Found) {
        let header = &chunk.header;
        if chunk.is_behind_hole {
            self.open = None;
            self.hole = true;
        }
        if header.generation != self.generation {
            // What the generation before left incomplete was never acknowledged.
            self.open = None;
            self.generation = header.generation;
        }
        let Some(payload) = self.read(chunk) else {
            self.open = None;
            self.hole = true;
            return;
        };
        self.rest = payload;
        if self.open.is_none() {
            let skip = if header.first_record == NO_RECORD { header.payload } else { header.first_record };
            // The beginning of a record that goes on here is missing; of a trimmed stream it may be gone.
            self.hole |= skip > 0 && self.next > 1;
            self.rest.start += skip as usize;
        }
    }

    /// Reads the payload of a chunk; says where it lies.
    fn read(&mut self, chunk: &Found) -> Option<Range<usize>> {
        let device = match &self.segment {
            Some((index, device)) if *index == chunk.segment => device.clone(),
            _ => {
                let device = self.directory.open(&segment_name(self.stream(), chunk.segment)).ok()?;
                self.segment = Some((chunk.segment, device.clone()));
                device
            }
        };
        let block = MAX_BLOCK_SIZE as u64;
        let start = chunk.offset / block * block;
        let end = (chunk.offset + chunk.header.length() as u64).next_multiple_of(block).min(device.len());
        let length = (end - start) as usize;
        if self.memory.len() < length {
            self.memory = AlignedBuffer::zeroed(length.next_multiple_of(MAX_BLOCK_SIZE));
        }
        device.read_at(start, &mut self.memory[..length]).ok()?;
        let begin = (chunk.offset - start) as usize + CHUNK_HEADER;
        Some(begin..begin + chunk.header.payload as usize)
    }

    /// Takes the next record, or the part of it that is here, out of the chunk. False if there is none that can be.
    fn parse(&mut self) -> bool {
        let open = match self.open.take() {
            Some(open) => open,
            None => match self.begin() {
                Some(open) => open,
                None => return false,
            },
        };
        let Open { mut record, length } = open;
        let missing = length - record.payload.len() as u64;
        let here = self.rest.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
        record.payload.extend_from_slice(&self.memory[self.rest.start..self.rest.start + here]);
        self.rest.start += here;
        if (record.payload.len() as u64) < length {
            self.open = Some(Open { record, length });
        } else {
            self.head = Some(record);
        }
        true
    }

    fn begin(&mut self) -> Option<Open> {
        let bytes = &self.memory[self.rest.clone()];
        let header = RecordHeader::decode(bytes.first_chunk::<RECORD_HEADER>()?)?;
        let named = bytes.get(RECORD_HEADER..header.size())?;
        if (self.generation, header.lsn) <= self.before || header.lsn > Position::MAX_LSN {
            return None;
        }
        let mut dependencies = Dependencies::default();
        for position in named.chunks_exact(size_of::<Position>()) {
            dependencies.add(Position::from_bits(u64::from_le_bytes(position.try_into().ok()?)));
        }
        self.rest.start += header.size();
        let (lsn, kind, generation) = (header.lsn, header.kind, self.generation);
        let record = Rescuable { generation, lsn, kind, dependencies, payload: Vec::new() };
        Some(Open { record, length: header.length })
    }
}
