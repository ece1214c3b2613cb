//! What `ishigaki node --executor` does beside serving files: stages of queries.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_cluster::{Executor, ExecutorSettings};

use super::cluster::{allowed, failed};
use crate::failure::Failure;

/// How long tasks that were taken may go on when the node is to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// How it is started.
#[derive(Debug, Args)]
pub(super) struct ExecutorArguments {
    /// Take part in queries over many nodes, too: run what a scheduler sends here, beside the pages
    #[arg(long, requires = "scheduler")]
    executor: bool,

    /// The scheduler, started by `ishigaki cluster`
    #[arg(long, value_name = "HOST:PORT", requires = "executor")]
    scheduler: Option<String>,

    /// How tables name this node, if that is not where it listens: the HOST:PORT of their node://HOST:PORT/DIR
    #[arg(long, value_name = "HOST:PORT", requires = "executor")]
    name: Option<String>,

    /// A folder for rows between stages of queries; one for temporary files if it is not given
    #[arg(long, value_name = "DIR", requires = "executor")]
    work_folder: Option<PathBuf>,

    /// Bytes that tasks of queries may use at a time for groups, orders and joins
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    task_memory: ByteSize,

    /// Have the executor listen at an address that others reach, too. Nothing is encrypted, and whoever reaches it can run
    /// anything there
    #[arg(long, requires = "executor")]
    trust_network: bool,
}

/// An executor beside a node.
pub(super) struct Running {
    executor: Executor,
    /// Was made for it.
    folder: Option<PathBuf>,
}

impl ExecutorArguments {
    /// Joins the scheduler, if that is wanted. `address` is where the node listens.
    pub(super) fn start(&self, address: std::net::SocketAddr) -> Result<Option<Running>, Failure> {
        let Some(scheduler) = self.scheduler.as_ref().filter(|_| self.executor) else { return Ok(None) };
        allowed(&address.to_string(), self.trust_network)?;
        let node = match &self.name {
            Some(name) => name.clone(),
            None if address.ip().is_unspecified() => {
                return Err(Failure::usage(format!(
                    "{address} is no address at which others find this node; say by --name HOST:PORT how tables name it"
                )));
            }
            None => address.to_string(),
        };
        let host = address.ip().to_string();
        let own = std::env::temp_dir().join(format!("ishigaki-executor-{}", std::process::id()));
        let folder = self.work_folder.clone().unwrap_or_else(|| own.clone());
        let made = self.work_folder.is_none().then_some(own);
        let settings = ExecutorSettings { node, scheduler: scheduler.clone(), host, folder, memory: self.task_memory };
        Ok(Some(Running { executor: Executor::start(&settings).map_err(failed)?, folder: made }))
    }
}

impl Running {
    /// Lets it finish, after a signal; how many fragments the node beside it and other nodes have done for it.
    pub(super) fn end(self) -> (u64, u64) {
        let done = self.executor.done();
        self.executor.wait(PATIENCE);
        if let Some(folder) = self.folder {
            // Nobody else uses it; what is left of it is in nobody's way.
            let _ = std::fs::remove_dir_all(folder);
        }
        done
    }
}
