//! A floating-point number beside another number is compared as `PostgreSQL` compares it: both as a DOUBLE, unless both are a REAL.
//!
//! DataFusion would turn the floating-point side into a decimal, which has neither its range nor its precision, and an integer beside a
//! REAL into a REAL, as which it may be equal to its neighbours. A list of several numbers after IN has one type together with what is
//! looked for; so have the columns of INTERSECT and EXCEPT. NULLs of no type in these are texts.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, InList, InSubquery};
use datafusion::logical_expr::{
    Between, BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, binary_expr,
    cast, lit, not,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use ishigaki_scan::exact;

use super::in_expressions;

/// The column of a subquery in which something is looked for.
const SOUGHT: &str = "__sought";

/// The rule. To be run before DataFusion's coercion of types.
#[derive(Debug)]
pub(crate) struct FloatsStayFloats;

impl AnalyzerRule for FloatsStayFloats {
    fn name(&self) -> &'static str {
        "floats_stay_floats"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let compares = |expression: &Expr| {
            matches!(
                expression,
                Expr::BinaryExpr(_) | Expr::Between(_) | Expr::InList(_) | Expr::Case(_) | Expr::InSubquery(_)
            )
        };
        let plan = in_expressions(plan, compares, |expression, schema| {
            expression.transform_up(|expression| beside_floats(expression, schema))
        })?;
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(join) => joined(join),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn beside_floats(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let found = match &expression {
        // What stands between others in thousands, AND and `||`, has no numbers.
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
            alike([&**left, &**right].into_iter(), schema)
                .and_then(|both| <[Expr; 2]>::try_from(both).ok())
                .map(|[left, right]| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right))))
        }
        Expr::Between(between) => bounded(between, schema)?,
        Expr::InList(list) => listed(list, schema),
        Expr::Case(case) => chosen(case, schema)?,
        Expr::InSubquery(of) => sought(of, schema)?,
        _ => None,
    };
    Ok(found.map_or_else(|| Transformed::no(expression), Transformed::yes))
}

/// Numbers of several types, one of which is of floating-point numbers, as DOUBLE; nothing if there is nothing to change.
fn alike<'a>(all: impl Iterator<Item = &'a Expr> + Clone, schema: &DFSchema) -> Option<Vec<Expr>> {
    let types = all.clone().map(|expression| exact::type_of(expression, schema)).collect::<Option<Vec<_>>>()?;
    if !differ(&types.iter()) {
        return None;
    }
    // A REAL and numbers that are written down and are REALs, too: the column stays as it is for those that know its bounds.
    let reals = all.clone().zip(&types).map(|(expression, of)| match of {
        DataType::Float32 | DataType::Null => Some(expression.clone()),
        _ => as_real(expression),
    });
    if let Some(reals) = reals.collect::<Option<Vec<_>>>() {
        return Some(reals);
    }
    let double = |(expression, of): (&Expr, &DataType)| match of {
        DataType::Float64 | DataType::Null => expression.clone(),
        _ => cast(expression.clone(), DataType::Float64),
    };
    Some(all.zip(&types).map(double).collect())
}

/// Whether these are numbers of several types, one of them of floating-point numbers.
fn differ<'a>(types: &(impl Iterator<Item = &'a DataType> + Clone)) -> bool {
    let mut numbers = types.clone().filter(|of| !of.is_null());
    let first = numbers.next();
    types.clone().all(|of| of.is_numeric() || of.is_null())
        && types.clone().any(DataType::is_floating)
        && numbers.any(|of| Some(of) != first)
}

/// A number that is written down, as a REAL, if it is one.
fn as_real(expression: &Expr) -> Option<Expr> {
    let Expr::Literal(value, _) = expression else { return None };
    let ScalarValue::Float64(Some(value)) = exact::literal(value, &DataType::Float64).ok()? else { return None };
    let real = value as f32;
    (f64::from(real).to_bits() == value.to_bits()).then(|| lit(ScalarValue::Float32(Some(real))))
}

/// `x IN (1, 2.5, y)`: the numbers without columns get the type that they have in common with `x`, if there are several; all others
/// are compared one by one.
fn listed(InList { expr, list, negated }: &InList, schema: &DFSchema) -> Option<Expr> {
    let of = |expression: &Expr| exact::type_of(expression, schema);
    let all = std::iter::once(&**expr).chain(list);
    let types = all.clone().map(of).collect::<Option<Vec<_>>>()?;
    if !differ(&types.iter()) {
        return None;
    }
    let made = |expr: Expr, list: Vec<Expr>| {
        let list = InList { expr: Box::new(expr), list, negated: *negated };
        (!list.list.is_empty()).then(|| Expr::InList(list))
    };
    let (columns, numbers): (Vec<Expr>, Vec<Expr>) = list.iter().cloned().partition(Expr::any_column_refs);
    let apart = |list: &[Expr]| {
        let mut all = alike(std::iter::once(&**expr).chain(list), schema)
            .unwrap_or_else(|| std::iter::once(&**expr).chain(list).cloned().collect());
        let list = all.split_off(1);
        made(all.pop()?, list)
    };
    if numbers.len() < 2 {
        return apart(list);
    }
    let known = std::iter::once(&**expr).chain(&numbers).filter_map(of).filter(|of| !of.is_null());
    let common = known.map(Some).reduce(|one, other| exact::alternatives(&one?, &other?))??;
    let as_common = |value: &Expr| match of(value) {
        Some(found) if found != common && !found.is_null() => cast(value.clone(), common.clone()),
        _ => value.clone(),
    };
    // What is looked for keeps its type, and is compared with the numbers as with one of them.
    let together: Vec<Expr> = std::iter::once(expr.as_ref().clone()).chain(numbers.iter().map(as_common)).collect();
    let mut together = alike(together.iter(), schema).unwrap_or(together);
    let list = together.split_off(1);
    let together = made(together.pop()?, list);
    match (together, apart(&columns)) {
        (Some(one), Some(other)) if *negated => Some(one.and(other)),
        (Some(one), Some(other)) => Some(one.or(other)),
        (one, other) => one.or(other),
    }
}

/// `x BETWEEN 1 AND y` compares.
fn bounded(Between { expr, negated, low, high }: &Between, schema: &DFSchema) -> Result<Option<Expr>> {
    if are_apart(expr, &[low, high], schema) {
        let compared = |operator, bound: &Expr| {
            beside_floats(binary_expr(expr.as_ref().clone(), operator, bound.clone()), schema).data()
        };
        let within = compared(Operator::GtEq, low)?.and(compared(Operator::LtEq, high)?);
        return Ok(Some(if *negated { not(within) } else { within }));
    }
    let all = alike([&**expr, &**low, &**high].into_iter(), schema).and_then(|all| <[Expr; 3]>::try_from(all).ok());
    Ok(all
        .map(|[expr, low, high]| Expr::Between(Between::new(Box::new(expr), *negated, Box::new(low), Box::new(high)))))
}

/// `CASE x WHEN 1 THEN …` compares.
fn chosen(case: &Case, schema: &DFSchema) -> Result<Option<Expr>> {
    let Some(of) = case.expr.as_deref() else { return Ok(None) };
    let values = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
    let thens = case.when_then_expr.iter().map(|(_, then)| then.clone());
    if !of.is_volatile() && are_apart(of, &values.clone().collect::<Vec<_>>(), schema) {
        let compared =
            |value: &Expr| beside_floats(binary_expr(of.clone(), Operator::Eq, value.clone()), schema).data();
        let whens = values.map(compared).collect::<Result<Vec<_>>>()?;
        let when_then_expr = whens.into_iter().map(Box::new).zip(thens).collect();
        return Ok(Some(Expr::Case(Case { expr: None, when_then_expr, else_expr: case.else_expr.clone() })));
    }
    let Some(all) = alike(std::iter::once(of).chain(values), schema) else { return Ok(None) };
    let mut all = all.into_iter();
    let expr = all.next().map(Box::new);
    let when_then_expr = all.map(Box::new).zip(thens).collect();
    Ok(Some(Expr::Case(Case { expr, when_then_expr, else_expr: case.else_expr.clone() })))
}

/// Whether an exact number is compared with exact and with floating-point ones, with each in its own way.
fn are_apart(exact: &Expr, others: &[&Expr], schema: &DFSchema) -> bool {
    let of = |expression: &Expr| exact::type_of(expression, schema).filter(DataType::is_numeric);
    let is_exact = |expression: &Expr| of(expression).map(|of| !of.is_floating());
    let others: Vec<_> = others.iter().filter_map(|other| is_exact(other)).collect();
    is_exact(exact) == Some(true) && others.contains(&true) && others.contains(&false)
}

/// `x IN (SELECT y …)` compares. Whole numbers of several types get one here, too.
fn sought(InSubquery { expr, subquery, negated }: &InSubquery, schema: &DFSchema) -> Result<Option<Expr>> {
    let columns = subquery.subquery.schema().columns();
    let (Some(of), [column]) = (exact::type_of(expr, schema), columns.as_slice()) else { return Ok(None) };
    let found = subquery.subquery.schema().field(0).data_type().clone();
    let common = if differ(&[&of, &found].into_iter()) {
        DataType::Float64
    } else if of != found && of.is_integer() && found.is_integer() {
        match exact::alternatives(&of, &found) {
            Some(common) => common,
            None => return Ok(None),
        }
    } else {
        return Ok(None);
    };
    let as_common = |value: Expr, of: &DataType| if *of == common { value } else { cast(value, common.clone()) };
    // A name of its own: a condition of the subquery may need the column as it is beside it.
    let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
        .project([as_common(Expr::Column(column.clone()), &found).alias(SOUGHT)])?
        .build()?;
    let subquery = Subquery {
        subquery: Arc::new(plan),
        outer_ref_columns: subquery.outer_ref_columns.clone(),
        spans: subquery.spans.clone(),
    };
    let expr = Box::new(as_common(expr.as_ref().clone(), &of));
    Ok(Some(Expr::InSubquery(InSubquery { expr, subquery, negated: *negated })))
}

/// A join whose columns are compared so. Those of a set operation have one type, as all alternatives.
fn joined(join: Join) -> Result<Transformed<LogicalPlan>> {
    let is_set = join.null_equality == NullEquality::NullEqualsNull;
    let mut changed = false;
    let mut on = Vec::with_capacity(join.on.len());
    for (left, right) in &join.on {
        let (of, other) = (left.get_type(join.left.schema())?, right.get_type(join.right.schema())?);
        let common = match (&of, &other) {
            (DataType::Null, DataType::Null) => Some(DataType::Utf8View),
            (DataType::Null, known) | (known, DataType::Null) => Some(known.clone()),
            _ if differ(&[&of, &other].into_iter()) && is_set => exact::alternatives(&of, &other),
            _ if differ(&[&of, &other].into_iter()) => Some(DataType::Float64),
            _ => None,
        };
        let as_common = |value: &Expr, of: &DataType| match &common {
            Some(common) if common != of => cast(value.clone(), common.clone()),
            _ => value.clone(),
        };
        changed |= common.is_some();
        on.push((as_common(left, &of), as_common(right, &other)));
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    Ok(Transformed::yes(LogicalPlan::Join(Join { on, ..join })))
}
