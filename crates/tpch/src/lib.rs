//! TPC-H on paged tables: the data, the 22 queries, and how long they take.
//!
//! ```text
//! load   tpchgen ── batches ── a page file for each table, several at a time ── DIR/pages
//!                                                                 tables in the catalog of DIR/database
//! run    queries/q01.sql … q22.sql ── ishigaki-sql ── answer ── as it should be? ── time, processors, bytes
//!            │ local: DIR/database                                  in every placement the same?
//!            │ fetch, push, auto: a database in memory over the same page files at a storage node, a process of its own
//!            │                    or a host of its own, over a link of a given speed, idle or busy ([`run_apart`])
//! ```
//!
//! The data are those of the specification's generator, and so depend on nothing but the scale. An answer
//! counts only if it is the expected one: [`answer`] has the expected ones of some scales, computed by another database.
//! At other scales each round must give what the first one gave. Queries have the parameters by which the specification
//! validates them.
//!
//! These are single queries by one user, not the benchmark's metric.

pub mod answer;
mod apart;
mod bench;
mod error;
mod experiments;
mod load;
mod node;
mod query;
mod record;
mod rows;
mod run;
mod table;
mod tables;

pub use apart::{Apart, Load, run_apart};
pub use bench::Bench;
pub use error::{Error, Result};
pub use experiments::{Experiments, Scale};
pub use load::{LoadSettings, Loaded, load};
pub use node::Host;
pub use query::Query;
pub use record::{Recorded, Recording, record};
pub use rows::Rows;
pub use run::{Settings, run};
pub use table::table;
pub use tables::Table;
