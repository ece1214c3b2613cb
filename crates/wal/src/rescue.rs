//! What a damaged log still holds: every damage with its place, and every record that can be read around it.
//!
//! ```text
//!  survey   every sector of every segment ─▶ whole chunks, damaged stretches, missing segments
//!  rescue   whole chunks ─▶ records of each stream, with holes between them ─▶ merged by LSN, judged ─▶ the caller
//! ```
//!
//! [`Log::open`](crate::Log::open) refuses a log with one damaged byte. This module is for the way out of that: it reads on
//! behind a damage, at the next chunk that is whole. Nothing is written. A log that recovery accepts is given record by
//! record exactly as recovery gives it; of a damaged one the caller gets what the rules of [`recovery`](crate::recovery)
//! would keep if a record that may lie in a hole had been there ([`verdict`]).
//!
//! Parts: [`scan`] finds the chunks of one stream, [`records`] takes the records out of them, [`verdict`] decides about each.

mod records;
mod scan;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use ishigaki_base::{Generation, LogId, Lsn, Position, StreamId};
use ishigaki_device::{Directory, SECTOR};

use crate::format::{CONTROL, ChunkHeader, Control, Kind, parse_segment_name, parse_spare_name, segment_name};
use crate::{CommitRule, Error, Progress, Replay, Result, Start, control, inspect};
use records::StreamRecords;
pub(crate) use scan::Sheet;
use scan::{Flaw, Scanned};
use verdict::Verdict;

/// A place of the log where the bytes are not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The name of the device in the log's directory.
    pub file: String,
    /// Where in it the damage begins, in bytes; `None` where the whole file is meant.
    pub offset: Option<u64>,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{}, byte {offset}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// A log that was read from end to end.
#[derive(Debug)]
pub struct Survey {
    log: Option<LogId>,
    control: Option<Control>,
    streams: Vec<Scanned>,
    damages: Vec<Damage>,
    end: LogEnd,
    /// What opening the log would say.
    refusal: Option<Error>,
    /// Records are missing, and the bytes do not show of which stream.
    is_vague: bool,
    /// By generation: what its chunks say of it.
    generations: BTreeMap<Generation, Traits>,
}

/// What says where a log ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// The control block: the log was closed, and this is its last LSN.
    Closed(Lsn),
    /// Only the chunks that are there, since the log was not closed. The control block is whole. What the loss of the very last
    /// ones looks like stands in `docs/format/wal.md`, under its limits.
    Open,
    /// Nothing: what should say it is missing or can not be trusted, for this reason.
    Unknown(String),
}

/// What the chunks of a generation say of it.
#[derive(Clone, Copy, Debug)]
struct Traits {
    base: Lsn,
    rule: CommitRule,
    /// Every record up to this one was durable.
    watermark: Lsn,
}

/// What [`Survey::rescue`] has given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Records given.
    pub records: u64,
    /// Records that are there and that recovery drops: none of them was ever acknowledged.
    pub dropped: u64,
    /// Records that are missing and may have been acknowledged: first and last LSN of each run.
    pub lost: Vec<(Lsn, Lsn)>,
    /// The log's end is damaged, or nothing says where it was: records behind this one may have been acknowledged, and are
    /// missing, too.
    pub lost_behind: Option<Lsn>,
    /// The largest LSN that was seen, of whatever record; the one before the start if there was none.
    pub end: Lsn,
}

impl Survey {
    /// Reads the log of a directory. `log` is the identity that it should have, where its control block can not be read.
    /// `progress` counts the bytes of the segments.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if the directory can not be listed. All else is among the [`damages`](Self::damages).
    pub fn of(directory: &dyn Directory, log: Option<LogId>, progress: &Progress) -> Result<Self> {
        let mut damages = Vec::new();
        let names = directory.list()?;
        let control = read_control(directory, &names, &mut damages);
        let mut segments: BTreeMap<StreamId, BTreeSet<u64>> = BTreeMap::new();
        for (stream, index) in names.iter().filter_map(|name| parse_segment_name(name)) {
            segments.entry(stream).or_default().insert(index);
        }
        let log = control.map(|control| control.log).or(log).or_else(|| common_log(directory, &segments));
        let was_trimmed = control.is_none_or(|control| control.start > Start::default());
        let mut streams = Vec::new();
        for (stream, indexes) in &segments {
            streams.push(Scanned::of(directory, *stream, log, indexes, was_trimmed, progress));
        }
        let is_clean = control.is_some_and(|control| control.clean.is_some());
        for stream in &mut streams {
            damages.extend(stream.damages(is_clean));
        }
        let generations = traits(&streams);
        let mut end = match control {
            Some(control) => control.clean.map_or(LogEnd::Open, LogEnd::Closed),
            None => LogEnd::Unknown(damages.first().map_or_else(|| "there is no log".to_owned(), Damage::to_string)),
        };
        if let (Some(control), Some((&newest, _))) = (control, generations.last_key_value())
            && newest > control.generation
        {
            let known = control.generation;
            let what = format!(
                "it knows generation {known}, and there are chunks of generation {newest}: it is an older copy"
            );
            let damage = Damage { file: CONTROL.to_owned(), offset: Some(0), what };
            end = LogEnd::Unknown(damage.to_string());
            damages.push(damage);
        }
        let refusal = match (control, inspect(directory)) {
            (None, _) => damages.first().map(|damage| Error::Corrupt { stream: None, what: damage.what.clone() }),
            (_, Ok(inspection)) => inspection.problem,
            (_, Err(error)) => Some(error),
        };
        let mut is_vague = false;
        if let (Some(error), true) = (&refusal, damages.is_empty()) {
            damages.extend(streams.iter().flat_map(Scanned::flaws));
            // No byte contradicts another, or only at an end: records are missing there.
            is_vague = true;
            streams.iter_mut().for_each(Scanned::doubt_ends);
            if damages.is_empty() {
                damages.push(Damage { file: "wal-*".to_owned(), offset: None, what: reason(error) });
            }
        }
        Ok(Self { log, control, streams, damages, end, refusal, is_vague, generations })
    }

    /// Whether there is a log at all, or anything of one.
    pub fn is_empty(&self) -> bool {
        self.control.is_none() && self.streams.is_empty() && self.damages.is_empty()
    }

    /// The identity, if anything says it.
    pub fn log(&self) -> Option<LogId> {
        self.log
    }

    /// From where the log says that it is needed, if it can say so.
    pub fn start(&self) -> Option<Start> {
        self.control.map(|control| control.start)
    }

    /// The last LSN, of a log that was closed cleanly and whose control block can be read.
    pub fn clean(&self) -> Option<Lsn> {
        self.control.and_then(|control| control.clean)
    }

    /// What says where the log ended, as far as the log itself can tell.
    pub fn end(&self) -> &LogEnd {
        &self.end
    }

    /// Refuses a start that the log can not have, if its control block can be read.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the log ends in an older generation than that of `start`: it is an older one.
    pub fn check_reached(&self, start: Start) -> Result<()> {
        self.control.map_or(Ok(()), |control| control.check_reached(start))
    }

    /// Every damage that was found.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// What opening the log would refuse it for.
    pub fn refusal(&self) -> Option<&Error> {
        self.refusal.as_ref()
    }

    /// Gives every record from `from` on that survives, in LSN order. See the module's description.
    ///
    /// # Errors
    ///
    /// [`Error::Replay`] with what `give` returned. A segment that can not be read any more, although the survey could, is a
    /// hole.
    pub fn rescue(&self, directory: &dyn Directory, from: Start, give: Replay<'_>) -> Result<Rescued> {
        let mut verdict = Verdict::new(self, from);
        let mut readers: Vec<_> = self.streams.iter().map(|stream| StreamRecords::new(directory, stream)).collect();
        let mut rescued = Rescued::default();
        for reader in &mut readers {
            reader.advance();
        }
        while let Some(next) =
            readers.iter().enumerate().filter_map(|(place, reader)| Some((reader.key()?, place))).min()
        {
            let (_, place) = next;
            let kept = verdict.next(&readers, place, &mut rescued);
            let reader = &mut readers[place];
            if let (true, Some(record)) = (kept, reader.head())
                && record.kind == Kind::Payload
            {
                let lsn = record.lsn;
                rescued.records += 1;
                give(Position::new(lsn, reader.stream()), &record.payload)
                    .map_err(|cause| Error::Replay { lsn, cause: cause.into() })?;
            }
            reader.advance();
        }
        verdict.finish(&readers, &mut rescued);
        Ok(rescued)
    }

    /// The first LSN of the next generation that anything is known of.
    fn base_after(&self, generation: Generation) -> Option<Lsn> {
        let next = self.generations.range(generation.next()..).next();
        let of_control = self.control.filter(|control| control.generation > generation);
        match (next, of_control) {
            (Some((&other, traits)), Some(control)) if other <= control.generation => Some(traits.base),
            (_, Some(control)) => Some(control.base),
            (Some((_, traits)), None) => Some(traits.base),
            (None, None) => None,
        }
    }
}

fn read_control(directory: &dyn Directory, names: &[String], damages: &mut Vec<Damage>) -> Option<Control> {
    let is_there = names.iter().any(|name| name == CONTROL);
    let is_of_log = |name: &String| parse_segment_name(name).is_some() || parse_spare_name(name).is_some();
    if !is_there && !names.iter().any(is_of_log) {
        return None;
    }
    let read = directory.open(CONTROL).map_err(Error::from).and_then(|device| control::find(device.as_ref()));
    match read {
        Ok(found) => {
            let damage = |(offset, what)| Damage { file: CONTROL.to_owned(), offset: Some(offset), what };
            damages.extend(found.damaged.into_iter().map(damage));
            Some(found.control)
        }
        Err(error) => {
            let what = if is_there { reason(&error) } else { "is missing".to_owned() };
            damages.push(Damage { file: CONTROL.to_owned(), offset: is_there.then_some(0), what });
            None
        }
    }
}

/// An error's words without what it names and advises.
fn reason(error: &Error) -> String {
    match error {
        Error::Corrupt { what, .. } => what.clone(),
        Error::Missing { first, last } => format!("records {first} to {last} were durable once and are missing"),
        other => other.to_string(),
    }
}

/// The log that the first chunks of most segments belong to.
fn common_log(directory: &dyn Directory, segments: &BTreeMap<StreamId, BTreeSet<u64>>) -> Option<LogId> {
    let mut votes: HashMap<LogId, usize> = HashMap::new();
    for (stream, indexes) in segments {
        for index in indexes {
            let Ok(device) = directory.open(&segment_name(*stream, *index)) else { continue };
            let mut sheet = Sheet::of(device.as_ref());
            let header = sheet.bytes(0, SECTOR).and_then(|sector| ChunkHeader::decode(sector).ok());
            if let Some(header) = header {
                *votes.entry(header.log).or_default() += 1;
            }
        }
    }
    votes.into_iter().max_by_key(|&(log, votes)| (votes, log.0)).map(|(log, _)| log)
}

fn traits(streams: &[Scanned]) -> BTreeMap<Generation, Traits> {
    let mut generations: BTreeMap<Generation, Traits> = BTreeMap::new();
    for header in streams.iter().flat_map(|stream| stream.chunks.iter().map(|chunk| &chunk.header)) {
        let new = Traits { base: header.base, rule: header.rule, watermark: header.watermark };
        let known = generations.entry(header.generation).or_insert(new);
        known.watermark = known.watermark.max(header.watermark);
    }
    generations
}

impl Flaw {
    fn damage(&self, stream: StreamId) -> Damage {
        Damage { file: segment_name(stream, self.segment), offset: self.offset, what: self.what.clone() }
    }
}
