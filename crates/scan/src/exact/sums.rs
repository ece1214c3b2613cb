//! `sum` and `avg`: exact for integers and decimals, DataFusion's own for everything else.
//!
//! A sum of SMALLINT or INTEGER is a BIGINT, that of BIGINT a DECIMAL(38, 0), and a decimal's keeps its scale. An average of any
//! of them is a decimal. Partial sums have 128 bits, whatever the type: they are the same in whatever order rows come, and a
//! result that does not fit its type is an error.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Int16Type, Int32Type, Int64Type, UInt64Type,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::sum::Sum as FloatSum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use super::decimals::{self, Digits};
use super::frame::{Frame, Summary};
use super::groups::Groups;
use super::nans::{GroupsWithOneNan, OneNan};

/// The sum of numbers.
pub fn sum() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Total::function(false));
    Arc::clone(&FUNCTION)
}

/// The average of numbers.
pub fn average() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Total::function(true));
    Arc::clone(&FUNCTION)
}

/// Either of them.
#[derive(Debug)]
struct Total {
    averages: bool,
    signature: Signature,
    /// DataFusion's function of this name.
    inexact: AggregateUDF,
}

impl PartialEq for Total {
    fn eq(&self, other: &Self) -> bool {
        self.averages == other.averages
    }
}

impl Eq for Total {}

impl Hash for Total {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.averages.hash(state);
    }
}

impl Total {
    fn function(averages: bool) -> Arc<AggregateUDF> {
        let inexact = if averages { AggregateUDF::from(Avg::new()) } else { AggregateUDF::from(FloatSum::new()) };
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::from(Self { averages, signature, inexact }))
    }

    fn what(&self, of: &DataType) -> Option<What> {
        What::of(self.averages, of)
    }
}

/// An exact sum or average of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct What {
    averages: bool,
    /// Behind the point, of what is summed.
    scale: i8,
    result: Kind,
}

/// The type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    BigInt,
    Decimal(Digits),
}

impl What {
    pub(super) fn of(averages: bool, data_type: &DataType) -> Option<Self> {
        let (precision, scale) = match data_type {
            DataType::Int16 => (5, 0),
            DataType::Int32 => (10, 0),
            DataType::Int64 => (19, 0),
            DataType::Decimal128(precision, scale) if *scale >= 0 => (*precision, *scale),
            _ => return None,
        };
        let result = match data_type {
            _ if averages => Kind::Decimal(decimals::average((precision, scale))),
            DataType::Int16 | DataType::Int32 => Kind::BigInt,
            DataType::Int64 => Kind::Decimal((DECIMAL128_MAX_PRECISION, 0)),
            _ => Kind::Decimal((DECIMAL128_MAX_PRECISION.min(precision.saturating_add(10)), scale)),
        };
        Some(Self { averages, scale, result })
    }

    pub(super) fn result_type(self) -> DataType {
        match self.result {
            Kind::BigInt => DataType::Int64,
            Kind::Decimal((precision, scale)) => DataType::Decimal128(precision, scale),
        }
    }

    /// Of partial sums.
    pub(super) fn sum_type(self) -> DataType {
        DataType::Decimal128(DECIMAL128_MAX_PRECISION, self.scale)
    }

    /// Whether the number of values is a part of the state.
    pub(super) fn counts(self) -> bool {
        self.averages
    }

    /// The result of one group that has values.
    fn finish(self, sum: i128, count: u64) -> Result<i128> {
        let digits = match self.result {
            Kind::BigInt => {
                return match i64::try_from(sum) {
                    Ok(_) => Ok(sum),
                    Err(_) => Err(outgrown("bigint out of range: a sum of integers is too large")),
                };
            }
            Kind::Decimal(digits) => digits,
        };
        let value = if self.averages {
            let more = u32::try_from(i16::from(digits.1) - i16::from(self.scale)).unwrap_or(0);
            decimals::scaled_quotient(sum, more, count.into())
        } else {
            Some(sum)
        };
        match value.filter(|value| decimals::fits(*value, digits.0)) {
            Some(value) => Ok(value),
            None => Err(decimals::too_many(digits).into()),
        }
    }

    /// Sums of groups, as a column. Where there is none, there is a zero below the NULL.
    pub(super) fn sums(self, sums: Vec<i128>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        match self.result {
            Kind::BigInt => {
                let sums = sums.into_iter().map(|sum| self.finish(sum, 1).map(|sum| sum as i64));
                let sums = sums.collect::<Result<Vec<_>>>()?;
                Ok(Arc::new(Int64Array::new(sums.into(), nulls)))
            }
            Kind::Decimal(digits) => {
                if !decimals::all_fit(&sums, digits.0) {
                    return Err(decimals::too_many(digits).into());
                }
                let sums = Decimal128Array::new(sums.into(), nulls);
                Ok(Arc::new(sums.with_precision_and_scale(digits.0, digits.1)?))
            }
        }
    }

    /// The results of groups, as a column.
    pub(super) fn results(self, groups: impl Iterator<Item = (i128, u64)>) -> Result<ArrayRef> {
        let values = groups.map(|(sum, count)| if count == 0 { Ok(None) } else { self.finish(sum, count).map(Some) });
        Ok(match self.result {
            Kind::BigInt => {
                let values = values.map(|value| Ok(value?.map(|value| value as i64)));
                Arc::new(values.collect::<Result<Int64Array>>()?)
            }
            Kind::Decimal((precision, scale)) => {
                let values = values.collect::<Result<Decimal128Array>>()?;
                Arc::new(values.with_precision_and_scale(precision, scale)?)
            }
        })
    }
}

/// The error of a sum that has no room.
pub(super) fn outgrown(what: &str) -> DataFusionError {
    ArrowError::ArithmeticOverflow(what.to_owned()).into()
}

/// Does something with each number of a column of integers or decimals, as one of 128 bits.
pub(super) fn for_each(array: &dyn Array, mut each: impl FnMut(usize, i128) -> Result<()>) -> Result<()> {
    macro_rules! walk {
        ($type:ty) => {{
            let numbers = array.as_primitive::<$type>();
            if numbers.null_count() == 0 {
                return numbers.values().iter().enumerate().try_for_each(|(row, value)| each(row, i128::from(*value)));
            }
            numbers
                .iter()
                .enumerate()
                .filter_map(|(row, value)| Some((row, value?)))
                .try_for_each(|(row, value)| each(row, i128::from(value)))
        }};
    }
    match array.data_type() {
        DataType::Int16 => walk!(Int16Type),
        DataType::Int32 => walk!(Int32Type),
        DataType::Int64 => walk!(Int64Type),
        DataType::Decimal128(..) => walk!(Decimal128Type),
        other => exec_err!("{other} is not summed exactly"),
    }
}

impl AggregateUDFImpl for Total {
    fn name(&self) -> &str {
        if self.averages { "avg" } else { "sum" }
    }

    fn aliases(&self) -> &[String] {
        self.inexact.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [of] = types else { return plan_err!("{} takes one argument, not {}", self.name(), types.len()) };
        let exact = match of {
            DataType::Int8 | DataType::UInt8 => DataType::Int16,
            DataType::UInt16 => DataType::Int32,
            DataType::UInt32 => DataType::Int64,
            DataType::UInt64 => DataType::Decimal128(20, 0),
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                DataType::Decimal128(*precision, *scale)
            }
            DataType::Float32 => DataType::Float64,
            other if self.what(other).is_some() => other.clone(),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Boolean | DataType::Date32 => {
                return plan_err!("{} of {of} is not supported; CAST it to a number first", self.name());
            }
            _ => {
                let field: FieldRef = Arc::new(Field::new("", of.clone(), true));
                let fields = fields_with_udf(&[field], &self.inexact)?;
                return Ok(fields.iter().map(|field| field.data_type().clone()).collect());
            }
        };
        Ok(vec![exact])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first().and_then(|of| self.what(of)) {
            Some(what) => Ok(what.result_type()),
            None => self.inexact.return_type(types),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let Some(what) = args.input_fields.first().and_then(|field| self.what(field.data_type())) else {
            return self.inexact.state_fields(args);
        };
        let sum = what.sum_type();
        if args.is_distinct {
            let values = Field::new_list_field(sum, true);
            return Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "values"), values, false))]);
        }
        let count = Field::new(format_state_name(args.name, "count"), DataType::UInt64, true);
        let sum = Field::new(format_state_name(args.name, "sum"), sum, true);
        Ok(what.counts().then_some(count).into_iter().chain([sum]).map(Arc::new).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let of = args.expr_fields.first().and_then(|field| self.what(field.data_type()));
        match of {
            Some(what) if args.is_distinct => Ok(Box::new(Distinct { what, values: HashSet::new() })),
            Some(what) => Ok(Box::new(Running { what, sum: 0, count: 0 })),
            None => Ok(Box::new(OneNan(self.inexact.accumulator(args)?))),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.expr_fields.first().and_then(|field| self.what(field.data_type())) {
            Some(_) => self.accumulator(args),
            None if !args.is_distinct && args.return_type() == &DataType::Float64 => {
                Ok(Box::new(Frame::new(OfFrame { averages: self.averages })))
            }
            None => self.inexact.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match args.expr_fields.first().and_then(|field| self.what(field.data_type())) {
            Some(_) => !args.is_distinct,
            None => self.inexact.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match args.expr_fields.first().and_then(|field| self.what(field.data_type())) {
            Some(what) => Ok(Box::new(Groups::new(what))),
            None => Ok(Box::new(GroupsWithOneNan(self.inexact.create_groups_accumulator(args)?))),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> datafusion::logical_expr::utils::AggregateOrderSensitivity {
        datafusion::logical_expr::utils::AggregateOrderSensitivity::Insensitive
    }
}

/// Of all rows, or of those of a window's frame.
#[derive(Debug)]
struct Running {
    what: What,
    sum: i128,
    count: u64,
}

/// The sum of floating-point numbers, or their average.
#[derive(Debug)]
struct OfFrame {
    averages: bool,
}

impl Summary for OfFrame {
    fn of(&self, values: &mut dyn Iterator<Item = f64>) -> Result<ScalarValue> {
        let (mut sum, mut count) = (None, 0_u64);
        for value in values {
            sum = Some(sum.map_or(value, |sum: f64| sum + value));
            count += 1;
        }
        let result = if self.averages { sum.map(|sum| sum / count as f64) } else { sum };
        Ok(ScalarValue::Float64(result.map(|result| if result.is_nan() { f64::NAN } else { result })))
    }
}

const TOO_LARGE: &str = "numeric field overflow: a sum has more than 38 digits";

impl Accumulator for Running {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        for_each(values, |_, value| {
            self.sum = self.sum.checked_add(value).ok_or_else(|| outgrown(TOO_LARGE))?;
            self.count += 1;
            Ok(())
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        for_each(values, |_, value| {
            self.sum = self.sum.checked_sub(value).ok_or_else(|| outgrown(TOO_LARGE))?;
            self.count = self.count.saturating_sub(1);
            Ok(())
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.what.results(std::iter::once((self.sum, self.count)))?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = (self.count > 0).then_some(self.sum);
        let sum = ScalarValue::Decimal128(sum, DECIMAL128_MAX_PRECISION, self.what.scale);
        let count = self.what.counts().then_some(ScalarValue::UInt64(Some(self.count)));
        Ok(count.into_iter().chain([sum]).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(sums) = states.last() else { return Ok(()) };
        let counts = self.what.counts().then(|| states[0].as_primitive::<UInt64Type>());
        for_each(sums, |row, value| {
            self.sum = self.sum.checked_add(value).ok_or_else(|| outgrown(TOO_LARGE))?;
            self.count += counts.map_or(1, |counts| counts.value(row));
            Ok(())
        })
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Of different values.
#[derive(Debug)]
struct Distinct {
    what: What,
    values: HashSet<i128>,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        for_each(values, |_, value| {
            self.values.insert(value);
            Ok(())
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = 0_i128;
        for value in &self.values {
            sum = sum.checked_add(*value).ok_or_else(|| outgrown(TOO_LARGE))?;
        }
        ScalarValue::try_from_array(&self.what.results(std::iter::once((sum, self.values.len() as u64)))?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let scalar = |value: &i128| ScalarValue::Decimal128(Some(*value), DECIMAL128_MAX_PRECISION, self.what.scale);
        let values: Vec<ScalarValue> = self.values.iter().map(scalar).collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.what.sum_type()))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first() else { return Ok(()) };
        for values in lists.as_list::<i32>().iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<(i128, u64)>()
    }
}
