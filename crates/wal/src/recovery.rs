//! Recovery: which records survived, and a log that can be appended to again.
//!
//! One pass over the medium: a [`reader`] per stream gives its records chunk by chunk, [`merge`] brings them into LSN
//! order and stops each generation at its first gap, and the engine above replays what comes out. [`tail`] then judges how
//! each stream ended (cleanly, torn by a power cut, or damaged) and makes the end blank, so that the next recovery can
//! judge again.

mod merge;
mod reader;
mod tail;

use std::collections::{BTreeMap, VecDeque};

use ishigaki_base::{Generation, Lsn, StreamId};
use ishigaki_device::Directory;

pub(crate) use merge::{Merged, merge};
pub(crate) use reader::StreamReader;
pub(crate) use tail::{End, Tail};

use crate::format::{Control, Kind, parse_segment_name};
use crate::segment::{Pen, Segment};
use crate::stream::State;
use crate::{Error, Result, Settings};

/// What takes the records that survived, in LSN order.
pub type Replay<'a> =
    &'a mut dyn FnMut(Lsn, &[u8]) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Records replayed.
    pub records: u64,
    /// Bytes of chunks read.
    pub bytes: u64,
    /// Records found beyond the first missing LSN of their generation. None of them was ever acknowledged.
    pub dropped: u64,
    /// The last LSN kept; [`Lsn::ZERO`] in a new log.
    pub cut: Lsn,
    /// The generation that was opened.
    pub generation: Generation,
    /// Streams found on the medium.
    pub streams: u16,
    /// The log had been closed, not crashed.
    pub clean: bool,
}

/// A recovered log.
pub(crate) struct Recovered {
    /// The first LSN to draw.
    pub(crate) next: Lsn,
    /// How each stream found on the medium ended.
    pub(crate) tails: Vec<Tail>,
    pub(crate) report: Recovery,
}

/// Replays what survived and makes every stream's end durable and blank behind it.
pub(crate) fn recover(directory: &dyn Directory, control: &Control, replay: Replay<'_>) -> Result<Recovered> {
    let mut readers = open_readers(directory, control)?;
    let Merged { next, records, dropped } = merge(&mut readers, control, |lsn, kind, payload| match kind {
        Kind::Filler => Ok(()),
        Kind::Payload => replay(lsn, payload).map_err(|cause| Error::Replay { lsn, cause: cause.into() }),
    })?;
    let report = Recovery {
        records,
        bytes: readers.iter().map(|reader| reader.chunks().bytes).sum(),
        dropped,
        cut: next.previous(),
        generation: control.generation,
        streams: readers.len() as u16,
        clean: control.clean.is_some(),
    };
    let tails: Vec<Tail> = readers.into_iter().map(StreamReader::into_tail).collect::<Result<_>>()?;
    for tail in &tails {
        tail.settle()?;
    }
    Ok(Recovered { next, tails, report })
}

/// The streams of a directory, by number, each with a reader at its first segment.
pub(crate) fn open_readers(directory: &dyn Directory, control: &Control) -> Result<Vec<StreamReader>> {
    let mut streams: BTreeMap<StreamId, Vec<Segment>> = BTreeMap::new();
    for name in directory.list()? {
        if let Some((stream, index)) = parse_segment_name(&name) {
            let device = directory.open(&name)?;
            streams.entry(stream).or_default().push(Segment { index, device });
        }
    }
    let reader = |(stream, segments): (StreamId, Vec<Segment>)| {
        let gap = segments.iter().zip(0..).find(|(segment, expected)| segment.index != *expected);
        match gap {
            Some((_, missing)) => Err(Error::corrupt(stream, format!("its segment {missing} is missing"))),
            None => Ok(StreamReader::new(stream, control, segments)),
        }
    };
    streams.into_iter().map(reader).collect()
}

/// A stream to append to: where it ended, or a new one.
pub(crate) fn resume(
    directory: &dyn Directory,
    stream: StreamId,
    tail: Option<&Tail>,
    settings: &Settings,
) -> Result<State> {
    let (mut segments, offset, sequence, mut next_segment) = match tail {
        Some(tail) => tail.go_on(),
        None => (VecDeque::new(), 0, 0, 0),
    };
    let chunk_limit = settings.chunk_limit();
    // A segment of an opening with larger segments takes our chunks; one with smaller segments may not.
    segments.retain(|segment| segment.device.len() / 4 >= chunk_limit as u64);
    let offset =
        if segments.front().is_some_and(|first| tail.is_some_and(|tail| tail.is_in(first))) { offset } else { 0 };
    if segments.is_empty() {
        segments.push_back(Segment::create(directory, stream, next_segment, settings.segment.0)?);
        next_segment += 1;
    }
    Ok(State::new(stream, Pen::new(segments, offset, sequence), next_segment, chunk_limit))
}
