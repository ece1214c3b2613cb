//! TPC-H on paged tables: the data, the 22 queries, and how long they take.
//!
//! ```text
//! load   tpchgen ── batches ── a page file for each table, several at a time ── DIR/pages
//!                                                                 tables in the catalog of DIR/database
//! run    queries/q01.sql … q22.sql ── ishigaki-sql ── answer ── as it should be? ── time
//! ```
//!
//! The data are those of the specification's generator, and so depend on nothing but the scale. An answer
//! counts only if it is the expected one: [`answer`] has the expected ones of some scales, computed by another database.
//! At other scales each round must give what the first one gave. Queries have the parameters by which the specification
//! validates them.
//!
//! These are single queries by one user, not the benchmark's metric.

pub mod answer;
mod error;
mod load;
mod query;
mod run;
mod tables;

pub use error::{Error, Result};
pub use load::{LoadSettings, Loaded, load};
pub use query::Query;
pub use run::{Bench, Settings, run};
pub use tables::Table;
