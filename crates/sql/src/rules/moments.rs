//! Texts that become times, and times, intervals and floating-point numbers that become texts.
//!
//! Texts are made [plain](Moment::plain) before Arrow reads them, which does not read them as `PostgreSQL` does. And Arrow writes times
//! with a T, years before the first one as negative ones, intervals in words of its own, and 100000 as a DOUBLE with a point.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;
use ishigaki_scan::exact::{self, Moment};

use super::in_expressions;

/// The rule. To be run behind the coercion of types, which casts texts.
#[derive(Debug)]
pub(crate) struct TextsAsTimes;

impl AnalyzerRule for TextsAsTimes {
    fn name(&self) -> &'static str {
        "texts_as_times"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is_cast = |expression: &Expr| matches!(expression, Expr::Cast(_) | Expr::TryCast(_));
        in_expressions(plan, is_cast, |expression, schema| {
            expression
                .transform_up(|expression| read(expression, schema).transform_data(|read| Ok(written(read, schema))))
        })
    }
}

fn read(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let text = match &expression {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            Moment::of(field.data_type()).and_then(|moment| plain(expr, moment, schema))
        }
        _ => None,
    };
    let Some(text) = text.map(Box::new) else { return Transformed::no(expression) };
    Transformed::yes(match expression {
        Expr::TryCast(TryCast { field, .. }) => Expr::TryCast(TryCast { expr: text, field }),
        Expr::Cast(Cast { field, .. }) => Expr::Cast(Cast { expr: text, field }),
        other => other,
    })
}

/// A text that is to become a day or a time, as Arrow reads it; nothing if it is that already, or no text.
fn plain(text: &Expr, moment: Moment, schema: &DFSchema) -> Option<Expr> {
    match text {
        Expr::Literal(value, _) => {
            let value = value.try_as_str().flatten()?;
            let plain = moment.plain(value);
            (plain != value).then(|| lit(ScalarValue::Utf8(Some(plain.into_owned()))))
        }
        Expr::ScalarFunction(call) if call.func == exact::plain_text(moment) => None,
        text if text.get_type(schema).is_ok_and(|found| found.is_string()) => {
            Some(exact::plain_text(moment).call(vec![text.clone()]))
        }
        _ => None,
    }
}

/// A day, a time, an interval or a floating-point number as a text.
fn written(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expression {
        Expr::Cast(Cast { expr, field }) if field.data_type().is_string() && has_spelling(&expr, schema) => {
            Transformed::yes(cast(exact::plain_spelling().call(vec![*expr]), field.data_type().clone()))
        }
        other => Transformed::no(other),
    }
}

fn has_spelling(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|found| {
        matches!(
            found,
            DataType::Float32
                | DataType::Float64
                | DataType::Date32
                | DataType::Timestamp(TimeUnit::Microsecond, None)
                | DataType::Interval(_)
                | DataType::Duration(_)
        )
    })
}
