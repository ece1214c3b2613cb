//! Where a stream's next chunk goes: its segments on the medium.

use std::collections::VecDeque;
use std::sync::Arc;

use ishigaki_base::{Lsn, StreamId};
use ishigaki_device::{Device, Directory};
use smallvec::SmallVec;

use crate::buffer::Block;
use crate::format::{ChunkHeader, MAX_BATCH, longest_chunk, segment_name};
use crate::space::{Pool, Retired};
use crate::{Error, Result, Start};

/// One preallocated, zero-filled piece of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) index: u64,
    pub(crate) device: Arc<dyn Device>,
}

impl Segment {
    /// Makes a new one, all zero, and its name durable.
    pub(crate) fn create(directory: &dyn Directory, stream: StreamId, index: u64, length: u64) -> Result<Self> {
        let device = directory.create(&segment_name(stream, index), length)?;
        directory.sync()?;
        tracing::debug!(%stream, index, length, "segment created");
        Ok(Self { index, device })
    }

    /// Bytes that chunks of up to `chunk_limit` bytes certainly fit into from `offset` on: the end may stay unused.
    fn room(&self, offset: u64, chunk_limit: usize) -> u64 {
        (self.device.len() - offset).saturating_sub(chunk_limit as u64)
    }
}

/// A stream's pen: the one place where its next chunk is written. Whoever holds it owns the stream's device slot.
#[derive(Debug)]
pub(crate) struct Pen {
    /// Being written, then those that follow. Never empty.
    segments: VecDeque<Segment>,
    /// Where in the first of them the next chunk begins.
    offset: u64,
    /// Of the next chunk.
    sequence: u64,
    /// Told of the segments that are full.
    pool: Arc<Pool>,
}

impl Pen {
    /// Goes on at `offset` of the first segment.
    pub(crate) fn new(segments: VecDeque<Segment>, offset: u64, sequence: u64, pool: Arc<Pool>) -> Self {
        assert!(!segments.is_empty(), "a stream that is written has a segment");
        Self { segments, offset, sequence, pool }
    }

    /// Adds segments to go on with.
    pub(crate) fn extend(&mut self, segments: impl IntoIterator<Item = Segment>) {
        self.segments.extend(segments);
    }

    /// Bytes that can be written without another segment.
    pub(crate) fn room(&self, chunk_limit: usize) -> u64 {
        let offset = |place| if place == 0 { self.offset } else { 0 };
        self.segments.iter().enumerate().map(|(place, segment)| segment.room(offset(place), chunk_limit)).sum()
    }

    /// Whether it is time to have another segment ready.
    pub(crate) fn runs_short(&self) -> bool {
        self.segments.len() == 1 && self.offset > self.segments[0].device.len() / 2
    }

    /// The block size of the medium.
    pub(crate) fn block_size(&self) -> usize {
        self.segments[0].device.promise().block_size
    }

    /// Writes the blocks as chunks: as many together as a batch may have and the segment has room for, each batch durable
    /// before the next begins. So if a chunk is not whole, it belongs to the last batch. `last` is the largest LSN in the
    /// blocks.
    pub(crate) fn write(&mut self, blocks: &mut [Block], header: ChunkHeader, last: Lsn) -> Result<()> {
        let block = self.block_size();
        let mut blocks = blocks.iter_mut().peekable();
        while blocks.peek().is_some() {
            let mut batch = SmallVec::<[(u64, &[u8]); 1]>::new();
            while batch.len() < MAX_BATCH
                && let Some(next) = blocks.peek()
            {
                if self.offset + next.length(block) as u64 > self.segment()?.device.len() {
                    if !batch.is_empty() {
                        break;
                    }
                    self.turn_page(&header, last);
                }
                let Some(next) = blocks.next() else { break };
                let header = ChunkHeader { sequence: self.sequence, block, batch: batch.len() as u8, ..header };
                let chunk = next.seal(header);
                batch.push((self.offset, chunk));
                self.offset += chunk.len() as u64;
                self.sequence += 1;
            }
            let Segment { device, .. } = self.segment()?;
            debug_assert!(batch.iter().all(|(_, chunk)| chunk.len() as u64 <= longest_chunk(device.len())));
            match batch[..] {
                [(offset, chunk)] => device.write_durable(offset, chunk)?,
                _ => device.write_all_durable(&batch)?,
            }
        }
        Ok(())
    }

    /// Leaves the segment, in which there is no record behind `last`.
    fn turn_page(&mut self, header: &ChunkHeader, last: Lsn) {
        if let Some(Segment { index, device }) = self.segments.pop_front() {
            let last = Start { generation: header.generation, lsn: last };
            self.pool.retire(header.stream, Retired { index, length: device.len(), last });
        }
        self.offset = 0;
    }

    /// Where the next chunk goes. Room was reserved before the record's LSN was drawn. Were it not so, the log fails, and no
    /// thread with it.
    fn segment(&self) -> Result<&Segment> {
        let missing = || Error::Invalid { reason: "a stream ran out of the room reserved for it".to_owned() };
        self.segments.front().ok_or_else(missing)
    }
}
