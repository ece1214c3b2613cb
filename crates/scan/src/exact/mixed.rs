//! Numbers of several types that come together in one place: the branches of a CASE, the arguments of `coalesce`, `greatest`
//! and `least`, the columns of a UNION. They get one type, by the rules of `PostgreSQL`, before anything that is computed of
//! them gets one.
//!
//! While a statement is planned, DataFusion takes the first branch's type for that of a CASE, and the first query's for those of
//! a UNION; a cast that an operator would add for such a type could cut digits off. So the operators are planned with their
//! operands as they are, and this rule, from the inner queries to the outer ones, settles the types.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Union};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::forms::rewrite_in;
use super::operator as operator_of;
use super::plan::{Number, binary, of_type, type_of};

/// Gives numbers that come together one type.
#[derive(Debug, Default)]
pub struct MixedNumbers;

impl AnalyzerRule for MixedNumbers {
    fn name(&self) -> &'static str {
        "mixed_numbers"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        // Whether any type may be another one than before; what is above such a place is visited after it.
        let changes = Cell::new(false);
        plan.transform_up_with_subqueries(|plan| settled(plan, &changes)).data()
    }
}

fn settled(plan: LogicalPlan, changes: &Cell<bool>) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Union(union) = plan {
        let united = united(union)?;
        changes.set(changes.get() || united.transformed);
        return Ok(united);
    }
    let has_parts = |expression: &Expr| matches!(expression, Expr::Case(_) | Expr::ScalarFunction(_));
    let settled = rewrite_in(plan, has_parts, |expression, schema| {
        expression.transform_up(|expression| Ok(of_one_type(expression, schema)))
    })?;
    changes.set(changes.get() || settled.transformed);
    if changes.get() { settled.map_data(LogicalPlan::recompute_schema) } else { Ok(settled) }
}

/// A UNION whose queries give the same types of numbers.
fn united(union: Union) -> Result<Transformed<LogicalPlan>> {
    let Union { inputs, schema } = union;
    let mut fields = Vec::with_capacity(schema.fields().len());
    let mut differs = false;
    for (at, (qualifier, field)) in schema.iter().enumerate() {
        let types = || inputs.iter().filter_map(|input| input.schema().fields().get(at)).map(|field| field.data_type());
        let numbers = types().filter(|found| **found != DataType::Null).map(Number::of_type);
        let found = numbers.collect::<Option<Vec<_>>>().and_then(|numbers| numbers.into_iter().reduce(common));
        let found = found.map_or_else(|| field.data_type().clone(), Number::arrow);
        differs |= found != *field.data_type()
            || Number::of_type(&found).is_some() && types().any(|of| *of != found && *of != DataType::Null);
        let is_nullable = inputs.iter().any(|input| input.schema().fields().get(at).is_none_or(|of| of.is_nullable()));
        let field = Field::new(field.name(), found, is_nullable).with_metadata(field.metadata().clone());
        fields.push((qualifier.cloned(), Arc::new(field)));
    }
    if !differs {
        return Ok(Transformed::no(LogicalPlan::Union(Union { inputs, schema })));
    }
    let schema = Arc::new(DFSchema::new_with_metadata(fields, schema.metadata().clone())?);
    let inputs = inputs.into_iter().map(|input| {
        // Columns of other types than numbers are DataFusion's to coerce.
        let wanted = input.schema().iter().zip(schema.fields()).map(|((qualifier, own), united)| {
            let number = Number::of_type(united.data_type()).is_some();
            let field = own.as_ref().clone();
            let field = if number { field.with_data_type(united.data_type().clone()) } else { field };
            (qualifier.cloned(), Arc::new(field))
        });
        let wanted = DFSchema::new_with_metadata(wanted.collect(), input.schema().metadata().clone())?;
        coerce_plan_expr_for_schema(Arc::unwrap_or_clone(input), &wanted).map(Arc::new)
    });
    Ok(Transformed::yes(LogicalPlan::Union(Union { inputs: inputs.collect::<Result<_>>()?, schema })))
}

/// An expression whose parts, if they are numbers, have one type.
fn of_one_type(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expression {
        Expr::Case(case) => branches(case, schema),
        Expr::ScalarFunction(ScalarFunction { func, args }) if takes_alike(func.name()) => {
            match shared(args.iter(), schema) {
                Some(number) => {
                    let args = args.iter().map(|arg| as_number(arg, number, schema)).collect();
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
                }
                None => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
            }
        }
        Expr::ScalarFunction(call) => {
            let again = match (operator_of(&call.func), call.args.as_slice()) {
                (Some(operator), [left, right]) if type_of(left, schema) != type_of(right, schema) => {
                    binary(operator, left, right, schema)
                }
                _ => None,
            };
            again.map_or_else(|| Transformed::no(Expr::ScalarFunction(call)), Transformed::yes)
        }
        other => Transformed::no(other),
    }
}

fn takes_alike(function: &str) -> bool {
    matches!(function, "coalesce" | "greatest" | "least")
}

fn branches(mut case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let values = case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(case.else_expr.as_deref());
    let Some(number) = shared(values, schema) else { return Transformed::no(Expr::Case(case)) };
    for (_, then) in &mut case.when_then_expr {
        **then = as_number(then, number, schema);
    }
    if let Some(otherwise) = &mut case.else_expr {
        **otherwise = as_number(otherwise, number, schema);
    }
    Transformed::yes(Expr::Case(case))
}

/// The type of numbers of several types; nothing if there is one type only, or something else than numbers and NULL.
fn shared<'a>(values: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<Number> {
    let mut found: Option<(Number, DataType)> = None;
    let mut differs = false;
    for value in values {
        let data_type = type_of(value, schema)?;
        if data_type == DataType::Null {
            continue;
        }
        let number = Number::of(value, &data_type)?;
        found = Some(match found {
            Some((before, known)) => {
                differs |= known != data_type;
                (common(before, number), known)
            }
            None => (number, data_type),
        });
    }
    // A number that is written down may be an INTEGER, and is kept as a BIGINT.
    found.filter(|(number, known)| differs || number.arrow() != *known).map(|(number, _)| number)
}

fn as_number(value: &Expr, number: Number, schema: &DFSchema) -> Expr {
    match type_of(value, schema) {
        Some(found) if found != DataType::Null => match of_type(value, &found, number) {
            // A literal that got fewer digits than the others.
            literal @ Expr::Literal(..) => of_type(&literal, &type_of(&literal, schema).unwrap_or(found), number),
            other => other,
        },
        _ => value.clone(),
    }
}

/// The type as which `PostgreSQL` takes numbers of two types that are alternatives; nothing if one is not of numbers.
pub fn alternatives(left: &DataType, right: &DataType) -> Option<DataType> {
    Some(common(Number::of_type(left)?, Number::of_type(right)?).arrow())
}

/// The type as which `PostgreSQL` takes two numbers that are alternatives. Unlike an operator, they meet as the wider one.
fn common(left: Number, right: Number) -> Number {
    let digits = |number: Number| match number.as_decimal() {
        Number::Decimal(precision, scale) => Some((i16::from(precision) - i16::from(scale), i16::from(scale))),
        _ => None,
    };
    match (digits(left), digits(right)) {
        (Some(_), Some(_)) if left.is_integer() && right.is_integer() => left.max(right),
        (Some((before, behind)), Some((other_before, other_behind))) => {
            let (before, behind) = (before.max(other_before), behind.max(other_behind));
            // Digits behind the point are kept; a value that has too many before it is an error.
            Number::Decimal((before + behind).clamp(1, 38) as u8, behind as i8)
        }
        _ => left.max(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_are_alternatives_as_the_wider_type() {
        use Number::{BigInt, Decimal, Double, Integer, Real, SmallInt};
        for (left, right, expected) in [
            (SmallInt, Integer, Integer),
            (Integer, BigInt, BigInt),
            (Integer, Decimal(2, 1), Decimal(11, 1)),
            (Decimal(12, 3), BigInt, Decimal(22, 3)),
            (Decimal(38, 10), Decimal(38, 0), Decimal(38, 10)),
            (Real, Decimal(2, 1), Real),
            (BigInt, Real, Real),
            (Real, Double, Double),
        ] {
            assert_eq!(common(left, right), expected, "{left:?} and {right:?}");
            assert_eq!(common(right, left), expected, "{right:?} and {left:?}");
        }
    }
}
