//! What can go wrong with a page file.

use ishigaki_base::{ByteSize, ErrorKind};

/// The result of asking something of a page file.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the file's name in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The medium failed, is full, or does not have what was asked for.
    #[error(transparent)]
    Device(#[from] ishigaki_device::Error),
    /// There is no page file of that name.
    #[error("{file}: there is no such page file")]
    NotFound {
        /// The file.
        file: String,
    },
    /// A page file of that name is there already.
    #[error("{file}: a page file of that name is there already")]
    AlreadyExists {
        /// The file.
        file: String,
    },
    /// Stored bytes are not what was written.
    #[error(
        "{file}, {part} is damaged: {reason}; `ishigaki salvage DIR --to DIR2` gets the rows of all other pages out of the database in DIR; or restore it from a copy that `ishigaki backup` has made, or load the file again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Which part of it: `the manifest`, `page 17`, ….
        part: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The manifest of another page file lies where this one's should.
    #[error(
        "{file}: its manifest `{file}.pages` is that of another page file: its identity is {found:016x}, and {known:016x} was to be there; put the file's own manifest back, or restore the file from a copy that `ishigaki backup` has made. Where another file was put there on purpose, DROP TABLE and CREATE TABLE … WITH (…, existing = true) use it"
    )]
    Foreign {
        /// The file.
        file: String,
        /// The identity in the manifest.
        found: u64,
        /// The one that was to be there.
        known: u64,
    },
    /// The manifest of the file as it was before, where later appends are known of.
    #[error(
        "{file}: its manifest `{file}.pages` is an older copy: it has {found} of at least {known} appends; the pages of the later ones stay where they are: put the newest manifest back, or restore the file from a copy that `ishigaki backup` has made; `ishigaki salvage DIR --to DIR2` gets the rows of the older ones out of the database in DIR"
    )]
    Outdated {
        /// The file.
        file: String,
        /// The appends in the manifest.
        found: u64,
        /// Those that are known of.
        known: u64,
    },
    /// A newer version of the format.
    #[error("{file} has version {version} of the format, and this program reads version 1; use a newer program")]
    Version {
        /// The file.
        file: String,
        /// The version that it has.
        version: u8,
    },
    /// A page file can not hold a column of that type.
    #[error(
        "column {column}: a page file can not hold {data_type}; cast it to a type that it can, as listed in docs/format/page.md"
    )]
    Unsupported {
        /// The column.
        column: String,
        /// Its type.
        data_type: String,
    },
    /// A row takes more than a page.
    #[error(
        "{file}: row {row} of what is appended takes {needed} and a page has {page}; load the file again with larger pages (1 MiB at most), or shorten the values"
    )]
    RowTooLarge {
        /// The file.
        file: String,
        /// The row, counted from 0 since the append began.
        row: u64,
        /// What it takes.
        needed: ByteSize,
        /// What a page has.
        page: ByteSize,
    },
    /// A request that can not be right.
    #[error("{file}: {reason}")]
    Invalid {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another writer appended to the file since this one opened it.
    #[error("{file}: another writer has appended to it meanwhile; nothing was appended now; open it for writing again")]
    Overtaken {
        /// The file.
        file: String,
    },
    /// An earlier append failed at its very end.
    #[error(
        "{file}: an append failed while it became current, and may be there or not; open it for writing again, which settles it, and look"
    )]
    Closed {
        /// The file.
        file: String,
    },
}

impl Error {
    /// Another writer has the file now; it is free when that one has ended its append.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Device(ishigaki_device::Error::Locked { .. }))
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Device(error) => error.kind(),
            Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::Unsupported { .. }
            | Self::RowTooLarge { .. }
            | Self::Invalid { .. } => ErrorKind::Invalid,
            Self::Damaged { .. } | Self::Foreign { .. } | Self::Outdated { .. } | Self::Version { .. } => {
                ErrorKind::Corrupt
            }
            Self::Overtaken { .. } => ErrorKind::Conflict,
            Self::Closed { .. } => ErrorKind::Closed,
        }
    }
}

/// Why bytes are refused, before it is known whose they are.
pub(crate) type Refusal = &'static str;
