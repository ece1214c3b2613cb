//! The client: plans that read at storage nodes alone go to the scheduler.
//!
//! [`Distribute`] is the last rule that a plan goes through. If all that a plan reads is pushed to nodes, it makes a
//! [`ClusterExec`] of it, which has the whole of it run by the cluster and takes the rows in. A plan that reads anything
//! else, of a table in this process or of a page file of this host, stays as it is: its scans are pushed to the nodes from
//! here. `EXPLAIN` shows which it was.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ballista_core::execution_plans::execute_physical_plan;
use ballista_core::extension::SessionConfigExt;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, replace_children_if_necessary,
};
use datafusion::prelude::SessionConfig;
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::{StreamExt, TryStreamExt};
use ishigaki_scan::{Nodes, OrdersExec, labelled};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::codec::Codec;

/// How long the scheduler may take to say whether it is ready.
const PATIENCE: Duration = Duration::from_secs(10);

/// A query that the cluster did not do.
#[derive(Debug, thiserror::Error)]
#[error("the cluster at {scheduler}: {reason}")]
struct ClusterFailed {
    scheduler: String,
    reason: String,
}

/// The rule that sends plans to a cluster.
#[derive(Debug)]
pub struct Distribute {
    scheduler: String,
    nodes: Arc<Nodes>,
}

impl Distribute {
    /// To the scheduler at `host:port`.
    pub fn new(scheduler: impl Into<String>) -> Self {
        Self { scheduler: scheduler.into(), nodes: Arc::new(Nodes::new(None)) }
    }

    /// The plan, run by the cluster if that can be; of one that is analyzed, what is below that.
    fn distributed(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.is::<AnalyzeExec>() {
            let children = plan.children().into_iter().map(|child| self.distributed(Arc::clone(child)));
            let children = children.collect::<Result<Vec<_>>>()?;
            return replace_children_if_necessary(plan, children);
        }
        Ok(match self.travelling(&plan)? {
            Some(travelling) => Arc::new(ClusterExec::new(&self.scheduler, &self.nodes, travelling)),
            None => plan,
        })
    }

    /// The plan with orders in the place of pushed scans; nothing if there are none, or if it reads anything else.
    fn travelling(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut orders = 0;
        let mut stays = false;
        let made = Arc::clone(plan).transform_down(|plan| {
            if let Some(made) = OrdersExec::of(plan.as_ref(), &self.nodes) {
                orders += 1;
                return Ok(Transformed::new(Arc::new(made?) as Arc<dyn ExecutionPlan>, true, TreeNodeRecursion::Jump));
            }
            let travels = plan.is::<DataSourceExec>() || plan.is::<EmptyExec>() || plan.is::<PlaceholderRowExec>();
            stays |= plan.children().is_empty() && !travels;
            Ok(Transformed::no(plan))
        })?;
        let travels = orders > 0 && !stays && self.can_be_written(&made.data);
        Ok(travels.then_some(made.data))
    }

    /// Whether there is a written form of all that a plan is made of.
    fn can_be_written(&self, plan: &Arc<dyn ExecutionPlan>) -> bool {
        let codec = Codec::new(Arc::clone(&self.nodes));
        PhysicalPlanNode::try_from_physical_plan(Arc::clone(plan), &codec).is_ok()
    }
}

impl PhysicalOptimizerRule for Distribute {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.distributed(plan)
    }

    fn name(&self) -> &'static str {
        "distribute"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Has a cluster run a plan.
#[derive(Debug)]
struct ClusterExec {
    scheduler: String,
    nodes: Arc<Nodes>,
    plan: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl ClusterExec {
    fn new(scheduler: &str, nodes: &Arc<Nodes>, plan: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(plan.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { scheduler: scheduler.to_owned(), nodes: Arc::clone(nodes), plan, properties: Arc::new(properties) }
    }

    /// The same with another plan. The operators' macro takes what may fail.
    #[expect(clippy::unnecessary_wraps)]
    fn over(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(&self.scheduler, &self.nodes, plan)))
    }
}

impl DisplayAs for ClusterExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IshigakiCluster: scheduler={}", self.scheduler)
    }
}

impl ExecutionPlan for ClusterExec {
    fn name(&self) -> &'static str {
        "IshigakiCluster"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    ishigaki_scan::operator!(plan by over);

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    ishigaki_scan::operator!(no expressions);

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (scheduler, plan) = (self.scheduler.clone(), Arc::clone(&self.plan));
        let codec = Codec::new(Arc::clone(&self.nodes));
        let config = settings(context.session_config());
        let schema = plan.schema();
        let rows = futures::stream::once(async move {
            ready(&scheduler).await?;
            let url = format!("http://{scheduler}");
            let ballista = config.ballista_config();
            let rows = execute_physical_plan::<PhysicalPlanNode>(url, &ballista, plan, &codec, session(), config).await;
            let failed = move |error: DataFusionError| failed(&scheduler, error.to_string());
            Ok::<_, DataFusionError>(rows.map_err(&failed)?.map_err(failed))
        });
        // Names may have got lost on the way.
        let labels = Arc::clone(&schema);
        let rows = rows.try_flatten().map(move |batch| labelled(&labels, &batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// What the scheduler is to make stages by.
fn settings(own: &SessionConfig) -> SessionConfig {
    SessionConfig::new_with_ballista()
        .with_target_partitions(own.target_partitions())
        .with_batch_size(own.batch_size())
        .with_round_robin_repartition(false)
        // A plan is asked for how it is doing: an answer that takes as long as a query would run into a deadline.
        .set_bool(ballista_core::config::BALLISTA_CLIENT_PULL, true)
}

/// A name for one query's session. The scheduler keeps nothing of it.
fn session() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("ishigaki-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn failed(scheduler: &str, reason: String) -> DataFusionError {
    let failed = ClusterFailed { scheduler: scheduler.to_owned(), reason };
    DataFusionError::IoError(std::io::Error::other(failed))
}

/// Asks whether there is a scheduler, and whether anybody has joined it: a query would wait for the first one.
pub(crate) async fn ready(scheduler: &str) -> Result<()> {
    let failed = |reason| failed(scheduler, reason);
    let asked = async {
        let mut stream = TcpStream::connect(scheduler).await?;
        let request = format!("GET /readyz HTTP/1.1\r\nHost: {scheduler}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(64 << 10).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = match tokio::time::timeout(PATIENCE, asked).await {
        Err(_) => return Err(failed(format!("no answer within {PATIENCE:?}"))),
        Ok(Err(error)) => return Err(failed(format!("{error}; start it: ishigaki cluster --listen {scheduler}"))),
        Ok(Ok(answer)) => answer,
    };
    match answer.split(|&byte| byte == b' ').nth(1) {
        Some(b"200") => Ok(()),
        Some(b"503") => {
            Err(failed(format!("no node has joined it; start some: ishigaki node --executor --scheduler {scheduler}")))
        }
        _ => Err(failed("what answers there is no scheduler of Ishigaki's".to_owned())),
    }
}
