//! One stream, read stretch by stretch.

use std::sync::Arc;

use ishigaki_device::Device;

use super::Progress;
use super::batch::Batch;
use crate::recovery::chunks::ChunkReader;
use crate::recovery::records::RecordParser;
use crate::recovery::segments::Segments;
use crate::recovery::tail::{Place, Tail};
use crate::recovery::window::{Stretch, WINDOW};
use crate::{Result, Start};

/// Goes over a stream's chunks and notes their records.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    pub(super) chunks: ChunkReader<'a>,
    records: RecordParser,
    /// Bytes of the whole stream.
    capacity: u64,
    /// Bytes that the progress knows of.
    told: u64,
    /// Where the stream is read next.
    wants: Place,
}

/// What one turn has found.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) batch: Batch,
    /// The stream has ended.
    pub(super) is_over: bool,
    /// Where the stream is read next.
    pub(super) wants: Place,
}

impl<'a> Lane<'a> {
    pub(super) fn new(mut chunks: ChunkReader<'a>, start: Start, progress: &Progress) -> Result<Self> {
        let capacity = chunks.segments().capacity()?;
        progress.expect(capacity);
        let (records, wants) = (RecordParser::new(chunks.segments(), start), chunks.place());
        Ok(Self { chunks, records, capacity, told: 0, wants })
    }

    /// Goes over one stretch of the stream, which may have been read `ahead`.
    pub(super) fn walk(&mut self, ahead: Option<Stretch>, progress: &Progress) -> Result<Walked> {
        if let Some(ahead) = ahead {
            self.chunks.window().supply(self.wants, ahead);
        }
        let mut batch = Batch::new(self.chunks.stream());
        let mut is_over = true;
        while let Some(chunk) = self.chunks.next()? {
            let (passage, mut rest) = self.records.enter(&chunk)?;
            batch.enter(passage, self.chunks.window().share());
            while let Some(record) = self.records.parse(self.chunks.window_bytes(), &mut rest)? {
                batch.push(record);
            }
            if !self.chunks.next_is_here() {
                is_over = false;
                break;
            }
        }
        let reached = if is_over { self.capacity } else { self.chunks.distance() };
        progress.advance(reached.saturating_sub(self.told));
        self.told = reached;
        self.wants = self.chunks.reads_next()?;
        Ok(Walked { batch, is_over, wants: self.wants })
    }

    /// How the stream ended, once it has.
    pub(super) fn into_tail(self) -> Result<Tail> {
        self.chunks.into_tail(self.records.last_records())
    }
}

/// Reads ahead of a stream's lane.
#[derive(Debug)]
pub(super) struct Feed<'a> {
    segments: Segments<'a>,
    next: Place,
}

impl<'a> Feed<'a> {
    pub(super) fn new(segments: Segments<'a>) -> Self {
        Self { next: Place { segment: segments.first(), offset: 0 }, segments }
    }

    /// What is to be read next. Behind the last segment there is nothing.
    pub(super) fn next(&self) -> Place {
        self.next
    }

    pub(super) fn is_over(&self) -> bool {
        self.next.segment >= self.segments.end()
    }

    /// The next stretch to read, which is then its caller's to read; `None` behind the last segment.
    pub(super) fn reserve(&mut self) -> Result<Option<(Place, Arc<dyn Device>)>> {
        if self.is_over() {
            return Ok(None);
        }
        let (place, device) = (self.next, self.segments.device(self.next.segment)?);
        self.next.offset += WINDOW as u64;
        if self.next.offset >= device.len() {
            self.next = Place { segment: place.segment + 1, offset: 0 };
        }
        Ok(Some((place, device)))
    }

    /// The lane needs nothing before that place.
    pub(super) fn skip_to(&mut self, place: Place) {
        self.next = self.next.max(place);
    }
}
