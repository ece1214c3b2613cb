//! `coalesce` of days or times and a text that is written down: DataFusion's own finds no type in common for them, and that before
//! any rule could give the text one.

use datafusion::arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion::common::Result;
use datafusion::functions::core::coalesce;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use ishigaki_scan::exact::alternatives;

/// DataFusion's function with one rule more.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Coalesce {
    signature: Signature,
}

impl Default for Coalesce {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &'static str {
        "coalesce"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        coalesce().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        coalesce().return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match among_texts(types) {
            Some(moment) => Ok(vec![moment; types.len()]),
            None => coalesce().coerce_types(types),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        coalesce().simplify(args, info)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        let (first, rest) = args.split_first()?;
        Some((vec![first], rest.iter().collect()))
    }

    fn short_circuits(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        coalesce().invoke_with_args(args)
    }
}

/// The type of the days or times that stand among texts, and nothing else.
fn among_texts(types: &[DataType]) -> Option<DataType> {
    let moments = || types.iter().filter(|of| !of.is_string() && !of.is_null());
    let is_moment = |of: &DataType| matches!(of, DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, None));
    if !types.iter().any(DataType::is_string) || !moments().all(is_moment) {
        return None;
    }
    moments().cloned().reduce(|one, other| alternatives(&one, &other).unwrap_or(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_among_moments_are_moments() {
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        for (types, expected) in [
            (vec![DataType::Date32, DataType::Utf8], Some(DataType::Date32)),
            (vec![DataType::Date32, DataType::Utf8, time.clone(), DataType::Null], Some(time.clone())),
            (vec![DataType::Date32, time], None),
            (vec![DataType::Date32, DataType::Utf8, DataType::Int32], None),
            (vec![DataType::Utf8, DataType::Null], None),
        ] {
            assert_eq!(among_texts(&types), expected, "{types:?}");
        }
    }
}
