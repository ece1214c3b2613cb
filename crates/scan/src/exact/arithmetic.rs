//! `+`, `-`, `*`, `/` and `%` on two numbers of one kind.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Datum, PrimitiveArray};
use datafusion::arrow::compute::kernels::numeric::{add, div, mul, rem, sub};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, FieldRef, Float32Type, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;

use super::calls::with_one_nan;
use super::decimals::{self, Digits};
use super::plan::met;
use super::strict_field;

/// An operator as a function. Its two arguments are integers of one type, floating-point numbers of one type, or decimals; any
/// others are taken as these.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Arithmetic {
    operator: Operator,
    signature: Signature,
}

/// The type of a result; nothing if these types do not go together.
pub fn result_type(operator: Operator, left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Decimal128, Float32, Float64, Int16, Int32, Int64};
    match (left, right) {
        (Int16, Int16) | (Int32, Int32) | (Int64, Int64) | (Float32, Float32) | (Float64, Float64) => {
            super::OPERATORS.contains(&operator).then(|| left.clone())
        }
        (Decimal128(p, s), Decimal128(q, t)) => {
            decimals::result(operator, (*p, *s), (*q, *t)).map(|(precision, scale)| Decimal128(precision, scale))
        }
        _ => None,
    }
}

impl Arithmetic {
    pub(super) fn new(operator: Operator) -> Self {
        Self { operator, signature: Signature::any(2, Volatility::Immutable) }
    }

    /// The operator that a function stands for.
    pub(super) fn operator(function: &ScalarUDF) -> Option<Operator> {
        function.inner().downcast_ref::<Self>().map(|arithmetic| arithmetic.operator)
    }

    fn integers(&self, left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
        self.kernel()(left, right).map_err(|error| match error {
            ArrowError::ArithmeticOverflow(what) => {
                let name = match left.get().0.data_type() {
                    DataType::Int16 => "smallint",
                    DataType::Int32 => "integer",
                    _ => "bigint",
                };
                ArrowError::ArithmeticOverflow(format!("{name} out of range: {what}"))
            }
            other => other,
        })
    }

    fn decimals(&self, left: &dyn Datum, right: &dyn Datum, digits: Digits) -> Result<ArrayRef, ArrowError> {
        let type_of = |datum: &dyn Datum| match datum.get().0.data_type() {
            DataType::Decimal128(precision, scale) => (i16::from(*precision), i16::from(*scale)),
            _ => (0, 0),
        };
        let ((p, s), (q, t)) = (type_of(left), type_of(right));
        let behind = i16::from(digits.1);
        let (made, can_outgrow) = match self.operator {
            Operator::Divide => return decimals::divide(left, right, digits),
            Operator::Multiply if s + t != behind => return decimals::multiply(left, right, digits),
            Operator::Multiply => (self.kernel()(left, right), p + q > i16::from(digits.0)),
            Operator::Plus | Operator::Minus => {
                (self.kernel()(left, right), (p - s).max(q - t) + 1 + behind > i16::from(digits.0))
            }
            _ => (self.kernel()(left, right), false),
        };
        let made = made.map_err(|error| match error {
            ArrowError::ArithmeticOverflow(_) => decimals::too_many(digits),
            other => other,
        })?;
        // The kernels' own precision may be another one.
        let made = made.as_primitive::<Decimal128Type>().clone();
        let made: ArrayRef = Arc::new(made.with_precision_and_scale(digits.0, digits.1)?);
        if can_outgrow { decimals::check(made, digits) } else { Ok(made) }
    }

    /// As it is for IEEE 754's numbers, but what is finite never becomes infinite, nor what is not zero zero.
    fn floats<T>(&self, left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError>
    where
        T: ArrowPrimitiveType,
        T::Native: Into<f64>,
    {
        let made = self.kernel()(left, right)?;
        let of = |array: &dyn Array| -> PrimitiveArray<T> { array.as_primitive::<T>().clone() };
        let ((left, left_is_one), (right, right_is_one)) = (left.get(), right.get());
        let (results, left, right) = (of(made.as_ref()), of(left), of(right));
        let mut has_nan = false;
        for (row, result) in results.values().iter().enumerate() {
            let result: f64 = (*result).into();
            has_nan |= result.is_nan();
            if result.is_normal() && self.operator != Operator::Divide || results.is_null(row) {
                continue;
            }
            let one: f64 = left.value(if left_is_one { 0 } else { row }).into();
            let other: f64 = right.value(if right_is_one { 0 } else { row }).into();
            self.check(one, other, result)?;
        }
        Ok(if has_nan { with_one_nan(&made) } else { made })
    }

    fn check(&self, left: f64, right: f64, result: f64) -> Result<(), ArrowError> {
        let divides = matches!(self.operator, Operator::Divide | Operator::Modulo);
        if divides && right == 0.0 && !left.is_nan() {
            return Err(ArrowError::DivideByZero);
        }
        let outgrew = result.is_infinite() && left.is_finite() && right.is_finite();
        let vanished = match self.operator {
            Operator::Multiply => result == 0.0 && left != 0.0 && right != 0.0,
            Operator::Divide => result == 0.0 && left != 0.0 && !right.is_infinite(),
            _ => false,
        };
        if outgrew || vanished {
            let how = if outgrew { "overflow" } else { "underflow" };
            return Err(ArrowError::ArithmeticOverflow(format!(
                "value out of range: {how}: {left} {} {right}",
                self.operator
            )));
        }
        Ok(())
    }

    fn kernel(&self) -> fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError> {
        match self.operator {
            Operator::Plus => add,
            Operator::Minus => sub,
            Operator::Multiply => mul,
            Operator::Divide => div,
            _ => rem,
        }
    }
}

/// Writes operators as SQL has them; those below as well, because each of them alone would write out again what is below it.
fn write(operator: Operator, args: &[Expr], of: &impl Fn(&Expr) -> String, text: &mut String) {
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            text.extend([" ", &operator.to_string(), " "]);
        }
        match arg {
            Expr::ScalarFunction(call) => match Arithmetic::operator(&call.func) {
                Some(below) => write(below, &call.args, of, text),
                None => text.push_str(&of(arg)),
            },
            arg => text.push_str(&of(arg)),
        }
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        match self.operator {
            Operator::Plus => "exact_add",
            Operator::Minus => "exact_subtract",
            Operator::Multiply => "exact_multiply",
            Operator::Divide => "exact_divide",
            _ => "exact_remainder",
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let mut text = String::new();
        write(self.operator, args, &Expr::to_string, &mut text);
        Ok(text)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut text = String::new();
        write(self.operator, args, &|arg| arg.schema_name().to_string(), &mut text);
        Ok(text)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let found = match types {
            [left, right] => result_type(self.operator, left, right).or_else(|| {
                let [left, right] = met(left, right)?;
                result_type(self.operator, &left, &right)
            }),
            _ => None,
        };
        let Some(found) = found else { return exec_err!("{} is not for {types:?}", self.operator) };
        Ok(found)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        strict_field(self, &args)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = <[ColumnarValue; 2]>::try_from(args.args)
            .map_err(|args| DataFusionError::Internal(format!("{} of {} values", self.name(), args.len())))?;
        let types = [left.data_type(), right.data_type()];
        let result = self.return_type(&types)?;
        let (left, right) = match (result_type(self.operator, &types[0], &types[1]), met(&types[0], &types[1])) {
            (None, Some([one, other])) => (left.cast_to(&one, None)?, right.cast_to(&other, None)?),
            _ => (left, right),
        };
        apply(&left, &right, |left, right| match result {
            DataType::Decimal128(precision, scale) => self.decimals(left, right, (precision, scale)),
            DataType::Float32 => self.floats::<Float32Type>(left, right),
            DataType::Float64 => self.floats::<Float64Type>(left, right),
            _ => self.integers(left, right),
        })
    }
}
