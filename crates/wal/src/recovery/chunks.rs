//! One stream's chunks, read from the first one that is there: those that are valid, one after the other.

use std::ops::Range;
use std::sync::Arc;

use ishigaki_base::{Generation, LogId, Lsn, StreamId, crc32c};
use ishigaki_device::SECTOR;

use super::segments::Segments;
use super::tail::{End, Next, Place, Tail};
use super::window::{Pool, Window};
use crate::format::{CHUNK_HEADER, ChunkHeader, Control, MAX_BATCH, Unfit, longest_chunk};
use crate::{Error, Result, Start};

/// More chunks than a stream ever has: no log is opened whose streams have used up half of them.
pub(super) const LAST_SEQUENCE: u64 = u64::MAX / 2;

/// A valid chunk.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) header: ChunkHeader,
    /// Where it lies.
    pub(crate) place: Place,
    /// Where its payload lies in the reader's window.
    pub(crate) payload: Range<usize>,
}

/// Goes from chunk to chunk. Memory: one window.
#[derive(Debug)]
pub(crate) struct ChunkReader<'a> {
    log: LogId,
    /// The newest generation, and its first LSN.
    newest: (Generation, Lsn),
    segments: Segments<'a>,
    /// Where the next chunk is expected.
    place: Place,
    /// Of the next chunk; `None` before the first one, when the stream's first segments are gone.
    sequence: Option<u64>,
    generation: Generation,
    window: Window,
    /// The last chunks that were written together: where they begin, their bytes, and how many they are.
    last_batch: Option<(Place, u64, u8)>,
    /// Bytes of all chunks, padding included.
    bytes: u64,
    /// Bytes of the segments that have been left behind.
    left_behind: u64,
    end: Option<End>,
}

impl<'a> ChunkReader<'a> {
    pub(crate) fn new(control: &Control, segments: Segments<'a>, pool: Arc<Pool>) -> Self {
        let first = segments.first();
        Self {
            log: control.log,
            newest: (control.generation, control.base),
            segments,
            place: Place { segment: first, offset: 0 },
            sequence: (first == 0).then_some(0),
            generation: Generation::default(),
            window: Window::new(pool),
            last_batch: None,
            bytes: 0,
            left_behind: 0,
            end: None,
        }
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.segments.stream()
    }

    pub(crate) fn segments(&mut self) -> &mut Segments<'a> {
        &mut self.segments
    }

    /// The part of the stream in which the last chunk lies.
    pub(crate) fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    /// The bytes of that part.
    pub(crate) fn window_bytes(&self) -> &[u8] {
        self.window.bytes()
    }

    /// Bytes of all chunks so far, padding included.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the next chunk is expected.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The same in bytes from the beginning of the stream's first segment.
    pub(crate) fn distance(&self) -> u64 {
        self.left_behind + self.place.offset
    }

    /// Why the stream ended, once it has.
    pub(crate) fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether the next chunk lies in the window already, whole.
    pub(crate) fn next_is_here(&self) -> bool {
        let bytes = self.window.from(self.place).unwrap_or_default();
        bytes.len() >= SECTOR
            && ChunkHeader::decode(&bytes[..SECTOR]).is_ok_and(|header| header.length() <= bytes.len())
    }

    /// Where the bytes begin that must be read before there is another chunk. A guess: a chunk may be damaged.
    pub(crate) fn reads_next(&mut self) -> Result<Place> {
        let bytes = self.window.from(self.place).unwrap_or_default();
        let is_left = bytes.len() >= SECTOR && bytes[..SECTOR].iter().all(|&byte| byte == 0);
        let length = self.segments.device(self.place.segment)?.len();
        if is_left || self.place.offset + SECTOR as u64 > length {
            return Ok(Place { segment: self.place.segment + 1, offset: 0 });
        }
        Ok(self.window.end())
    }

    /// Goes to the next valid chunk. `None` at the stream's end, which it then knows.
    pub(crate) fn next(&mut self) -> Result<Option<Chunk>> {
        if self.end.is_some() {
            return Ok(None);
        }
        let Some(header) = self.next_header()? else { return Ok(None) };
        let length = header.length();
        let start = self.window.load(&mut self.segments, self.place, length)?;
        let payload = start + CHUNK_HEADER..start + CHUNK_HEADER + header.payload as usize;
        if crc32c(&self.window.bytes()[payload.clone()]) != header.payload_crc {
            return self.judge_torn(start, &header).map(|()| None);
        }
        let place = self.place;
        self.generation = header.generation;
        self.last_batch = match self.last_batch {
            Some((begin, bytes, count)) if header.batch == count => Some((begin, bytes + length as u64, count + 1)),
            _ => Some((place, length as u64, header.batch + 1)),
        };
        self.place.offset += length as u64;
        self.sequence = Some(header.sequence + 1);
        self.bytes += length as u64;
        Ok(Some(Chunk { header, place, payload }))
    }

    /// The header of the next chunk, wherever it lies; `None` at the end. Whatever stands there must belong there: the
    /// space behind the last chunk is blank, so anything else is damage.
    fn next_header(&mut self) -> Result<Option<ChunkHeader>> {
        let segment_length = self.segments.device(self.place.segment)?.len();
        let unfit = if self.place.offset + SECTOR as u64 > segment_length {
            Unfit::Blank
        } else {
            let start = self.window.load(&mut self.segments, self.place, SECTOR)?;
            match ChunkHeader::decode(&self.window.bytes()[start..start + SECTOR]) {
                Ok(header) => return self.check_header(header).map(Some),
                Err(unfit) => unfit,
            }
        };
        match unfit {
            Unfit::Version(found) => Err(Error::Version { found, known: crate::format::VERSION }),
            Unfit::Damaged => Err(self.damage("the header of a chunk is damaged")),
            Unfit::Blank if self.goes_on_in_next_segment()? => {
                self.left_behind += segment_length;
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
        match self.window.bytes().get(start..start + SECTOR) {
            Some(sector) => Ok(sector.iter().any(|&byte| byte != 0)),
            None => Err(self.damage("the segment that follows is shorter than a sector")),
        }
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
        let first = Generation::default().next();
        let (newest, base) = self.newest;
        if header.generation < self.generation.max(first) || header.generation > newest {
            return Err(self.damage(&format!("a chunk of generation {} is here", header.generation)));
        }
        if header.generation == newest && header.base != base {
            let what = format!("a chunk says that generation {newest} begins at {}, and not at {base}", header.base);
            return Err(self.damage(&what));
        }
        if header.length() as u64 > limit {
            return Err(self.damage("a chunk is longer than its segment allows"));
        }
        // A batch is one opening's, and all of it lies in one segment: once the segments before are gone, nobody could tell
        // what else there was of one that goes on here.
        let goes_on = self.place.offset > 0 && header.generation == self.generation;
        let expected = self.last_batch.filter(|_| goes_on).map_or(0, |(_, _, count)| count);
        if header.batch != 0 && header.batch != expected || usize::from(header.batch) >= MAX_BATCH {
            return Err(self.damage("a chunk is no part of what was written together with it"));
        }
        Ok(header)
    }

    /// A chunk whose payload does not fit its checksum was torn by a power cut if one of its sectors was never written.
    /// The first one was. If all were, what is there is not what was written.
    fn judge_torn(&mut self, start: usize, header: &ChunkHeader) -> Result<()> {
        // Without the padding: that is zero anyway.
        let written = (CHUNK_HEADER + header.payload as usize).next_multiple_of(SECTOR);
        let mut sectors = self.window.bytes()[start..start + written].chunks(SECTOR);
        if sectors.any(|sector| sector.iter().all(|&byte| byte == 0)) {
            // It may be the first one in a stream whose first segments are gone, and then nothing else says its number.
            self.sequence = Some(header.sequence);
            self.end = Some(End::Torn);
            Ok(())
        } else {
            Err(self.damage("the payload of a chunk does not fit its checksum"))
        }
    }

    fn damage(&self, what: &str) -> Error {
        damage(self.stream(), self.place, what)
    }

    /// How the stream ended, judged with everything behind its end. With what [`RecordParser::last_records`] says.
    ///
    /// [`RecordParser::last_records`]: super::records::RecordParser::last_records
    pub(crate) fn into_tail(self, last_records: &[(u64, Start)]) -> Result<Tail> {
        let last_batch = self.last_batch.map(|(place, length, _)| (place, length));
        let next = Next { log: self.log, sequence: self.sequence };
        Tail::judge(self.segments, self.place, self.end, next, last_batch, last_records)
    }
}

/// Something in a stream that was not written there.
pub(crate) fn damage(stream: StreamId, Place { segment, offset }: Place, what: &str) -> Error {
    Error::corrupt(stream, format!("{what}, segment {segment}, byte {offset}"))
}
