//! One stream, record by record.

use std::ops::Range;
use std::sync::Arc;

use ishigaki_base::StreamId;

use super::chunks::ChunkReader;
use super::records::{Passage, Record, RecordParser};
use super::segments::Segments;
use super::tail::{End, Place, Tail};
use crate::format::Control;
use crate::{Result, Start};

/// Reads one stream from its first segment. Memory: one window, and a record that goes over several chunks.
#[derive(Debug)]
pub(crate) struct StreamReader<'a> {
    chunks: ChunkReader<'a>,
    records: RecordParser,
    /// What of the current chunk's payload is still to be parsed, in the window.
    rest: Range<usize>,
}

impl<'a> StreamReader<'a> {
    /// A reader of the records of these segments from `start` on.
    pub(crate) fn new(control: &Control, start: Start, segments: Segments<'a>) -> Self {
        let records = RecordParser::new(&segments, start);
        Self { chunks: ChunkReader::new(control, segments, Arc::default()), records, rest: 0..0 }
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.chunks.stream()
    }

    pub(crate) fn segments(&mut self) -> &mut Segments<'a> {
        self.chunks.segments()
    }

    /// Bytes of all chunks read so far, padding included.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.bytes()
    }

    /// What has been seen so far, by generation. The last one is that of the record it stands at.
    pub(crate) fn passages(&self) -> &[Passage] {
        self.records.passages()
    }

    /// The payload of the record it stands at.
    pub(crate) fn payload<'w>(&'w self, record: &'w Record) -> &'w [u8] {
        record.payload.bytes(self.chunks.window_bytes())
    }

    /// Where it stands.
    pub(crate) fn place(&self) -> Place {
        self.chunks.place()
    }

    /// Why the stream ended, once it has.
    pub(crate) fn end(&self) -> Option<End> {
        self.chunks.end()
    }

    /// Goes to the next complete record that does not lie before the start; `None` at the stream's end.
    pub(crate) fn advance(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some(record) = self.records.parse(self.chunks.window_bytes(), &mut self.rest)? {
                return Ok(Some(record));
            }
            let Some(chunk) = self.chunks.next()? else { return Ok(None) };
            (_, self.rest) = self.records.enter(&chunk)?;
        }
    }

    /// How the stream ended, judged with everything behind its end.
    pub(crate) fn into_tail(self) -> Result<Tail> {
        self.chunks.into_tail(self.records.last_records())
    }
}
