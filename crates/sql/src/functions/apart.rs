//! An expression that is called as it is written, its casts included: DataFusion calls `sum(a)` and `sum(a::INT)` alike.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The function's name, which no statement has.
pub(crate) const APART: &str = "apart ;";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Apart {
    signature: Signature,
}

impl Default for Apart {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Apart {
    fn name(&self) -> &'static str {
        APART
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.first().map(Expr::to_string).unwrap_or_default())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [of] = types else { return plan_err!("one value is set apart") };
        Ok(of.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [of] = args.arg_fields else { return plan_err!("one value is set apart") };
        Ok(FieldRef::clone(of))
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [of] = <[Expr; 1]>::try_from(args).or_else(|_| plan_err!("one value is set apart"))?;
        Ok(ExprSimplifyResult::Simplified(of))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(of) = args.args.into_iter().next() else { return plan_err!("one value is set apart") };
        Ok(of)
    }
}
