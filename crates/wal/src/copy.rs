//! A copy of a log, also of one that its owner appends to meanwhile.
//!
//! ```text
//!  first pass    each stream up to its last whole chunk; W is the largest watermark that any of these chunks notes
//!  second pass   each stream goes on, and stops at the first chunk that notes a watermark behind W
//!  at the end    the control block is as it was, and every segment that was read still has its name
//! ```
//!
//! The streams are read one after the other, so the first pass sees them at different moments: a chunk of one stream may say
//! that a record of another is durable which the pass no longer met. Such a record was on the medium when that chunk was
//! written, so the second pass finds it. The second pass takes no chunk that knows more than W, so it needs no third one. No
//! record up to W lies behind the first chunk that notes more: that record would have been durable before it was written.
//!
//! What was durable before the copy began is therefore in the copy, and the copy is what a crash at some moment during the
//! copying could have left. Chunks are copied whole and checked; recovery of the copy cuts it as it cuts any log.
//!
//! A trim may take segments away meanwhile. It changes the control block and names first, and only then the bytes; so the
//! look at the end notices, and the caller begins again ([`Copied::Overtaken`]).

mod ink;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ishigaki_base::{LogId, Lsn, StreamId, crc32c};
use ishigaki_device::{Directory, Error as DeviceError, SECTOR};

use crate::format::{CHUNK_HEADER, CONTROL, ChunkHeader, Control, parse_segment_name, segment_name};
use crate::rescue::Sheet;
use crate::{Error, Progress, Result, Start, control, inspect};
use ink::Ink;

/// How often, and after how long, an end is looked at again where a write may be under way.
const LOOKS: usize = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// What came of copying a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The copy is whole and durable.
    Whole {
        /// The log's identity.
        log: LogId,
        /// From where on the copy has the log.
        start: Start,
        /// Bytes of chunks.
        bytes: u64,
        /// Records that opening the copy gives.
        records: u64,
        /// The last LSN of the copy.
        end: Lsn,
    },
    /// The log was trimmed or opened anew meanwhile; what was copied is of no use.
    Overtaken,
}

/// Copies the log of a directory into another one, which has no log. `is_in_use` says that another process, or this one, may
/// append to it meanwhile. `progress` counts the bytes of the segments.
///
/// # Errors
///
/// [`Error::Corrupt`] and [`Error::Missing`] if the log is damaged: a copy would be, too. [`Error::Device`] where a medium
/// fails.
pub fn copy(from: &dyn Directory, to: &dyn Directory, is_in_use: bool, progress: &Progress) -> Result<Copied> {
    let control = control::read(from.open(CONTROL)?.as_ref())?;
    if !is_in_use && let Some(problem) = inspect(from)?.problem {
        return Err(problem);
    }
    match copy_streams(from, to, &control, is_in_use, progress)? {
        Some(bytes) if !is_in_use || is_unchanged(from, to, &control)? => {
            control::make(to, &control)?;
            to.sync()?;
            let copied = inspect(to)?;
            if let Some(problem) = copied.problem {
                return Err(problem);
            }
            let (records, end) = (copied.records, copied.cut);
            Ok(Copied::Whole { log: control.log, start: control.start, bytes, records, end })
        }
        _ => Ok(Copied::Overtaken),
    }
}

/// Both passes; the bytes of all chunks, or nothing if a segment went away.
fn copy_streams(
    from: &dyn Directory,
    to: &dyn Directory,
    control: &Control,
    is_in_use: bool,
    progress: &Progress,
) -> Result<Option<u64>> {
    let mut streams: Vec<_> = segments(from)?.keys().map(|&stream| StreamCopy::new(stream, control)).collect();
    let mut known = Lsn::ZERO;
    for stream in &mut streams {
        match stream.go_on(from, to, None, progress)? {
            Stop::Gone => return Ok(None),
            Stop::Cut | Stop::End => known = known.max(stream.watermark),
        }
    }
    for stream in streams.iter_mut().filter(|_| is_in_use) {
        for look in 1.. {
            match stream.go_on(from, to, Some(known), progress)? {
                Stop::Gone => return Ok(None),
                Stop::Cut => break,
                Stop::End if stream.ends(from)? => break,
                Stop::End if look == LOOKS => {
                    let (index, offset) = (stream.index, stream.offset);
                    let what = format!("there is something behind its end, segment {index}, byte {offset}");
                    return Err(Error::corrupt(stream.stream, what));
                }
                // The owner may be writing there.
                Stop::End => std::thread::sleep(PAUSE),
            }
        }
    }
    let mut bytes = 0;
    for stream in streams {
        bytes += stream.bytes;
        stream.finish()?;
    }
    Ok(Some(bytes))
}

/// Whether all that was copied is still where it was read.
fn is_unchanged(from: &dyn Directory, to: &dyn Directory, control: &Control) -> Result<bool> {
    if control::read(from.open(CONTROL)?.as_ref())? != *control {
        return Ok(false);
    }
    let (there, copied) = (segments(from)?, segments(to)?);
    let has = |(stream, indexes): (&StreamId, &BTreeSet<u64>)| {
        there.get(stream).is_some_and(|there| indexes.is_subset(there))
    };
    Ok(copied.iter().all(has))
}

/// The numbers of each stream's segments.
fn segments(directory: &dyn Directory) -> Result<BTreeMap<StreamId, BTreeSet<u64>>> {
    let mut streams: BTreeMap<StreamId, BTreeSet<u64>> = BTreeMap::new();
    for (stream, index) in directory.list()?.iter().filter_map(|name| parse_segment_name(name)) {
        streams.entry(stream).or_default().insert(index);
    }
    Ok(streams)
}

/// Why a stream goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The next chunk knows more than it may.
    Cut,
    /// There is no whole chunk.
    End,
    /// A segment is not there any more.
    Gone,
}

/// A stream while it is copied.
#[derive(Debug)]
struct StreamCopy {
    stream: StreamId,
    control: Control,
    /// Where the next chunk lies.
    index: u64,
    offset: u64,
    /// Its sequence number, once one is known.
    sequence: Option<u64>,
    /// The largest watermark that a chunk of the newest generation has noted.
    watermark: Lsn,
    bytes: u64,
    ink: Option<Ink>,
}

impl StreamCopy {
    fn new(stream: StreamId, control: &Control) -> Self {
        let (watermark, control) = (Lsn::ZERO, *control);
        Self { stream, control, index: 0, offset: 0, sequence: None, watermark, bytes: 0, ink: None }
    }

    /// Copies whole chunks, up to one that notes a watermark behind `until`.
    fn go_on(
        &mut self,
        from: &dyn Directory,
        to: &dyn Directory,
        until: Option<Lsn>,
        progress: &Progress,
    ) -> Result<Stop> {
        let indexes = segments(from)?.remove(&self.stream).unwrap_or_default();
        if self.ink.is_none() {
            let Some(&first) = indexes.first() else { return Ok(Stop::End) };
            self.index = first;
        }
        loop {
            let device = match from.open(&segment_name(self.stream, self.index)) {
                Err(DeviceError::NotFound { .. }) => return Ok(Stop::Gone),
                opened => opened?,
            };
            if self.ink.is_none() {
                let name = segment_name(self.stream, self.index);
                self.ink = Some(Ink::new(to.create(&name, device.len())?));
                progress.expect(device.len());
            }
            let mut sheet = Sheet::of(device.as_ref());
            while let Some(header) = self.chunk(&mut sheet, self.offset) {
                let knows = if header.generation == self.control.generation { header.watermark } else { Lsn::ZERO };
                if until.is_some_and(|until| knows > until) {
                    return Ok(Stop::Cut);
                }
                let length = header.length();
                let (Some(ink), Some(bytes)) = (&mut self.ink, sheet.bytes(self.offset, length)) else {
                    return Ok(Stop::End);
                };
                ink.add(bytes)?;
                self.watermark = self.watermark.max(knows);
                self.sequence = Some(header.sequence + 1);
                self.offset += length as u64;
                self.bytes += length as u64;
                progress.advance(length as u64);
            }
            // The rest of a segment is unused where the next chunks did not fit.
            let next = self.index + 1;
            let is_next = indexes.contains(&next) && self.begins(from, next)?;
            if !is_next {
                return Ok(Stop::End);
            }
            progress.advance(device.len().saturating_sub(self.offset));
            if let Some(ink) = self.ink.take() {
                ink.finish()?;
            }
            (self.index, self.offset) = (next, 0);
        }
    }

    /// Whether the stream goes on in that segment.
    fn begins(&self, from: &dyn Directory, index: u64) -> Result<bool> {
        match from.open(&segment_name(self.stream, index)) {
            Err(DeviceError::NotFound { .. }) => Ok(false),
            opened => Ok(self.chunk(&mut Sheet::of(opened?.as_ref()), 0).is_some()),
        }
    }

    /// The next chunk, if it is there and whole.
    fn chunk(&self, sheet: &mut Sheet<'_>, offset: u64) -> Option<ChunkHeader> {
        let header = ChunkHeader::decode(sheet.bytes(offset, SECTOR)?).ok()?;
        let fits = header.log == self.control.log
            && header.stream == self.stream
            && header.generation <= self.control.generation
            && self.sequence.is_none_or(|sequence| sequence == header.sequence);
        let bytes = sheet.bytes(offset, header.length()).filter(|_| fits)?;
        let payload = &bytes[CHUNK_HEADER..CHUNK_HEADER + header.payload as usize];
        (crc32c(payload) == header.payload_crc).then_some(header)
    }

    /// Whether nothing was written behind the place where it stands.
    fn ends(&self, from: &dyn Directory) -> Result<bool> {
        let indexes = segments(from)?.remove(&self.stream).unwrap_or_default();
        for &index in indexes.range(self.index..) {
            let device = match from.open(&segment_name(self.stream, index)) {
                Err(DeviceError::NotFound { .. }) => return Ok(true),
                opened => opened?,
            };
            let mut sheet = Sheet::of(device.as_ref());
            let mut offset = if index == self.index { self.offset } else { 0 };
            while offset < device.len() {
                let is_blank = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
                if !sheet.bytes(offset, SECTOR).is_some_and(is_blank) {
                    return Ok(false);
                }
                offset += SECTOR as u64;
            }
        }
        Ok(true)
    }

    fn finish(self) -> Result<()> {
        self.ink.map_or(Ok(()), Ink::finish)
    }
}
