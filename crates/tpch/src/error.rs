//! What can keep the benchmark from giving figures.

use std::path::PathBuf;

use ishigaki_base::ErrorKind;
use ishigaki_scan::Wish;

/// The result of loading or running.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database failed.
    #[error(transparent)]
    Sql(#[from] ishigaki_sql::Error),
    /// A query failed.
    #[error("query {query}: {source}")]
    Query {
        /// Its number.
        query: u8,
        /// Why.
        source: ishigaki_sql::Error,
    },
    /// A page file can not be written.
    #[error(transparent)]
    Page(#[from] ishigaki_page::Error),
    /// A directory can not be used.
    #[error(transparent)]
    Device(#[from] ishigaki_device::Error),
    /// A storage node, or the way there, failed.
    #[error(transparent)]
    Remote(#[from] ishigaki_remote::Error),
    /// What the workloads have in common failed: a node's process, or a file of figures.
    #[error(transparent)]
    Bench(#[from] ishigaki_bench::Error),
    /// There are no data.
    #[error("{}: there are no TPC-H data in it; load them first with --load --scale 1", path.display())]
    NotLoaded {
        /// The directory.
        path: PathBuf,
    },
    /// There are data already.
    #[error("{}: there are TPC-H data of scale {scale} in it already; name another directory, or leave --load out", path.display())]
    Loaded {
        /// The directory.
        path: PathBuf,
        /// What they are.
        scale: String,
    },
    /// An answer that is not the right one.
    #[error("query {query} gives a wrong answer in placement {placement}, so no figure is given: {reason}")]
    Wrong {
        /// Its number.
        query: u8,
        /// Where it was done.
        placement: Wish,
        /// What does not fit.
        reason: String,
    },
    /// Work was to be done at the node, and was not.
    #[error(
        "query {query}: in placement {placement} the node refused {count} pieces of work, which were done here, so no figure is given; let it do work (no --no-work), and give it more --work-memory or --work-time"
    )]
    Refused {
        /// Its number.
        query: u8,
        /// Where it was to be done.
        placement: Wish,
        /// How many pieces.
        count: u64,
    },
    /// A setting makes no sense.
    #[error("{setting}: {reason}")]
    Invalid {
        /// Which one.
        setting: &'static str,
        /// Why, and what it could be.
        reason: String,
    },
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Sql(error) | Self::Query { source: error, .. } => error.kind(),
            Self::Page(error) => error.kind(),
            Self::Remote(error) => error.kind(),
            Self::Bench(error) => error.kind(),
            Self::Device(error) => error.kind(),
            Self::NotLoaded { .. } | Self::Loaded { .. } | Self::Invalid { .. } => ErrorKind::Invalid,
            Self::Refused { .. } => ErrorKind::Exhausted,
            Self::Wrong { .. } => ErrorKind::Corrupt,
        }
    }
}
