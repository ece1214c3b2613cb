//! One stream, read from its beginning: chunks that are valid, and the records in them.

use std::mem::take;
use std::ops::Range;

use ishigaki_base::{Generation, LogId, Lsn, Position, StreamId, crc32c};
use ishigaki_device::{AlignedBuffer, MAX_BLOCK_SIZE, SECTOR};

use super::segments::Segments;
use super::tail::{End, Next, Place, Tail};
use crate::format::{
    CHUNK_HEADER, ChunkHeader, Control, Kind, MAX_BATCH, NO_RECORD, RECORD_HEADER, RecordHeader, Unfit, longest_chunk,
};
use crate::{CommitRule, Dependencies, Error, Result, Start};

/// Bytes read from the medium at once.
const WINDOW: usize = 1 << 20;

/// More chunks than a stream ever has.
const LAST_SEQUENCE: u64 = u64::MAX / 2;

/// The record a reader stands at.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) generation: Generation,
    /// The first LSN of that generation.
    pub(crate) base: Lsn,
    /// The rule by which that generation keeps records.
    pub(crate) rule: CommitRule,
    pub(crate) lsn: Lsn,
    pub(crate) kind: Kind,
    /// What the record names.
    pub(crate) dependencies: Dependencies,
}

/// What a reader has seen, by generation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunks {
    /// Bytes of all chunks, padding included.
    pub(crate) bytes: u64,
    pub(crate) generations: Vec<Passage>,
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

/// Reads one stream. Memory: one window and the record it stands at.
#[derive(Debug)]
pub(crate) struct StreamReader<'a> {
    log: LogId,
    newest: Generation,
    /// Records before it are passed over.
    start: Start,
    segments: Segments<'a>,
    place: Place,
    /// Of the next chunk; `None` before the first one, when the stream's first segments are gone.
    sequence: Option<u64>,
    /// The beginning of the record that goes on in the next chunk is gone, if there is one.
    lacks_beginning: bool,
    generation: Generation,
    window: Window,
    /// What of the current chunk's payload is still to be read, in the window.
    payload: Range<usize>,
    /// The record being put together: its header and the bytes there are.
    header: Option<RecordHeader>,
    dependencies: Dependencies,
    body: Vec<u8>,
    /// The last chunks that were written together: where they begin, their bytes, and how many they are.
    last_batch: Option<(Place, u64, u8)>,
    chunks: Chunks,
    /// By segment in which there is a part of a record: the last one of those.
    last_records: Vec<(u64, Start)>,
    end: Option<End>,
}

impl<'a> StreamReader<'a> {
    /// A reader of the records of these segments from `start` on.
    pub(crate) fn new(control: &Control, start: Start, segments: Segments<'a>) -> Self {
        let first = segments.first();
        Self {
            log: control.log,
            newest: control.generation,
            start,
            segments,
            place: Place { segment: first, offset: 0 },
            sequence: (first == 0).then_some(0),
            lacks_beginning: first > 0,
            generation: Generation::default(),
            window: Window::default(),
            payload: 0..0,
            header: None,
            dependencies: Dependencies::default(),
            body: Vec::new(),
            last_batch: None,
            chunks: Chunks::default(),
            last_records: Vec::new(),
            end: None,
        }
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.segments.stream()
    }

    pub(crate) fn segments(&mut self) -> &mut Segments<'a> {
        &mut self.segments
    }

    /// What has been read so far.
    pub(crate) fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    /// The payload of the record it stands at.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.body
    }

    /// Where it stands.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Why the stream ended, once it has.
    pub(crate) fn end(&self) -> Option<End> {
        self.end
    }

    /// Goes to the next complete record that does not lie before the start; `None` at the stream's end.
    pub(crate) fn advance(&mut self) -> Result<Option<Record>> {
        loop {
            match self.advance_by_one()? {
                Some(Record { generation, lsn, .. }) if (Start { generation, lsn }) < self.start => {}
                other => return Ok(other),
            }
        }
    }

    fn advance_by_one(&mut self) -> Result<Option<Record>> {
        self.header = None;
        self.body.clear();
        loop {
            if self.header.is_none() && self.payload.len() >= RECORD_HEADER {
                self.begin_record()?;
            }
            if let Some(header) = self.header {
                self.note_record(header.lsn);
                let missing = header.length - self.body.len() as u64;
                let here = self.payload.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
                let from = self.payload.start;
                self.body.extend_from_slice(&self.window.bytes[from..from + here]);
                self.payload.start += here;
                if self.body.len() as u64 == header.length {
                    return Ok(Some(self.finish_record(header)));
                }
            }
            if !self.payload.is_empty() {
                return Err(self.damage("a chunk ends with bytes that belong to no record"));
            }
            if self.end.is_some() || !self.next_chunk()? {
                return Ok(None);
            }
        }
    }

    fn begin_record(&mut self) -> Result<()> {
        let at = self.payload.start;
        let bytes = self.window.bytes[at..at + RECORD_HEADER].try_into().expect("the range is as long as a header");
        let header = RecordHeader::decode(bytes).ok_or_else(|| self.damage("a record of unknown kind"))?;
        let last = self.chunks.generations.last().and_then(|passage| passage.lsns);
        if last.is_some_and(|(_, last)| header.lsn <= last) {
            return Err(self.damage(&format!("record {} is out of order", header.lsn)));
        }
        if header.lsn > Position::MAX_LSN {
            return Err(self.damage("a record with an impossible LSN"));
        }
        if self.payload.len() < header.size() {
            return Err(self.damage("a record's dependencies go beyond its chunk"));
        }
        self.dependencies = Dependencies::default();
        for position in self.window.bytes[at + RECORD_HEADER..at + header.size()].chunks_exact(size_of::<Position>()) {
            let bits = u64::from_le_bytes(position.try_into().expect("chunks of eight bytes"));
            let position = Position::from_bits(bits);
            if position.lsn() >= header.lsn {
                return Err(self.damage(&format!("record {} depends on record {}", header.lsn, position.lsn())));
            }
            self.dependencies.add(position);
        }
        self.payload.start += header.size();
        self.header = Some(header);
        Ok(())
    }

    /// Notes that a part of the record lies in the current segment.
    fn note_record(&mut self, lsn: Lsn) {
        let (segment, record) = (self.place.segment, Start { generation: self.generation, lsn });
        match self.last_records.last_mut() {
            Some((noted, last)) if *noted == segment => *last = record,
            _ => self.last_records.push((segment, record)),
        }
    }

    fn finish_record(&mut self, header: RecordHeader) -> Record {
        let passage = self.chunks.generations.last_mut().expect("a record lies in a chunk, which was counted");
        passage.records += 1;
        passage.lsns = Some((passage.lsns.map_or(header.lsn, |(first, _)| first), header.lsn));
        Record {
            generation: self.generation,
            base: passage.base,
            rule: passage.rule,
            lsn: header.lsn,
            kind: header.kind,
            dependencies: take(&mut self.dependencies),
        }
    }

    /// Reads the next valid chunk into the window. False at the stream's end, which it then knows.
    fn next_chunk(&mut self) -> Result<bool> {
        let Some(header) = self.next_header()? else { return Ok(false) };
        let length = header.length();
        let start = self.window.load(&mut self.segments, self.place, length)?;
        let payload = start + CHUNK_HEADER..start + CHUNK_HEADER + header.payload as usize;
        if crc32c(&self.window.bytes[payload.clone()]) != header.payload_crc {
            return self.judge_torn(start, &header).map(|()| false);
        }
        let skipped = self.enter(&header)?;
        self.payload = payload.start + skipped as usize..payload.end;
        self.last_batch = match self.last_batch {
            Some((begin, bytes, count)) if header.batch == count => Some((begin, bytes + length as u64, count + 1)),
            _ => Some((self.place, length as u64, header.batch + 1)),
        };
        self.place.offset += length as u64;
        self.sequence = Some(header.sequence + 1);
        self.chunks.bytes += length as u64;
        Ok(true)
    }

    /// The header of the next chunk, wherever it lies; `None` at the end. Whatever stands there must belong there: the
    /// space behind the last chunk is blank, so anything else is damage.
    fn next_header(&mut self) -> Result<Option<ChunkHeader>> {
        let segment_length = self.segments.device(self.place.segment)?.len();
        let unfit = if self.place.offset + SECTOR as u64 > segment_length {
            Unfit::Blank
        } else {
            let start = self.window.load(&mut self.segments, self.place, SECTOR)?;
            match ChunkHeader::decode(&self.window.bytes[start..start + SECTOR]) {
                Ok(header) => return self.check_header(header).map(Some),
                Err(unfit) => unfit,
            }
        };
        match unfit {
            Unfit::Version(found) => Err(Error::Version { found, known: crate::format::VERSION }),
            Unfit::Damaged => Err(self.damage("the header of a chunk is damaged")),
            Unfit::Blank if self.goes_on_in_next_segment()? => {
                self.place = Place { segment: self.place.segment + 1, offset: 0 };
                self.next_header()
            }
            Unfit::Blank => {
                self.end = Some(End::Blank);
                Ok(None)
            }
        }
    }

    fn goes_on_in_next_segment(&mut self) -> Result<bool> {
        let next = Place { segment: self.place.segment + 1, offset: 0 };
        if next.segment >= self.segments.end() {
            return Ok(false);
        }
        let start = self.window.load(&mut self.segments, next, SECTOR)?;
        Ok(self.window.bytes[start..start + SECTOR].iter().any(|&byte| byte != 0))
    }

    fn check_header(&mut self, header: ChunkHeader) -> Result<ChunkHeader> {
        let segment_length = self.segments.device(self.place.segment)?.len();
        let limit = longest_chunk(segment_length).min(segment_length - self.place.offset);
        if header.stream != self.stream() || header.log != self.log {
            return Err(self.damage(&format!("a chunk of stream {} of log {} is here", header.stream, header.log)));
        }
        if header.sequence > LAST_SEQUENCE {
            return Err(self.damage(&format!("a chunk says that {} are before it", header.sequence)));
        }
        if let Some(sequence) = self.sequence
            && header.sequence != sequence
        {
            return Err(self.damage(&format!("chunk {} is where {sequence} belongs", header.sequence)));
        }
        if header.generation < self.generation || header.generation > self.newest {
            return Err(self.damage(&format!("a chunk of generation {} is here", header.generation)));
        }
        if header.length() as u64 > limit {
            return Err(self.damage("a chunk is longer than its segment allows"));
        }
        let expected = self.last_batch.map_or(0, |(_, _, count)| count);
        if header.batch != 0 && header.batch != expected || usize::from(header.batch) >= MAX_BATCH {
            return Err(self.damage("a chunk is no part of what was written together with it"));
        }
        Ok(header)
    }

    /// Takes note of a chunk's generation and watermark, and of whether the record before goes on in it. Gives the bytes to
    /// be passed over, of a record whose beginning is gone.
    fn enter(&mut self, header: &ChunkHeader) -> Result<u32> {
        let new_generation = self.chunks.generations.last().is_none_or(|last| last.generation != header.generation);
        if new_generation {
            // What the generation before left incomplete was never acknowledged.
            self.lacks_beginning &= self.chunks.generations.is_empty();
            self.header = None;
            self.body.clear();
            self.generation = header.generation;
            self.chunks.generations.push(Passage {
                generation: header.generation,
                base: header.base,
                rule: header.rule,
                chunks: 0,
                records: 0,
                lsns: None,
                watermark: Lsn::ZERO,
            });
        }
        let missing = self.header.map_or(0, |header| header.length - self.body.len() as u64);
        let first = match missing {
            // Where the beginning is gone, the chunk alone knows.
            _ if self.lacks_beginning => header.first_record,
            _ if missing < u64::from(header.payload) => missing as u32,
            _ => NO_RECORD,
        };
        let passage = self.chunks.generations.last_mut().expect("the generation was just pushed if it was new");
        if passage.base != header.base || passage.rule != header.rule || first != header.first_record {
            return Err(self.damage("the header of a chunk contradicts the chunks before it"));
        }
        passage.chunks += 1;
        passage.watermark = passage.watermark.max(header.watermark);
        if !self.lacks_beginning {
            return Ok(0);
        }
        self.lacks_beginning = first == NO_RECORD;
        Ok(first.min(header.payload))
    }

    /// A chunk whose payload does not fit its checksum was torn by a power cut if one of its sectors was never written.
    /// The first one was. If all were, what is there is not what was written.
    fn judge_torn(&mut self, start: usize, header: &ChunkHeader) -> Result<()> {
        // Without the padding: that is zero anyway.
        let written = (CHUNK_HEADER + header.payload as usize).next_multiple_of(SECTOR);
        let mut sectors = self.window.bytes[start..start + written].chunks(SECTOR);
        if sectors.any(|sector| sector.iter().all(|&byte| byte == 0)) {
            self.end = Some(End::Torn);
            Ok(())
        } else {
            Err(self.damage("the payload of a chunk does not fit its checksum"))
        }
    }

    fn damage(&self, what: &str) -> Error {
        let Place { segment, offset } = self.place;
        Error::corrupt(self.stream(), format!("{what}, segment {segment}, byte {offset}"))
    }

    /// How the stream ended, judged with everything behind its end.
    pub(crate) fn into_tail(self) -> Result<Tail> {
        let last_batch = self.last_batch.map(|(place, length, _)| (place, length));
        let next = Next { log: self.log, sequence: self.sequence.unwrap_or(0) };
        Tail::judge(self.segments, self.place, self.end, next, last_batch, &self.last_records)
    }
}

/// A part of a segment in memory.
#[derive(Debug)]
struct Window {
    bytes: AlignedBuffer,
    /// Which segment it is of, and from which offset; `None` before the first load.
    at: Option<Place>,
}

impl Default for Window {
    fn default() -> Self {
        Self { bytes: AlignedBuffer::zeroed(0), at: None }
    }
}

impl Window {
    /// Makes `length` bytes from `place` available and says where in `bytes` they begin.
    fn load(&mut self, segments: &mut Segments<'_>, place: Place, length: usize) -> Result<usize> {
        if let Some(at) = self.at
            && at.segment == place.segment
            && at.offset <= place.offset
            && place.offset + length as u64 <= at.offset + self.bytes.len() as u64
        {
            return Ok((place.offset - at.offset) as usize);
        }
        let device = segments.device(place.segment)?;
        let offset = place.offset / MAX_BLOCK_SIZE as u64 * MAX_BLOCK_SIZE as u64;
        let skip = (place.offset - offset) as usize;
        let wanted = (skip + length).max(WINDOW).next_multiple_of(MAX_BLOCK_SIZE) as u64;
        let available = wanted.min(device.len() - offset) as usize;
        if self.bytes.len() != available {
            self.bytes = AlignedBuffer::zeroed(available);
        }
        self.at = None;
        device.read_at(offset, &mut self.bytes)?;
        self.at = Some(Place { segment: place.segment, offset });
        Ok(skip)
    }
}
