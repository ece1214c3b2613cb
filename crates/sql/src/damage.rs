//! What is done about damage: a database is verified, salvaged, backed up, with its catalog and its page files.
//!
//! ```text
//!  verify    engine: checkpoints, log ── every row against the catalog ── every page of paged tables
//!  salvage   engine: rows around damages ── readable pages ── a new database, whose paged tables lie beside it
//!  backup    engine: a consistent copy ── page files as they were meanwhile ── the same
//! ```
//!
//! The engine below knows rows of bytes; here is what SQL adds: which rows a table has, how they are encoded, and which page
//! files belong to the database. Salvage and backup leave nothing in the new database that points to files of the old one:
//! page files are copied into [`Target::path`], and the new catalog says so.

use ishigaki_device::ReadFault;

use crate::Error;

mod backup;
mod definitions;
mod pages;
mod salvage;
mod verify;

pub use backup::{BackedUp, backup};
pub use pages::Target;
pub use salvage::{Salvaged, SalvagedPages, salvage};
pub use verify::{Verification, VerifiedTable, verify};

/// What an error says of a page file that was to be read.
fn fault_of(error: &Error) -> ReadFault {
    match error.root() {
        Error::Page(ishigaki_page::Error::Device(error))
        | Error::Location { source: ishigaki_page::Error::Device(error), .. } => error.read_fault(),
        // It may be there again tomorrow, or never: what is elsewhere is read.
        Error::Node { .. } => ReadFault::Medium,
        _ => ReadFault::Damage,
    }
}
