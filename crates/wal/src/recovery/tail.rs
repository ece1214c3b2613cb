//! The end of a stream: where appending goes on, and what had to be put right before.

use ishigaki_base::{LogId, StreamId};
use ishigaki_device::{AlignedBuffer, Device, Directory, MAX_BLOCK_SIZE, SECTOR};

use super::chunks::LAST_SEQUENCE;
use super::segments::Segments;
use crate::format::{ChunkHeader, MAX_BATCH, longest_chunk};
use crate::segment::Segment;
use crate::space::{Pool, Retired, Spares};
use crate::{Error, Result, Start};

/// Where in a stream something lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Number of the segment.
    pub(crate) segment: u64,
    /// Bytes from the segment's beginning.
    pub(crate) offset: u64,
}

/// Why a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing was written behind.
    Blank,
    /// The last chunk was torn; its header is there.
    Torn,
}

/// What the chunk at the end would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) log: LogId,
    /// `None` when the stream's first segments are gone, and what is left begins with blank space.
    pub(crate) sequence: Option<u64>,
}

/// Some bytes of a segment.
#[derive(Debug)]
struct Stretch {
    segment: Segment,
    offset: u64,
    length: u64,
}

/// A stream's end.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) stream: StreamId,
    /// Segments that are full.
    before: Vec<Retired>,
    /// The last record of which a part lies in this stream.
    last: Start,
    place: Place,
    /// The segment of that place; `None` in a stream that has no segment.
    current: Option<Segment>,
    /// Segments behind it, all blank.
    behind: Vec<Segment>,
    sequence: u64,
    /// The last valid chunks that were written together.
    last_batch: Option<Stretch>,
    /// Whether a torn chunk has left something behind the end.
    littered: bool,
}

/// What a segment must be like to be written again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    /// The longest chunk, which must fit.
    pub(crate) chunk_limit: usize,
    /// The length of segments that are made now. Longer ones are not written any more.
    pub(crate) segment: u64,
}

impl Fit {
    fn takes(self, segment: &dyn Device) -> bool {
        longest_chunk(segment.len()) >= self.chunk_limit as u64 && segment.len() <= self.segment
    }
}

impl Tail {
    /// Whether so many chunks are before its end that those that come might have no number.
    pub(crate) fn is_used_up(&self) -> bool {
        self.sequence > LAST_SEQUENCE / 2
    }

    /// Looks at what lies behind the end: nothing, or the rest of one torn batch. Anything further means that a chunk
    /// which was durable once is gone, since each batch was durable before the next began.
    pub(crate) fn judge(
        mut segments: Segments<'_>,
        place: Place,
        end: Option<End>,
        next: Next,
        last_batch: Option<(Place, u64)>,
        last_records: &[(u64, Start)],
    ) -> Result<Self> {
        let Next { log, mut sequence } = next;
        let stream = segments.stream();
        let (mut before, mut last) = (Vec::new(), Start::default());
        let mut last_records = last_records.iter().peekable();
        for index in segments.first()..=place.segment {
            if let Some((_, record)) = last_records.next_if(|(segment, _)| *segment == index) {
                last = *record;
            }
            if index < place.segment {
                before.push(Retired { index, length: segments.device(index)?.len(), last });
            }
        }
        let (mut rest, mut littered) = (Vec::new(), false);
        for index in place.segment..segments.end() {
            let segment = segments.open(index)?;
            let device = segment.device.as_ref();
            let offset = if index == place.segment { place.offset } else { 0 };
            // The batch that was torn was to lie here, or at the beginning of the next segment if it did not fit.
            let torn = match end {
                Some(End::Torn) if index > place.segment => 0,
                _ if index > place.segment + 1 => 0,
                _ => longest_batch(device.len()),
            };
            // A batch behind the torn one would begin within that, or within the longest chunk's length behind it.
            let looked_at = (offset + torn + longest_chunk(device.len())).min(device.len());
            let behind = Behind::read(device, offset, looked_at)?;
            let damage = |what: &str| Error::corrupt(stream, format!("{what}, segment {index}, byte {offset}"));
            if let Some(last) = behind.last_written() {
                if last > torn {
                    return Err(damage("there is something behind its end"));
                }
                littered = true;
            }
            if let Some((missing, later)) = behind.batch_after(stream, log, &mut sequence) {
                return Err(damage(&format!("chunk {missing} is not there, but chunk {later} is")));
            }
            rest.push(segment);
        }
        let last_batch = match last_batch {
            Some((Place { segment, offset }, length)) => {
                Some(Stretch { segment: segments.open(segment)?, offset, length })
            }
            None => None,
        };
        let behind = rest.split_off(rest.len().min(1));
        let (current, sequence) = (rest.pop(), sequence.unwrap_or(0));
        Ok(Self { stream, before, last, place, current, behind, sequence, last_batch, littered })
    }

    /// Makes the end durable as it was read.
    ///
    /// The last batch is written once more, the same bytes in the same place: a process may have died between its write
    /// and the sync, or a sync may have failed, and what was replayed must not vanish with the next power cut. Earlier
    /// chunks were durable before it began. Then the place of a torn batch is blanked, so that the next recovery finds
    /// blank space behind the end again; after a crash also where it looks blank, because what it looks like may still be
    /// in flight. Both can be cut at any point: the bytes only become what they are read as.
    pub(crate) fn settle(
        &mut self,
        directory: &dyn Directory,
        clean: bool,
        fit: Fit,
        spares: &mut Spares,
    ) -> Result<()> {
        if let Some(batch) = &self.last_batch {
            batch.rewrite(|_| ())?;
        }
        let clean = clean && !self.littered;
        self.remove_blank(directory, clean, fit, spares)?;
        if !clean && let Some(segment) = self.current.clone() {
            let (offset, all) = (self.place.offset, segment.device.len());
            let length = longest_batch(all).min(all - offset);
            Stretch { segment, offset, length }.rewrite(|bytes| bytes.fill(0))?;
        }
        Ok(())
    }

    /// Makes spares of blank segments that can not be relied upon, the last one first, so that there is never a hole in their
    /// numbers: after a crash, because the sync of their names may have failed, and then no later sync helps; and when one
    /// of them is too small for our chunks.
    fn remove_blank(&mut self, directory: &dyn Directory, clean: bool, fit: Fit, spares: &mut Spares) -> Result<()> {
        let current_is_blank = self.place.offset == 0 && self.current.is_some();
        let fits = |segment: &Segment| fit.takes(segment.device.as_ref());
        let mut blank = self.behind.iter().chain(self.current.iter().filter(|_| current_is_blank));
        if clean && blank.all(fits) {
            return Ok(());
        }
        while let Some(last) = self.behind.pop().or_else(|| self.current.take_if(|_| current_is_blank)) {
            spares.adopt(directory, self.stream, last.index, last.device.len())?;
        }
        Ok(())
    }

    /// Counts the stream's segments in the pool, and hands those over that will not be written. Streams from number
    /// `streams` on are not written at all.
    pub(crate) fn count(&self, pool: &Pool, streams: u16, fit: Fit) {
        let (written, ..) = self.go_on(fit);
        let is_written = |index| self.stream.0 < streams && written.iter().any(|segment| segment.index == index);
        let rest = self.current.iter().chain(&self.behind).map(|segment| Retired {
            index: segment.index,
            length: segment.device.len(),
            last: self.last,
        });
        for segment in self.before.iter().copied().chain(rest) {
            pool.count(segment.length);
            if !is_written(segment.index) {
                pool.retire(self.stream, segment);
            }
        }
    }

    /// Where to go on: the segments that are there, the offset in the first of them, the next sequence, the number of
    /// the segment to make next.
    pub(crate) fn go_on(&self, fit: Fit) -> (Vec<Segment>, u64, u64, u64) {
        let offset = self.place.offset;
        let current = self.current.as_ref().filter(|current| {
            // A medium may have larger blocks than before, and we larger chunks or smaller segments: then the next segment is
            // begun. A segment that is longer than those of now could alone be more than the log may take, and as long as it
            // is written no trim frees it.
            let device = &current.device;
            let block = device.promise().block_size as u64;
            fit.takes(device.as_ref()) && offset.is_multiple_of(block) && offset < device.len()
        });
        let offset = if current.is_some() { offset } else { 0 };
        let next = self.place.segment + u64::from(self.current.is_some()) + self.behind.len() as u64;
        (current.into_iter().chain(&self.behind).cloned().collect(), offset, self.sequence, next)
    }
}

impl Stretch {
    /// Writes the bytes durably as they are, after `change`. Whole blocks are written; those around keep their bytes.
    fn rewrite(&self, change: impl FnOnce(&mut [u8])) -> Result<()> {
        let device = self.segment.device.as_ref();
        let block = device.promise().block_size as u64;
        let start = self.offset / block * block;
        let end = (self.offset + self.length).next_multiple_of(block).min(device.len());
        let mut bytes = AlignedBuffer::zeroed((end - start) as usize);
        device.read_at(start, &mut bytes)?;
        let skip = (self.offset - start) as usize;
        change(&mut bytes[skip..skip + self.length as usize]);
        Ok(device.write_durable(start, &bytes)?)
    }
}

/// The most bytes that are written together, in a segment of that length.
fn longest_batch(segment_length: u64) -> u64 {
    longest_chunk(segment_length) * MAX_BATCH as u64
}

/// What lies behind a stream's end, as far as it must be looked at.
struct Behind {
    bytes: AlignedBuffer,
    /// Where in `bytes` the end is.
    skip: usize,
}

impl Behind {
    fn read(device: &dyn Device, from: u64, to: u64) -> Result<Self> {
        let block = MAX_BLOCK_SIZE as u64;
        let start = from / block * block;
        let end = to.next_multiple_of(block).min(device.len()).max(start);
        let mut bytes = AlignedBuffer::zeroed((end - start) as usize);
        if !bytes.is_empty() {
            device.read_at(start, &mut bytes)?;
        }
        let skip = ((from - start) as usize).min(bytes.len());
        Ok(Self { bytes, skip })
    }

    fn sectors(&self) -> std::slice::Chunks<'_, u8> {
        self.bytes[self.skip..].chunks(SECTOR)
    }

    /// Bytes from the stream's end to the end of the last sector that is not blank.
    fn last_written(&self) -> Option<u64> {
        let last = self.sectors().rposition(|sector| sector.iter().any(|&byte| byte != 0));
        last.map(|index| (index as u64 + 1) * SECTOR as u64)
    }

    /// The chunk `expected` at the end and the first one of a later batch, if one is there: then the chunk at the end was durable
    /// once. Where nothing else says which chunk is at the end, the batch that was to lie there does.
    fn batch_after(&self, stream: StreamId, log: LogId, expected: &mut Option<u64>) -> Option<(u64, u64)> {
        self.sectors().enumerate().find_map(|(at, sector)| {
            let header = ChunkHeader::decode(sector).ok()?;
            let first = header.sequence.checked_sub(header.batch.into())?;
            if header.log != log || header.stream != stream {
                return None;
            }
            let is_behind_another = header.batch == 0 && at > 0;
            let expected = *expected.get_or_insert(first.saturating_sub(is_behind_another.into()));
            (first > expected).then_some((expected, first))
        })
    }
}
