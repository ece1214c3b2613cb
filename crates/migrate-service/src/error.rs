//! What can go wrong with the service of a migration.

use std::io;
use std::path::PathBuf;

use ishigaki_base::ErrorKind;
use ishigaki_migrate::source;

/// The result of the service's work.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration file can not be read, or is no TOML of that form.
    #[error("{}: {reason}", place(.path, *.line))]
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1, where it is known.
        line: Option<usize>,
        /// What is wrong.
        reason: String,
    },
    /// A setting can not be followed.
    #[error("{}`{field}`: {reason}; {remedy}", .file.as_ref().map(|(path, line)| place(path, Some(*line)) + ": ").unwrap_or_default())]
    Setting {
        /// Where it is written, if it is from a file.
        file: Option<(PathBuf, usize)>,
        /// The setting, as the configuration file names it.
        field: &'static str,
        /// What is wrong.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A source does not answer, or refuses.
    #[error("the source {name}: {error}")]
    Source {
        /// As the configuration names it.
        name: String,
        /// The source's answer.
        error: source::Error,
    },
    /// The destination can not be read.
    #[error("{}: {cause}", .path.display())]
    Destination {
        /// What was read.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// Another process migrates into that destination, or copies ahead.
    #[error(
        "{}: another service migrates into it, serves it though its migration is finished, or `ishigaki migrate seed` copies into it; `ishigaki migrate status` asks \
         a service, `--takeover` takes its place while its migration lives, and one that is finished is ended by SIGTERM", .0.display()
    )]
    InUse(PathBuf),
    /// The migration that the destination holds is another one.
    #[error("{}: it holds a migration from {found}, and not from {wanted}; start with the same sources, in the same order; new ones stand behind them", .to.display())]
    OtherSources {
        /// The destination.
        to: PathBuf,
        /// As it was begun.
        found: String,
        /// As it is configured.
        wanted: String,
    },
    /// The crawler has not yet brought everything, or something can not be brought.
    #[error("the migration can not be finished: {0}")]
    AtWork(String),
    /// There is nothing to decide on.
    #[error("`{0}` is not in conflict; `ishigaki migrate conflicts` lists them")]
    NoConflict(String),
    /// The file in conflict is elsewhere by now.
    #[error("`{path}` is where that file was at the source; now it is `{now}`: decide on it by that path")]
    Moved {
        /// Where it was.
        path: String,
        /// Where it is.
        now: String,
    },
    /// No service answers for that destination.
    #[error("{}: no service migrates into it; `ishigaki migrate serve` starts one", .0.display())]
    NotServed(PathBuf),
    /// No migration is under way into that destination, so no service can be asked.
    #[error("{}: no migration is under way into it: it is finished, or has not begun", .0.display())]
    NoMigration(PathBuf),
    /// The control socket is root's.
    #[error("{}: only root may ask the service of a migration", .0.display())]
    Forbidden(PathBuf),
    /// A service did not answer as one does.
    #[error("{}: the service does not answer as it should: {reason}", .to.display())]
    Answer {
        /// The destination.
        to: PathBuf,
        /// What was there instead.
        reason: String,
    },
    /// The service has refused.
    #[error("{message}")]
    Refused {
        /// What can be done.
        kind: ErrorKind,
        /// Why.
        message: String,
    },
    /// Where figures were to be given.
    #[error("no metrics at {address}: {cause}; choose another port, or one of this host's addresses")]
    Metrics {
        /// The address.
        address: String,
        /// The system's answer.
        cause: io::Error,
    },
    /// One service could not take the place of another.
    #[error("{}: the service does not hand over: {reason}", .to.display())]
    HandOver {
        /// The destination.
        to: PathBuf,
        /// Why.
        reason: String,
        /// That service was not heard to the end: it may have died.
        is_torn: bool,
    },
    /// Another service has taken over in the meantime.
    #[error("{}: another service has just taken over; ask again", .0.display())]
    Replaced(PathBuf),
    /// A thread could not be started.
    #[error("a thread of the service could not be started: {0}")]
    Thread(io::Error),
    /// The engine can not go on.
    #[error(transparent)]
    Engine(#[from] ishigaki_migrate::engine::Error),
    /// The folder can not be served.
    #[error(transparent)]
    Door(#[from] ishigaki_migrate_fs::Error),
    /// The caller ended it.
    #[error("cancelled")]
    Cancelled,
}

fn place(path: &std::path::Path, line: Option<usize>) -> String {
    let line = line.map(|line| format!(":{line}")).unwrap_or_default();
    format!("{}{line}", path.display())
}

impl Error {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::File { .. }
            | Self::Setting { .. }
            | Self::OtherSources { .. }
            | Self::AtWork(_)
            | Self::NoMigration(_)
            | Self::NoConflict(_)
            | Self::Moved { .. }
            | Self::Forbidden(_) => ErrorKind::Invalid,
            Self::Source { error, .. } => match error.kind {
                source::ErrorKind::Cancelled => ErrorKind::Cancelled,
                source::ErrorKind::Broken => ErrorKind::Corrupt,
                source::ErrorKind::Invalid | source::ErrorKind::Denied => ErrorKind::Invalid,
                source::ErrorKind::Gone | source::ErrorKind::Unavailable => ErrorKind::Unavailable,
            },
            Self::Destination { .. }
            | Self::HandOver { .. }
            | Self::Metrics { .. }
            | Self::InUse(_)
            | Self::Replaced(_)
            | Self::NotServed(_)
            | Self::Answer { .. } => ErrorKind::Unavailable,
            Self::Thread(_) => ErrorKind::Exhausted,
            Self::Refused { kind, .. } => *kind,
            Self::Engine(error) => error.kind(),
            Self::Door(error) => error.kind(),
            Self::Cancelled => ErrorKind::Cancelled,
        }
    }

    /// A setting that can not be followed.
    pub(crate) fn setting(field: &'static str, reason: impl Into<String>, remedy: &'static str) -> Self {
        Self::Setting { file: None, field, reason: reason.into(), remedy }
    }

    /// The same, with the place where it is written.
    pub(crate) fn written(self, path: &std::path::Path, at: usize) -> Self {
        match self {
            Self::Setting { file: None, field, reason, remedy } => {
                Self::Setting { file: Some((path.to_owned(), at)), field, reason, remedy }
            }
            other => other,
        }
    }
}
