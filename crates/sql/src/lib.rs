//! SQL on serializable transactions: catalog, DML, transactions and COPY over DataFusion.
//!
//! ```text
//! Database ── Session ── Statement ── Worker: begin, perform, commit, again on conflict
//!                                        ├─ ddl, dml, copy, explain, query
//!                                        └─ DataFusion ── scan ── Current (the transaction) ── ishigaki-txn
//! ```
//!
//! - [`Database`] opens a directory; a [`Session`] is one conversation with it; an [`Outcome`] is what a statement gives.
//! - DataFusion parses nothing, changes nothing and keeps nothing here: it plans and runs queries. What changes data is
//!   made into a query first, whose rows are then written through `ishigaki-txn`.
//! - [`types`], [`table`], [`key`] and [`row`] say how SQL values become the byte keys and byte values that
//!   `ishigaki-txn` keeps; [`catalog`] keeps the table definitions in a table of the same engine.
//! - Tables may keep their rows in page files instead: `ishigaki-page` has the files, `ishigaki-scan` reads them.
//! - Every error of the crate is an [`Error`].

mod bounded;
pub mod catalog;
mod copy;
mod current;
mod damage;
mod database;
mod ddl;
mod dml;
mod duplicates;
mod error;
mod explain;
mod functions;
mod interrupt;
pub mod key;
mod merged;
mod multiplicity;
mod names;
mod outcome;
mod paged;
mod planning;
mod pool;
mod query;
pub mod readable;
pub mod row;
mod rules;
mod savepoints;
mod scan;
mod session;
mod setting;
mod settings;
mod show;
mod spelling;
mod spill;
mod statement;
pub mod table;
pub mod types;
mod unnest;
pub mod view;
mod worker;

pub use bounded::{bounded_function, is_bounded};
pub use damage::{BackedUp, Salvaged, SalvagedPages, Target, Verification, VerifiedTable, backup, salvage, verify};
pub use database::Database;
pub use error::{Error, Result};
pub use interrupt::{CancelHandle, Progress};
pub use outcome::{Outcome, Rows};
pub use planning::{decode_operator, encode_operator};
pub use session::{Session, TransactionStatus};
pub use settings::{MAX_THREADS, Settings};
pub use spelling::spelled;
pub use spill::Spilled;
pub use statement::Statement;

/// The Arrow types that results are made of.
pub use datafusion::arrow;
