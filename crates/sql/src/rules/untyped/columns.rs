//! Texts of no type that are selected beside decimals, in the same column of a UNION, an INTERSECT or an EXCEPT.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, Projection, Union};

use super::{common_type, text, typed};

pub(super) fn read(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_changed = Cell::new(false);
    plan.transform_up_with_subqueries(|plan| {
        let read = match plan {
            LogicalPlan::Union(union) => of_union(union)?,
            LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull => of_set(join)?,
            // What is below may have other types now.
            other if is_changed.get() => Transformed::yes(other.recompute_schema()?),
            other => Transformed::no(other),
        };
        is_changed.set(is_changed.get() || read.transformed);
        Ok(read)
    })
    .data()
}

fn of_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let plan = LogicalPlan::Union(union);
    let types: Vec<_> = (0..plan.schema().fields().len()).map(|column| common_of(&[(&plan, column)])).collect();
    if types.iter().all(Option::is_none) {
        return Ok(Transformed::no(plan));
    }
    Ok(Transformed::yes(with_types(plan, &types)?))
}

/// INTERSECT and EXCEPT are joins of columns with columns.
fn of_set(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let place = |plan: &LogicalPlan, column: &Expr| match column {
        Expr::Column(column) => plan.schema().maybe_index_of_column(column),
        _ => None,
    };
    let mut types = [vec![None; join.left.schema().fields().len()], vec![None; join.right.schema().fields().len()]];
    for (left, right) in &join.on {
        if let (Some(one), Some(other)) = (place(&join.left, left), place(&join.right, right))
            && let Some(of) = common_of(&[(&join.left, one), (&join.right, other)])
        {
            (types[0][one], types[1][other]) = (Some(of.clone()), Some(of));
        }
    }
    if types.iter().flatten().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    join.left = Arc::new(with_types(Arc::unwrap_or_clone(join.left), &types[0])?);
    join.right = Arc::new(with_types(Arc::unwrap_or_clone(join.right), &types[1])?);
    Ok(Transformed::yes(LogicalPlan::Join(join).recompute_schema()?))
}

/// The type that the texts of a column have, if there are any among others.
fn common_of(columns: &[(&LogicalPlan, usize)]) -> Option<DataType> {
    let (mut types, mut has_text) = (Vec::new(), false);
    for (plan, column) in columns {
        each(plan, *column, &mut |plan, column| match written(plan, column) {
            Some(_) => has_text = true,
            None => types.push(plan.schema().field(column).data_type().clone()),
        });
    }
    if has_text { common_type(types.into_iter()) } else { None }
}

/// Every plan whose rows are some of a column's.
fn each(plan: &LogicalPlan, column: usize, found: &mut dyn FnMut(&LogicalPlan, usize)) {
    match plan {
        LogicalPlan::Union(union) => union.inputs.iter().for_each(|input| each(input, column, found)),
        LogicalPlan::SubqueryAlias(alias) => each(&alias.input, column, found),
        LogicalPlan::Distinct(Distinct::All(input)) => each(input, column, found),
        other => found(other, column),
    }
}

/// The text of no type that a column is in all rows of a plan.
fn written(plan: &LogicalPlan, column: usize) -> Option<&str> {
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr.get(column)? {
            Expr::Alias(alias) => text(&alias.expr),
            other => text(other),
        },
        _ => None,
    }
}

/// The plan with these types for the texts in its columns.
fn with_types(plan: LogicalPlan, types: &[Option<DataType>]) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Union(Union { inputs, schema }) => {
            let input = |input| with_types(Arc::unwrap_or_clone(input), types).map(Arc::new);
            let inputs = inputs.into_iter().map(input).collect::<Result<_>>()?;
            LogicalPlan::Union(Union { inputs, schema }).recompute_schema()?
        }
        LogicalPlan::SubqueryAlias(mut alias) => {
            alias.input = Arc::new(with_types(Arc::unwrap_or_clone(alias.input), types)?);
            LogicalPlan::SubqueryAlias(alias).recompute_schema()?
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            LogicalPlan::Distinct(Distinct::All(Arc::new(with_types(Arc::unwrap_or_clone(input), types)?)))
        }
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let of = |(expression, of): (Expr, &Option<DataType>)| match of {
                Some(of) => selected(expression, of),
                None => expression,
            };
            let expr = expr.into_iter().zip(types).map(of).collect();
            LogicalPlan::Projection(Projection::try_new(expr, input)?)
        }
        other => other,
    })
}

/// A text that is selected, under the name that it had.
fn selected(expression: Expr, of: &DataType) -> Expr {
    match expression {
        Expr::Alias(alias) => {
            let expr = Box::new(typed(*alias.expr, of));
            Expr::Alias(Alias { expr, ..alias })
        }
        other if text(&other).is_some() => {
            let name = other.schema_name().to_string();
            typed(other, of).alias(name)
        }
        other => other,
    }
}
