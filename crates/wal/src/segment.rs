//! Where a stream's next chunk goes: its segments on the medium.

use std::collections::VecDeque;
use std::sync::Arc;

use ishigaki_base::StreamId;
use ishigaki_device::{Device, Directory};

use crate::buffer::Block;
use crate::format::{ChunkHeader, longest_chunk, segment_name};
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

    /// Writes the blocks as chunks, each durable before the next begins: a chunk that is not whole is the last one.
    pub(crate) fn write(&mut self, blocks: &mut [Block], header: ChunkHeader) -> Result<()> {
        for block in blocks {
            let chunk = block.seal(ChunkHeader { sequence: self.sequence, block: self.block_size(), ..header });
            if self.offset + chunk.len() as u64 > self.segments[0].device.len() {
                self.segments.pop_front();
                self.offset = 0;
            }
            // Room was reserved before the record's LSN was drawn. Were it not so, the log fails, and no thread with it.
            let Some(Segment { device, .. }) = self.segments.front() else {
                return Err(Error::Invalid { reason: "a stream ran out of the room reserved for it".to_owned() });
            };
            debug_assert!(chunk.len() as u64 <= longest_chunk(device.len()));
            device.write_durable(self.offset, chunk)?;
            self.offset += chunk.len() as u64;
            self.sequence += 1;
        }
        Ok(())
    }
}
