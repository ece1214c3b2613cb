//! Bytes that become texts: as `PostgreSQL` writes a BYTEA, `\x00ff`.
//!
//! DataFusion takes them for the letters of a text, if they are such, wherever a function takes a text. So this is done before it casts anything:
//! the functions that `PostgreSQL` has of a BYTEA are computed of its bytes, and the others are refused.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::functions::encoding::encode;
use datafusion::functions::unicode::character_length;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Expr, LogicalPlan, cast, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;
use ishigaki_scan::exact;

use super::in_expressions;
use crate::Error;

/// Functions of a text that are none of bytes here.
const OF_TEXTS: [&str; 24] = [
    "ascii",
    "btrim",
    "initcap",
    "left",
    "lower",
    "lpad",
    "ltrim",
    "overlay",
    "position",
    "regexp_count",
    "regexp_instr",
    "regexp_like",
    "regexp_match",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "strpos",
    "substr",
    "upper",
];

/// The rule. To be run before the coercion of types.
#[derive(Debug)]
pub(crate) struct BytesAsTexts;

impl AnalyzerRule for BytesAsTexts {
    fn name(&self) -> &'static str {
        "bytes_as_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let may_be_of_bytes = |expression: &Expr| matches!(expression, Expr::Cast(_) | Expr::ScalarFunction(_));
        in_expressions(plan, may_be_of_bytes, |expression, schema| {
            expression.transform_up(|inner| written(inner, schema))
        })
    }
}

fn written(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_bytes = |of: &Expr| {
        let found = exact::type_of(of, schema);
        matches!(found, Some(DataType::Binary | DataType::LargeBinary | DataType::BinaryView))
    };
    let text = |of: Expr| if is_bytes(&of) { exact::plain_spelling().call(vec![of]) } else { of };
    match expression {
        Expr::Cast(Cast { expr, field }) if field.data_type().is_string() && is_bytes(&expr) => {
            Ok(Transformed::yes(cast(text(*expr), field.data_type().clone())))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if args.iter().any(is_bytes) => match func.name() {
            "concat" | "concat_ws" => {
                let args = args.into_iter().map(text).collect();
                Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
            }
            "character_length" => {
                let digits = character_length().call(vec![encode().call(vec![args[0].clone(), lit("hex")])]);
                Ok(Transformed::yes(cast(digits, DataType::Int32) / lit(2_i32)))
            }
            name if OF_TEXTS.contains(&name) => {
                let remedy = "CAST the bytes to TEXT, or compute it outside of the database";
                Err(Error::unsupported(format!("{name} of BYTEA"), remedy).into())
            }
            _ => Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }))),
        },
        other => Ok(Transformed::no(other)),
    }
}
