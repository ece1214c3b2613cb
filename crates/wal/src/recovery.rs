//! Recovery: which records survived, and a log that can be appended to again.
//!
//! One pass over the medium: of each stream, [`chunks`] finds those that are valid and [`records`] what is in them;
//! [`judge`] says what of it is kept. There are two ways to go: [`merge`] brings all records into LSN order, one by one;
//! [`parallel`] takes them as they come, with several threads, and keeps the same. [`tail`] then judges how each stream
//! ended (cleanly, torn by a power cut, or damaged) and makes the end blank, so that the next recovery can judge again.

mod chunks;
mod judge;
mod merge;
mod parallel;
mod reader;
mod records;
mod segments;
mod tail;
mod window;

use std::collections::{BTreeMap, BTreeSet};

use ishigaki_base::{Generation, Lsn, Position, StreamId};
use ishigaki_device::Directory;

pub(crate) use merge::{Merge, Merged, merge};
pub(crate) use parallel::recover as recover_in_parallel;
pub use parallel::{Progress, Sink};
pub(crate) use reader::StreamReader;
use segments::Segments;
pub(crate) use tail::{End, Tail};

use crate::format::{Control, Kind, parse_segment_name};
use crate::segment::{Pen, Segment};
use crate::stream::State;
use crate::{Error, Result, Settings};

/// What takes the records that survived, in LSN order.
pub type Replay<'a> =
    &'a mut dyn FnMut(Position, &[u8]) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Records replayed.
    pub records: u64,
    /// Bytes of chunks read.
    pub bytes: u64,
    /// Records found that were not kept. None of them was ever acknowledged.
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
pub(crate) fn recover(
    directory: &dyn Directory,
    control: &Control,
    chunk_limit: usize,
    replay: Replay<'_>,
) -> Result<Recovered> {
    let mut readers = open_readers(directory, control)?;
    let Merged { next, cut, records, dropped } = merge(&mut readers, control, |position, kind, payload| match kind {
        Kind::Filler => Ok(()),
        Kind::Payload => {
            let lsn = position.lsn();
            replay(position, payload).map_err(|cause| Error::Replay { lsn, cause: cause.into() })
        }
    })?;
    let report = Recovery {
        records,
        bytes: readers.iter().map(StreamReader::bytes).sum(),
        dropped,
        cut,
        generation: control.generation,
        streams: readers.len() as u16,
        clean: control.clean.is_some(),
    };
    let mut tails: Vec<Tail> = readers.into_iter().map(StreamReader::into_tail).collect::<Result<_>>()?;
    for tail in &mut tails {
        tail.settle(directory, control.clean.is_some(), chunk_limit)?;
    }
    Ok(Recovered { next, tails, report })
}

/// One stream of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamSegments {
    stream: StreamId,
    /// How many segments it has.
    count: u64,
}

impl StreamSegments {
    /// The segments, each to be opened when it is needed.
    pub(crate) fn open<'a>(&self, directory: &'a dyn Directory) -> Segments<'a> {
        Segments::new(directory, self.stream, self.count)
    }
}

/// The streams of a directory, by number.
pub(crate) fn list_streams(directory: &dyn Directory) -> Result<Vec<StreamSegments>> {
    let mut streams: BTreeMap<StreamId, BTreeSet<u64>> = BTreeMap::new();
    for name in directory.list()? {
        if let Some((stream, segment)) = parse_segment_name(&name) {
            streams.entry(stream).or_default().insert(segment);
        }
    }
    let check = |(stream, segments): (StreamId, BTreeSet<u64>)| {
        if let Some(missing) =
            (0..).zip(&segments).find_map(|(expected, &found)| (found != expected).then_some(expected))
        {
            return Err(Error::corrupt(stream, format!("its segment {missing} is missing")));
        }
        Ok(StreamSegments { stream, count: segments.len() as u64 })
    };
    streams.into_iter().map(check).collect()
}

/// The streams of a directory, by number, each with a reader at its beginning.
pub(crate) fn open_readers<'a>(directory: &'a dyn Directory, control: &Control) -> Result<Vec<StreamReader<'a>>> {
    let streams = list_streams(directory)?;
    Ok(streams.iter().map(|stream| StreamReader::new(control, stream.open(directory))).collect())
}

/// A stream to append to: where it ended, or a new one. `first` is the first LSN that will be drawn.
pub(crate) fn resume(
    directory: &dyn Directory,
    stream: StreamId,
    tail: Option<&Tail>,
    settings: &Settings,
    first: Lsn,
) -> Result<State> {
    let chunk_limit = settings.chunk_limit();
    let (mut segments, offset, sequence, mut next) = tail.map_or((Vec::new(), 0, 0, 0), |tail| tail.go_on(chunk_limit));
    if segments.is_empty() {
        segments.push(Segment::create(directory, stream, next, settings.segment.0)?);
        next += 1;
    }
    Ok(State::new(stream, Pen::new(segments.into(), offset, sequence), next, chunk_limit, first))
}
