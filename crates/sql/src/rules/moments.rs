//! Texts that become times, and times and intervals that become texts.
//!
//! `2024-01-01 10:00` is a time without seconds, as `PostgreSQL` reads it; Arrow wants them to be written. And Arrow writes times
//! with a T, years before the first one as negative ones, and intervals in words of its own.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;
use ishigaki_scan::exact;

use super::in_expressions;

/// The rule. To be run behind the coercion of types, which casts texts.
#[derive(Debug)]
pub(crate) struct TextsAsTimes;

impl AnalyzerRule for TextsAsTimes {
    fn name(&self) -> &'static str {
        "texts_as_times"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        in_expressions(plan, |expression, schema| {
            expression.transform_up(|expression| Ok(read(expression).transform_data(|read| Ok(written(read, schema)))?))
        })
    }
}

fn read(expression: Expr) -> Transformed<Expr> {
    let is_time = |to: &DataType| matches!(to, DataType::Timestamp(..) | DataType::Date32);
    let complete = match &expression {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) if is_time(field.data_type()) => {
            match expr.as_ref() {
                Expr::Literal(value, _) => value.try_as_str().flatten().and_then(with_seconds),
                _ => None,
            }
        }
        _ => None,
    };
    let Some(text) = complete else { return Transformed::no(expression) };
    let text = Box::new(lit(ScalarValue::Utf8(Some(text))));
    Transformed::yes(match expression {
        Expr::TryCast(TryCast { field, .. }) => Expr::TryCast(TryCast { expr: text, field }),
        Expr::Cast(Cast { field, .. }) => Expr::Cast(Cast { expr: text, field }),
        other => other,
    })
}

/// A day, a time or an interval as a text.
fn written(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expression {
        Expr::Cast(Cast { expr, field }) if field.data_type().is_string() && is_moment(&expr, schema) => {
            Transformed::yes(cast(exact::moment_text().call(vec![*expr]), field.data_type().clone()))
        }
        other => Transformed::no(other),
    }
}

fn is_moment(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|found| {
        matches!(
            found,
            DataType::Date32
                | DataType::Timestamp(TimeUnit::Microsecond, None)
                | DataType::Interval(_)
                | DataType::Duration(_)
        )
    })
}

/// A text that is a day, hours and minutes, with seconds.
pub(crate) fn with_seconds(text: &str) -> Option<String> {
    let text = text.trim();
    let (day, time) = text.split_once([' ', 'T', 't'])?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (hours, minutes) = time.trim_start().split_once(':')?;
    let is_day = day.split('-').count() == 3 && day.split('-').all(is_number);
    (is_day && hours.len() <= 2 && is_number(hours) && minutes.len() == 2 && is_number(minutes))
        .then(|| format!("{day} {hours:0>2}:{minutes}:00"))
}

#[cfg(test)]
mod tests {
    use super::with_seconds;

    #[test]
    fn a_time_of_hours_and_minutes_gets_seconds() {
        assert_eq!(with_seconds("2024-01-01 10:00").as_deref(), Some("2024-01-01 10:00:00"));
        assert_eq!(with_seconds(" 2024-01-01T9:05 ").as_deref(), Some("2024-01-01 09:05:00"));
        for text in ["2024-01-01", "2024-01-01 10:00:00", "2024-01-01 10:0", "10:00", "2024-01-01 10:00+02"] {
            assert_eq!(with_seconds(text), None, "{text}");
        }
    }
}
