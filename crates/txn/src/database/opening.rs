//! What opening a database reads: a checkpoint, and the log from where that begins.
//!
//! ```text
//!  current checkpoint ─ whole ─▶ load it ─▶ log from its start
//!         │ damaged or missing
//!         └─▶ the one before ─ whole, and the log still reaches back to it ─▶ load it ─▶ log from its start: repaired
//!                   │ no
//!                   └─▶ refused, for the damage of the current one
//! ```
//!
//! The one before is kept with the log since then (`checkpoint::files`), so both ways lead to the same tables: each checkpoint
//! together with the log from its start has everything that was acknowledged. Nothing of the damaged one is removed before
//! the log has been replayed.

use std::sync::Arc;

use ishigaki_base::clock::{Clock, SystemClock};
use ishigaki_base::{ErrorKind, LogId, Lsn};
use ishigaki_device::Directory;
use ishigaki_wal::{Log, Progress, Sink, Start};

use super::LoadedCheckpoint;
use super::replay::{Checkpointed, Replay};
use crate::checkpoint::{self, Before, Manifest};
use crate::memory::Memory;
use crate::table::Tables;
use crate::{Error, ProtocolKind, Result, Settings};

/// What was read.
pub(super) struct Opened {
    pub(super) memory: Arc<Memory>,
    pub(super) tables: Arc<Tables>,
    pub(super) log: Arc<Log>,
    pub(super) report: ishigaki_wal::Recovery,
    pub(super) before: Before,
    pub(super) loaded: Option<LoadedCheckpoint>,
    /// What was wrong with the current checkpoint.
    pub(super) repaired: Option<String>,
}

/// A checkpoint in memory.
struct Ground {
    memory: Arc<Memory>,
    replay: Replay,
    manifest: Option<Manifest>,
    loaded: Option<LoadedCheckpoint>,
}

/// Reads the database in `directory`, whose log lies in `of_log`. Both are locked.
pub(super) fn open(
    directory: &dyn Directory,
    of_log: Arc<dyn Directory>,
    settings: &Settings,
    progress: &Progress,
) -> Result<Opened> {
    let current = checkpoint::current(directory);
    let previous = checkpoint::previous(directory);
    let number = current.as_ref().ok().and_then(Option::as_ref).map(|manifest| manifest.number);
    let end = current.as_ref().ok().and_then(Option::as_ref).map(|manifest| (manifest.log, manifest.end));
    let first = match current {
        Ok(None) if previous.is_some() => Err(Error::damaged("`checkpoint` is missing".to_owned())),
        current => current.and_then(|manifest| Ground::load(directory, manifest, settings)),
    };
    let (ground, repaired) = match first {
        Ok(ground) => (ground, None),
        Err(error) => match fall_back(directory, of_log.as_ref(), previous.as_ref(), &error, settings) {
            Some(ground) => (ground, Some(error)),
            None => return Err(error),
        },
    };
    let manifest = ground.manifest.as_ref();
    let start = manifest.map_or_else(Start::default, |manifest| manifest.start);
    let kept = match (previous, &repaired) {
        (Some(previous), None) if can_be_kept(&previous, manifest, of_log.as_ref(), settings)? => Some(previous),
        _ => None,
    };
    let mut number = number.unwrap_or(0);
    if repaired.is_none() {
        number = number.max(checkpoint::clean_up(directory, manifest, kept.as_ref())?);
    }
    let keep = kept.as_ref().map_or(start, |previous| previous.start);
    let (log, report) = replay_log(of_log, settings, start, keep, &ground.replay, progress)?;
    // The log may have needed the space.
    let kept = kept.filter(|previous| {
        let is_whole = log.start() <= previous.start;
        if !is_whole {
            checkpoint::files::remove_previous(directory, previous.number);
        }
        is_whole
    });
    if report.start > start {
        let (trimmed, checkpoint) = (report.start, start);
        return Err(Error::damaged(format!(
            "the log was trimmed to {trimmed}, and the last checkpoint that there is begins at {checkpoint}"
        )));
    }
    let ends = manifest.map(|manifest| (manifest.log, manifest.end)).into_iter().chain(end);
    ends.into_iter().try_for_each(|(of, end)| check_log(of, end, log.id(), log.last_drawn()))?;
    let Ground { memory, replay, manifest, loaded } = ground;
    if let Some(error) = &repaired {
        tracing::warn!(
            damage = %error,
            "the checkpoint is damaged, and the one before it was opened with the log since then: nothing is missing"
        );
        number = number.max(checkpoint::clean_up(directory, manifest.as_ref(), None)?);
    }
    let replayed = replay.bytes();
    let tables = Arc::new(replay.finish(manifest.as_ref().map(|manifest| manifest.next_table))?);
    let before = Before { generation: report.generation, number, current: manifest, previous: kept, replayed };
    let repaired = repaired.map(|error| match error {
        Error::CorruptCheckpoint { what } => what,
        other => other.to_string(),
    });
    Ok(Opened { memory, tables, log, report, before, loaded, repaired })
}

impl Ground {
    fn load(directory: &dyn Directory, manifest: Option<Manifest>, settings: &Settings) -> Result<Self> {
        let memory = Memory::new(settings.memory);
        let memory = Arc::new(match settings.protocol {
            ProtocolKind::Locking => memory.with_locks(),
            ProtocolKind::TicToc => memory,
        });
        let replay = Replay::new(
            settings.log.all_streams(),
            &memory,
            manifest.as_ref().map_or(Checkpointed::NOTHING, checkpointed),
        );
        let loaded = manifest.as_ref().map(|manifest| load(directory, manifest, &replay)).transpose()?;
        Ok(Self { memory, replay, manifest, loaded })
    }
}

/// The checkpoint before the current one, which is damaged in this way; if it is whole, and the log reaches back to it.
fn fall_back(
    directory: &dyn Directory,
    log: &dyn Directory,
    previous: Option<&Manifest>,
    error: &Error,
    settings: &Settings,
) -> Option<Ground> {
    let is_damage = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unavailable | ErrorKind::Invalid);
    let previous = previous.filter(|_| is_damage)?;
    let reaches = Log::identity(log).is_ok_and(|of| of == Some(previous.log))
        && Log::beginning(log).is_ok_and(|start| start.is_some_and(|start| start <= previous.start));
    if !reaches {
        return None;
    }
    Ground::load(directory, Some(previous.clone()), settings).ok()
}

/// Whether the log reaches back to the checkpoint before the current one.
fn can_be_kept(
    previous: &Manifest,
    current: Option<&Manifest>,
    log: &dyn Directory,
    settings: &Settings,
) -> Result<bool> {
    let is_before = current.is_some_and(|current| previous.log == current.log && previous.number < current.number);
    let beginning = Log::beginning(log)?;
    Ok(settings.checkpoint.keep_previous && is_before && beginning.is_some_and(|start| start <= previous.start))
}

/// Replays the log from `start` on: with several threads, or, where the log must not have any of its own, in order in this
/// one. The log is there from `keep` on afterwards.
fn replay_log(
    directory: Arc<dyn Directory>,
    settings: &Settings,
    start: Start,
    keep: Start,
    replay: &Replay,
    progress: &Progress,
) -> Result<(Arc<Log>, ishigaki_wal::Recovery)> {
    let log = settings.log.clone();
    let opened = if log.background {
        Log::recover_keeping(directory, log, start, keep, replay, progress)
    } else {
        Log::open_keeping(directory, log, start, keep, &mut |position, payload| {
            replay.passed(position.lsn());
            replay.take(position, payload)
        })
    };
    opened.map_err(own_error)
}

/// What a checkpoint says about the log.
fn checkpointed(manifest: &Manifest) -> Checkpointed {
    Checkpointed { start: manifest.start.lsn, end: manifest.end }
}

/// Loads a checkpoint with as many threads as there are cores.
fn load(directory: &dyn Directory, manifest: &Manifest, replay: &Replay) -> Result<LoadedCheckpoint> {
    let clock = SystemClock::new();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    checkpoint::load(directory, manifest, replay, threads)?;
    let (number, rows, bytes) = (manifest.number, manifest.rows, manifest.bytes());
    Ok(LoadedCheckpoint { number, rows, bytes, elapsed: clock.now() })
}

/// Refuses a log that a checkpoint does not belong to, or that lacks what was durable when the checkpoint was made.
fn check_log(of: LogId, end: Lsn, log: LogId, last: Lsn) -> Result<()> {
    if of != log {
        return Err(Error::damaged(format!("it belongs to log {of}, and there is log {log}")));
    }
    if last < end {
        return Err(Error::damaged(format!("it was made when the log reached to {end}, which ends at {last}")));
    }
    Ok(())
}

/// What `Replay` said, if the log failed to open because of it.
fn own_error(error: ishigaki_wal::Error) -> Error {
    let own = match &error {
        ishigaki_wal::Error::Replay { cause, .. } => cause.downcast_ref::<Error>().cloned(),
        _ => None,
    };
    own.unwrap_or(Error::Log(error))
}
