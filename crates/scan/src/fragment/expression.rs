//! Expressions that can travel: a closed set, from DataFusion's physical ones and back.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::unicode::substr;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr, in_list, like,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::constants::Constants;
use super::wire::{self, Cursor, MOST};
use super::{NotPushable, Refused};
use crate::exact;

/// How deep one may be in another.
const DEPTH: usize = 128;

/// Operators by their numbers.
const OPERATORS: [Operator; 15] = [
    Operator::Eq,
    Operator::NotEq,
    Operator::Lt,
    Operator::LtEq,
    Operator::Gt,
    Operator::GtEq,
    Operator::Plus,
    Operator::Minus,
    Operator::Multiply,
    Operator::Divide,
    Operator::Modulo,
    Operator::And,
    Operator::Or,
    Operator::IsDistinctFrom,
    Operator::IsNotDistinctFrom,
];

/// An expression over numbered columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Column(usize),
    Constant(ScalarValue),
    /// `checked`: exact arithmetic, in which what does not fit is an error.
    Binary {
        operator: Operator,
        checked: bool,
        left: Box<Expression>,
        right: Box<Expression>,
    },
    Not(Box<Expression>),
    IsNull(Box<Expression>),
    IsNotNull(Box<Expression>),
    Negative(Box<Expression>),
    In {
        negated: bool,
        value: Box<Expression>,
        list: Vec<Expression>,
    },
    Like {
        negated: bool,
        case_insensitive: bool,
        value: Box<Expression>,
        pattern: Box<Expression>,
    },
    Cast {
        value: Box<Expression>,
        to: DataType,
    },
    Case {
        value: Option<Box<Expression>>,
        branches: Vec<(Expression, Expression)>,
        otherwise: Option<Box<Expression>>,
    },
    /// Of a text, from a letter on, which counts from one, and so many letters or all.
    Substring {
        value: Box<Expression>,
        from: Box<Expression>,
        length: Option<Box<Expression>>,
    },
}

impl Expression {
    /// The same as a physical one, if it can travel.
    pub(crate) fn of(expression: &Arc<dyn PhysicalExpr>) -> Result<Self, NotPushable> {
        Self::at(expression, 0)
    }

    fn at(expression: &Arc<dyn PhysicalExpr>, depth: usize) -> Result<Self, NotPushable> {
        if depth >= DEPTH {
            return Err(NotPushable("an expression that is nested so deeply".to_owned()));
        }
        let of = |expression: &Arc<dyn PhysicalExpr>| Self::at(expression, depth + 1);
        let boxed = |expression: &Arc<dyn PhysicalExpr>| of(expression).map(Box::new);
        let unknown = || NotPushable(format!("`{expression}`"));
        if let Some(column) = expression.downcast_ref::<Column>() {
            return Ok(Self::Column(column.index()));
        }
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            return Ok(Self::Constant(literal.value().clone()));
        }
        if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
            if !OPERATORS.contains(binary.op()) {
                return Err(unknown());
            }
            let (left, right) = (boxed(binary.left())?, boxed(binary.right())?);
            return Ok(Self::Binary { operator: *binary.op(), checked: false, left, right });
        }
        if let Some(not) = expression.downcast_ref::<NotExpr>() {
            return Ok(Self::Not(boxed(not.arg())?));
        }
        if let Some(is_null) = expression.downcast_ref::<IsNullExpr>() {
            return Ok(Self::IsNull(boxed(is_null.arg())?));
        }
        if let Some(is_not_null) = expression.downcast_ref::<IsNotNullExpr>() {
            return Ok(Self::IsNotNull(boxed(is_not_null.arg())?));
        }
        if let Some(negative) = expression.downcast_ref::<NegativeExpr>() {
            return Ok(Self::Negative(boxed(negative.arg())?));
        }
        if let Some(list) = expression.downcast_ref::<InListExpr>() {
            let items = list.list().iter().map(of).collect::<Result<Vec<_>, _>>()?;
            let short = items.len() <= MOST;
            let found = Self::In { negated: list.negated(), value: boxed(list.expr())?, list: items };
            return if short { Ok(found) } else { Err(NotPushable("so long a list".to_owned())) };
        }
        if let Some(like) = expression.downcast_ref::<LikeExpr>() {
            let (negated, case_insensitive) = (like.negated(), like.case_insensitive());
            let (value, pattern) = (boxed(like.expr())?, boxed(like.pattern())?);
            return Ok(Self::Like { negated, case_insensitive, value, pattern });
        }
        if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            let usual = CastExpr::new(Arc::clone(cast.expr()), cast.cast_type().clone(), None);
            if cast.has_explicit_metadata() || cast.cast_options() != usual.cast_options() {
                return Err(unknown());
            }
            return Ok(Self::Cast { value: boxed(cast.expr())?, to: cast.cast_type().clone() });
        }
        if let Some(case) = expression.downcast_ref::<CaseExpr>() {
            let branch = |(when, then): &(_, _)| Ok((of(when)?, of(then)?));
            return Ok(Self::Case {
                value: case.expr().map(boxed).transpose()?,
                branches: case.when_then_expr().iter().map(branch).collect::<Result<_, NotPushable>>()?,
                otherwise: case.else_expr().map(boxed).transpose()?,
            });
        }
        if let Some(call) = expression.downcast_ref::<ScalarFunctionExpr>() {
            if let (Some(operator), [left, right]) = (exact::operator(call.fun()), call.args()) {
                return Ok(Self::Binary { operator, checked: true, left: boxed(left)?, right: boxed(right)? });
            }
            if *call.fun() != *substr() {
                return Err(unknown());
            }
            let (value, from, length) = match call.args() {
                [value, from] => (value, from, None),
                [value, from, length] => (value, from, Some(length)),
                _ => return Err(unknown()),
            };
            let length = length.map(boxed).transpose()?;
            return Ok(Self::Substring { value: boxed(value)?, from: boxed(from)?, length });
        }
        Err(unknown())
    }

    /// As a physical expression over these columns; refused where types do not go together.
    pub(crate) fn over(&self, schema: &Schema) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
        let over = |expression: &Self| expression.over(schema);
        let made: Arc<dyn PhysicalExpr> = match self {
            Self::Column(at) => match schema.fields().get(*at) {
                Some(field) => Arc::new(Column::new(field.name(), *at)),
                None => return refused(format!("there is no column {at}")),
            },
            Self::Constant(value) => Arc::new(Literal::new(value.clone())),
            Self::Binary { operator, checked: false, left, right } => {
                Arc::new(BinaryExpr::new(over(left)?, *operator, over(right)?))
            }
            Self::Binary { operator, checked: true, left, right } => {
                let Some(function) = exact::arithmetic(*operator) else {
                    return refused(format!("{operator} is no arithmetic"));
                };
                let parts = vec![over(left)?, over(right)?];
                Arc::new(ScalarFunctionExpr::try_new(function, parts, schema, Arc::default())?)
            }
            Self::Not(value) => Arc::new(NotExpr::new(over(value)?)),
            Self::IsNull(value) => Arc::new(IsNullExpr::new(over(value)?)),
            Self::IsNotNull(value) => Arc::new(IsNotNullExpr::new(over(value)?)),
            Self::Negative(value) => Arc::new(NegativeExpr::new(over(value)?)),
            Self::In { negated, value, list } => {
                let list = list.iter().map(over).collect::<DataFusionResult<_>>()?;
                in_list(over(value)?, list, negated, schema)?
            }
            Self::Like { negated, case_insensitive, value, pattern } => {
                like(*negated, *case_insensitive, over(value)?, over(pattern)?, schema)?
            }
            Self::Cast { value, to } => Arc::new(CastExpr::new(over(value)?, to.clone(), None)),
            Self::Case { value, branches, otherwise } => Arc::new(CaseExpr::try_new(
                value.as_deref().map(over).transpose()?,
                branches.iter().map(|(when, then)| Ok((over(when)?, over(then)?))).collect::<DataFusionResult<_>>()?,
                otherwise.as_deref().map(over).transpose()?,
            )?),
            Self::Substring { value, from, length } => {
                let parts = [Some(value), Some(from), length.as_ref()].into_iter().flatten();
                let parts = parts.map(|part| over(part)).collect::<DataFusionResult<_>>()?;
                Arc::new(ScalarFunctionExpr::try_new(substr(), parts, schema, Arc::default())?)
            }
        };
        // Says whether the types of its parts go together.
        made.data_type(schema)?;
        Ok(made)
    }

    /// The same where column `n` of this one is column `columns[n]`; nothing if there is none.
    pub(crate) fn of_columns(&self, columns: &[usize]) -> Option<Self> {
        let one = |value: &Self| value.of_columns(columns);
        let boxed = |value: &Self| value.of_columns(columns).map(Box::new);
        let option = |value: &Option<Box<Self>>| match value {
            None => Some(None),
            Some(value) => boxed(value).map(Some),
        };
        Some(match self {
            Self::Column(at) => Self::Column(*columns.get(*at)?),
            Self::Constant(value) => Self::Constant(value.clone()),
            Self::Binary { operator, checked, left, right } => {
                Self::Binary { operator: *operator, checked: *checked, left: boxed(left)?, right: boxed(right)? }
            }
            Self::Not(value) => Self::Not(boxed(value)?),
            Self::IsNull(value) => Self::IsNull(boxed(value)?),
            Self::IsNotNull(value) => Self::IsNotNull(boxed(value)?),
            Self::Negative(value) => Self::Negative(boxed(value)?),
            Self::In { negated, value, list } => {
                Self::In { negated: *negated, value: boxed(value)?, list: list.iter().map(one).collect::<Option<_>>()? }
            }
            Self::Like { negated, case_insensitive, value, pattern } => Self::Like {
                negated: *negated,
                case_insensitive: *case_insensitive,
                value: boxed(value)?,
                pattern: boxed(pattern)?,
            },
            Self::Cast { value, to } => Self::Cast { value: boxed(value)?, to: to.clone() },
            Self::Case { value, branches, otherwise } => Self::Case {
                value: option(value)?,
                branches: branches.iter().map(|(when, then)| Some((one(when)?, one(then)?))).collect::<Option<_>>()?,
                otherwise: option(otherwise)?,
            },
            Self::Substring { value, from, length } => {
                Self::Substring { value: boxed(value)?, from: boxed(from)?, length: option(length)? }
            }
        })
    }

    pub(super) fn encode(&self, to: &mut Vec<u8>, constants: &mut Constants) {
        match self {
            Self::Column(at) => {
                to.push(0);
                wire::put_count(to, *at);
            }
            Self::Constant(value) => {
                to.push(1);
                wire::put_count(to, constants.number(value));
            }
            Self::Binary { operator, checked, left, right } => {
                let number = OPERATORS.iter().position(|known| known == operator).unwrap_or(OPERATORS.len());
                to.extend_from_slice(&[2, number as u8, u8::from(*checked)]);
                left.encode(to, constants);
                right.encode(to, constants);
            }
            Self::Not(value) => Self::encode_one(to, constants, 3, value),
            Self::IsNull(value) => Self::encode_one(to, constants, 4, value),
            Self::IsNotNull(value) => Self::encode_one(to, constants, 5, value),
            Self::Negative(value) => Self::encode_one(to, constants, 6, value),
            Self::In { negated, value, list } => {
                to.extend_from_slice(&[7, u8::from(*negated)]);
                value.encode(to, constants);
                wire::put_count(to, list.len());
                for item in list {
                    item.encode(to, constants);
                }
            }
            Self::Like { negated, case_insensitive, value, pattern } => {
                to.extend_from_slice(&[8, u8::from(*negated), u8::from(*case_insensitive)]);
                value.encode(to, constants);
                pattern.encode(to, constants);
            }
            Self::Cast { value, to: data_type } => {
                to.push(9);
                wire::put_count(to, constants.number_of_type(data_type));
                value.encode(to, constants);
            }
            Self::Case { value, branches, otherwise } => {
                to.push(10);
                wire::put_option(to, value.as_ref(), |to, value| value.encode(to, constants));
                wire::put_count(to, branches.len());
                for (when, then) in branches {
                    when.encode(to, constants);
                    then.encode(to, constants);
                }
                wire::put_option(to, otherwise.as_ref(), |to, value| value.encode(to, constants));
            }
            Self::Substring { value, from, length } => {
                to.push(11);
                value.encode(to, constants);
                from.encode(to, constants);
                wire::put_option(to, length.as_ref(), |to, value| value.encode(to, constants));
            }
        }
    }

    fn encode_one(to: &mut Vec<u8>, constants: &mut Constants, kind: u8, value: &Self) {
        to.push(kind);
        value.encode(to, constants);
    }

    pub(super) fn decode(from: &mut Cursor<'_>, constants: &Constants) -> Result<Self, Refused> {
        if from.depth >= DEPTH {
            return Err(Refused::because("its expressions are nested too deeply"));
        }
        from.depth += 1;
        let one = |from: &mut Cursor<'_>| Self::decode(from, constants);
        let boxed = |from: &mut Cursor<'_>| Self::decode(from, constants).map(Box::new);
        let made = match from.u8()? {
            0 => Self::Column(from.count()?),
            1 => {
                let constant = constants.get(from.count()?)?;
                from.copies(constant.size())?;
                Self::Constant(constant.clone())
            }
            2 => {
                let operator = OPERATORS.get(usize::from(from.u8()?)).copied();
                let operator = operator.ok_or_else(|| Refused::because("there is no such operator"))?;
                Self::Binary { operator, checked: from.flag()?, left: boxed(from)?, right: boxed(from)? }
            }
            3 => Self::Not(boxed(from)?),
            4 => Self::IsNull(boxed(from)?),
            5 => Self::IsNotNull(boxed(from)?),
            6 => Self::Negative(boxed(from)?),
            7 => Self::In { negated: from.flag()?, value: boxed(from)?, list: from.list(MOST, one)? },
            8 => Self::Like {
                negated: from.flag()?,
                case_insensitive: from.flag()?,
                value: boxed(from)?,
                pattern: boxed(from)?,
            },
            9 => {
                let to = constants.get(from.count()?)?.data_type();
                Self::Cast { value: boxed(from)?, to }
            }
            10 => Self::Case {
                value: from.option(boxed)?,
                branches: from.list(MOST, |from| Ok((one(from)?, one(from)?)))?,
                otherwise: from.option(boxed)?,
            },
            11 => Self::Substring { value: boxed(from)?, from: boxed(from)?, length: from.option(boxed)? },
            _ => return Err(Refused::because("there is no such expression")),
        };
        from.depth -= 1;
        Ok(made)
    }
}

fn refused<T>(reason: String) -> DataFusionResult<T> {
    Err(datafusion::error::DataFusionError::External(Box::new(Refused(reason))))
}
