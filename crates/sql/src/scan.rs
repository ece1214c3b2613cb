//! Reading tables: the leaf of every DataFusion plan.
//!
//! ```text
//! WHERE ── pushdown: bounds on the first key columns ── Access: full, range or points
//! plan  ── Table (provider) ── Scan (exec) ── pages of rows under the transaction's mutex ── RowDecoder ── batches
//! ```
//!
//! A scan belongs to one transaction and has one partition; DataFusion spreads the work above it over the threads. Rows
//! come in the order of the primary key, and the plan knows it.

mod exec;
mod provider;
mod pushdown;

pub(crate) use provider::Table;
