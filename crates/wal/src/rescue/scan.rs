//! All chunks of one stream that are whole, wherever they lie, and what lies between them.
//!
//! The scan goes from sector to sector. Where a whole chunk begins, it goes on behind it; everything else that is not blank
//! is a flaw. Sequence numbers then say whether chunks are missing between two that are there.

use std::collections::BTreeSet;

use ishigaki_base::{LogId, StreamId, crc32c};
use ishigaki_device::{AlignedBuffer, Device, Directory, MAX_BLOCK_SIZE, SECTOR};

use super::Damage;
use crate::Progress;
use crate::format::{CHUNK_HEADER, ChunkHeader, Unfit, segment_name};

/// Bytes read from the medium at once.
const SHEET: usize = 4 << 20;

/// A whole chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) header: ChunkHeader,
    /// Chunks are missing before it.
    pub(super) is_behind_hole: bool,
}

/// Something that should not be there, or is not there and should be.
#[derive(Clone, Debug)]
pub(super) struct Flaw {
    pub(super) segment: u64,
    /// `None`: the segment as a whole.
    pub(super) offset: Option<u64>,
    pub(super) what: String,
    /// Whole chunks before it.
    chunks_before: usize,
    /// A write that was cut off may have left it.
    may_be_torn: bool,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) stream: StreamId,
    pub(super) chunks: Vec<Found>,
    /// Records may be missing behind the last chunk.
    pub(super) lacks_end: bool,
    flaws: Vec<Flaw>,
}

impl Scanned {
    /// Reads a stream whose segments have these numbers.
    pub(super) fn of(
        directory: &dyn Directory,
        stream: StreamId,
        log: Option<LogId>,
        indexes: &BTreeSet<u64>,
        was_trimmed: bool,
        progress: &Progress,
    ) -> Self {
        let mut scanned = Self { stream, chunks: Vec::new(), lacks_end: false, flaws: Vec::new() };
        let first = if was_trimmed { indexes.first().copied().unwrap_or(0) } else { 0 };
        let end = indexes.last().map_or(0, |last| last + 1);
        let mut missing: Option<u64> = None;
        for index in first..end {
            // A hole of any length in the numbers is one flaw.
            if !indexes.contains(&index) {
                missing.get_or_insert(index);
                continue;
            }
            if let Some(from) = missing.take() {
                scanned.lack(from, index - 1);
            }
            match directory.open(&segment_name(stream, index)) {
                Ok(device) => {
                    scanned.segment(device.as_ref(), index, log);
                    progress.expect(device.len());
                    progress.advance(device.len());
                }
                Err(error) => scanned.flaw(index, None, error.to_string(), false),
            }
        }
        scanned.find_holes(first);
        scanned
    }

    /// What is damaged. What a cut write left at the end of a log that was not closed is none.
    pub(super) fn damages(&mut self, is_clean: bool) -> Vec<Damage> {
        let end = self.chunks.len();
        let stream = self.stream;
        let is_torn = |flaw: &Flaw| flaw.may_be_torn && flaw.chunks_before == end && !is_clean;
        self.lacks_end = self.flaws.iter().any(|flaw| flaw.chunks_before == end && !is_torn(flaw));
        self.flaws.iter().filter(|flaw| !is_torn(flaw)).map(|flaw| flaw.damage(stream)).collect()
    }

    /// Records may be missing at both ends, and nothing shows where: what is there has no contradiction in it.
    pub(super) fn doubt_ends(&mut self) {
        self.lacks_end = true;
        if let Some(first) = self.chunks.first_mut() {
            first.is_behind_hole |= first.header.sequence > 0;
        }
    }

    /// Everything that is not as a stream is, also what a cut write may have left.
    pub(super) fn flaws(&self) -> impl Iterator<Item = Damage> + '_ {
        self.flaws.iter().map(|flaw| flaw.damage(self.stream))
    }

    fn flaw(&mut self, segment: u64, offset: Option<u64>, what: String, may_be_torn: bool) {
        self.flaws.push(Flaw { segment, offset, what, chunks_before: self.chunks.len(), may_be_torn });
    }

    fn lack(&mut self, first: u64, last: u64) {
        let what =
            if first == last { "is missing".to_owned() } else { format!("is missing, and so are those up to {last}") };
        self.flaw(first, None, what, false);
    }

    fn segment(&mut self, device: &dyn Device, index: u64, log: Option<LogId>) {
        let mut sheet = Sheet::of(device);
        // Where what is no chunk began, and how it reads there.
        let mut stray: Option<(u64, String, bool)> = None;
        let mut blanks = false;
        let mut offset = 0;
        while offset + SECTOR as u64 <= device.len() {
            let Some(sector) = sheet.bytes(offset, SECTOR) else {
                stray.get_or_insert((offset, "can not be read".to_owned(), false));
                offset += SECTOR as u64;
                continue;
            };
            let step = match ChunkHeader::decode(sector) {
                Err(Unfit::Blank) => {
                    blanks = true;
                    SECTOR as u64
                }
                Err(Unfit::Damaged) => {
                    // A batch whose first sector was not written leaves others behind a blank one.
                    stray.get_or_insert((offset, "the header of a chunk is damaged".to_owned(), blanks));
                    SECTOR as u64
                }
                Err(Unfit::Version(found)) => {
                    stray.get_or_insert((offset, format!("a chunk of format version {found}"), false));
                    SECTOR as u64
                }
                Ok(header) => {
                    let length = header.length() as u64;
                    match self.judge(&mut sheet, offset, &header, log) {
                        Ok(()) => {
                            self.settle(index, stray.take());
                            blanks = false;
                            let found = Found { segment: index, offset, header, is_behind_hole: false };
                            self.chunks.push(found);
                        }
                        Err((what, may_be_torn)) => {
                            stray.get_or_insert((offset, what, may_be_torn));
                        }
                    }
                    length.max(SECTOR as u64)
                }
            };
            offset += step;
        }
        self.settle(index, stray);
    }

    fn settle(&mut self, segment: u64, stray: Option<(u64, String, bool)>) {
        if let Some((offset, what, may_be_torn)) = stray {
            self.flaw(segment, Some(offset), what, may_be_torn);
        }
    }

    /// Whether the chunk with that header is whole and belongs here; else why not, and whether a cut write may leave that.
    fn judge(
        &self,
        sheet: &mut Sheet<'_>,
        offset: u64,
        header: &ChunkHeader,
        log: Option<LogId>,
    ) -> Result<(), (String, bool)> {
        if header.stream != self.stream || log.is_some_and(|log| header.log != log) {
            return Err((format!("a chunk of stream {} of log {} is here", header.stream, header.log), false));
        }
        let last = self.chunks.last().map(|last| (last.header.sequence, last.header.generation));
        if last.is_some_and(|(sequence, generation)| header.sequence <= sequence || header.generation < generation) {
            return Err((format!("chunk {} is here, which is older than what is before it", header.sequence), false));
        }
        let whole = sheet.bytes(offset, CHUNK_HEADER + header.payload as usize);
        let Some(whole) = whole else { return Err(("a chunk goes beyond the end of the file".to_owned(), false)) };
        if crc32c(&whole[CHUNK_HEADER..]) == header.payload_crc {
            return Ok(());
        }
        let is_blank = |sector: &[u8]| sector.iter().all(|&byte| byte == 0);
        let may_be_torn = whole.chunks(SECTOR).any(is_blank);
        Err(("the payload of a chunk does not fit its checksum".to_owned(), may_be_torn))
    }

    /// Marks the chunks before which others are missing, and sees that there is a flaw for each hole.
    fn find_holes(&mut self, first: u64) {
        let mut expected = (first == 0).then_some(0);
        if expected.is_none() && self.flaws.iter().any(|flaw| flaw.chunks_before == 0) {
            self.chunks.iter_mut().take(1).for_each(|chunk| chunk.is_behind_hole = true);
        }
        for place in 0..self.chunks.len() {
            let Found { segment, offset, header, .. } = self.chunks[place];
            let sequence = header.sequence;
            if let Some(expected) = expected.filter(|&expected| expected != sequence) {
                self.chunks[place].is_behind_hole = true;
                if self.flaws.iter().all(|flaw| flaw.chunks_before != place) {
                    let what = format!("chunk {sequence} is where {expected} belongs");
                    let flaw = Flaw { segment, offset: Some(offset), what, chunks_before: place, may_be_torn: false };
                    self.flaws.push(flaw);
                }
            }
            expected = Some(sequence + 1);
        }
    }
}

/// A device read in large pieces, around what can not be read.
pub(crate) struct Sheet<'a> {
    device: &'a dyn Device,
    at: u64,
    memory: AlignedBuffer,
    filled: usize,
    /// Blocks of the piece that can not be read, by offset in the device.
    unreadable: Vec<u64>,
}

impl<'a> Sheet<'a> {
    pub(crate) fn of(device: &'a dyn Device) -> Self {
        Self { device, at: 0, memory: AlignedBuffer::zeroed(0), filled: 0, unreadable: Vec::new() }
    }

    /// So many bytes from `offset` on; `None` if they are not all there, or can not be read.
    pub(crate) fn bytes(&mut self, offset: u64, length: usize) -> Option<&[u8]> {
        let end = offset.checked_add(length as u64).filter(|&end| end <= self.device.len())?;
        if offset < self.at || end > self.at + self.filled as u64 {
            self.load(offset, length);
        }
        let block = MAX_BLOCK_SIZE as u64;
        let is_hit = |&bad: &u64| bad < end && bad + block > offset;
        if self.unreadable.iter().any(is_hit) {
            return None;
        }
        let skip = (offset - self.at) as usize;
        self.memory.get(skip..skip + length)
    }

    fn load(&mut self, offset: u64, length: usize) {
        let block = MAX_BLOCK_SIZE as u64;
        self.at = offset / block * block;
        let wanted = ((offset - self.at) as usize + length).max(SHEET).next_multiple_of(MAX_BLOCK_SIZE);
        self.filled = (self.device.len() - self.at).min(wanted as u64) as usize;
        if self.memory.len() < self.filled {
            self.memory = AlignedBuffer::zeroed(self.filled.next_multiple_of(MAX_BLOCK_SIZE));
        }
        self.unreadable.clear();
        if self.device.read_at(self.at, &mut self.memory[..self.filled]).is_ok() {
            return;
        }
        for (place, piece) in self.memory[..self.filled].chunks_mut(MAX_BLOCK_SIZE).enumerate() {
            let at = self.at + (place * MAX_BLOCK_SIZE) as u64;
            if self.device.read_at(at, piece).is_err() {
                self.unreadable.push(at);
            }
        }
    }
}
