//! Random SQL, answered here and by Debian's `PostgreSQL`: where do the answers differ?
//!
//! ```text
//!  seed ─▶ generate: schema, rows, statements ─▶ ours: a database in this process ─▶ Answer ─┐
//!                    (trees of text)          └▶ theirs: a server, by its protocol ─▶ Answer ─┴▶ compare ─▶ shrink ─▶ script
//! ```
//!
//! A [`Tester`] plays *episodes*: an empty schema, a few tables, and forty statements, each on both sides. Rows are compared as
//! multisets, or as lists where they have a total order; floating-point numbers within a tolerance; errors by class; after a change,
//! and after a transaction, the tables' whole contents. What ours refuses by name is counted and is no difference. Two checks
//! need no rival ([`alone`]): `WHERE p`, `WHERE NOT p` and `WHERE p IS NULL` together give all rows, and a condition in the
//! select list holds for as many rows as it selects.
//!
//! A difference is shrunk to a small script. The differences that are kept on purpose stand in one list, [`KEPT`], with their
//! reasons. What is supported, and so drawn, is told by `docs/sql.md`.

pub mod alone;
mod arrow;
mod compare;
mod divergences;
mod error;
pub mod examples;
mod generate;
mod kind;
mod ours;
mod report;
mod shrink;
mod tester;
mod theirs;
mod tree;
mod value;
mod wire;

pub use divergences::{KEPT, Kept, OPEN};
pub use error::{Error, Result};
pub use ours::Ours;
pub use report::{Difference, Tally};
pub use tester::Tester;
pub use theirs::Theirs;

/// A folder of memory where there is one: nothing that the tester does has to survive it.
fn folder() -> Result<tempfile::TempDir> {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).map_err(Error::Io)
}
