//! INSERT, UPDATE and DELETE.
//!
//! DataFusion's own hooks for changing tables are not used: they act while a statement is planned, and are given only
//! those conditions that can be pushed down, so a subquery in the WHERE clause would be lost and every row changed.
//! Instead each statement becomes a query. DataFusion plans and runs it like any other, with the whole WHERE clause:
//!
//! ```text
//! DELETE FROM t WHERE c          SELECT __key FROM t WHERE c                ── delete each key
//! UPDATE t SET a = e WHERE c     SELECT __key, e, b, … FROM t WHERE c       ── put each new row
//! INSERT INTO t (a) source       SELECT a, default of b, … FROM (source)    ── insert each row
//! ```
//!
//! Its rows are read completely before the first row is changed, so no statement meets its own effects. Planning alone
//! changes nothing, which is all that EXPLAIN does.

pub(crate) mod defaults;
pub(crate) mod delete;
pub(crate) mod insert;
mod target;
pub(crate) mod update;
mod values;

use datafusion::logical_expr::LogicalPlan;

/// A statement turned into its query.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// What will be done with the rows, for EXPLAIN.
    pub(crate) headline: String,
    /// The queries that find or make the rows, one after the other. More than one only for VALUES of mixed types.
    pub(crate) plans: Vec<LogicalPlan>,
}
