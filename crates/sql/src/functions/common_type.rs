//! The first of two values, as the type that `PostgreSQL` finds for both: what `lag` and `lead` with a default are of.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use ishigaki_scan::exact::alternatives;

/// The function's name, which no statement has.
pub(crate) const COMMON_TYPE: &str = "common_type ;";

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
        let [of, _] = types else { return plan_err!("a common type of two values") };
        Ok(of.clone())
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [of, other] = types else { return plan_err!("a common type of two values") };
        let Some(common) = common(of, other) else {
            return plan_err!("lag and lead have a default of another type: {other} beside {of}; CAST one of them");
        };
        Ok(vec![common; 2])
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let mut values = args.into_iter();
        match (values.next(), values.next()) {
            // Its cast is in place by now.
            (Some(of), Some(_)) => Ok(ExprSimplifyResult::Simplified(of)),
            (of, _) => Ok(ExprSimplifyResult::Original(of.into_iter().collect())),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(of) = args.args.into_iter().next() else { return plan_err!("a common type of two values") };
        Ok(of)
    }
}

/// The type as which `PostgreSQL` takes two values.
fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Date32, Decimal128, Float32, Float64, Int16, Int32, Int64, Null, Timestamp};
    if left == right || *right == Null {
        return Some(left.clone());
    }
    if *left == Null {
        return Some(right.clone());
    }
    if left.is_string() && right.is_string() {
        return Some(DataType::Utf8View);
    }
    // Other numbers are no types of SQL.
    let is_number = |of: &DataType| matches!(of, Int16 | Int32 | Int64 | Decimal128(..) | Float32 | Float64);
    match (left, right) {
        (Date32, Timestamp(TimeUnit::Microsecond, None)) => Some(right.clone()),
        (Timestamp(TimeUnit::Microsecond, None), Date32) => Some(left.clone()),
        _ if is_number(left) && is_number(right) => alternatives(left, right),
        _ => None,
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
