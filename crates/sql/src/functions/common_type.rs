//! The first of two values, as the type that `PostgreSQL` finds for both: what `lag` and `lead` with a default are of, and the
//! column that a join merges. Of one value alone it is a mark on it.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use ishigaki_scan::exact::{COMMON_TYPE, alternatives};

use crate::Error;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CommonType {
    signature: Signature,
}

impl Default for CommonType {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CommonType {
    fn name(&self) -> &'static str {
        COMMON_TYPE
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.first().map(Expr::to_string).unwrap_or_default())
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.first().map(|arg| arg.schema_name().to_string()).unwrap_or_default())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [of, other] if common(of, other).is_none() => Err(Error::unsupported(
                format!("a value of {of} where there is one of {other}, which have no type in common,"),
                "CAST one of them to the type that is meant",
            )
            .into()),
            [of, ..] => Ok(of.clone()),
            [] => plan_err!("a common type of no value"),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let common = match types {
            [of, other] => common(of, other),
            _ => None,
        };
        Ok(common.map_or_else(|| types.to_vec(), |common| vec![common; 2]))
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // Its cast is in place by now.
        let Some(of) = args.into_iter().next() else { return Ok(ExprSimplifyResult::Original(Vec::new())) };
        Ok(ExprSimplifyResult::Simplified(of))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(of) = args.args.into_iter().next() else { return plan_err!("a common type of no value") };
        Ok(of)
    }
}

/// The type as which `PostgreSQL` takes two values.
fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    match (left, right) {
        _ if left == right => Some(left.clone()),
        (of, DataType::Null) | (DataType::Null, of) => Some(of.clone()),
        _ if left.is_string() && right.is_string() => Some(DataType::Utf8View),
        _ if left.is_binary() && right.is_binary() => Some(DataType::BinaryView),
        _ => alternatives(left, right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_meet_as_the_wider_type() {
        use DataType::{Boolean, Decimal128, Float32, Float64, Int16, Int32, Int64, Utf8, Utf8View};
        for (left, right, expected) in [
            (Int32, Int64, Some(Int64)),
            (Int16, Int32, Some(Int32)),
            (Int32, Decimal128(2, 1), Some(Decimal128(11, 1))),
            (Decimal128(12, 3), Int64, Some(Decimal128(22, 3))),
            (Float32, Decimal128(2, 1), Some(Float32)),
            (Int64, Float64, Some(Float64)),
            (Float32, Float64, Some(Float64)),
            (Utf8, Utf8View, Some(Utf8View)),
            (Int32, Utf8, None),
            (Boolean, Int32, None),
        ] {
            assert_eq!(common(&left, &right), expected, "{left} and {right}");
        }
    }
}
