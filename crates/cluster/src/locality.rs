//! Which executor does which partition: the one beside its pages.
//!
//! A partition of orders waits for an executor beside a node that has its pages, as long as one is there, busy or not. If
//! none is, anybody takes it and asks the node over the network. Partitions without pages, of joins and last aggregates, go
//! to whoever has most room.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ballista_core::JobId;
use ballista_core::execution_plans::{RangeShuffleReaderExec, ShuffleReaderExec};
use ballista_core::serde::protobuf::AvailableVcores;
use ballista_core::serde::scheduler::TaskKey;
use ballista_scheduler::cluster::{BoundTask, ClusterState, DistributionPolicy};
use ballista_scheduler::state::execution_graph::{TaskDescription, create_task_info};
use ballista_scheduler::state::execution_stage::RunningStage;
use ballista_scheduler::state::task_manager::JobInfoCache;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use ishigaki_scan::OrdersExec;

/// The policy.
pub(crate) struct Locality {
    state: Arc<dyn ClusterState>,
}

impl Locality {
    /// `state` knows which executors there are.
    pub(crate) fn new(state: Arc<dyn ClusterState>) -> Self {
        Self { state }
    }
}

impl fmt::Debug for Locality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Locality")
    }
}

/// The name of an executor beside a node: the node's, and what tells it from those before it.
pub(crate) fn executor_id(node: &str, unique: &str) -> String {
    format!("{node}#{unique}")
}

/// The node that an executor stands beside.
fn node_of(executor: &str) -> &str {
    executor.rsplit_once('#').map_or(executor, |(node, _)| node)
}

#[async_trait::async_trait]
impl DistributionPolicy for Locality {
    async fn bind_tasks(
        &self,
        mut room: Vec<&mut AvailableVcores>,
        jobs: Arc<HashMap<JobId, JobInfoCache>>,
    ) -> Result<Vec<BoundTask>> {
        let there = self.state.registered_executor_metadata().await;
        let there: Vec<String> = there.into_iter().map(|executor| node_of(&executor.id).to_owned()).collect();
        let mut bound = Vec::new();
        for (job, cached) in jobs.iter() {
            if room.iter().all(|executor| executor.vcores == 0) {
                break;
            }
            let mut graph = cached.execution_graph.write().await;
            let session = graph.session_id().to_owned();
            let mut seen = Vec::new();
            while let Some(stage) = graph.fetch_running_stage(&seen) {
                seen.push(stage.stage_id);
                bind(stage, &session, job, &there, &mut room, &mut bound);
            }
        }
        Ok(bound)
    }

    fn name(&self) -> &'static str {
        "locality"
    }
}

/// Gives what waits of a stage away, as far as there is room.
fn bind(
    stage: &mut RunningStage,
    session: &str,
    job: &JobId,
    there: &[String],
    room: &mut [&mut AvailableVcores],
    bound: &mut Vec<BoundTask>,
) {
    let waiting = stage.pending.next_slice(usize::MAX);
    // What makes one of many must see all of them.
    let groups: Vec<Vec<usize>> =
        if is_one(&stage.plan) { vec![waiting] } else { waiting.into_iter().map(|one| vec![one]).collect() };
    let mut given: Vec<(Vec<usize>, u32)> = vec![(Vec::new(), 0); room.len()];
    let mut left = Vec::new();
    for group in groups.into_iter().filter(|group| !group.is_empty()) {
        let nodes = nodes_of(&stage.plan, group[0]);
        match choose(&nodes, there, room) {
            Some(executor) => {
                room[executor].vcores -= 1;
                given[executor].0.extend(group);
                given[executor].1 += 1;
            }
            None => left.extend(group),
        }
    }
    stage.pending.reschedule(left);
    for (executor, (partitions, vcores)) in given.into_iter().enumerate() {
        if !partitions.is_empty() {
            let executor = room[executor].executor_id.clone();
            tracing::debug!(%job, stage = stage.stage_id, ?partitions, %executor, "a task");
            bound.push(task(stage, session, job, executor, partitions, vcores));
        }
    }
}

/// The executor that takes what lies at these nodes; none for now.
fn choose(nodes: &[String], there: &[String], room: &[&mut AvailableVcores]) -> Option<usize> {
    let free = |at: &usize| room[*at].vcores > 0;
    let beside = nodes.iter().filter(|node| there.contains(node)).collect::<Vec<_>>();
    if beside.is_empty() {
        return (0..room.len()).filter(free).max_by_key(|&at| room[at].vcores);
    }
    beside.iter().find_map(|node| (0..room.len()).filter(free).find(|&at| node_of(&room[at].executor_id) == **node))
}

fn task(
    stage: &mut RunningStage,
    session: &str,
    job: &JobId,
    executor: String,
    partitions: Vec<usize>,
    vcores: u32,
) -> BoundTask {
    let task_id = stage.task_infos.len();
    let failures = partitions.iter().filter_map(|&partition| stage.task_failure_numbers.get(partition));
    let task_attempt = failures.copied().max().unwrap_or(0);
    let mut info = create_task_info(executor.clone(), task_id);
    info.global_input_partition_ids.clone_from(&partitions);
    info.vcores_consumed = vcores;
    stage.task_infos.push(info);
    let task = TaskDescription {
        session_id: session.to_owned(),
        key: TaskKey { job_id: job.clone(), stage_id: stage.stage_id, task_id },
        stage_attempt_num: stage.stage_attempt_num,
        task_attempt,
        global_input_partition_ids: partitions,
        vcores_consumed: vcores,
        plan: Arc::clone(&stage.plan),
        session_config: Arc::clone(&stage.session_config),
    };
    (executor, task)
}

/// Whether a stage makes one partition of all that it reads, below the operator that writes its results.
fn is_one(stage: &Arc<dyn ExecutionPlan>) -> bool {
    let mut next = stage.children().first().copied();
    while let Some(plan) = next {
        // Here begins another stage.
        if plan.is::<ShuffleReaderExec>() || plan.is::<RangeShuffleReaderExec>() {
            return false;
        }
        if plan.properties().output_partitioning().partition_count() == 1 {
            return true;
        }
        next = match plan.children().as_slice() {
            [child] => Some(*child),
            _ => None,
        };
    }
    false
}

/// The nodes that have what a partition of a plan reads.
fn nodes_of(plan: &Arc<dyn ExecutionPlan>, partition: usize) -> Vec<String> {
    if let Some(orders) = plan.downcast_ref::<OrdersExec>() {
        return orders.addresses(partition);
    }
    // Those read many partitions.
    if plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>() {
        return Vec::new();
    }
    if plan.is::<UnionExec>() {
        let mut within = partition;
        for child in plan.children() {
            let count = child.properties().output_partitioning().partition_count();
            if within < count {
                return nodes_of(child, within);
            }
            within -= count;
        }
        return Vec::new();
    }
    let found = plan.children().into_iter().map(|child| nodes_of(child, partition));
    found.into_iter().find(|nodes| !nodes.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, BinaryArray, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use datafusion::arrow::record_batch::RecordBatch;
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::datasource::source::DataSourceExec;
    use ishigaki_scan::Nodes;

    use super::*;

    fn room(of: &[(&str, u32)]) -> Vec<AvailableVcores> {
        of.iter()
            .map(|(executor, vcores)| AvailableVcores { executor_id: (*executor).to_owned(), vcores: *vcores })
            .collect()
    }

    fn chosen(nodes: &[&str], there: &[&str], of: &[(&str, u32)]) -> Option<usize> {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut room = room(of);
        choose(&own(nodes), &own(there), &room.iter_mut().collect::<Vec<_>>())
    }

    #[test]
    fn a_partition_goes_to_the_executor_beside_its_pages_and_waits_for_it_while_it_is_there() {
        let both = ["a:1", "b:1"];
        assert_eq!(chosen(&["b:1"], &both, &[("a:1#x", 8), ("b:1#y", 1)]), Some(1));
        assert_eq!(chosen(&["b:1"], &both, &[("a:1#x", 8), ("b:1#y", 0)]), None, "it is busy");
        assert_eq!(chosen(&["b:1"], &both, &[("a:1#x", 8)]), None, "another one asks for work");
        assert_eq!(chosen(&["b:1"], &["a:1"], &[("a:1#x", 8)]), Some(0), "nobody is beside them");
        assert_eq!(chosen(&["b:1", "a:1"], &["a:1"], &[("a:1#x", 1), ("c:1#z", 9)]), Some(0), "beside a replica");
        assert_eq!(chosen(&[], &both, &[("a:1#x", 2), ("b:1#y", 3)]), Some(1), "who has most room");
        assert_eq!(chosen(&[], &both, &[("a:1#x", 0), ("b:1#y", 0)]), None);
    }

    /// Orders with a partition for each list of places.
    pub(crate) fn orders(partitions: &[&[&str]]) -> Arc<dyn ExecutionPlan> {
        let field = |name: &str, data_type| Field::new(name, data_type, false);
        let columns: SchemaRef = Arc::new(Schema::new(vec![
            field("table", DataType::Utf8),
            field("place", DataType::Utf8),
            field("fragment", DataType::Binary),
        ]));
        let batch = |places: &&[&str]| {
            let tables: ArrayRef = Arc::new(StringArray::from(vec!["t"; places.len()]));
            let fragments: ArrayRef = Arc::new(BinaryArray::from(vec![&b"x"[..]; places.len()]));
            let places: ArrayRef = Arc::new(StringArray::from(places.to_vec()));
            vec![RecordBatch::try_new(Arc::clone(&columns), vec![tables, places, fragments]).expect("a batch")]
        };
        let batches: Vec<Vec<RecordBatch>> = partitions.iter().map(batch).collect();
        let source = MemorySourceConfig::try_new(&batches, Arc::clone(&columns), None).expect("a source");
        let results = Arc::new(Schema::new(vec![field("sum", DataType::Int64)]));
        let source = DataSourceExec::from_data_source(source);
        Arc::new(OrdersExec::new(source, results, Arc::new(Nodes::new(None))).expect("orders"))
    }

    #[test]
    fn a_plans_partitions_are_where_the_orders_below_them_are() {
        let (first, second) =
            (orders(&[&["node://a:1/t"], &["node://b:1/t", "node://c:1/u"]]), orders(&[&["node://d:1/v"]]));
        assert_eq!(nodes_of(&first, 0), ["a:1"]);
        assert_eq!(nodes_of(&first, 1), ["b:1", "c:1"]);
        let both = UnionExec::try_new(vec![Arc::clone(&first), second]).expect("a union");
        assert_eq!(
            (nodes_of(&both, 1), nodes_of(&both, 2)),
            (vec!["b:1".to_owned(), "c:1".to_owned()], vec!["d:1".to_owned()])
        );
        let one: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(first));
        assert!(nodes_of(&one, 0).is_empty(), "it reads from all");
    }

    #[test]
    fn orders_that_were_cut_written_down_and_read_again_are_those_of_the_partitions_that_were_meant() {
        use ballista_scheduler::state::task_builder::restrict_plan_to_partitions;
        use datafusion::execution::TaskContext;
        use datafusion_proto::physical_plan::AsExecutionPlan;
        use datafusion_proto::protobuf::PhysicalPlanNode;

        let all = orders(&[&["node://a:1/t"], &["node://b:1/t"], &["node://c:1/t"]]);
        let cut = restrict_plan_to_partitions(all, &[2, 0]).expect("cut");
        let codec = crate::codec::Codec::new(Arc::new(Nodes::new(None)));
        let mut bytes = Vec::new();
        let written = PhysicalPlanNode::try_from_physical_plan(cut, &codec).expect("written");
        AsExecutionPlan::try_encode(&written, &mut bytes).expect("as bytes");
        let read = <PhysicalPlanNode as AsExecutionPlan>::try_decode(&bytes).expect("a message");
        let read = read.try_into_physical_plan(&TaskContext::default(), &codec).expect("a plan");
        assert_eq!(read.properties().output_partitioning().partition_count(), 2);
        assert_eq!((nodes_of(&read, 0), nodes_of(&read, 1)), (vec!["c:1".to_owned()], vec!["a:1".to_owned()]));
        assert_eq!(read.schema().field(0).name(), "sum");
    }
}
