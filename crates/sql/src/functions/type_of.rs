//! `pg_typeof(x)`: what `PostgreSQL` calls the type of a value.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::Error;
use crate::types::SqlType;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TypeOf {
    signature: Signature,
}

impl Default for TypeOf {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &'static str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some(of) = types.first() else { return exec_err!("pg_typeof is of one value") };
        name(of).map(|_| DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, false)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(of) = arguments.args.first() else { return exec_err!("pg_typeof is of one value") };
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(name(&of.data_type())?.to_owned()))))
    }
}

fn name(of: &DataType) -> Result<&'static str> {
    let unsupported = |what: String, remedy| Err(Error::unsupported(what, remedy).into());
    match (of, SqlType::from_arrow(of)) {
        (DataType::Interval(_) | DataType::Duration(_), _) => Ok("interval"),
        (DataType::Decimal256(..), _) => Ok("numeric"),
        (_, Ok(SqlType::Text { .. })) => unsupported(
            "pg_typeof of a text".to_owned(),
            "CAST the text to the type that is meant: TEXT, VARCHAR and CHAR are one type in a query here",
        ),
        (_, Ok(own)) => Ok(own.standard_name()),
        (other, Err(_)) => {
            unsupported(format!("pg_typeof of {other}"), "CAST the value to a type that CREATE TABLE knows")
        }
    }
}
