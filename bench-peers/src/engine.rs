//! The engines: Ishigaki, its rivals, and two bare loops that show what the medium gives.
//!
//! Each module tells which settings it uses and why: those that the engine's authors recommend for transactions that are
//! durable before they are acknowledged. [`Engine::create`] also brings an engine into the state in which it runs for
//! hours (its log files preallocated or recycled, where it can), so that a run of seconds does not measure its youth.

mod file_per_client;
mod fjall;
mod ishigaki;
mod lmdb;
mod one_file;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod slot;
mod sqlite;

use std::path::Path;

use anyhow::Result;
use ishigaki_bench::pace::Run;

use crate::drive::Plan;
use crate::workload::History;

pub(crate) use file_per_client::FilePerClient;
pub(crate) use fjall::Fjall;
pub(crate) use ishigaki::{Clients, Configuration, Ishigaki};
pub(crate) use lmdb::Lmdb;
pub(crate) use one_file::OneFile;
pub(crate) use redb::Redb;
#[cfg(feature = "rocksdb")]
pub(crate) use rocksdb::RocksDb;
pub(crate) use sqlite::Sqlite;

/// What an engine is in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Ishigaki, in one of its configurations.
    Ours,
    /// What it is compared with.
    Rival,
    /// The medium's limit: a loop that stores records and has no tables.
    Bare,
}

/// One that takes part.
pub(crate) trait Engine: Sync {
    /// Its name in figures; differs from all others'.
    fn name(&self) -> String;
    fn side(&self) -> Side;
    /// Of the library that is linked in.
    fn version(&self) -> String;
    /// How it is set, in a line.
    fn settings(&self) -> String;
    /// With how many clients it is measured if nothing else is asked for.
    fn usual_clients(&self) -> &'static [usize] {
        &[1, 4, 16, 64]
    }
    /// A new store in this empty directory, with all rows in it, ready to run.
    fn create(&self, directory: &Path, plan: &Plan) -> Result<Box<dyn Store>>;
    /// Opens a closed store again and compares what is in it with what was acknowledged. The inner error says what is wrong.
    fn check(&self, directory: &Path, history: &History) -> Result<Result<(), String>>;
}

/// An open store.
pub(crate) trait Store {
    /// Runs the clients; each transaction is durable before its client begins the next.
    fn drive(&self, plan: &Plan) -> Result<Run>;
    /// Closes it, as a program does that ends in order.
    fn close(self: Box<Self>) -> Result<()>;
}
