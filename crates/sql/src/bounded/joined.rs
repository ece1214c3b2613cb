//! `a || b || c` as one function, which looks ahead as the others do and has one result instead of one for each `||`.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeStringBuilder, StringBuilder, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::{MOST, ONE_FOR_ALL, refused};
use crate::rules::in_expressions;

/// As it is, and as one that is not folded into a constant.
pub(super) static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
    [Volatility::Immutable, Volatility::Volatile]
        .map(|volatility| Arc::new(ScalarUDF::from(Joined { signature: Signature::variadic_any(volatility) })))
});

/// Texts of one type, one behind the other; NULL if one of them is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Joined {
    signature: Signature,
}

/// Some texts of a column, or the one of all rows.
enum Texts<'a> {
    One(Option<&'a str>),
    Small(&'a datafusion::arrow::array::StringArray),
    Large(&'a datafusion::arrow::array::LargeStringArray),
    Views(&'a datafusion::arrow::array::StringViewArray),
}

impl<'a> Texts<'a> {
    fn of(value: &'a ColumnarValue) -> Option<Self> {
        Some(match value {
            ColumnarValue::Scalar(ScalarValue::Null) => Self::One(None),
            ColumnarValue::Scalar(value) => Self::One(value.try_as_str()?),
            ColumnarValue::Array(array) => match array.data_type() {
                DataType::Utf8 => Self::Small(array.as_string()),
                DataType::LargeUtf8 => Self::Large(array.as_string()),
                DataType::Utf8View => Self::Views(array.as_string_view()),
                _ => return None,
            },
        })
    }

    fn at(&self, row: usize) -> Option<&'a str> {
        match self {
            Self::One(text) => *text,
            Self::Small(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::Large(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::Views(texts) => texts.is_valid(row).then(|| texts.value(row)),
        }
    }
}

/// The texts of all rows.
fn joined(texts: &[Texts<'_>], rows: usize, to: &DataType) -> Result<ArrayRef> {
    let bytes = |row| texts.iter().map(|texts| texts.at(row).map(str::len)).sum::<Option<usize>>();
    let all: usize = (0..rows).filter_map(bytes).sum();
    if all as u64 > MOST {
        return Err(refused("||"));
    }
    let mut text = String::new();
    let mut fill = |row| {
        text.clear();
        for texts in texts {
            text.push_str(texts.at(row)?);
        }
        Some(text.clone())
    };
    Ok(match to {
        DataType::Utf8View => {
            let mut builder = StringViewBuilder::with_capacity(rows);
            (0..rows).for_each(|row| builder.append_option(fill(row)));
            Arc::new(builder.finish())
        }
        DataType::LargeUtf8 => {
            let mut builder = LargeStringBuilder::with_capacity(rows, all);
            (0..rows).for_each(|row| builder.append_option(fill(row)));
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = StringBuilder::with_capacity(rows, all);
            (0..rows).for_each(|row| builder.append_option(fill(row)));
            Arc::new(builder.finish())
        }
    })
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &'static str {
        "joined"
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(Expr::to_string).collect::<Vec<_>>().join(" || "))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(|arg| arg.schema_name().to_string()).collect::<Vec<_>>().join(" || "))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Utf8))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let first = args.arg_fields.first().map_or(DataType::Utf8, |field| field.data_type().clone());
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), first, nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let to = args.return_field.data_type();
        let texts = args.args.iter().map(Texts::of).collect::<Option<Vec<_>>>();
        let Some(texts) = texts else {
            return datafusion::common::exec_err!("|| is of texts, CAST other values to TEXT first");
        };
        if !texts.iter().all(|texts| matches!(texts, Texts::One(_))) {
            return joined(&texts, args.number_rows, to).map(ColumnarValue::Array);
        }
        let one = joined(&texts, 1, to)?;
        let bytes = one.get_array_memory_size() as u64;
        if bytes > ONE_FOR_ALL && bytes.saturating_mul(args.number_rows as u64) > MOST {
            return Err(refused("||"));
        }
        ScalarValue::try_from_array(&one, 0).map(ColumnarValue::Scalar)
    }
}

/// Has that function in the place of `||` between texts. Behind the coercion of types, which makes texts of other values.
#[derive(Debug)]
pub(crate) struct JoinedTexts;

impl AnalyzerRule for JoinedTexts {
    fn name(&self) -> &'static str {
        "joined_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let joins =
            |expression: &Expr| matches!(expression, Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. }));
        in_expressions(plan, joins, |expression, schema| {
            expression.transform_down(|expression| Ok(as_one(expression, schema)))
        })
    }
}

fn as_one(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. }) = expression else {
        return Transformed::no(expression);
    };
    let (mut texts, mut rest) = (Vec::new(), vec![&expression]);
    while let Some(next) = rest.pop() {
        match next {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
                rest.extend([&**right, &**left]);
            }
            text => texts.push(text.clone()),
        }
    }
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let types: Vec<_> = texts.iter().map(|text| text.get_type(schema).ok().filter(is_text)).collect();
    if types.iter().any(|found| found.is_none() || *found != types[0]) {
        return Transformed::no(expression);
    }
    // What a long constant is made of is not in the statement; there would be a copy of it for each row.
    let is_late =
        !texts.iter().any(Expr::any_column_refs) && texts.iter().any(|text| !matches!(text, Expr::Literal(..)));
    let [early, late] = &*FUNCTIONS;
    let function = Arc::clone(if is_late { late } else { early });
    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, texts)))
}
