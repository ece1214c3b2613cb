//! Numbers of several types, or dates and timestamps, that come together in one place: the branches of a CASE, the arguments of
//! `coalesce`, `greatest` and `least`, the columns of a UNION, an INTERSECT or an EXCEPT. They get one type, by the rules of
//! `PostgreSQL`, before anything that is computed of them gets one.
//!
//! While a statement is planned, DataFusion takes the first branch's type for that of a CASE, and the first query's for those of
//! a set operation; a cast that an operator would add for such a type could cut digits off. So the operators are planned with their
//! operands as they are, and this rule, from the inner queries to the outer ones, settles the types.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, NullEquality, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Case, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, Join, LogicalPlan, Operator, Projection, Union, Values, cast, lit, when,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::calls::difference;
use super::forms::rewrite_in;
use super::operator as operator_of;
use super::plan::{Number, binary, of_type, type_of};

/// The name of a function, which no statement has, that gives its first argument as a type that all its arguments have in common.
pub const COMMON_TYPE: &str = "common_type ;";

/// Gives values that come together one type.
#[derive(Debug, Default)]
pub struct MixedTypes;

impl AnalyzerRule for MixedTypes {
    fn name(&self) -> &'static str {
        "mixed_types"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        // Whether any type may be another one than before; what is above such a place is visited after it.
        let changes = Cell::new(false);
        plan.transform_up_with_subqueries(|plan| settled(plan, &changes)).data()
    }
}

/// Gives values that come together in one operator one type. What is below it has its types already.
pub fn settle(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    settled(plan, &Cell::new(true))
}

fn settled(plan: LogicalPlan, changes: &Cell<bool>) -> Result<Transformed<LogicalPlan>> {
    let of_set = match plan {
        LogicalPlan::Union(union) => united(union)?,
        LogicalPlan::Values(mut values) => {
            for cell in values.values.iter_mut().flatten() {
                let own = std::mem::replace(cell, lit(ScalarValue::Null));
                *cell = in_values(own)?;
            }
            listed(values)?
        }
        LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull => compared(join)?,
        plan => {
            let has_parts =
                |expression: &Expr| matches!(expression, Expr::Case(_) | Expr::ScalarFunction(_) | Expr::InSubquery(_));
            let settled = rewrite_in(plan, has_parts, |expression, schema| {
                expression.transform_up(|expression| of_one_type(expression, schema))
            })?;
            changes.set(changes.get() || settled.transformed);
            return if changes.get() { settled.map_data(LogicalPlan::recompute_schema) } else { Ok(settled) };
        }
    };
    changes.set(changes.get() || of_set.transformed);
    Ok(of_set)
}

/// A UNION whose queries give the same types.
fn united(union: Union) -> Result<Transformed<LogicalPlan>> {
    let Union { inputs, schema } = union;
    let mut fields = Vec::with_capacity(schema.fields().len());
    let mut settled = Vec::with_capacity(schema.fields().len());
    let mut differs = false;
    for (at, (qualifier, field)) in schema.iter().enumerate() {
        let types = || inputs.iter().filter_map(|input| input.schema().fields().get(at)).map(|field| field.data_type());
        let common = all_alternatives(types().filter(|found| **found != DataType::Null));
        differs |= common.as_ref().is_some_and(|common| {
            common != field.data_type() || types().any(|of| of != common && *of != DataType::Null)
        });
        let found = common.clone().unwrap_or_else(|| field.data_type().clone());
        settled.push(common);
        let is_nullable = inputs.iter().any(|input| input.schema().fields().get(at).is_none_or(|of| of.is_nullable()));
        let field = Field::new(field.name(), found, is_nullable).with_metadata(field.metadata().clone());
        fields.push((qualifier.cloned(), Arc::new(field)));
    }
    if !differs {
        return Ok(Transformed::no(LogicalPlan::Union(Union { inputs, schema })));
    }
    let schema = Arc::new(DFSchema::new_with_metadata(fields, schema.metadata().clone())?);
    let inputs = inputs.into_iter().map(|input| {
        // Other columns are DataFusion's to coerce.
        let wanted = input.schema().iter().zip(&settled).map(|((qualifier, own), settled)| {
            let field = match settled {
                Some(of) => Arc::new(own.as_ref().clone().with_data_type(of.clone())),
                None => Arc::clone(own),
            };
            (qualifier.cloned(), field)
        });
        let wanted = DFSchema::new_with_metadata(wanted.collect(), input.schema().metadata().clone())?;
        coerce_plan_expr_for_schema(Arc::unwrap_or_clone(input), &wanted).map(Arc::new)
    });
    Ok(Transformed::yes(LogicalPlan::Union(Union { inputs: inputs.collect::<Result<_>>()?, schema })))
}

/// An INTERSECT or EXCEPT, which is a join of columns with columns, whose queries give the same types.
fn compared(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut types = [vec![None; join.left.schema().fields().len()], vec![None; join.right.schema().fields().len()]];
    for (left, right) in &join.on {
        let (Expr::Column(left), Expr::Column(right)) = (left, right) else { continue };
        let (Some(one), Some(other)) =
            (join.left.schema().maybe_index_of_column(left), join.right.schema().maybe_index_of_column(right))
        else {
            continue;
        };
        let (of, also) = (join.left.schema().field(one).data_type(), join.right.schema().field(other).data_type());
        // The rows are those of the left side: decimals there keep their digits.
        let common = match (of, also) {
            (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
            _ if of.is_decimal() && also.is_decimal() => None,
            _ => alternatives(of, also),
        };
        if of != also
            && let Some(common) = common
        {
            (types[0][one], types[1][other]) = (Some(common.clone()), Some(common));
        }
    }
    if types.iter().flatten().all(Option::is_none) {
        return LogicalPlan::Join(join).recompute_schema().map(Transformed::no);
    }
    let [left, right] = types;
    join.left = Arc::new(as_types(Arc::unwrap_or_clone(join.left), &left)?);
    join.right = Arc::new(as_types(Arc::unwrap_or_clone(join.right), &right)?);
    LogicalPlan::Join(join).recompute_schema().map(Transformed::yes)
}

/// Rows of VALUES whose columns are of one type each, where they are marked by calls of [`COMMON_TYPE`].
///
/// DataFusion has cast the values to types of its own choice by now: doubles beside decimals to decimals. Without the mark, such a
/// cast can not be told from one that the statement has.
fn listed(values: Values) -> Result<Transformed<LogicalPlan>> {
    let Values { schema, values: mut rows } = values;
    let (nothing, mut types) = (DFSchema::empty(), vec![None; schema.fields().len()]);
    for (at, wanted) in types.iter_mut().enumerate() {
        let cells = || rows.iter().filter_map(|row| row.get(at));
        if !cells().all(|cell| marked(cell).is_some() || is_null(cell)) {
            continue;
        }
        // All may be of one type, which is another one than the column was given.
        let only = || {
            type_of(cells().find_map(marked)?, &nothing)
                .filter(|of| of.is_numeric() && of != schema.field(at).data_type())
        };
        let Some(of) = shared(cells().filter_map(marked), &nothing).or_else(only) else { continue };
        for cell in rows.iter_mut().filter_map(|row| row.get_mut(at)) {
            *cell = match marked(cell) {
                Some(value) => as_one(value, &of, &nothing),
                None => Expr::Literal(ScalarValue::try_from(&of)?, None),
            };
        }
        *wanted = Some(of);
    }
    if types.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Values(Values { schema, values: rows })));
    }
    let fields = schema.iter().zip(types).map(|((qualifier, field), of)| {
        let of = of.unwrap_or_else(|| field.data_type().clone());
        (qualifier.cloned(), Arc::new(field.as_ref().clone().with_data_type(of)))
    });
    let schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?);
    Ok(Transformed::yes(LogicalPlan::Values(Values { schema, values: rows })))
}

/// A value of VALUES, which has no columns, and no name that it must keep. Where the others do not ask for its type, it is the one that the columns were given.
fn in_values(cell: Expr) -> Result<Expr> {
    let nothing = DFSchema::empty();
    let before = type_of(&cell, &nothing);
    let cell = cell.transform_up(|part| of_one_type(part, &nothing)).data()?;
    Ok(match before {
        Some(before) if marked(&cell).is_none() && type_of(&cell, &nothing).as_ref() != Some(&before) => {
            cast(cell, before)
        }
        _ => cell,
    })
}

/// The value that is marked.
fn marked(cell: &Expr) -> Option<&Expr> {
    match cell {
        Expr::Cast(cast) => marked(&cast.expr),
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == COMMON_TYPE => match args.as_slice() {
            [value] => Some(value),
            _ => None,
        },
        _ => None,
    }
}

fn is_null(cell: &Expr) -> bool {
    matches!(cell, Expr::Literal(value, _) if value.is_null())
}

/// A plan whose columns have these types, under the names that they had. Rows that are alike then are one in a DISTINCT.
fn as_types(plan: LogicalPlan, types: &[Option<DataType>]) -> Result<LogicalPlan> {
    if let LogicalPlan::Distinct(Distinct::All(input)) = plan {
        let input = as_types(Arc::unwrap_or_clone(input), types)?;
        return Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(input))));
    }
    let columns = plan.schema().iter().zip(types).map(|((qualifier, field), wanted)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match wanted.as_ref().filter(|wanted| *wanted != field.data_type()) {
            Some(wanted) => cast(column, wanted.clone()).alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        }
    });
    let columns = columns.collect();
    Projection::try_new(columns, Arc::new(plan)).map(LogicalPlan::Projection)
}

/// An expression whose parts, if they are alternatives, have one type.
fn of_one_type(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expression {
        Expr::InSubquery(subquery) => in_subquery(subquery, schema)?,
        Expr::Case(case) => branches(case, schema),
        Expr::ScalarFunction(ScalarFunction { func, args }) if takes_alike(func.name()) => {
            match shared(args.iter(), schema) {
                Some(of) => {
                    let args = args.iter().map(|arg| as_one(arg, &of, schema)).collect();
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
                }
                None => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
            }
        }
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if matches!(func.name(), "nullif" | "round") => {
            let wider = match args.as_slice() {
                [value, other] if func.name() == "nullif" => as_compared(value, other, schema),
                [value] => as_rounded(value, schema),
                [value, _] => as_rounded_to(value, schema),
                _ => None,
            };
            let is_wider = wider.is_some();
            if let (Some(wider), Some(value)) = (wider, args.first_mut()) {
                *value = wider;
            }
            if func.name() == "nullif"
                && let [value, other] = args.as_slice()
                && let Some(case) = of_first_type(value, other, schema)
            {
                return Ok(Transformed::yes(case));
            }
            let call = Expr::ScalarFunction(ScalarFunction { func, args });
            if is_wider { Transformed::yes(call) } else { Transformed::no(call) }
        }
        Expr::ScalarFunction(call) => {
            let again = match (operator_of(&call.func), call.args.as_slice()) {
                (Some(operator), [left, right]) => match of_moments(operator, left, right, schema)? {
                    None if type_of(left, schema) != type_of(right, schema) => binary(operator, left, right, schema),
                    moments => moments,
                },
                _ => None,
            };
            again.map_or_else(|| Transformed::no(Expr::ScalarFunction(call)), Transformed::yes)
        }
        other => Transformed::no(other),
    })
}

/// The type of timestamps.
const MOMENT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// What an operator between two days comes to, where one of them is a timestamp after all: while it was planned, the other type was there.
fn of_moments(operator: Operator, left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let counted = |operand: &Expr| match operand {
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Int32 => {
            let of = type_of(&cast.expr, schema)?;
            matches!(of, DataType::Date32 | DataType::Timestamp(_, None)).then(|| (cast.expr.as_ref().clone(), of))
        }
        _ => None,
    };
    let is_time = |of: &Option<(Expr, DataType)>| of.as_ref().is_some_and(|(_, of)| *of != DataType::Date32);
    let (left, right) = (counted(left), counted(right));
    match (operator, &left, &right) {
        _ if !is_time(&left) && !is_time(&right) => Ok(None),
        (Operator::Minus, Some((left, _)), Some((right, _))) => {
            let [left, right] = [left, right].map(|of| Box::new(cast(of.clone(), MOMENT)));
            Ok(Some(difference().call(vec![Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right })])))
        }
        _ => plan_err!("operator does not exist: timestamp {operator} integer; add an interval"),
    }
}

/// An expression that is looked for in a subquery, where one of both is a date and the other a timestamp.
fn in_subquery(InSubquery { expr, mut subquery, negated }: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let of = type_of(&expr, schema);
    let listed = subquery.subquery.schema().fields().first().map(|field| field.data_type().clone());
    let common = match (&of, &listed) {
        (Some(of), Some(listed)) if of != listed => alternatives(of, listed).filter(|common| *common == MOMENT),
        _ => None,
    };
    let Some(common) = common else {
        return Ok(Transformed::no(Expr::InSubquery(InSubquery { expr, subquery, negated })));
    };
    let expr = Box::new(as_one(&expr, &common, schema));
    subquery.subquery = Arc::new(as_types(Arc::unwrap_or_clone(subquery.subquery), &[Some(common)])?);
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
}

fn takes_alike(function: &str) -> bool {
    matches!(function, "coalesce" | "greatest" | "least")
}

/// The first argument of `nullif` as the number that `=` takes it for beside the other one; nothing where that is its own type.
fn as_compared(value: &Expr, other: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (of, beside) = (type_of(value, schema)?, type_of(other, schema)?);
    let (own, beside) = (Number::of(value, &of)?, Number::of(other, &beside)?);
    let is_float = |number: Number| number >= Number::Real;
    let wider = match (is_float(own), is_float(beside)) {
        (true, true) => return None,
        (false, false) if own.is_integer() == beside.is_integer() => return None,
        (false, false) => own.as_decimal(),
        _ => Number::Double,
    };
    (wider != own).then(|| of_type(value, &of, wider))
}

/// `nullif` of two types of numbers or times, as a CASE of the first one's type. DataFusion takes it for one that both have in common.
fn of_first_type(value: &Expr, other: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (of, beside) = (type_of(value, schema)?, type_of(other, schema)?);
    let is_one = |of: &DataType| of.is_numeric() || matches!(of, DataType::Date32 | DataType::Timestamp(_, None));
    if of == beside || !is_one(&of) || !is_one(&beside) || value.is_volatile() {
        return None;
    }
    let is_same = Expr::BinaryExpr(BinaryExpr::new(Box::new(value.clone()), Operator::Eq, Box::new(other.clone())));
    when(is_same, lit(ScalarValue::Null)).otherwise(value.clone()).ok()
}

/// The argument of `round` as the DOUBLE that it is taken for, if it is a whole number.
fn as_rounded(value: &Expr, schema: &DFSchema) -> Option<Expr> {
    let of = type_of(value, schema)?;
    Number::of(value, &of)?.is_integer().then(|| of_type(value, &of, Number::Double))
}

/// The argument of `round` to a number of digits as the decimal that it is taken for, if it is a whole number.
fn as_rounded_to(value: &Expr, schema: &DFSchema) -> Option<Expr> {
    let of = type_of(value, schema)?;
    let number = Number::of_type(&of).filter(|number| number.is_integer())?;
    Some(cast(value.clone(), number.as_decimal().arrow()))
}

fn branches(mut case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let values = case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(case.else_expr.as_deref());
    let Some(of) = shared(values, schema) else { return Transformed::no(Expr::Case(case)) };
    for (_, then) in &mut case.when_then_expr {
        **then = as_one(then, &of, schema);
    }
    if let Some(otherwise) = &mut case.else_expr {
        **otherwise = as_one(otherwise, &of, schema);
    }
    Transformed::yes(Expr::Case(case))
}

/// The type of values of several types; nothing if there is one type only, or one without alternatives.
fn shared<'a>(values: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<DataType> {
    let mut found: Option<(DataType, DataType)> = None;
    let mut differs = false;
    for value in values {
        let data_type = type_of(value, schema)?;
        if data_type == DataType::Null {
            continue;
        }
        // A number that is written down may be an INTEGER, and is kept as a BIGINT.
        let own = Number::of(value, &data_type).map_or_else(|| data_type.clone(), Number::arrow);
        found = Some(match found {
            Some((before, known)) => {
                differs |= known != data_type;
                (alternatives(&before, &own)?, known)
            }
            None => (alternatives(&own, &own)?, data_type),
        });
    }
    found.filter(|(of, known)| differs || of != known).map(|(of, _)| of)
}

/// One of several values as their type.
fn as_one(value: &Expr, of: &DataType, schema: &DFSchema) -> Expr {
    let Some(found) = type_of(value, schema).filter(|found| *found != DataType::Null) else { return value.clone() };
    let Some(number) = Number::of_type(of) else {
        return if found == *of { value.clone() } else { cast(value.clone(), of.clone()) };
    };
    match of_type(value, &found, number) {
        // A literal that got fewer digits than the others.
        literal @ Expr::Literal(..) => of_type(&literal, &type_of(&literal, schema).unwrap_or(found), number),
        other => other,
    }
}

/// The type as which `PostgreSQL` takes values of all these types that are alternatives; nothing if one has no alternatives.
fn all_alternatives<'a>(mut types: impl Iterator<Item = &'a DataType>) -> Option<DataType> {
    let first = types.next()?;
    types.try_fold(alternatives(first, first)?, |common, of| alternatives(&common, of))
}

/// The type as which `PostgreSQL` takes values of two types that are alternatives: numbers, or dates and timestamps. Nothing of other types.
pub fn alternatives(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Date32, Timestamp};
    match (left, right) {
        (Date32, Date32) => Some(Date32),
        // DataFusion makes nanoseconds of some, which have no room for every date.
        (Date32 | Timestamp(_, None), Date32 | Timestamp(_, None)) => Some(MOMENT),
        _ => Some(common(Number::of_type(left)?, Number::of_type(right)?).arrow()),
    }
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
