//! Recovery: which records survived, and a log that can be appended to again.
//!
//! One pass over the medium: of each stream, [`chunks`] finds those that are valid and [`records`] what is in them;
//! [`judge`] says what of it is kept. There are two ways to go: [`mod@merge`] brings all records into LSN order, one by
//! one; [`parallel`] takes them as they come, with several threads, and keeps the same. [`tail`] then judges how each
//! stream ended (cleanly, torn by a power cut, or damaged) and makes the end blank, so that the next recovery can judge
//! again.

mod chunks;
mod judge;
mod merge;
mod parallel;
mod reader;
mod records;
mod segments;
mod tail;
#[cfg(test)]
mod tests;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use ishigaki_base::{Generation, Lsn, Position, StreamId};
use ishigaki_device::Directory;

pub(crate) use judge::Keeping;
pub(crate) use merge::{Merge, Merged, merge};
pub(crate) use parallel::recover as recover_in_parallel;
pub use parallel::{Progress, Sink};
pub(crate) use reader::StreamReader;
use segments::Segments;
pub(crate) use tail::{End, Fit, Tail};

use crate::format::{Control, Kind, parse_segment_name};
use crate::segment::Pen;
use crate::space::{Need, Pool, Spares};
use crate::{Error, Result, Start};

/// What takes the records that survived, in LSN order.
pub type Replay<'a> =
    &'a mut dyn FnMut(Position, &[u8]) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// From where the log was needed; what it still held before was passed over.
    pub start: Start,
    /// Records replayed.
    pub records: u64,
    /// Bytes of chunks read.
    pub bytes: u64,
    /// Records found that were not kept. None of them was ever acknowledged.
    pub dropped: u64,
    /// The last LSN kept, of a record that was passed over where there is none behind; [`Lsn::ZERO`] in a new log.
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

impl Recovered {
    /// Makes every stream's end durable and blank behind it. What is not needed for that goes to the spares.
    pub(crate) fn settle(
        &mut self,
        directory: &dyn Directory,
        control: &Control,
        fit: Fit,
        spares: &mut Spares,
    ) -> Result<()> {
        let clean = control.clean.is_some();
        self.tails.iter_mut().try_for_each(|tail| tail.settle(directory, clean, fit, spares))
    }
}

/// Replays what survived from `start` on.
pub(crate) fn recover(
    directory: &dyn Directory,
    control: &Control,
    start: Start,
    replay: Replay<'_>,
) -> Result<Recovered> {
    let mut readers = open_readers(directory, control, start)?;
    let Merged { next, cut, records, dropped } =
        merge(&mut readers, control, start, |position, kind, payload| match kind {
            Kind::Filler => Ok(()),
            Kind::Payload => {
                let lsn = position.lsn();
                replay(position, payload).map_err(|cause| Error::Replay { lsn, cause: cause.into() })
            }
        })?;
    let report = Recovery {
        start,
        records,
        bytes: readers.iter().map(StreamReader::bytes).sum(),
        dropped,
        cut,
        generation: control.generation,
        streams: readers.len() as u16,
        clean: control.clean.is_some(),
    };
    let tails = readers.into_iter().map(StreamReader::into_tail).collect::<Result<_>>()?;
    Ok(Recovered { next, tails, report })
}

/// One stream of a directory.
#[derive(Clone, Debug)]
pub(crate) struct StreamSegments {
    stream: StreamId,
    indexes: Range<u64>,
}

impl StreamSegments {
    /// The segments, each to be opened when it is needed.
    pub(crate) fn open<'a>(&self, directory: &'a dyn Directory) -> Segments<'a> {
        Segments::new(directory, self.stream, self.indexes.clone())
    }
}

/// The streams of a directory, by number. Of a log that was trimmed the first segments may be gone.
pub(crate) fn list_streams(directory: &dyn Directory, control: &Control) -> Result<Vec<StreamSegments>> {
    let mut streams: BTreeMap<StreamId, BTreeSet<u64>> = BTreeMap::new();
    for name in directory.list()? {
        if let Some((stream, segment)) = parse_segment_name(&name) {
            streams.entry(stream).or_default().insert(segment);
        }
    }
    let check = |(stream, segments): (StreamId, BTreeSet<u64>)| {
        let was_trimmed = control.start > Start::default();
        let first = segments.first().filter(|_| was_trimmed).map_or(0, |&first| first);
        if let Some(missing) =
            (first..).zip(&segments).find_map(|(expected, &found)| (found != expected).then_some(expected))
        {
            return Err(Error::corrupt(stream, format!("its segment {missing} is missing")));
        }
        Ok(StreamSegments { stream, indexes: first..first + segments.len() as u64 })
    };
    streams.into_iter().map(check).collect()
}

/// The streams of a directory, by number, each with a reader that gives records from `start` on.
pub(crate) fn open_readers<'a>(
    directory: &'a dyn Directory,
    control: &Control,
    start: Start,
) -> Result<Vec<StreamReader<'a>>> {
    let streams = list_streams(directory, control)?;
    Ok(streams.iter().map(|stream| StreamReader::new(control, start, stream.open(directory))).collect())
}

/// Where to append to a stream: where it ended, or in a new one. With the index of the segment to make next.
pub(crate) fn resume(pool: &Arc<Pool>, stream: StreamId, tail: Option<&Tail>, fit: Fit) -> Result<(Pen, u64)> {
    let (mut segments, offset, sequence, mut next) = tail.map_or((Vec::new(), 0, 0, 0), |tail| tail.go_on(fit));
    if segments.is_empty() {
        segments.push(pool.take(stream, next, Need::Append)?);
        next += 1;
    }
    Ok((Pen::new(segments.into(), offset, sequence, pool.clone()), next))
}
