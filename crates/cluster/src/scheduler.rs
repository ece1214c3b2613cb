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

/// After so long without a word an executor is taken for lost. A busy one speaks every five seconds.
const SILENCE: u64 = 12;

/// How often that is looked at.
const LOOK: u64 = 2;

/// A scheduler that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Scheduler {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Scheduler {
    /// Listens at `host:port`; port 0 takes one that is free.
    pub fn start(listen: &str) -> Result<Self> {
        let wrong = |source| Error::Address { address: listen.to_owned(), source };
        let listener = TcpListener::bind(listen).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let runtime = Builder::new_multi_thread()
            .thread_name("scheduler")
            .enable_all()
            .build()
            .map_err(|source| Error::System { what: "threads for the scheduler", source })?;
        runtime.block_on(serve(listener, address))?;
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
            runtime.shutdown_background();
        }
    }
}

async fn serve(listener: TcpListener, address: SocketAddr) -> Result<()> {
    let state: Arc<dyn ClusterState> = Arc::new(InMemoryClusterState::default());
    let config = SchedulerConfig {
        bind_host: address.ip().to_string(),
        external_host: address.ip().to_string(),
        bind_port: address.port(),
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        task_distribution: TaskDistributionPolicy::Custom(Arc::new(Locality::new(Arc::clone(&state)))),
        executor_timeout_seconds: SILENCE,
        no_executors_grace_period_seconds: SILENCE,
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
