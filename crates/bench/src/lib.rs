//! Workloads that check their own results before they print a number.
//!
//! Every workload is a function from plain settings to [`Line`]s: one measured figure each, with its median and spread
//! over rounds and what it was measured on. Both sides of a comparison run in the same call, alternating. A [`Progress`]
//! hears how far the work is; nothing here prints or reads the environment.
//!
//! - [`commit`]: how long a small transaction takes until it is durable, beside the bare device's synchronous write.
//! - [`checkpoint`]: what a checkpoint that is being made costs the transactions beside it.
//! - [`wal`]: the log by itself under the workloads of its paper, every kind of log and commit rule beside the others.
//! - [`long`]: the log written at full speed for a long time, with and without trimming what is free again.
//! - [`media`]: the bare device's synchronous appends, by threads and sizes.
//! - [`remote`]: reads from a storage node's disk beside reads from our own, and what the network alone takes.
//! - [`replay`]: the page accesses of a query done again, with a storage node's pages and the client's cache.
//! - [`node`]: a storage node as a process of its own, for those that measure one.
//! - [`figures`]: the experiments of a paper as a whole: lines, plots, and a page that lays ours beside theirs.
//! - [`inserts`]: database servers of the host that insert, each with a log of its own, or all with one log.
//! - [`one_log`]: the disks and sides of such servers, and what stands under them.
//! - [`readers`]: a database server of the host that reads while others write.
//! - [`arrivals`]: the one log by itself, in every way of waiting, under commits that come steadily, in bursts, or alone.
//! - [`endurance`]: the one log at full speed for a long time: its space, its memory, and whether it becomes slower.
//! - [`pace`]: workers beside each other for a while, threads or tasks, and the times of their operations.
//! - [`tpcc`]: the five transactions of TPC-C on the transaction engine, with the specification's consistency conditions.
//! - [`ycsb`]: reads and updates of skewed keys on the transaction engine.
//! - [`oltp`]: what those two have in common: engines to compare, workers that repeat and acknowledge, figures.
//! - [`migration`]: a file server that is replaced: until clients are served, what they wait for, and until all is here, beside rivals.
//! - [`volumes`]: database servers on volumes over a fast and a slow device, by what is prefetched, and when.
//! - [`bank`]: transfers between accounts, with books that show every lost, torn or resurrected transaction.

pub mod arrivals;
pub mod bank;
mod caretaker;
pub mod checkpoint;
mod columns;
pub mod commit;
mod counting;
pub mod endurance;
mod error;
pub mod figures;
pub mod hosts;
pub mod inserts;
mod latency;
mod line;
pub mod long;
pub mod media;
pub mod migration;
pub mod node;
mod nowhere;
pub mod oltp;
pub mod one_log;
mod origin;
mod outstanding;
pub mod pace;
mod progress;
pub mod readers;
pub mod remote;
pub mod replay;
mod rounds;
mod serving;
mod site;
mod target;
pub mod tpcc;
pub mod volumes;
pub mod wal;
pub mod ycsb;

pub use columns::columns;
pub use error::{Error, Result};
pub use latency::Latencies;
pub use line::{Case, Line, Metric, median, table};
pub use origin::Origin;
pub use progress::{Progress, Silent, Stage};
pub use rounds::Rounds;
pub use target::{Medium, Target};
