//! Numbers that are right or an error: arithmetic, sums and averages with the types and the limits that `PostgreSQL` gives them.
//!
//! DataFusion's own operators wrap integers around, let decimals outgrow their digits, and cut quotients and averages off
//! after four digits. These are functions instead of a flag on an operator, because a function keeps its meaning wherever a plan
//! goes: constants are folded by it, optimizer rules move it as a whole, and a plan that is written down names it.
//!
//! ```text
//!   a + b, a - b, a * b, a / b, a % b    ─▶  Arithmetic   integers, decimals, floating-point numbers
//!   -a                                   ─▶  Negation     integers, floating-point numbers
//!   round(a, 2), floor(a)                ─▶  Rounding     decimals
//!   min(a), max(a)                       ─▶  Extreme      floating-point numbers
//!   sqrt(a), ln(a), …                    ─▶  OneNan       floating-point numbers: a NaN is equal to every other
//!   sum(a), avg(a)                       ─▶  Sum, Average states in 128 bits
//!   var_pop(a), stddev(a)                ─▶  Spread       states in 256 bits
//!   bool_and(a), bool_or(a)              ─▶  Truth        frames of windows that leave rows behind
//!   ORDER BY a, CASE a WHEN …, a IN (…)  ─▶  OneZero      floating-point numbers: one stands for all that are equal to it
//!   CAST(a AS INTEGER)                   ─▶  RoundEven    floating-point numbers to whole ones
//!   CAST(a AS REAL)                      ─▶  Real, Double of DOUBLE, decimals and text: what is finite stays finite
//!   CAST(a AS DECIMAL)                   ─▶  Digits       floating-point numbers and texts
//!   (SELECT a FROM t)                    ─▶  OnlyRow      a second row is an error
//!   ((((a + b) + c) + d) + …)            ─▶  Formula      many of them as one function
//! ```
//!
//! Parts: [`arithmetic`], [`rounding`], [`extremes`], [`decimals`] with the digits of results, [`sums`], [`groups`] for the sums of many groups, [`spread`],
//! [`calls`], [`calendar`], [`truncation`] of times, [`encodings`] of bytes, [`conversions`] between floating-point numbers, texts and decimals, [`spans`] of intervals, [`plain`] texts of times, [`numerals`] those of floating-point numbers, [`formula`], [`mixed`] with the one type that numbers of several types
//! get, [`forms`] of expressions by which rules find those that concern them, and [`plan`] with the rule that has plans use them.

mod arithmetic;
mod calendar;
mod calls;
mod conversions;
mod decimals;
mod encodings;
mod extremes;
mod forms;
mod formula;
mod frame;
mod groups;
mod mixed;
mod nans;
mod numerals;
mod plain;
mod plan;
mod rounding;
mod spans;
mod spread;
mod sums;
mod times;
mod truncation;
mod truths;

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{AggregateUDF, Operator, ReturnFieldArgs, ScalarUDF, ScalarUDFImpl};

pub use arithmetic::{Arithmetic, result_type};
pub use calendar::Day;
pub use calls::{
    difference, double, epoch, lost, microseconds, negation, not_lost, one_nan, one_zero, only_row, real, round_even,
};
pub use conversions::{digits, nearest, written};
pub use extremes::{greatest, least};
pub use forms::{has, rewrite_in};
pub use mixed::{COMMON_TYPE, MixedTypes, alternatives, settle};
pub use plain::Moment;
pub use plan::{ExactNumbers, as_day, binary, literal, type_of, unsettled};
pub use spans::{moment_texts, plain_spelling, plain_text, plain_texts, span};
pub use sums::{average, sum};
pub use truths::{all_true, any_true};

/// The operators that are replaced.
const OPERATORS: [Operator; 5] =
    [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide, Operator::Modulo];

static ARITHMETIC: LazyLock<[Arc<ScalarUDF>; 5]> =
    LazyLock::new(|| OPERATORS.map(|operator| Arc::new(ScalarUDF::from(Arithmetic::new(operator)))));

/// The function in the place of an operator; nothing if it is not one of `+`, `-`, `*`, `/` and `%`.
pub fn arithmetic(operator: Operator) -> Option<Arc<ScalarUDF>> {
    let at = OPERATORS.iter().position(|known| *known == operator)?;
    ARITHMETIC.get(at).cloned()
}

/// The operator that a function stands for.
pub fn operator(function: &ScalarUDF) -> Option<Operator> {
    Arithmetic::operator(function)
}

/// What a function gives that is NULL where one of its arguments is.
fn strict_field(function: &impl ScalarUDFImpl, args: &ReturnFieldArgs<'_>) -> Result<FieldRef> {
    let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
    let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
    Ok(Arc::new(Field::new(function.name(), function.return_type(&types)?, nullable)))
}

fn is_negation(function: &ScalarUDF) -> bool {
    *negation() == *function
}

/// Functions that stand in the place of DataFusion's of the same name.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    rounding::functions().iter().chain(encodings::functions()).cloned().chain([truncation::function()])
}

/// The scalar functions that a plan names.
fn named() -> impl Iterator<Item = Arc<ScalarUDF>> {
    ARITHMETIC.iter().cloned().chain(functions()).chain([
        negation(),
        round_even(),
        real(),
        double(),
        calls::digits(),
        calls::day(),
        one_nan(),
        one_zero(),
        difference(),
        epoch(),
        microseconds(),
        only_row(),
        not_lost(),
        span(),
        plain_spelling(),
        plain_text(Moment::Day),
        plain_text(Moment::Time),
    ])
}

/// What a plan that is written down says of a scalar function beside its name; nothing if it is none of these.
pub fn encode_scalar(function: &ScalarUDF) -> Option<Vec<u8>> {
    formula::encode(function).or_else(|| named().any(|known| *known == *function).then(Vec::new))
}

/// The scalar function of a plan that was written down.
pub fn decode_scalar(name: &str, bytes: &[u8]) -> Option<Arc<ScalarUDF>> {
    match bytes {
        [] => named().find(|function| function.name() == name),
        steps => formula::decode(steps).filter(|function| function.name() == name),
    }
}

/// All aggregate functions.
pub fn aggregates() -> impl Iterator<Item = Arc<AggregateUDF>> {
    [sum(), average(), least(), greatest(), all_true(), any_true()].into_iter().chain(spread::spreads())
}

/// The aggregate function of this name, for plans that are read from their written form.
pub fn aggregate_function(name: &str) -> Option<Arc<AggregateUDF>> {
    aggregates().find(|function| function.name() == name)
}

#[cfg(test)]
mod tests {
    use datafusion::functions::all_default_functions;
    use datafusion::functions_aggregate::all_default_aggregate_functions;

    use super::*;

    /// A session that is made of another one gets the functions of all names in any order: the other function that still has one of them
    /// would be called by its first name, too.
    #[test]
    fn a_function_in_the_place_of_another_has_all_of_its_names() {
        for function in functions() {
            let other = all_default_functions().into_iter().find(|other| other.name() == function.name());
            assert_eq!(function.aliases(), other.expect("it has a place").aliases(), "{}", function.name());
        }
        for function in aggregates() {
            let other = all_default_aggregate_functions().into_iter().find(|other| other.name() == function.name());
            let other = other.expect("it has a place");
            assert!(other.aliases().iter().all(|alias| function.aliases().contains(alias)), "{}", function.name());
        }
    }
}
