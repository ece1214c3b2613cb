//! The files of a database that a command reads without opening it: where they are, and whether they are in use.

use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use ishigaki_base::ErrorKind;
use ishigaki_device::{Directory, Error as DeviceError, Place, ReadLock};
use ishigaki_remote::Anywhere;
use ishigaki_sql::Target;
use ishigaki_txn::{Damage, LogEnd, Source, is_database};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Which database.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The database: a directory, raw:DEVICE, node://HOST:PORT/DIR or another place
    #[arg(value_name = "PLACE")]
    place: Anywhere,

    /// Where its log is, if not beside its tables. Without it the place that the database remembers
    #[arg(long, value_name = "PLACE")]
    log_at: Option<Anywhere>,
}

/// The files of a database.
pub(super) struct Files {
    pub(super) name: String,
    tables: Arc<dyn Directory>,
    log: Arc<dyn Directory>,
    /// Another process has it open.
    pub(super) is_in_use: bool,
    /// No other process opens it meanwhile, as far as there are locks to be had.
    _locks: Vec<ReadLock>,
}

impl Which {
    /// Finds the files; nothing is made or changed.
    pub(super) fn find(&self) -> Result<Files, Failure> {
        if let Some(log) = &self.log_at {
            check_apart(&self.place, log)?;
        }
        let (tables, name) = there(&self.place)?;
        let failed = |error: ishigaki_txn::Error| {
            Failure::of(error.kind(), format_args!("{name}: {error}")).without_hint_if(error.names_remedy())
        };
        let (mut locks, mut is_in_use) = (Vec::new(), false);
        match tables.lock_to_read() {
            Ok(lock) => locks.push(noted(lock, &name)),
            Err(DeviceError::Locked { .. }) => is_in_use = true,
            Err(error) => return Err(failed(error.into())),
        }
        if !is_database(tables.as_ref()).map_err(failed)? {
            return Err(Failure::invalid(format!("{name}: there is no database in this directory")));
        }
        let log = match (&self.log_at, ishigaki_txn::log_place(tables.as_ref())) {
            (Some(place), _) => Some(open(place)?),
            (None, Ok(None)) => None,
            (None, Ok(Some(place))) => {
                let place: Anywhere = place.parse().map_err(|error| Failure::invalid(format!("{name}: {error}")))?;
                Some(open(&place)?)
            }
            (None, Err(error)) => return Err(failed(error).with_hint("`--log-at PLACE` says where its log is")),
        };
        if let Some(log) = log.as_ref().filter(|_| !is_in_use) {
            let lock = log.lock_to_read().map_err(|error| failed(error.into()))?;
            locks.push(noted(lock, &format!("the log of {name}")));
        }
        let log = log.unwrap_or_else(|| tables.clone());
        Ok(Files { name, tables, log, is_in_use, _locks: locks })
    }

    /// Whether a process beside the one that has it open may read it.
    pub(super) fn is_shared(&self) -> bool {
        let is_files = |place: &Anywhere| matches!(place, Anywhere::Here(Place::File(_) | Place::Ring(_)));
        is_files(&self.place) && self.log_at.as_ref().is_none_or(is_files)
    }
}

impl Files {
    /// For those that need it to themselves.
    pub(super) fn stopped(self) -> Result<Self, Failure> {
        if !self.is_in_use {
            return Ok(self);
        }
        let message = format!("{}: another process has the database open", self.name);
        Err(Failure::of(ErrorKind::Unavailable, message)
            .with_hint("stop that process first; or make a copy by `ishigaki backup`, which may run beside it"))
    }

    pub(super) fn tables(&self) -> &dyn Directory {
        self.tables.as_ref()
    }

    pub(super) fn log(&self) -> &dyn Directory {
        self.log.as_ref()
    }

    pub(super) fn source(&self) -> Source<'_> {
        Source { tables: self.tables(), log: self.log(), is_in_use: self.is_in_use }
    }
}

/// Says on stderr what keeps others from writing where this process can not write.
fn noted(lock: ReadLock, name: &str) -> ReadLock {
    let note = match &lock {
        ReadLock::Sole(_) | ReadLock::Reader(Some(_)) => return lock,
        ReadLock::Shared(_) => {
            "nothing can be written there: other processes may read it meanwhile, and none may open it"
        }
        ReadLock::Nothing => {
            "nothing can be written there: it has no lock file, so it is read without a lock; nothing else should write \
             there meanwhile"
        }
        ReadLock::Reader(None) => {
            "it has no lock file, so it is read without a lock; no other process should open it meanwhile"
        }
    };
    // Where stderr is closed there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "note: {name}: {note}");
    lock
}

/// Refuses the place of a log that is the directory of the tables: a log beside its tables is given no place.
pub(super) fn check_apart(tables: &Anywhere, log: &Anywhere) -> Result<(), Failure> {
    let path = |place: &Anywhere| match place {
        Anywhere::Here(Place::File(path) | Place::Ring(path) | Place::Raw(path) | Place::RawRing(path)) => {
            path.canonicalize().or_else(|_| std::path::absolute(path)).ok()
        }
        _ => None,
    };
    let is_same = match (path(tables), path(log)) {
        (Some(tables), Some(log)) => tables == log,
        // Memory is another one each time.
        _ => tables == log && !matches!(tables, Anywhere::Here(_)),
    };
    if !is_same {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--log-at {log} is the directory of the tables itself; leave --log-at away for a log that lies beside its tables, \
         or give it a directory of its own"
    )))
}

/// Where a new database goes.
pub(super) fn target(path: &Path) -> Result<Target, Failure> {
    Target::folder(path).map_err(Failure::from)
}

/// One line for each damage.
pub(super) fn damage_lines<'a>(damages: impl Iterator<Item = &'a Damage>) -> String {
    lines("damaged", damages)
}

/// One line for each place that could not be read.
pub(super) fn unread_lines<'a>(unread: impl Iterator<Item = &'a Damage>) -> String {
    lines("unread", unread)
}

/// A line for each of `things`, with what happened to it in front.
fn lines<T: Display>(what: &str, things: impl Iterator<Item = T>) -> String {
    things.fold(String::new(), |mut text, thing| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{what:<8} {thing}");
        text
    })
}

pub(super) fn damage_json(damage: &Damage) -> Value {
    json!({"file": damage.file, "offset": damage.offset, "what": damage.what})
}

/// What says where the log ended, in one word: `closed`, `open` or `unknown`.
pub(super) fn log_end_json(log_end: &LogEnd) -> Value {
    match log_end {
        LogEnd::Closed(_) => json!("closed"),
        LogEnd::Open => json!("open"),
        LogEnd::Unknown(_) => json!("unknown"),
    }
}

/// The directory and its name. It is not made if it is not there.
pub(super) fn there(place: &Anywhere) -> Result<(Arc<dyn Directory>, String), Failure> {
    let name = match place {
        Anywhere::Here(Place::File(path) | Place::Ring(path)) => {
            match path.metadata() {
                Ok(found) if found.is_dir() => {}
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    return Err(Failure::of(ErrorKind::Unavailable, format_args!("{}: {error}", path.display())));
                }
                _ => return Err(Failure::invalid(format!("{}: there is no such directory", path.display()))),
            }
            path.display().to_string()
        }
        other => other.to_string(),
    };
    Ok((open(place)?, name))
}

fn open(place: &Anywhere) -> Result<Arc<dyn Directory>, Failure> {
    place.open_to_read().map_err(|error| Failure::of(error.kind(), error))
}
