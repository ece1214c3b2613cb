//! `pg_typeof(x)`: what `PostgreSQL` calls the type of a value.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::Error;

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
    Ok(match of {
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "numeric",
        DataType::Boolean => "boolean",
        DataType::Date32 => "date",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let remedy = "CAST the text to the type that is meant: TEXT, VARCHAR and CHAR are one type in a query here";
            return Err(Error::unsupported("pg_typeof of a text", remedy).into());
        }
        other => {
            let remedy = "CAST the value to a type that CREATE TABLE knows";
            return Err(Error::unsupported(format!("pg_typeof of {other}"), remedy).into());
        }
    })
}
