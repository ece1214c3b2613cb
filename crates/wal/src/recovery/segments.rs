//! The segments of one stream, opened when they are needed: a long log has more of them than a process has files.

use std::ops::Range;
use std::sync::Arc;

use ishigaki_base::StreamId;
use ishigaki_device::{Device, Directory};

use crate::Result;
use crate::format::segment_name;
use crate::segment::Segment;

/// Segments held open at a time: the one being read and the one behind it.
const HELD: usize = 2;

/// A stream's segments, numbered without a hole: from 0, or in a log that was trimmed from any number.
#[derive(Debug)]
pub(crate) struct Segments<'a> {
    directory: &'a dyn Directory,
    stream: StreamId,
    indexes: Range<u64>,
    held: Vec<Segment>,
}

impl<'a> Segments<'a> {
    pub(crate) fn new(directory: &'a dyn Directory, stream: StreamId, indexes: Range<u64>) -> Self {
        Self { directory, stream, indexes, held: Vec::with_capacity(HELD) }
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    /// The number of the first one.
    pub(crate) fn first(&self) -> u64 {
        self.indexes.start
    }

    /// The number behind that of the last one.
    pub(crate) fn end(&self) -> u64 {
        self.indexes.end
    }

    /// Opens one, if it is not open.
    pub(crate) fn open(&mut self, index: u64) -> Result<Segment> {
        if let Some(held) = self.held.iter().find(|held| held.index == index) {
            return Ok(held.clone());
        }
        let device = self.directory.open(&segment_name(self.stream, index))?;
        if self.held.len() == HELD {
            self.held.remove(0);
        }
        self.held.push(Segment { index, device });
        Ok(self.held[self.held.len() - 1].clone())
    }

    /// The device of one.
    pub(crate) fn device(&mut self, index: u64) -> Result<Arc<dyn Device>> {
        Ok(self.open(index)?.device)
    }

    /// Bytes of all of them.
    pub(crate) fn capacity(&mut self) -> Result<u64> {
        self.indexes.clone().map(|index| self.device(index).map(|device| device.len())).sum()
    }
}
