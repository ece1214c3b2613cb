//! The end of a stream: where appending goes on, and what had to be put right before.

use std::collections::VecDeque;

use ishigaki_base::StreamId;
use ishigaki_device::{AlignedBuffer, Device, MAX_BLOCK_SIZE, SECTOR};

use crate::format::longest_chunk;
use crate::segment::Segment;
use crate::{Error, Result};

/// Where in a stream something lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Index into the stream's segments.
    pub(crate) segment: usize,
    /// Bytes from the segment's beginning.
    pub(crate) offset: u64,
}

/// Why a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing was written behind.
    Blank,
    /// The last chunk was torn.
    Torn,
}

/// A stream's end.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) stream: StreamId,
    segments: Vec<Segment>,
    place: Place,
    sequence: u64,
    /// The last valid chunk: where, and how long.
    last_chunk: Option<(Place, usize)>,
    /// What a torn chunk has left behind the end: where, and how many bytes.
    litter: Vec<(Place, u64)>,
}

impl Tail {
    /// Looks at what lies behind the end: nothing, or the rest of one torn chunk. Anything further means that a chunk
    /// which was durable once is gone, since each was durable before the next began.
    pub(crate) fn judge(
        stream: StreamId,
        segments: Vec<Segment>,
        place: Place,
        sequence: u64,
        last_chunk: Option<(Place, usize)>,
    ) -> Result<Self> {
        let mut litter = Vec::new();
        for (index, segment) in segments.iter().enumerate().skip(place.segment) {
            let device = segment.device.as_ref();
            let from = if index == place.segment { place.offset } else { 0 };
            let torn = longest_chunk(device.len());
            // A chunk behind the torn one would begin within the longest chunk's length.
            let Some(last) = last_written(device, from, (from + 2 * torn).min(device.len()))? else { continue };
            // The chunk that was torn was to lie here, or at the beginning of the next segment if it did not fit.
            if index > place.segment + 1 || last - from > torn {
                let what = format!("there is something behind its end, segment {}, byte {from}", segment.index);
                return Err(Error::corrupt(stream, what));
            }
            litter.push((Place { segment: index, offset: from }, last - from));
        }
        Ok(Self { stream, segments, place, sequence, last_chunk, litter })
    }

    /// Makes the end durable as it was read.
    ///
    /// The last chunk is written once more, the same bytes in the same place: a process may have died between its write
    /// and the sync, or a sync may have failed, and what was replayed must not vanish with the next power cut. Earlier
    /// chunks were durable before it began. Then the litter of a torn chunk is blanked, so that the next recovery finds
    /// blank space behind the end again. Both can be cut at any point: the bytes only become what they are read as.
    pub(crate) fn settle(&self) -> Result<()> {
        if let Some((place, length)) = self.last_chunk {
            let device = self.segments[place.segment].device.as_ref();
            rewrite(device, place.offset, length as u64, |_| ())?;
        }
        for &(place, length) in &self.litter {
            tracing::info!(stream = %self.stream, bytes = length, "a torn chunk is blanked");
            rewrite(self.segments[place.segment].device.as_ref(), place.offset, length, |bytes| bytes.fill(0))?;
        }
        Ok(())
    }

    /// Where to go on: segments from the one being written, offset in the first, next sequence, next segment's index.
    pub(crate) fn go_on(&self) -> (VecDeque<Segment>, u64, u64, u64) {
        let next_segment = self.segments.len() as u64;
        let mut segments: VecDeque<Segment> = self.segments[self.place.segment..].iter().cloned().collect();
        let mut offset = self.place.offset;
        let fits = segments.front().is_some_and(|first| {
            offset.is_multiple_of(first.device.promise().block_size as u64) && offset < first.device.len()
        });
        if !fits {
            // The medium has larger blocks than before, or the segment is full: the stream goes on in the next one.
            segments.pop_front();
            offset = 0;
        }
        (segments, offset, self.sequence, next_segment)
    }

    /// Whether the stream ended in that segment.
    pub(crate) fn is_in(&self, segment: &Segment) -> bool {
        self.segments[self.place.segment].index == segment.index
    }
}

/// The end of the last sector between two offsets that is not blank.
fn last_written(device: &dyn Device, from: u64, to: u64) -> Result<Option<u64>> {
    let block = MAX_BLOCK_SIZE as u64;
    let start = from / block * block;
    let end = to.next_multiple_of(block).min(device.len());
    if start >= end {
        return Ok(None);
    }
    let mut bytes = AlignedBuffer::zeroed((end - start) as usize);
    device.read_at(start, &mut bytes)?;
    let mut sectors = bytes[(from - start) as usize..].chunks(SECTOR);
    let last = sectors.rposition(|sector| sector.iter().any(|&byte| byte != 0));
    Ok(last.map(|index| from + (index as u64 + 1) * SECTOR as u64))
}

/// Writes a range durably with the bytes it has, after `change`. Whole blocks are written; those around keep their bytes.
fn rewrite(device: &dyn Device, offset: u64, length: u64, change: impl FnOnce(&mut [u8])) -> Result<()> {
    let block = device.promise().block_size as u64;
    let start = offset / block * block;
    let end = (offset + length).next_multiple_of(block).min(device.len());
    let mut bytes = AlignedBuffer::zeroed((end - start) as usize);
    device.read_at(start, &mut bytes)?;
    change(&mut bytes[(offset - start) as usize..(offset + length - start) as usize]);
    Ok(device.write_durable(start, &bytes)?)
}
