//! What can go wrong in the engine.

use std::io;
use std::path::PathBuf;

use ishigaki_base::ErrorKind;

use crate::record::Damage;
use crate::source;

/// The result of the engine's work.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done. Paths are the source's, except where it says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source's object is another one than when the migration began.
    #[error(
        "{}: it changed at the source after the migration began, or was removed there; what is here stays, what is not yet here is not \
         mixed into it. Decide on it by `ishigaki migrate resolve`", .0.display()
    )]
    Conflict(PathBuf),
    /// The source's version was to be taken, and there is none.
    #[error(
        "{}: it is not at the source any more, so there is no version to take; keep what is here (`ishigaki migrate resolve --keep here`); \
         through the folder it can be removed then", .0.display()
    )]
    NoVersion(PathBuf),
    /// The source's version was to be taken, and that is something else.
    #[error(
        "{}: it is no {was} at the source any more but a {kind}, which can not take this {was}'s place; keep what is here \
         (`ishigaki migrate resolve --keep here`), or remove it through the folder then and copy what the source has", .path.display()
    )]
    OtherKind {
        /// The path.
        path: PathBuf,
        /// What it was.
        was: &'static str,
        /// What it is.
        kind: &'static str,
    },
    /// The source does not answer, and the limit is over.
    #[error("{}: the source did not answer within the limit: {message}. It is asked again at the next access", .path.display())]
    GivenUp {
        /// What was asked for.
        path: PathBuf,
        /// The source's last words.
        message: String,
    },
    /// The source refuses or garbles this object.
    #[error("{}: {error}", .path.display())]
    Source {
        /// What was asked for.
        path: PathBuf,
        /// The source's answer.
        error: source::Error,
    },
    /// The caller ended it.
    #[error("cancelled")]
    Cancelled,
    /// The destination's file system failed.
    #[error("{what} at the destination: {error}")]
    Destination {
        /// What was done.
        what: &'static str,
        /// The system's answer.
        error: io::Error,
    },
    /// The record of a stub can not be read.
    #[error("the record of inode {node} can not be read: {damage}. Run fsck on the destination, or remove the object")]
    Damaged {
        /// The inode.
        node: u64,
        /// Why.
        damage: Damage,
    },
    /// A record names a source that is not there.
    #[error(
        "inode {node} comes from source {source_number}, and there are only {known}; start with the same sources, in the same order"
    )]
    UnknownSource {
        /// The inode.
        node: u64,
        /// The number in its record.
        source_number: u32,
        /// How many there are.
        known: usize,
    },
    /// A migration can not begin in that directory.
    #[error("the destination is not empty: it holds {}; choose an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// The migration into that directory has ended; a crash had left its last step, which is done now.
    #[error(
        "the migration into this directory is finished, and nothing of it is left; clients use the directory itself now. A new migration \
         takes an empty directory"
    )]
    Ended,
    /// Files are to be copied ahead of a migration that has begun.
    #[error(
        "the migration into this directory has begun, and nothing can be copied ahead of it; `ishigaki migrate serve` goes on with it"
    )]
    Begun,
    /// What says that the migration has begun is damaged, or missing.
    #[error(
        "`.ishigaki-migrate/state` at the destination is damaged or missing, so it is not known whether clients have worked there, and nothing is changed. If they have, write it anew, \
         with the number of sources: `printf 'begun 00001\\n' > .ishigaki-migrate/state`; if the migration never began, remove the file, and `ahead` beside it"
    )]
    State,
    /// The migration was begun with more sources.
    #[error(
        "the migration has {begun} sources, and {given} are given; start with the same sources, in the same order, and new ones behind them"
    )]
    FewerSources {
        /// As it was begun.
        begun: usize,
        /// As it was opened.
        given: usize,
    },
    /// A further source can not join the migration, since something lies in its place.
    #[error(
        "the source behind {number} others can not join the migration: `{}` is there already, and what lies in it would be lost; give the source another \
         directory (`into`)", .at.display()
    )]
    Taken {
        /// The number of the source, from 0.
        number: u32,
        /// Its directory.
        at: PathBuf,
    },
    /// Something could not be copied.
    #[error("{} could not be copied: {message}. Mend that, or accept it by resolving it with `here`", .path.display())]
    LeftOut {
        /// The path at the source.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// Something is not yet here.
    #[error("{} is not yet here; let the crawler end first", .0.display())]
    Unfinished(PathBuf),
}

impl Error {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Conflict(_) => ErrorKind::Conflict,
            Self::GivenUp { .. } => ErrorKind::Unavailable,
            Self::Source { error, .. } => match error.kind {
                source::ErrorKind::Cancelled => ErrorKind::Cancelled,
                source::ErrorKind::Broken => ErrorKind::Corrupt,
                source::ErrorKind::Invalid | source::ErrorKind::Denied => ErrorKind::Invalid,
                source::ErrorKind::Gone | source::ErrorKind::Unavailable => ErrorKind::Unavailable,
            },
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Destination { error, .. } => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Exhausted,
                _ => ErrorKind::Unavailable,
            },
            Self::Damaged { .. } | Self::State => ErrorKind::Corrupt,
            Self::UnknownSource { .. }
            | Self::NotEmpty(_)
            | Self::Ended
            | Self::Begun
            | Self::FewerSources { .. }
            | Self::Taken { .. }
            | Self::LeftOut { .. }
            | Self::NoVersion(_)
            | Self::OtherKind { .. }
            | Self::Unfinished(_) => ErrorKind::Invalid,
        }
    }
}

/// Says what was done when the destination failed.
pub(super) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: &'static str) -> Result<T> {
        self.map_err(|error| Error::Destination { what, error })
    }
}
