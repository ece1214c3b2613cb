//! Arithmetic of whole columns in 64 bits, where it is known that they suffice.
//!
//! An expression over decimals is one over their unscaled values, with powers of ten where scales differ. What comes in has
//! bounds; so each step has some, and a page in which any of them leaves 2^62 is not computed this way at all. Within them no
//! step can overflow, and none looks whether it did. A step that occurs twice is done once.

use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use ishigaki_page::Page;

use crate::exact;

/// How far from zero a value may be.
const MOST: i128 = 1 << 62;

/// A step. What it works on stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Values of a column of the page file.
    Column(usize),
    /// `times * step + plus`.
    Linear {
        of: usize,
        times: i64,
        plus: i64,
    },
    Add(usize, usize),
    Subtract(usize, usize),
    Multiply(usize, usize),
}

/// An expression, and at which scale its integers are.
#[derive(Clone, Copy, Debug)]
struct Scaled {
    value: Value,
    scale: i8,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Constant(i64),
    Step(usize),
}

/// Steps, each computed once for a page.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    steps: Vec<Step>,
}

/// Where the values of a program's steps are, and between which bounds.
#[derive(Debug, Default)]
pub(super) struct Values {
    steps: Vec<(Vec<i64>, RangeInclusive<i64>)>,
}

impl Values {
    pub(super) fn of(&self, step: usize) -> &[i64] {
        self.steps.get(step).map_or(&[], |(values, _)| values)
    }

    /// How far from zero a value may be.
    pub(super) fn magnitude(&self, step: usize) -> u64 {
        self.steps.get(step).map_or(0, |(_, bounds)| bounds.start().unsigned_abs().max(bounds.end().unsigned_abs()))
    }
}

impl Program {
    /// Sees to it that an expression is computed. `columns` are those that it is over, as positions in the page file. Gives the step
    /// whose values are the expression's; nothing if it is not one of sums and products of integers and decimals.
    pub(super) fn add(
        &mut self,
        expression: &Arc<dyn PhysicalExpr>,
        columns: &[usize],
        schema: &Schema,
    ) -> Option<usize> {
        let before = self.steps.len();
        let found = self.scaled(expression, columns, schema).and_then(|scaled| match scaled.value {
            Value::Step(step) => Some(step),
            // Nothing to be computed of rows.
            Value::Constant(_) => None,
        });
        if found.is_none() {
            self.steps.truncate(before);
        }
        found
    }

    fn scaled(&mut self, expression: &Arc<dyn PhysicalExpr>, columns: &[usize], schema: &Schema) -> Option<Scaled> {
        let data_type = expression.data_type(schema).ok()?;
        let scaled = if let Some(column) = expression.downcast_ref::<Column>() {
            let value = self.step(Step::Column(*columns.get(column.index())?));
            Scaled { value, scale: scale_of(&data_type)? }
        } else if let Some(literal) = expression.downcast_ref::<Literal>() {
            constant(literal.value())?
        } else if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            let from = cast.expr().data_type(schema).ok()?;
            let inner = self.scaled(cast.expr(), columns, schema)?;
            if !widens(&from, &data_type) {
                return None;
            }
            self.at_scale(inner, scale_of(&data_type)?)?
        } else {
            let call = expression.downcast_ref::<ScalarFunctionExpr>()?;
            let (operator, [left, right]) = (exact::operator(call.fun())?, call.args()) else { return None };
            let operands = [left.data_type(schema).ok()?, right.data_type(schema).ok()?];
            if !operands.iter().all(computes) {
                return None;
            }
            let left = self.scaled(left, columns, schema)?;
            let right = self.scaled(right, columns, schema)?;
            self.binary(operator, left, right)?
        };
        // Whatever the type says of it is what was computed.
        (scale_of(&data_type)? == scaled.scale).then_some(scaled)
    }

    fn binary(&mut self, operator: Operator, left: Scaled, right: Scaled) -> Option<Scaled> {
        if operator == Operator::Multiply {
            let value = match (left.value, right.value) {
                (Value::Constant(one), Value::Constant(other)) => Value::Constant(one.checked_mul(other)?),
                (Value::Constant(times), Value::Step(of)) | (Value::Step(of), Value::Constant(times)) => {
                    self.step(Step::Linear { of, times, plus: 0 })
                }
                (Value::Step(one), Value::Step(other)) => self.step(Step::Multiply(one, other)),
            };
            return Some(Scaled { value, scale: left.scale.checked_add(right.scale)? });
        }
        let scale = left.scale.max(right.scale);
        let (left, right) = (self.at_scale(left, scale)?.value, self.at_scale(right, scale)?.value);
        let value = match (operator, left, right) {
            (Operator::Plus, Value::Constant(one), Value::Constant(other)) => Value::Constant(one.checked_add(other)?),
            (Operator::Minus, Value::Constant(one), Value::Constant(other)) => Value::Constant(one.checked_sub(other)?),
            (Operator::Plus, Value::Constant(plus), Value::Step(of))
            | (Operator::Plus, Value::Step(of), Value::Constant(plus)) => {
                self.step(Step::Linear { of, times: 1, plus })
            }
            (Operator::Minus, Value::Constant(plus), Value::Step(of)) => {
                self.step(Step::Linear { of, times: -1, plus })
            }
            (Operator::Minus, Value::Step(of), Value::Constant(less)) => {
                self.step(Step::Linear { of, times: 1, plus: less.checked_neg()? })
            }
            (Operator::Plus, Value::Step(one), Value::Step(other)) => self.step(Step::Add(one, other)),
            (Operator::Minus, Value::Step(one), Value::Step(other)) => self.step(Step::Subtract(one, other)),
            _ => return None,
        };
        Some(Scaled { value, scale })
    }

    /// The same with as many digits behind the point, of which there are none too many.
    fn at_scale(&mut self, scaled: Scaled, scale: i8) -> Option<Scaled> {
        let more = u32::try_from(scale.checked_sub(scaled.scale)?).ok()?;
        let times = 10_i64.checked_pow(more)?;
        let value = match scaled.value {
            value if more == 0 => value,
            Value::Constant(constant) => Value::Constant(constant.checked_mul(times)?),
            Value::Step(of) => self.step(Step::Linear { of, times, plus: 0 }),
        };
        Some(Scaled { value, scale })
    }

    fn step(&mut self, step: Step) -> Value {
        let known = self.steps.iter().position(|known| *known == step);
        Value::Step(known.unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        }))
    }

    /// Computes all steps for rows of a page. False, and the values are of no use, if 64 bits may not suffice.
    pub(super) fn run(&self, page: &Page, rows: Option<&[u32]>, values: &mut Values) -> ishigaki_page::Result<bool> {
        values.steps.resize_with(self.steps.len(), || (Vec::new(), 0..=0));
        for (at, step) in self.steps.iter().enumerate() {
            let (done, rest) = values.steps.split_at_mut(at);
            let Some((out, bounds)) = rest.first_mut() else { break };
            let found = match *step {
                Step::Column(column) => page.integers(column, rows, out)?,
                Step::Linear { of, times, plus } => linear(&done[of], times, plus, out),
                Step::Add(one, other) => {
                    let reach =
                        |a: &RangeInclusive<i128>, b: &RangeInclusive<i128>| [a.start() + b.start(), a.end() + b.end()];
                    pairs(&done[one], &done[other], out, reach, i64::wrapping_add)
                }
                Step::Subtract(one, other) => {
                    let reach =
                        |a: &RangeInclusive<i128>, b: &RangeInclusive<i128>| [a.start() - b.end(), a.end() - b.start()];
                    pairs(&done[one], &done[other], out, reach, i64::wrapping_sub)
                }
                Step::Multiply(one, other) => {
                    let reach = |a: &RangeInclusive<i128>, b: &RangeInclusive<i128>| {
                        [a.start() * b.start(), a.start() * b.end(), a.end() * b.start(), a.end() * b.end()]
                    };
                    pairs(&done[one], &done[other], out, reach, i64::wrapping_mul)
                }
            };
            match found {
                Some(found) => *bounds = found,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

type Column64 = (Vec<i64>, RangeInclusive<i64>);

fn linear((values, bounds): &Column64, times: i64, plus: i64, out: &mut Vec<i64>) -> Option<RangeInclusive<i64>> {
    let reach = [bounds.start(), bounds.end()].map(|bound| i128::from(*bound) * i128::from(times) + i128::from(plus));
    let bounds = within(&reach)?;
    out.clear();
    out.extend(values.iter().map(|value| value.wrapping_mul(times).wrapping_add(plus)));
    Some(bounds)
}

fn pairs<const N: usize>(
    (one, of_one): &Column64,
    (other, of_other): &Column64,
    out: &mut Vec<i64>,
    reach: impl Fn(&RangeInclusive<i128>, &RangeInclusive<i128>) -> [i128; N],
    step: impl Fn(i64, i64) -> i64,
) -> Option<RangeInclusive<i64>> {
    let wide = |bounds: &RangeInclusive<i64>| i128::from(*bounds.start())..=i128::from(*bounds.end());
    let bounds = within(&reach(&wide(of_one), &wide(of_other)))?;
    out.clear();
    out.extend(one.iter().zip(other).map(|(one, other)| step(*one, *other)));
    Some(bounds)
}

/// From the least to the most of what is reached, if that is near enough to zero.
fn within(reach: &[i128]) -> Option<RangeInclusive<i64>> {
    let (least, most) = (reach.iter().min()?, reach.iter().max()?);
    (-MOST <= *least && *most <= MOST).then_some(*least as i64..=*most as i64)
}

/// Digits behind the point, of the types that can be told by an integer.
fn scale_of(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal128(_, scale) if *scale >= 0 => Some(*scale),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(0),
        _ => None,
    }
}

/// Whether arithmetic of that type is that of integers far from its bounds: narrower types overflow before 2^62.
fn computes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..) | DataType::Int64)
}

/// Whether a cast never fails and never rounds.
fn widens(from: &DataType, to: &DataType) -> bool {
    let digits = |data_type: &DataType| match data_type {
        DataType::Int8 => Some(3),
        DataType::Int16 => Some(5),
        DataType::Int32 => Some(10),
        DataType::Int64 => Some(19),
        DataType::Decimal128(precision, scale) => Some(i16::from(*precision) - i16::from(*scale)),
        _ => None,
    };
    let (Some(has), Some(gets)) = (digits(from), digits(to)) else { return false };
    // A decimal never becomes an integer here.
    let kept = !matches!(
        (from, to),
        (DataType::Decimal128(..), DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64)
    );
    kept && has <= gets && scale_of(from) <= scale_of(to)
}

fn constant(value: &ScalarValue) -> Option<Scaled> {
    let (constant, scale) = match value {
        ScalarValue::Decimal128(Some(value), _, scale) => (i64::try_from(*value).ok()?, *scale),
        ScalarValue::Int64(Some(value)) => (*value, 0),
        ScalarValue::Int32(Some(value)) => (i64::from(*value), 0),
        ScalarValue::Int16(Some(value)) => (i64::from(*value), 0),
        ScalarValue::Int8(Some(value)) => (i64::from(*value), 0),
        _ => return None,
    };
    Some(Scaled { value: Value::Constant(constant), scale })
}
