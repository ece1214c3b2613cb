//! A scalar subquery has one row at most, or the statement fails.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::{Column, Result, ScalarValue, exec_err};
use datafusion::functions::string::expr_fn::concat;
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, FetchType, LogicalPlan, Signature, Volatility, cast, lit, when,
};

/// Whether a plan gives one row at most, as can be seen from its form.
pub(super) fn at_most_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Values(values) => values.values.len() <= 1,
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1)))) || at_most_one_row(&limit.input)
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::SubqueryAlias(_) => plan.inputs().into_iter().all(at_most_one_row),
        _ => false,
    }
}

/// Whether it gives exactly one.
pub(crate) fn exactly_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Projection(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(exactly_one_row)
        }
        _ => false,
    }
}

/// Aggregates, and what makes of them the value of the only row, or fails where there are more.
///
/// A plan that is run in pieces elsewhere has no functions of ours: there, the text of the error is cast to a number.
pub(super) fn only(value: Expr, here: bool, mut name: impl FnMut() -> String) -> Result<(Vec<Expr>, Expr)> {
    let (value_name, rows_name) = (name(), name());
    let column = |name: &str| Expr::Column(Column::new_unqualified(name));
    if here {
        return Ok((vec![single_value().call(vec![value]).alias(&value_name)], column(&value_name)));
    }
    let aggregates = vec![first_value(value, Vec::new()).alias(&value_name), count(lit(1_i64)).alias(&rows_name)];
    let (value, rows) = (column(&value_name), column(&rows_name));
    let text = concat(vec![lit(format!("{TOO_MANY}: ")), cast(rows.clone(), DataType::Utf8)]);
    let fails = cast(text, DataType::Int64).is_null();
    let failed = when(fails, value.clone()).end()?;
    let value = when(rows.gt(lit(1_i64)), failed).otherwise(value)?;
    Ok((aggregates, value))
}

/// What a scalar subquery of more rows fails with.
const TOO_MANY: &str = "more than one row returned by a subquery used as an expression";

/// The aggregate function `single_value`: the value of the only row, or an error where there are more.
fn single_value() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(AggregateUDF::from(SingleValue { signature }))
    });
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &'static str {
        "single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(arguments.return_field.data_type())?;
        Ok(Box::new(Single { value, rows: 0 }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![
            Arc::new(Field::new(format!("{}[value]", arguments.name), arguments.return_type().clone(), true)),
            Arc::new(Field::new(format!("{}[rows]", arguments.name), DataType::UInt64, false)),
        ])
    }
}

/// What was seen of a group.
#[derive(Debug)]
struct Single {
    value: ScalarValue,
    rows: u64,
}

impl Single {
    fn add(&mut self, rows: u64, values: &ArrayRef, at: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        self.rows += rows;
        if self.rows > 1 {
            return exec_err!("{TOO_MANY}");
        }
        self.value = ScalarValue::try_from_array(values, at)?;
        Ok(())
    }
}

impl Accumulator for Single {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values[0].len() as u64, &values[0], 0)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) - size_of_val(&self.value) + self.value.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::UInt64(Some(self.rows))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states[1].as_primitive::<UInt64Type>();
        (0..rows.len()).try_for_each(|at| self.add(rows.value(at), &states[0], at))
    }
}
