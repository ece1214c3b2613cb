//! Paged tables: their rows lie in page files, which are scanned fast, appended to atomically, and never changed.
//!
//! ```text
//! CREATE TABLE ── options: WITH (…) ── store: the files are made ── a row of the catalog
//! SELECT       ── store: each file as it is now, kept for the transaction ── ishigaki-scan reads
//! INSERT, COPY ── append: a thread fills pages of one file ── one rename makes all of it visible
//! DROP TABLE   ── files: removed when the transaction is durable
//! ```
//!
//! A location may be a directory of a storage node: then pages travel, and `sites` keeps the connections.
//!
//! A page file obeys its own commits, not the log's. So what changes one is a statement by itself, outside of `BEGIN …
//! COMMIT`; a transaction that reads one sees it all the time as it was when it first looked. CREATE TABLE and DROP TABLE
//! are transactional: files of a table that came to nothing are removed, and those of a dropped table only go when it is
//! gone for good. What a process that is killed leaves is noted in the catalog, and removed when the database is opened
//! again.

use std::sync::Arc;

use ishigaki_device::Directory;

use crate::Result;
use crate::table::Location;

mod append;
mod files;
mod options;
mod sites;
mod store;

pub(crate) use append::Appender;
pub(crate) use files::Files;
pub(crate) use options::{Wish, of as options_of};
pub(crate) use store::{Store, at, remove_noted, settle};

/// The directory of a table's page file, which is there, for reading alone.
pub(crate) fn directory_of(table: &str, location: &Location) -> Result<Arc<dyn Directory>> {
    sites::to_copy(table, location)
}
