//! The last one of the groups that a statement has: what stands behind it, DataFusion has added.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The function's name, which no statement has.
pub(crate) const END_OF_GROUPS: &str = "end_of_groups ;";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct EndOfGroups {
    signature: Signature,
}

impl Default for EndOfGroups {
    fn default() -> Self {
        Self { signature: Signature::nullary(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for EndOfGroups {
    fn name(&self) -> &'static str {
        END_OF_GROUPS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None)))
    }
}
