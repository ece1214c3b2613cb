//! The scheduler: takes plans from clients, cuts them into stages, and gives their tasks to executors.
//!
//! It keeps nothing: executors that were there join again by themselves when it was started again, and a query that was
//! under way is lost.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::utils::{default_config_producer, default_session_builder};
use ballista_scheduler::cluster::memory::{InMemoryClusterState, InMemoryJobState};
use ballista_scheduler::cluster::{BallistaCluster, ClusterState};
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use ishigaki_scan::Nodes;
use tokio::runtime::{Builder, Runtime};

use crate::codec::Codec;
use crate::locality::Locality;
use crate::{Error, Result};

/// How often it is looked whether an executor has been silent for too long, in seconds.
const LOOK: u64 = 1;

/// How long queries wait, at least, for an executor when the last one is lost, in seconds.
const GRACE: u64 = 12;

/// A scheduler that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Scheduler {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Scheduler {
    /// After so many seconds without a word an executor is taken for lost, if nothing else is said. One that is there speaks
    /// every second.
    pub const SILENCE: u16 = 5;

    /// Fewer would have a machine that is only busy taken for lost.
    pub const LEAST_SILENCE: u16 = 3;

    /// Listens at `host:port`; port 0 takes one that is free. An executor that says nothing for `silence` seconds, at least
    /// [`LEAST_SILENCE`](Self::LEAST_SILENCE), is taken for lost, and what it had under way and had done is done again by others.
    pub fn start(listen: &str, silence: u16) -> Result<Self> {
        let wrong = |source| Error::Address { address: listen.to_owned(), source };
        let listener = TcpListener::bind(listen).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let runtime = Builder::new_multi_thread()
            .thread_name("scheduler")
            .enable_all()
            .build()
            .map_err(|source| Error::System { what: "threads for the scheduler", source })?;
        runtime.block_on(serve(listener, address, silence.max(Self::LEAST_SILENCE).into()))?;
        Ok(Self { address, runtime: Some(runtime) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            ishigaki_scan::end_runtime(runtime);
        }
    }
}

async fn serve(listener: TcpListener, address: SocketAddr, silence: u64) -> Result<()> {
    let state: Arc<dyn ClusterState> = Arc::new(InMemoryClusterState::default());
    let config = SchedulerConfig {
        bind_host: address.ip().to_string(),
        external_host: address.ip().to_string(),
        bind_port: address.port(),
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        task_distribution: TaskDistributionPolicy::Custom(Arc::new(Locality::new(Arc::clone(&state)))),
        executor_timeout_seconds: silence,
        no_executors_grace_period_seconds: silence.max(GRACE),
        expire_dead_executor_interval_seconds: LOOK,
        override_physical_codec: Some(Arc::new(Codec::new(Arc::new(Nodes::new(None))))),
        // A client that asks whether the scheduler is ready is told no before the first executor has joined.
        min_ready_executors: 1,
        ..SchedulerConfig::default()
    };
    let jobs = InMemoryJobState::new(
        config.scheduler_id.clone(),
        Arc::new(default_session_builder),
        Arc::new(default_config_producer),
    );
    let cluster = BallistaCluster::new(state, Arc::new(jobs));
    let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config)).await?;
    let listener = tokio::net::TcpListener::from_std(listener)
        .map_err(|source| Error::Address { address: address.to_string(), source })?;
    tokio::spawn(async move {
        if let Err(error) = start_grpc_service_with_listener(listener, scheduler).await {
            tracing::error!(%error, "the scheduler has ended");
        }
    });
    Ok(())
}
