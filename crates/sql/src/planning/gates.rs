//! Gates where a filter that is pushed down would be mistaken for another.
//!
//! DataFusion's rule for filters in physical plans finds a filter's columns again by their names, operator by operator. Where two
//! columns of an operator have one name, it takes the first, whichever was meant: of a right join whose sides both have a `v`, a
//! condition on the left one was checked on the right one. So a [`Gate`] is put above each operator in which a name does not say
//! which column is meant. It lets through the filters that have only names that do. After the rule the gates are gone.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter_pushdown::{ChildFilterDescription, FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};

/// The plan that `push` makes of `plan`, with gates in it meanwhile.
pub(super) fn gated(
    plan: Arc<dyn ExecutionPlan>,
    push: impl FnOnce(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let with_gates = plan.transform_up(|node| {
        let children = node.children();
        let gates: Vec<_> = (0..children.len()).map(|child| Gate::above_child(&node, child)).collect();
        if gates.iter().all(Option::is_none) {
            return Ok(Transformed::no(node));
        }
        let gate_or_child = |(gate, child): (Option<Gate>, &Arc<dyn ExecutionPlan>)| match gate {
            Some(gate) => Arc::new(gate) as Arc<dyn ExecutionPlan>,
            None => Arc::clone(child),
        };
        let children = gates.into_iter().zip(children).map(gate_or_child).collect();
        replace_children_if_necessary(node, children).map(Transformed::yes)
    })?;
    if !with_gates.transformed {
        return push(with_gates.data);
    }
    let without = |node: Arc<dyn ExecutionPlan>| match node.downcast_ref::<Gate>() {
        Some(gate) => Ok(Transformed::yes(Arc::clone(&gate.input))),
        None => Ok(Transformed::no(node)),
    };
    Ok(push(with_gates.data)?.transform_up(without)?.data)
}

/// An operator that gives what the one below it gives, and that filters pass if their columns can not be mistaken.
#[derive(Debug)]
struct Gate {
    input: Arc<dyn ExecutionPlan>,
    /// The columns, by their places, whose names are theirs alone.
    clear: HashSet<usize>,
}

impl Gate {
    /// The gate that has to stand between `parent` and its child of this number. `None` if each name there means one column.
    fn above_child(parent: &Arc<dyn ExecutionPlan>, child: usize) -> Option<Self> {
        let input = Arc::clone(parent.children()[child]);
        let mut doubtful = repeated(&input);
        for below in input.children() {
            doubtful.extend(repeated(below));
        }
        doubtful.extend(renamed_groups(&input));
        doubtful.extend(foreign_keys(parent, child));
        doubtful.extend(renamed_by_union(parent, &input));
        let schema = input.schema();
        let names = schema.fields().iter().enumerate();
        let clear: HashSet<usize> =
            names.filter(|(_, field)| !doubtful.contains(field.name())).map(|(place, _)| place).collect();
        // A name of a column below may be none of this operator's: then no filter above can have it.
        (clear.len() < schema.fields().len()).then_some(Self { input, clear })
    }

    #[expect(clippy::unnecessary_wraps, reason = "other operators over one input may refuse another")]
    fn on(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { input, clear: self.clear.clone() }))
    }
}

/// The names that several columns of an operator have.
fn repeated(plan: &Arc<dyn ExecutionPlan>) -> HashSet<String> {
    let schema = plan.schema();
    let mut times: HashMap<&str, usize> = HashMap::new();
    for field in schema.fields() {
        *times.entry(field.name()).or_default() += 1;
    }
    times.into_iter().filter(|&(_, times)| times > 1).map(|(name, _)| name.to_owned()).collect()
}

/// The groups of an aggregate that have another name than the column they are.
fn renamed_groups(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return Vec::new() };
    let groups = aggregate.group_expr().expr().iter();
    groups.filter(|(group, name)| column(group) != Some(name)).map(|(_, name)| name.clone()).collect()
}

/// The names of a semi-join's keys on the side that it gives, where they are no key of that name on its other side, `child`: a
/// filter on a key holds on both sides, and is looked for by the name that the key has on the side that is given.
fn foreign_keys(parent: &Arc<dyn ExecutionPlan>, child: usize) -> Vec<String> {
    let Some(join) = parent.downcast_ref::<HashJoinExec>() else { return Vec::new() };
    let other_is_right = match (join.join_type(), child) {
        (JoinType::LeftSemi, 1) => true,
        (JoinType::RightSemi, 0) => false,
        _ => return Vec::new(),
    };
    let foreign = join.on().iter().filter_map(|(left, right)| {
        let (given, other) = if other_is_right { (left, right) } else { (right, left) };
        let name = column(given)?;
        (column(other) != Some(name)).then(|| name.to_owned())
    });
    foreign.collect()
}

/// The names of a union's input that are those of other columns of the union.
fn renamed_by_union(parent: &Arc<dyn ExecutionPlan>, input: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    if !parent.is::<UnionExec>() && !parent.is::<InterleaveExec>() {
        return Vec::new();
    }
    let (union, input) = (parent.schema(), input.schema());
    let pairs = union.fields().iter().zip(input.fields());
    pairs.filter(|(union, input)| union.name() != input.name()).map(|(_, input)| input.name().clone()).collect()
}

/// The name of an expression that is a column.
fn column(expression: &Arc<dyn PhysicalExpr>) -> Option<&str> {
    expression.downcast_ref::<Column>().map(Column::name)
}

impl DisplayAs for Gate {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gate: clear={:?}", self.clear)
    }
}

impl ExecutionPlan for Gate {
    fn name(&self) -> &'static str {
        "Gate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    ishigaki_scan::operator!(input by on);

    ishigaki_scan::operator!(no expressions);

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let through =
            ChildFilterDescription::from_child_with_allowed_indices(&parent_filters, self.clear.clone(), &self.input)?;
        Ok(FilterDescription::new().with_child(through))
    }
}
