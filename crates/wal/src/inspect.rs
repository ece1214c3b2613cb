//! A look at a log on a medium, without changing it.

use ishigaki_base::{Generation, LogId, Lsn, StreamId};
use ishigaki_device::Directory;

use crate::control;
use crate::format::{CONTROL, parse_spare_name};
use crate::recovery::{End, StreamReader, merge, open_readers};
use crate::{Error, Result, Start};

/// How often a log that changes its segments meanwhile is looked at.
const LOOKS: usize = 4;

/// What a log holds.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The log's identity.
    pub log: LogId,
    /// The newest generation; appended to by whoever has the log open.
    pub generation: Generation,
    /// The first LSN of that generation.
    pub base: Lsn,
    /// After a clean close the last LSN; `None` when the log is open or has crashed.
    pub clean: Option<Lsn>,
    /// From where the log is needed; everything before was given free.
    pub start: Start,
    /// Segments that belong to no stream and are kept to be used again.
    pub spares: usize,
    /// The streams on the medium.
    pub streams: Vec<StreamReport>,
    /// Payload records that recovery would replay.
    pub records: u64,
    /// Records that it would drop, behind the first missing LSN of their generation.
    pub dropped: u64,
    /// The last LSN that it would keep.
    pub cut: Lsn,
    /// The largest watermark noted in a chunk: what was certainly acknowledged.
    pub watermark: Lsn,
    /// What recovery would refuse to open the log for. The counts then say how far it came.
    pub problem: Option<Error>,
}

/// One stream.
#[derive(Clone, Debug)]
pub struct StreamReport {
    /// Its number.
    pub stream: StreamId,
    /// Segments on the medium, those that are still blank included.
    pub segments: usize,
    /// Bytes of all segments.
    pub capacity: u64,
    /// Bytes of all chunks, padding included.
    pub bytes: u64,
    /// What it holds, generation by generation.
    pub generations: Vec<GenerationReport>,
    /// The segment in which reading stopped.
    pub end_segment: u64,
    /// The offset in that segment at which it stopped, in bytes.
    pub end_offset: u64,
    /// Why it stopped there.
    pub end_reason: String,
}

/// A stream's part of one generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationReport {
    /// Which one.
    pub generation: Generation,
    /// Its first LSN, over all streams.
    pub base: Lsn,
    /// Valid chunks.
    pub chunks: u64,
    /// Complete records, fillers included.
    pub records: u64,
    /// The first and last LSN of those.
    pub lsns: Option<(Lsn, Lsn)>,
}

/// Reads the log of a directory as recovery would and reports, also when recovery would refuse it. Nothing is written; of
/// a log that is in use it shows some recent moment.
pub fn inspect(directory: &dyn Directory) -> Result<Inspection> {
    for _ in 1..LOOKS {
        let names = directory.list()?;
        let seen = look(directory, &names);
        let is_whole = seen.as_ref().is_ok_and(|seen| seen.problem.is_none());
        if is_whole || directory.list()? == names {
            return seen;
        }
        // A trim took segments away under our eyes.
    }
    look(directory, &directory.list()?)
}

fn look(directory: &dyn Directory, names: &[String]) -> Result<Inspection> {
    let device = directory.open(CONTROL)?;
    let control = control::read(device.as_ref())?;
    let spares = names.iter().filter(|name| parse_spare_name(name).is_some()).count();
    let mut readers = open_readers(directory, &control, control.start)?;
    let (mut records, mut cut) = (0, control.start.lsn.previous());
    let merged = merge(&mut readers, &control, control.start, |position, kind, _| {
        cut = position.lsn();
        records += u64::from(kind == crate::format::Kind::Payload);
        Ok(())
    });
    let (dropped, problem) = match merged {
        Ok(merged) => (merged.dropped, None),
        Err(error) => (0, Some(error)),
    };
    let passages = readers.iter().flat_map(StreamReader::passages);
    let watermark = passages.map(|passage| passage.watermark).max().unwrap_or_default();
    let mut problem = problem;
    let mut streams = Vec::new();
    for mut reader in readers {
        streams.push(report(&mut reader)?);
        if problem.is_none() {
            problem = reader.into_tail().err();
        }
    }
    Ok(Inspection {
        log: control.log,
        generation: control.generation,
        base: control.base,
        clean: control.clean,
        start: control.start,
        spares,
        streams,
        records,
        dropped,
        cut,
        watermark,
        problem,
    })
}

fn report(reader: &mut StreamReader<'_>) -> Result<StreamReport> {
    let segments = reader.segments();
    let (count, capacity) = ((segments.end() - segments.first()) as usize, segments.capacity()?);
    let place = reader.place();
    let generations = reader.passages().iter().map(|passage| GenerationReport {
        generation: passage.generation,
        base: passage.base,
        chunks: passage.chunks,
        records: passage.records,
        lsns: passage.lsns,
    });
    Ok(StreamReport {
        stream: reader.stream(),
        segments: count,
        capacity,
        bytes: reader.bytes(),
        generations: generations.collect(),
        end_segment: place.segment,
        end_offset: place.offset,
        end_reason: match reader.end() {
            Some(End::Blank) => "nothing was written behind".to_owned(),
            Some(End::Torn) => "the last chunk is torn: its write was cut off and never acknowledged".to_owned(),
            None => "reading stopped early".to_owned(),
        },
    })
}
