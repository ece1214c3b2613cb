//! Recovery: which records survived, and a log that can be appended to again.
//!
//! One pass over the medium: a [`reader`] per stream gives its records chunk by chunk, [`merge`] brings them into LSN
//! order and stops each generation at its first gap, and the engine above replays what comes out. [`tail`] then judges how
//! each stream ended (cleanly, torn by a power cut, or damaged) and makes the end blank, so that the next recovery can
//! judge again.

mod merge;
mod reader;
mod segments;
mod tail;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use ishigaki_base::{Generation, Lsn, Position, StreamId};
use ishigaki_device::Directory;

pub(crate) use merge::{Merged, merge};
pub(crate) use reader::StreamReader;
use segments::Segments;
pub(crate) use tail::{End, Tail};

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

/// Replays what survived and makes every stream's end durable and blank behind it.
pub(crate) fn recover(
    directory: &dyn Directory,
    control: &Control,
    start: Start,
    chunk_limit: usize,
    spares: &mut Spares,
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
        bytes: readers.iter().map(|reader| reader.chunks().bytes).sum(),
        dropped,
        cut,
        generation: control.generation,
        streams: readers.len() as u16,
        clean: control.clean.is_some(),
    };
    let mut tails: Vec<Tail> = readers.into_iter().map(StreamReader::into_tail).collect::<Result<_>>()?;
    for tail in &mut tails {
        tail.settle(directory, control.clean.is_some(), chunk_limit, spares)?;
    }
    Ok(Recovered { next, tails, report })
}

/// The streams of a directory, by number, each with a reader that gives records from `start` on. Of a log that was trimmed
/// the first segments may be gone.
pub(crate) fn open_readers<'a>(
    directory: &'a dyn Directory,
    control: &Control,
    start: Start,
) -> Result<Vec<StreamReader<'a>>> {
    let mut streams: BTreeMap<StreamId, BTreeSet<u64>> = BTreeMap::new();
    for name in directory.list()? {
        if let Some((stream, segment)) = parse_segment_name(&name) {
            streams.entry(stream).or_default().insert(segment);
        }
    }
    let reader = |(stream, segments): (StreamId, BTreeSet<u64>)| {
        let was_trimmed = control.start > Start::default();
        let first = segments.first().filter(|_| was_trimmed).map_or(0, |&first| first);
        if let Some(missing) =
            (first..).zip(&segments).find_map(|(expected, &found)| (found != expected).then_some(expected))
        {
            return Err(Error::corrupt(stream, format!("its segment {missing} is missing")));
        }
        let indexes = first..first + segments.len() as u64;
        Ok(StreamReader::new(control, start, Segments::new(directory, stream, indexes)))
    };
    streams.into_iter().map(reader).collect()
}

/// Where to append to a stream: where it ended, or in a new one. With the index of the segment to make next.
pub(crate) fn resume(
    pool: &Arc<Pool>,
    stream: StreamId,
    tail: Option<&Tail>,
    chunk_limit: usize,
) -> Result<(Pen, u64)> {
    let (mut segments, offset, sequence, mut next) = tail.map_or((Vec::new(), 0, 0, 0), |tail| tail.go_on(chunk_limit));
    if segments.is_empty() {
        segments.push(pool.take(stream, next, Need::Opening)?);
        next += 1;
    }
    Ok((Pen::new(segments.into(), offset, sequence, pool.clone()), next))
}
