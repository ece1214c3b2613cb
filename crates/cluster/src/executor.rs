//! The executor beside a storage node: does stages of queries, and has the node beside it do the fragments in them.
//!
//! It asks the scheduler for work, so nobody has to reach it for that; other executors and clients fetch rows from it. Rows
//! between stages lie in a folder of its own until their query is over.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ballista_core::config::TaskSchedulingPolicy;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::health::ExecutorHealth;
use ishigaki_base::ByteSize;
use ishigaki_scan::Nodes;
use tokio::runtime::Builder;

use crate::beat::beat;
use crate::codec::Codec;
use crate::locality::executor_id;
use crate::{Error, Result};

/// How long the scheduler may take to let it in.
const PATIENCE: Duration = Duration::from_secs(10);

/// How an executor is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorSettings {
    /// The storage node beside it, `host:port` as tables name it.
    pub node: String,
    /// The scheduler, `host:port`.
    pub scheduler: String,
    /// The address that it listens at for those who fetch rows; they reach it where they reach the node.
    pub host: String,
    /// A folder for rows between stages.
    pub folder: PathBuf,
    /// What all tasks together may use for groups, orders and joins.
    pub memory: ByteSize,
}

/// An executor that runs until the process ends.
#[derive(Debug)]
pub struct Executor {
    nodes: Arc<Nodes>,
    thread: Option<JoinHandle<()>>,
}

impl Executor {
    /// Joins the scheduler. SIGINT and SIGTERM have it finish what it does and leave.
    pub fn start(settings: &ExecutorSettings) -> Result<Self> {
        let wrong = |source| Error::Address { address: settings.host.clone(), source };
        let (scheduler_host, scheduler_port) = split(&settings.scheduler)?;
        let (reached_at, _) = split(&settings.node)?;
        // Ballista must be told a port before it listens.
        let port =
            TcpListener::bind((settings.host.as_str(), 0)).and_then(|free| free.local_addr()).map_err(wrong)?.port();
        std::fs::create_dir_all(&settings.folder)
            .map_err(|source| Error::System { what: "a folder for rows between stages", source })?;
        let nodes = Arc::new(Nodes::new(Some(settings.node.clone())));
        let health = ExecutorHealth::new();
        let id = executor_id(&settings.node, &format!("{}-{port}", std::process::id()));
        let config = ExecutorProcessConfig {
            executor_id: id.clone(),
            bind_host: settings.host.clone(),
            external_host: Some(reached_at),
            port,
            scheduler_host,
            scheduler_port,
            task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
            work_dir: Some(settings.folder.display().to_string()),
            memory_pool_size: Some(settings.memory.as_u64()),
            override_physical_codec: Some(Arc::new(Codec::new(Arc::clone(&nodes)))),
            health: health.clone(),
            ..ExecutorProcessConfig::default()
        };
        let runtime = Builder::new_multi_thread()
            .thread_name("executor")
            .enable_all()
            .build()
            .map_err(|source| Error::System { what: "threads for the executor", source })?;
        let (ended, end) = std::sync::mpsc::channel();
        runtime.spawn(beat(settings.scheduler.clone(), id));
        let thread = std::thread::spawn(move || {
            let outcome = runtime.block_on(start_executor_process(Arc::new(config)));
            if let Err(error) = &outcome {
                tracing::error!(%error, "the executor has ended");
            }
            // Only who still waits for the start wants to know.
            let _ = ended.send(outcome.err().map(|error| error.to_string()));
        });
        let begun = Instant::now();
        while !health.is_ready() {
            let refused = |reason| Error::NoScheduler { address: settings.scheduler.clone(), reason };
            match end.recv_timeout(Duration::from_millis(20)) {
                Ok(reason) => return Err(refused(reason.unwrap_or_else(|| "it ended at once".to_owned()))),
                Err(_) if begun.elapsed() > PATIENCE => return Err(refused("no answer".to_owned())),
                Err(_) => {}
            }
        }
        Ok(Self { nodes, thread: Some(thread) })
    }

    /// How many fragments the node beside it did for it, and how many other nodes.
    pub fn done(&self) -> (u64, u64) {
        self.nodes.done()
    }

    /// Waits until it has left, after a signal that ends the process.
    pub fn wait(mut self, patience: Duration) {
        let begun = Instant::now();
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && begun.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(self.thread.take());
    }
}

/// `host:port` in its parts.
fn split(address: &str) -> Result<(String, u16)> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    parts.ok_or_else(|| Error::Address {
        address: address.to_owned(),
        source: std::io::Error::other("host or port is missing, as in localhost:50050"),
    })
}
