//! Functions of which a plan has a call where SQL has none.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::kernels::numeric::neg;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Int64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// `-a` of an integer: that of the smallest one is an error.
pub fn negation() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::Negation.function());
    Arc::clone(&FUNCTION)
}

/// The whole number nearest to a floating-point one, the even one of two.
pub fn round_even() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::RoundEven.function());
    Arc::clone(&FUNCTION)
}

/// Its first argument, unless its second, the number of rows that there were, is more than one: then an error.
pub fn only_row() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Call::OnlyRow.function());
    Arc::clone(&FUNCTION)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    Negation,
    RoundEven,
    OnlyRow,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    call: Call,
    signature: Signature,
}

impl Call {
    fn function(self) -> Arc<ScalarUDF> {
        let arguments = if self == Self::OnlyRow { 2 } else { 1 };
        let signature = Signature::any(arguments, Volatility::Immutable);
        Arc::new(ScalarUDF::from(Function { call: self, signature }))
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.call {
            Call::Negation => "exact_minus",
            Call::RoundEven => "exact_whole",
            Call::OnlyRow => "exact_only_row",
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (self.call, args) {
            (Call::Negation, [arg]) => format!("(- {arg})"),
            (_, args) => args.first().map(Expr::to_string).unwrap_or_default(),
        })
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (self.call, args) {
            (Call::Negation, [arg]) => format!("(- {})", arg.schema_name()),
            (_, args) => args.first().map(|arg| arg.schema_name().to_string()).unwrap_or_default(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let Some(first) = types.first() else { return exec_err!("{} of nothing", self.name()) };
        Ok(first.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(first) = args.arg_fields.first() else { return exec_err!("{} of nothing", self.name()) };
        Ok(Arc::new(Field::new(self.name(), first.data_type().clone(), first.is_nullable())))
    }

    fn is_strict(&self) -> bool {
        self.call != Call::OnlyRow
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut values = args.args.into_iter();
        let Some(value) = values.next() else { return exec_err!("{} of nothing", self.name()) };
        match self.call {
            Call::Negation => each(value, |array| {
                neg(array).map_err(|error| match error {
                    ArrowError::ArithmeticOverflow(what) => {
                        ArrowError::ArithmeticOverflow(format!("integer out of range: {what}")).into()
                    }
                    other => DataFusionError::from(other),
                })
            }),
            Call::RoundEven => each(value, |array| {
                Ok(match array.data_type() {
                    DataType::Float32 => {
                        Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even))
                    }
                    DataType::Float64 => {
                        Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even))
                    }
                    _ => Arc::clone(array),
                })
            }),
            Call::OnlyRow => {
                let Some(rows) = values.next() else { return exec_err!("the number of rows is missing") };
                let rows = rows.into_array(args.number_rows)?;
                match rows.as_primitive_opt::<Int64Type>() {
                    Some(rows) if rows.iter().flatten().all(|rows| rows <= 1) => Ok(value),
                    Some(_) => exec_err!("more than one row returned by a subquery used as an expression"),
                    None => exec_err!("a number of rows is a BIGINT"),
                }
            }
        }
    }
}

/// Something of a column, or of the one value that it is.
fn each(value: ColumnarValue, of: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    match value {
        ColumnarValue::Array(array) => of(&array).map(ColumnarValue::Array),
        ColumnarValue::Scalar(scalar) => {
            let made = of(&scalar.to_array()?)?;
            Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&made, 0)?))
        }
    }
}
