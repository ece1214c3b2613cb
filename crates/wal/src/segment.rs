//! Where a stream's next chunk goes: its segments on the medium.

use std::collections::VecDeque;
use std::sync::Arc;

use ishigaki_base::StreamId;
use ishigaki_device::{Device, Directory};
use smallvec::SmallVec;

use crate::buffer::Block;
use crate::format::{ChunkHeader, MAX_BATCH, longest_chunk, segment_name};
use crate::{Error, Result};

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
}

impl Pen {
    /// Goes on at `offset` of the first segment.
    pub(crate) fn new(segments: VecDeque<Segment>, offset: u64, sequence: u64) -> Self {
        assert!(!segments.is_empty(), "a stream that is written has a segment");
        Self { segments, offset, sequence }
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
    /// before the next begins. So if a chunk is not whole, it belongs to the last batch.
    pub(crate) fn write(&mut self, blocks: &mut [Block], header: ChunkHeader) -> Result<()> {
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
                    self.segments.pop_front();
                    self.offset = 0;
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

    /// Where the next chunk goes. Room was reserved before the record's LSN was drawn. Were it not so, the log fails, and no
    /// thread with it.
    fn segment(&self) -> Result<&Segment> {
        let missing = || Error::Invalid { reason: "a stream ran out of the room reserved for it".to_owned() };
        self.segments.front().ok_or_else(missing)
    }
}
