//! Queries: planning, running, and handing the rows out as they come.
//!
//! The first rows are held back until there are [`HELD_BACK`] of them or the query is complete: as long as nothing was
//! handed out, a conflict can be answered by running the query again unseen. A small result is thus complete, and
//! durable, before its reader sees any of it.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::sqlparser::ast::Statement as Ast;
use futures::StreamExt;
use ishigaki_base::ErrorKind;
use tokio::runtime::Handle;

use crate::outcome::Rows;
use crate::worker::{Context, Reply};
use crate::{Error, Outcome, Result, explain, statement, view};

/// How many rows may wait before the first are handed out.
const HELD_BACK: usize = 8192;

/// How many rows a batch has where memory is short.
const SMALL_BATCH: usize = 512;

/// Runs a query and answers with its rows.
pub(crate) async fn run(context: &Context<'_>, ast: &Ast, reply: &mut Reply) -> Result<Option<Outcome>> {
    let plan = context.guard(plan(context, ast)).await?;
    run_plan(context, &plan, reply).await
}

/// Runs a planned query and answers with its rows.
pub(crate) async fn run_plan(context: &Context<'_>, plan: &LogicalPlan, reply: &mut Reply) -> Result<Option<Outcome>> {
    let mut is_handed_out = false;
    let mut state = Cow::Borrowed(context.state);
    loop {
        match attempt(context, &state, plan, reply, &mut is_handed_out).await {
            Err(error) if !is_handed_out => match in_less_memory(&state, &error) {
                Some(less) => state = Cow::Owned(less),
                None => return Err(error),
            },
            outcome => return outcome,
        }
    }
}

/// Settings under which a query that has run out of memory may have enough: joins sort their rows, which can be spilled where those
/// of a hash join can not; and then one thread sorts alone, where each of several needs memory to merge what it has spilled.
fn in_less_memory(state: &SessionState, error: &Error) -> Option<SessionState> {
    if is_join_too_large(state, error) {
        return Some(without_hash_joins(state));
    }
    is_sort_too_large(state, error).then(|| by_one_thread(state))
}

/// Whether memory has run out in operators that spill, of which several run at a time.
fn is_sort_too_large(state: &SessionState, error: &Error) -> bool {
    let can_spill = state.runtime_env().disk_manager.tmp_files_enabled();
    can_spill
        && state.config_options().execution.target_partitions > 1
        && error.kind() == ErrorKind::Exhausted
        && ["Sort", "Aggregate", "SMJ", "Repartition"].iter().any(|name| error.to_string().contains(name))
}

/// The same settings, but that one thread runs the query, with small batches.
fn by_one_thread(state: &SessionState) -> SessionState {
    let mut state = state.clone();
    let options = &mut state.config_mut().options_mut().execution;
    options.target_partitions = 1;
    options.batch_size = ConfigNonZeroUsize::try_new(SMALL_BATCH).unwrap_or(options.batch_size);
    state
}

/// Whether memory has run out in a hash join, which can not spill, where rows can be spilled: a join of sorted rows can.
fn is_join_too_large(state: &SessionState, error: &Error) -> bool {
    let can_spill = state.runtime_env().disk_manager.tmp_files_enabled();
    can_spill
        && state.config_options().optimizer.prefer_hash_join
        && error.kind() == ErrorKind::Exhausted
        && error.to_string().contains("HashJoin")
}

/// The same settings, but that joins sort their rows.
fn without_hash_joins(state: &SessionState) -> SessionState {
    let mut state = state.clone();
    state.config_mut().options_mut().optimizer.prefer_hash_join = false;
    state
}

/// Runs a planned query once.
async fn attempt(
    context: &Context<'_>,
    state: &SessionState,
    plan: &LogicalPlan,
    reply: &mut Reply,
    is_handed_out: &mut bool,
) -> Result<Option<Outcome>> {
    let mut stream = context.guard(start(state, plan)).await?;
    let schema = shown(&stream.schema());
    let explains = matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
    let (mut held, mut rows) = (Vec::new(), 0);
    while let Some(batch) = next(context, &mut stream).await? {
        let batch = if explains { explain::without_marks(&batch)? } else { batch };
        rows += batch.num_rows();
        held.push(under_shown_names(batch)?);
        if rows >= HELD_BACK {
            *is_handed_out = true;
            let held = std::mem::take(&mut held);
            let shown = Arc::clone(&schema);
            reply.hand_out(|receiver, guard| Rows::running(shown, held, receiver, guard))?;
            while let Some(batch) = next(context, &mut stream).await? {
                context.guard(reply.send(under_shown_names(batch)?)).await?;
            }
            return Ok(None);
        }
    }
    Ok(Some(Outcome::Rows(Rows::complete(schema, held))))
}

/// Plans a statement that only reads.
pub(crate) async fn plan(context: &Context<'_>, ast: &Ast) -> Result<LogicalPlan> {
    let plan = view::plan(context, ast).await?;
    // DataFusion acts on DDL, DML and SET while it plans or begins to run them. None of that may come this way.
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false).verify_plan(&plan)?;
    Ok(plan)
}

/// Whether a statement was not planned because expressions that are not alike have the same name.
pub(crate) fn has_alike_names(error: &DataFusionError) -> bool {
    let text = error.to_string();
    ["require unique expression names", "duplicate unqualified field name", "duplicate qualified field name"]
        .iter()
        .any(|words| text.contains(words))
}

/// A plan whose columns have the types that their values will have.
pub(crate) async fn analyzed(context: &Context<'_>, plan: &LogicalPlan) -> Result<LogicalPlan> {
    let state = context.state;
    let analyze = || state.analyzer().execute_and_check(plan.clone(), state.config_options(), |_, _| ());
    context.guard(async { Ok(analyze()?) }).await
}

/// Optimizes a plan and starts it.
pub(crate) async fn start(state: &SessionState, plan: &LogicalPlan) -> Result<SendableRecordBatchStream> {
    let physical = state.create_physical_plan(plan).await?;
    let is_long = has_long_steps(&physical);
    let stream = execute_stream(physical, state.task_ctx())?;
    Ok(if is_long { on_thread_of_its_own(stream) } else { stream })
}

/// Whether an operator of a plan may take long for one batch, without a pause in which a task that waits for it could do something
/// else: windows compute all rows of a partition at once, and joins without an equality compare all rows.
fn has_long_steps(plan: &Arc<dyn ExecutionPlan>) -> bool {
    const LONG: [&str; 5] =
        ["WindowAggExec", "BoundedWindowAggExec", "CrossJoinExec", "NestedLoopJoinExec", "SortMergeJoinExec"];
    LONG.contains(&plan.name()) || plan.children().into_iter().any(has_long_steps)
}

/// Rows that another thread computes. The task that takes them sees at once that its statement is cancelled; the thread sees that
/// nothing takes them any more when its operator is through with what it does.
fn on_thread_of_its_own(mut stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStream::builder(stream.schema(), 1);
    let rows = builder.tx();
    builder.spawn_blocking(move || {
        Handle::current().block_on(async {
            loop {
                let batch = tokio::select! {
                    biased;
                    () = rows.closed() => return Ok(()),
                    batch = stream.next() => batch,
                };
                let Some(batch) = batch else { return Ok(()) };
                if rows.send(batch).await.is_err() {
                    return Ok(());
                }
            }
        })
    });
    builder.build()
}

/// The columns of a result under the names that the client sees.
pub(crate) fn shown(schema: &SchemaRef) -> SchemaRef {
    let named = |field: &FieldRef| match statement::without_marks(field.name()) {
        Cow::Owned(name) => Arc::new(field.as_ref().clone().with_name(name)),
        Cow::Borrowed(_) => Arc::clone(field),
    };
    if schema.fields().iter().all(|field| matches!(statement::without_marks(field.name()), Cow::Borrowed(_))) {
        return Arc::clone(schema);
    }
    let fields: Vec<FieldRef> = schema.fields().iter().map(named).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The same rows under these names.
pub(crate) fn under_shown_names(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = shown(batch.schema_ref());
    if Arc::ptr_eq(&schema, batch.schema_ref()) {
        return Ok(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options)?)
}

/// The next batch, unless the statement is cancelled.
pub(crate) async fn next(context: &Context<'_>, stream: &mut SendableRecordBatchStream) -> Result<Option<RecordBatch>> {
    context.guard(async { Ok(stream.next().await.transpose()?) }).await
}

/// Runs plans to their ends and keeps all of their rows, within the memory for queries: what a statement changes is read
/// completely before anything is changed.
pub(crate) async fn collect(context: &Context<'_>, plans: &[LogicalPlan], what: &'static str) -> Result<Collected> {
    let pool = Arc::clone(&context.state.runtime_env().memory_pool);
    let reservation = MemoryConsumer::new(what).register(&pool);
    let mut batches = Vec::new();
    for plan in plans {
        let (rows, bytes) = (batches.len(), reservation.size());
        let mut state = Cow::Borrowed(context.state);
        while let Err(error) = collect_one(context, &state, plan, &reservation, &mut batches).await {
            state = Cow::Owned(in_less_memory(&state, &error).ok_or(error)?);
            batches.truncate(rows);
            reservation.shrink(reservation.size() - bytes);
        }
    }
    Ok(Collected { batches, reservation })
}

async fn collect_one(
    context: &Context<'_>,
    state: &SessionState,
    plan: &LogicalPlan,
    reservation: &MemoryReservation,
    batches: &mut Vec<RecordBatch>,
) -> Result<()> {
    let mut stream = context.guard(start(state, plan)).await?;
    while let Some(batch) = next(context, &mut stream).await? {
        reservation.try_grow(batch.get_array_memory_size()).map_err(Error::from)?;
        batches.push(batch);
    }
    Ok(())
}

/// Rows in memory, and the memory that is set aside for them.
pub(crate) struct Collected {
    pub(crate) batches: Vec<RecordBatch>,
    reservation: MemoryReservation,
}

impl Collected {
    /// Sets memory aside for what is made of the rows, as long as they live.
    ///
    /// # Errors
    ///
    /// If there is not so much.
    pub(crate) fn set_aside(&self, bytes: usize) -> Result<()> {
        Ok(self.reservation.try_grow(bytes)?)
    }
}
