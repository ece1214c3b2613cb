//! Texts that become bytes: as `PostgreSQL` reads a BYTEA, or not at all.
//!
//! DataFusion takes the bytes of the letters: `'\xdead'` would be six bytes beside a column of bytes, and no error. A literal is
//! read here; another text is refused.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::in_expressions;
use crate::Error;

/// Functions that take a BYTEA in `PostgreSQL`, and a text too in DataFusion.
const OF_BYTES: [&str; 5] = ["encode", "sha224", "sha256", "sha384", "sha512"];

/// The rule. To be run behind the coercion of types, which casts texts.
#[derive(Debug)]
pub(crate) struct TextsAsBytes;

impl AnalyzerRule for TextsAsBytes {
    fn name(&self) -> &'static str {
        "texts_as_bytes"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let may_be_of_bytes = |expression: &Expr| {
            matches!(
                expression,
                Expr::Cast(_)
                    | Expr::TryCast(_)
                    | Expr::ScalarFunction(_)
                    | Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. })
            )
        };
        in_expressions(plan, may_be_of_bytes, |expression, schema| {
            expression.transform_up(|expression| read(expression, schema))
        })
    }
}

fn read(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match &expression {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })
            if is_binary(field.data_type()) && is_text(expr, schema) =>
        {
            Ok(Transformed::yes(cast(bytes(expr)?, field.data_type().clone())))
        }
        Expr::ScalarFunction(ScalarFunction { func, args })
            if OF_BYTES.contains(&func.name()) && args.first().is_some_and(|of| is_text(of, schema)) =>
        {
            let mut args = args.clone();
            args[0] = bytes(&args[0])?;
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: func.clone(), args })))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
            if [left, right].iter().any(|side| is_bytes(side, schema)) =>
        {
            let remedy = "compute it outside of the database";
            Err(Error::unsupported("|| of BYTEA", remedy).into())
        }
        _ => Ok(Transformed::no(expression)),
    }
}

/// The bytes that a text stands for.
fn bytes(text: &Expr) -> Result<Expr> {
    let literal = match text {
        Expr::Literal(value, _) => value.try_as_str(),
        Expr::Cast(Cast { expr, .. }) => match expr.as_ref() {
            Expr::Literal(value, _) => value.try_as_str(),
            _ => None,
        },
        _ => None,
    };
    match literal {
        Some(None) => Ok(lit(ScalarValue::Binary(None))),
        Some(Some(text)) => {
            let Some(bytes) = of_text(text) else {
                return plan_err!("invalid input syntax for type BYTEA: {text:?}");
            };
            Ok(lit(ScalarValue::Binary(Some(bytes))))
        }
        None => {
            let remedy = r"write the bytes as a literal ('\x00ff'), or decode(text, 'hex')";
            Err(Error::unsupported("a text that is no literal as BYTEA", remedy).into())
        }
    }
}

/// Reads `\x00ff`, or letters with `\\` and `\ooo` among them.
fn of_text(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let mut bytes = Vec::with_capacity(digits.len() / 2);
        let mut rest = digits.trim_start_matches([' ', '\t', '\n', '\r']);
        while !rest.is_empty() {
            bytes.push(u8::from_str_radix(rest.get(..2).filter(|pair| !pair.starts_with('+'))?, 16).ok()?);
            rest = rest[2..].trim_start_matches([' ', '\t', '\n', '\r']);
        }
        return Some(bytes);
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&first, behind)) = rest.split_first() {
        rest = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => {
                bytes.push(b'\\');
                behind
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                behind
            }
            (b'\\', _) => return None,
            (plain, behind) => {
                bytes.push(plain);
                behind
            }
        };
    }
    Some(bytes)
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn is_text(expression: &Expr, schema: &DFSchema) -> bool {
    expression.get_type(schema).is_ok_and(|data_type| data_type.is_string())
}

/// Whether an expression is of bytes, or was before it was made a text.
fn is_bytes(expression: &Expr, schema: &DFSchema) -> bool {
    match expression {
        Expr::Cast(Cast { expr, .. }) => is_bytes(expr, schema),
        other => other.get_type(schema).is_ok_and(|data_type| is_binary(&data_type)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_postgresql_reads_bytes() {
        let cases: [(&str, Option<&[u8]>); 11] = [
            (r"\xdead", Some(b"\xde\xad")),
            (r"\xDE AD", Some(b"\xde\xad")),
            (r"\x", Some(b"")),
            (r"\xd", None),
            (r"\xd ea d", None),
            (r"\x+1", None),
            (r"a\000b", Some(b"a\0b")),
            (r"\\", Some(b"\\")),
            (r"\400", None),
            (r"\", None),
            ("päx", Some("päx".as_bytes())),
        ];
        for (text, bytes) in cases {
            assert_eq!(of_text(text).as_deref(), bytes, "{text}");
        }
    }
}
