//! Functions whose results may be far larger than what they are made of: `repeat('x', 2000000000)`.
//!
//! DataFusion counts what its operators keep, not what a function makes. So each of these functions foresees how large its results
//! will be, makes them a few rows at a time, and is refused by name where the results of one batch would take more than [`MOST`].
//! A long constant is never folded into the plan, where each row would get a copy of it unseen: [`LateConstants`].

mod estimate;
mod joined;

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::all_default_functions;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use ishigaki_scan::exact;

use crate::Error;
use estimate::Estimate;

pub(crate) use joined::JoinedTexts;

/// How many bytes the results of one call may have, for all rows of a batch.
const MOST: u64 = 256 << 20;

/// How many bytes a constant may have so that there is one of it for all rows.
const ONE_FOR_ALL: u64 = 8 << 10;

/// Each function twice: as it is, and as one that is not folded into a constant.
static FUNCTIONS: LazyLock<Vec<[Arc<ScalarUDF>; 2]>> = LazyLock::new(|| {
    let bounded = |function: Arc<ScalarUDF>| {
        let estimate = Estimate::of(function.name())?;
        let made = |late| Arc::new(ScalarUDF::from(Bounded::new(Arc::clone(&function), estimate, late)));
        Some([made(false), made(true)])
    };
    all_default_functions().into_iter().filter_map(bounded).collect()
});

/// All of them.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    FUNCTIONS.iter().map(|[function, _]| Arc::clone(function))
}

/// The bounded function of this name, for plans that are read from their written form.
pub fn bounded_function(name: &str) -> Option<Arc<ScalarUDF>> {
    functions().chain([Arc::clone(&joined::FUNCTIONS[0])]).find(|function| function.name() == name)
}

/// Whether a function is a bounded one.
pub fn is_bounded(function: &ScalarUDF) -> bool {
    FUNCTIONS.iter().flatten().chain(&*joined::FUNCTIONS).any(|known| known.as_ref() == function)
}

/// Numbers of letters: a text of fewer than none is empty, and DataFusion has no answer to it.
fn not_negative(letters: &ColumnarValue) -> Result<ColumnarValue> {
    let is_scalar = matches!(letters, ColumnarValue::Scalar(_));
    let array = letters.to_array(1)?;
    let Some(numbers) = array.as_primitive_opt::<Int64Type>() else { return Ok(letters.clone()) };
    let array = numbers.unary::<_, Int64Type>(|number| number.max(0));
    if is_scalar {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
    }
    Ok(ColumnarValue::Array(Arc::new(array)))
}

fn refused(name: &str) -> DataFusionError {
    Error::unsupported(
        format!("a result of {name} with more than {} MiB for the rows of a batch", MOST >> 20),
        "make it shorter, or of fewer rows at a time",
    )
    .into()
}

/// A function that looks ahead.
#[derive(Debug)]
struct Bounded {
    function: Arc<ScalarUDF>,
    estimate: Estimate,
    late: bool,
    signature: Signature,
}

impl Bounded {
    fn new(function: Arc<ScalarUDF>, estimate: Estimate, late: bool) -> Self {
        let mut signature = function.signature().clone();
        if late {
            signature.volatility = Volatility::Volatile;
        }
        Self { function, estimate, late, signature }
    }

    fn refused(&self) -> DataFusionError {
        refused(self.function.name())
    }

    fn call(&self, args: &ScalarFunctionArgs, rows: std::ops::Range<usize>) -> Result<ColumnarValue> {
        let part = |value: &ColumnarValue| match value {
            ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(rows.start, rows.len())),
            ColumnarValue::Scalar(_) => value.clone(),
        };
        let mut values: Vec<ColumnarValue> = args.args.iter().map(part).collect();
        if self.estimate == Estimate::Pad
            && let Some(letters) = values.get_mut(1)
        {
            *letters = not_negative(letters)?;
        }
        self.function.invoke_with_args(ScalarFunctionArgs { args: values, number_rows: rows.len(), ..args.clone() })
    }
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function && self.late == other.late
    }
}

impl Eq for Bounded {}

impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name().hash(state);
        self.late.hash(state);
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.function.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        if constant {
            let one = self.estimate.bytes(&args.args, 0);
            let all = if one <= ONE_FOR_ALL { one } else { one.saturating_mul(rows as u64) };
            if all > MOST {
                return Err(self.refused());
            }
            let made = self.call(&args, 0..1)?;
            return Ok(match made {
                ColumnarValue::Scalar(value) if one > ONE_FOR_ALL => {
                    ColumnarValue::Array(value.to_array_of_size(rows)?)
                }
                made => made,
            });
        }
        // As many rows at a time as may fit.
        let (mut parts, mut made, mut start, mut foreseen) = (Vec::<ArrayRef>::new(), 0, 0, 0_u64);
        for row in 0..rows {
            let more = self.estimate.bytes(&args.args, row);
            if more > MOST {
                return Err(self.refused());
            }
            if foreseen + more > MOST {
                made += self.part(&args, start..row, &mut parts)?;
                if made > MOST {
                    return Err(self.refused());
                }
                (start, foreseen) = (row, 0);
            }
            foreseen += more;
        }
        if parts.is_empty() {
            return self.call(&args, 0..rows);
        }
        made += self.part(&args, start..rows, &mut parts)?;
        if made > MOST {
            return Err(self.refused());
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }
}

impl Bounded {
    /// Makes the results of some rows; how many bytes they have.
    fn part(&self, args: &ScalarFunctionArgs, rows: std::ops::Range<usize>, parts: &mut Vec<ArrayRef>) -> Result<u64> {
        let count = rows.len();
        let array = self.call(args, rows)?.into_array(count)?;
        let bytes = array.get_array_memory_size() as u64;
        parts.push(array);
        Ok(bytes)
    }
}

/// Has long constants made where they are used, not when the statement is planned.
#[derive(Debug)]
pub(crate) struct LateConstants;

impl AnalyzerRule for LateConstants {
    fn name(&self) -> &'static str {
        "late_constants"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let in_node = |plan: LogicalPlan| {
            let is_call = |expression: &Expr| matches!(expression, Expr::ScalarFunction(_));
            exact::rewrite_in(plan, is_call, |expression, _| expression.transform_up(|expression| Ok(late(expression))))
        };
        plan.transform_up_with_subqueries(in_node).data()
    }
}

fn late(expression: Expr) -> Transformed<Expr> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = &expression else { return Transformed::no(expression) };
    let Some([_, late]) = FUNCTIONS.iter().find(|[early, _]| early == func) else { return Transformed::no(expression) };
    let is_constant = !args.iter().any(Expr::any_column_refs);
    if !is_constant || Estimate::of(func.name()).is_none_or(|estimate| estimate.is_short(args, ONE_FOR_ALL)) {
        return Transformed::no(expression);
    }
    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(late), args.clone())))
}
