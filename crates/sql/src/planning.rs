//! Planning within limits: of time, of memory, and until the statement is cancelled.
//!
//! DataFusion plans in one go, without a look to the left or the right. So each of its rules is [`Watched`]: before it works on a
//! node, it looks at the statement's cancel flag and at the clock. No single rule may take long by itself, which is what
//! [`Bounded`] is for: it counts the parts of a plan's expressions, and those that they would grow to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::expr::{Alias, Exists, InSubquery};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection, cast};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use ishigaki_scan::exact;

use crate::Error;
use crate::interrupt::CancelHandle;
use crate::rules::{OneZeroInJoins, OrdersOfAggregates, TruthTests, has_node};
use crate::unnest::same;

mod gates;
mod keys;
mod limits;
mod lists;
mod merging;
mod named;
mod skipping;
mod sorting;
mod spanning;
mod totals;
mod unions;
mod veil;
mod whole;
mod written;

pub(crate) use keys::{are_doubtful as has_doubtful_keys, determined_by};
pub use written::{decode_operator, encode_operator};

/// The longest that a statement is planned.
const LONGEST: Duration = Duration::from_mins(1);

/// The most parts that the expressions of a plan may have.
const MOST_PARTS: u64 = 2_000_000;

/// The most operators that a plan may have.
const MOST_NODES: usize = 20_000;

/// The most subqueries that may be nested in expressions.
const MOST_NESTED: usize = 10;

/// The most parts that an expression may grow to, if it grows.
const MOST_GROWN: u64 = 200_000;

tokio::task_local! {
    static WATCH: Watch;
}

/// What ends the planning of the statement that a task works on.
#[derive(Clone, Debug)]
struct Watch {
    cancel: CancelHandle,
    began: Instant,
}

/// Plans, or does any other work, under watch.
pub(crate) async fn watched<T>(cancel: &CancelHandle, work: impl Future<Output = T>) -> T {
    WATCH.scope(Watch { cancel: cancel.clone(), began: Instant::now() }, work).await
}

/// Fails when the statement was cancelled, or has been planned for too long.
fn look() -> Result<()> {
    let looked = WATCH.try_with(|watch| {
        watch.cancel.check()?;
        if watch.began.elapsed() > LONGEST {
            return Err(Error::unsupported(
                format!("a statement that is planned for more than {} seconds", LONGEST.as_secs()),
                "write it in smaller parts: keep a subquery's result in a table of its own",
            ));
        }
        Ok(())
    });
    Ok(looked.unwrap_or(Ok(()))?)
}

/// The analyzer's rules, in order and under watch.
pub(crate) fn analyzers(
    rules: impl IntoIterator<Item = Arc<dyn AnalyzerRule + Send + Sync>>,
) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let watched = rules.into_iter().map(|rule| Arc::new(Watched(rule)) as Arc<dyn AnalyzerRule + Send + Sync>);
    std::iter::once(Arc::new(Bounded) as Arc<dyn AnalyzerRule + Send + Sync>).chain(watched).collect()
}

/// DataFusion's optimizer rules, under watch, and those of ours that come behind.
pub(crate) fn optimizers() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    for rule in Optimizer::new().rules {
        // What a rule made of the plan, the next one sees.
        let grows = matches!(rule.name(), "simplify_expressions" | "push_down_filter" | "optimize_projections");
        rules.push(Arc::new(Watched(rule)));
        if grows {
            rules.push(Arc::new(Bounded));
        }
    }
    let ours: [Arc<dyn OptimizerRule + Send + Sync>; 4] =
        [Arc::new(OneZeroInJoins), Arc::new(OrdersOfAggregates), Arc::new(TruthTests), Arc::new(named::NamedKeys)];
    rules.extend(ours);
    rules
}

/// DataFusion's rules for physical plans, under watch, and those of ours that come before.
pub(crate) fn physical_optimizers() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let watched = |rule| Arc::new(Watched(rule)) as Arc<dyn PhysicalOptimizerRule + Send + Sync>;
    let ours: [Arc<dyn PhysicalOptimizerRule + Send + Sync>; 4] = [
        Arc::new(merging::MergeSortedRows),
        Arc::new(skipping::SkipInOrder),
        Arc::new(limits::LimitsApart),
        Arc::new(veil::DrawVeils),
    ];
    ours.into_iter().chain(PhysicalOptimizer::new().rules.into_iter().map(watched)).collect()
}

/// A rule of DataFusion's that looks up before it works.
#[derive(Debug)]
struct Watched<T>(T);

impl AnalyzerRule for Watched<Arc<dyn AnalyzerRule + Send + Sync>> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        look()?;
        self.0.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl OptimizerRule for Watched<Arc<dyn OptimizerRule + Send + Sync>> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        look()?;
        match (self.0.name(), &plan) {
            ("extract_equijoin_predicate", _) if compares_nulls(&plan) => return Ok(Transformed::no(plan)),
            // A condition that names no column, as `1 = 2`, would go below an aggregate that gives a row even of no rows.
            ("push_down_filter", LogicalPlan::Filter(filter)) if keys::gives_a_row_of_none(&filter.input) => {
                return Ok(Transformed::no(plan));
            }
            ("eliminate_duplicated_expr", LogicalPlan::Sort(_)) => return Ok(Transformed::no(plan)),
            ("eliminate_join", _) if keys::are_doubtful(&plan)? => return Ok(Transformed::no(plan)),
            ("eliminate_cross_join", _) => return self.0.rewrite(spanning::as_conditions(plan)?, config),
            ("optimize_projections", _) if keys::are_doubtful(&plan)? => {
                return self.0.rewrite(keys::sound(plan)?, config);
            }
            ("simplify_expressions", _) if lists::meet(&plan)? => return lists::simplified(&self.0, plan, config),
            ("replace_distinct_aggregate", _) => return keys::distinct(&self.0, plan, config),
            ("propagate_empty_relation", LogicalPlan::Union(union)) => {
                if let Some(query) = unions::only_query(union)? {
                    return Ok(Transformed::yes(query));
                }
            }
            ("single_distinct_aggregation_to_group_by", _) => return grouped_twice(&self.0, plan, config),
            _ => {}
        }
        let rewritten = self.0.rewrite(plan, config)?;
        match &rewritten.data {
            LogicalPlan::Join(join) if rewritten.transformed && join.null_equality == NullEquality::NullEqualsNull => {
                let join = apart(join)?;
                Ok(Transformed { data: LogicalPlan::Join(join), ..rewritten })
            }
            _ => Ok(rewritten),
        }
    }
}

impl PhysicalOptimizerRule for Watched<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        look()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn datafusion::physical_optimizer::PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        look()?;
        let config = context.config_options();
        let finished = |plan| whole::partitions(veil::DrawVeils.optimize(plan, config)?);
        let optimized = |plan| self.0.optimize_with_context(plan, context);
        let optimized = match self.0.name() {
            "SanityCheckPlan" => optimized(Arc::clone(&plan))
                .or_else(|_| sorting::again(plan, config).and_then(finished).and_then(optimized)),
            "aggregate_statistics" if totals::are_of_some(&plan)? => Ok(plan),
            name if name.starts_with("FilterPushdown") => gates::gated(plan, optimized),
            _ => optimized(plan),
        };
        finished(optimized?)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Aggregates of distinct values, as groups of groups. The rule has sums summed up again, and a sum of sums has a wider type than
/// a sum: what it gives gets its own type back. The names that the rule gives to columns, no other column must have.
fn grouped_twice(
    rule: &Arc<dyn OptimizerRule + Send + Sync>,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let takes_name = |name: &str| name.starts_with("alias") || name.starts_with("group_alias_");
    match &plan {
        LogicalPlan::Aggregate(aggregate)
            if aggregate
                .group_expr
                .iter()
                .any(|group| matches!(group, Expr::Column(column) if takes_name(&column.name))) =>
        {
            return Ok(Transformed::no(plan));
        }
        _ => {}
    }
    let schema = Arc::clone(plan.schema());
    let rewritten = rule.rewrite(plan, config)?;
    if !rewritten.transformed {
        return Ok(rewritten);
    }
    rewritten.map_data(|rewritten| {
        let LogicalPlan::Projection(Projection { expr, input, .. }) = rewritten else { return Ok(rewritten) };
        let expr = expr.into_iter().zip(schema.fields()).map(|(expression, field)| {
            if expression.get_type(input.schema())? == *field.data_type() {
                return Ok(expression);
            }
            Ok(match expression {
                Expr::Alias(Alias { expr, relation, name, .. }) => {
                    cast(*expr, field.data_type().clone()).alias_qualified(relation, name)
                }
                other => other,
            })
        });
        let expr = expr.collect::<Result<Vec<_>>>()?;
        Projection::try_new(expr, input).map(LogicalPlan::Projection)
    })
}

/// Whether a join compares columns of two types that are alternatives.
pub(crate) fn compares_types(plan: &LogicalPlan) -> Result<bool> {
    has_node(plan, &|node| {
        let LogicalPlan::Join(join) = node else { return Ok(false) };
        let differ = |left: &Expr, right: &Expr| {
            let types = left.get_type(join.left.schema()).ok().zip(right.get_type(join.right.schema()).ok());
            let back = || left.get_type(join.right.schema()).ok().zip(right.get_type(join.left.schema()).ok());
            types
                .or_else(back)
                .is_some_and(|(left, right)| left != right && exact::alternatives(&left, &right).is_some())
        };
        let conditions = join.filter.iter().flat_map(split_conjunction);
        let in_filter = conditions.into_iter().any(|condition| {
            matches!(condition, Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if differ(left, right))
        });
        Ok(in_filter || join.on.iter().any(|(left, right)| differ(left, right)))
    })
}

/// A join on columns whose NULLs are equal. An equality in its condition must stay there: among the columns, its NULLs would be
/// equal as well.
fn compares_nulls(plan: &LogicalPlan) -> bool {
    matches!(
        plan,
        LogicalPlan::Join(Join { null_equality: NullEquality::NullEqualsNull, on, filter: Some(_), .. })
            if !on.is_empty()
    )
}

/// The same join by columns that are not NULL. Rules that run later add equalities of the condition to the columns, or join
/// several joins to one, and would have their NULLs equal, too.
fn apart(join: &Join) -> Result<Join> {
    let mut on = Vec::with_capacity(2 * join.on.len());
    for (left, right) in &join.on {
        on.extend(same(&join.left, left.clone(), &join.right, right.clone())?);
    }
    Ok(Join { on, null_equality: NullEquality::NullEqualsNothing, ..join.clone() })
}

/// Refuses plans that are too large, or would be.
#[derive(Debug)]
struct Bounded;

impl AnalyzerRule for Bounded {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        check_depth(&plan, 0)?;
        check_size(&plan)?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "bounded"
    }
}

impl OptimizerRule for Bounded {
    fn name(&self) -> &'static str {
        "bounded"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check_size(&plan)?;
        Ok(Transformed::no(plan))
    }
}

/// Refuses subqueries that are nested too deeply. DataFusion looks through each as often as there are others around it, and more.
fn check_depth(plan: &LogicalPlan, depth: usize) -> Result<()> {
    if depth > MOST_NESTED {
        return Err(Error::unsupported(
            format!("more than {MOST_NESTED} subqueries within one another in expressions"),
            "write inner ones as subqueries of FROM",
        )
        .into());
    }
    plan.apply(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|inner| {
                if let Expr::ScalarSubquery(subquery)
                | Expr::Exists(Exists { subquery, .. })
                | Expr::InSubquery(InSubquery { subquery, .. }) = inner
                {
                    check_depth(&subquery.subquery, depth + 1)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// Refuses a plan that views or CTEs have made too large: of those that name another one twice, each is twice as large as the one
/// before.
pub(crate) fn check_nodes(plan: &LogicalPlan) -> crate::Result<()> {
    let mut nodes = 0;
    plan.apply_with_subqueries(|_| {
        nodes += 1;
        Ok(if nodes > MOST_NODES { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if nodes > MOST_NODES {
        return Err(Error::unsupported(
            format!("a statement with more than {MOST_NODES} operators, in its views and WITH"),
            "keep the rows of a query that is named often in a table: CREATE TABLE t AS SELECT …",
        ));
    }
    Ok(())
}

fn check_size(plan: &LogicalPlan) -> Result<()> {
    let mut all = 0_u64;
    plan.apply_with_subqueries(|node| {
        look()?;
        // Rows of values stay as they are.
        if !matches!(node, LogicalPlan::Values(_)) {
            node.apply_expressions(|expression| {
                let Size { parts, grown } = Size::of(expression)?;
                if grown > MOST_GROWN && grown > 2 * parts {
                    return Err(Error::unsupported(
                        format!("an expression that grows from {parts} parts to more than {MOST_GROWN}"),
                        "write coalesce(coalesce(a, b), c) as coalesce(a, b, c), or compute the inner one in a subquery",
                    )
                    .into());
                }
                all += parts;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        if all > MOST_PARTS {
            return Err(Error::unsupported(
                format!("a statement whose expressions have more than {MOST_PARTS} parts when it is planned"),
                "write it in smaller parts: keep a subquery's result in a table of its own",
            )
            .into());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// How large an expression is, and will be.
struct Size {
    parts: u64,
    /// After `coalesce(a, b)` became `CASE WHEN a IS NOT NULL THEN a ELSE b END`.
    grown: u64,
}

impl Size {
    fn of(expression: &Expr) -> Result<Self> {
        let doubles = match expression {
            Expr::ScalarFunction(call) => matches!(call.func.name(), "coalesce" | "nvl" | "nvl2"),
            _ => false,
        };
        let mut sum = Self { parts: 1, grown: 1 };
        let mut last = 0;
        expression.apply_children(|child| {
            let child = Self::of(child)?;
            sum.parts = sum.parts.saturating_add(child.parts);
            last = child.grown;
            sum.grown = sum.grown.saturating_add(child.grown.saturating_mul(if doubles { 2 } else { 1 }));
            Ok(TreeNodeRecursion::Continue)
        })?;
        if doubles {
            sum.grown -= last;
        }
        Ok(sum)
    }
}
