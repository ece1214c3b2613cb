//! Many operators as one function.
//!
//! DataFusion writes the name of an expression out at every level of it, in every pass over a plan: an expression that is nested `n`
//! deep is planned in a time that grows with the third power of `n`. So operators that are nested deeply become one function, whose
//! arguments are what they are applied to:
//!
//! ```text
//!   exact_add(exact_add(exact_add(a, b), c), d)   ─▶   exact_formula(a, b, c, d)     steps: a b + c + d +
//! ```
//!
//! Operators that are nested less stay as they are: rules of DataFusion find common parts of them.
//!
//! Parts: [`collapse`] makes formulas, [`written`] is their form in a plan that is written down.

mod collapse;
mod written;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub(super) use collapse::collapsed;
pub(super) use written::{decode, encode};

use super::{is_negation, operator, strict_field};

/// Steps over a stack of values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Formula {
    steps: Vec<Step>,
    signature: Signature,
}

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Pushes this argument.
    Argument(usize),
    /// Takes the arguments of a function of exact numbers, of which the last is on top, and pushes its result.
    Call(Arc<ScalarUDF>),
    /// Casts what is on top.
    Cast(DataType),
}

impl Step {
    /// How many values it takes.
    fn takes(&self) -> usize {
        match self {
            Self::Argument(_) => 0,
            Self::Call(function) if operator(function).is_some() => 2,
            Self::Call(_) | Self::Cast(_) => 1,
        }
    }
}

impl Formula {
    /// Nothing unless each step finds what it takes, one value is left, and arguments are numbered from zero.
    fn new(steps: Vec<Step>) -> Option<Self> {
        let (mut values, mut arguments) = (0_usize, 0);
        for step in &steps {
            values = values.checked_sub(step.takes())? + 1;
            if let Step::Argument(at) = step {
                if *at != arguments {
                    return None;
                }
                arguments += 1;
            }
        }
        let signature = Signature::any(arguments, Volatility::Immutable);
        (values == 1).then_some(Self { steps, signature })
    }

    fn function(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(self))
    }

    /// Takes the steps with values of some kind.
    fn take<T>(&self, argument: impl Fn(usize) -> Option<T>, apply: impl Fn(&Step, Vec<T>) -> Result<T>) -> Result<T> {
        let wrong = || DataFusionError::Internal("a formula has other arguments than it was made for".to_owned());
        let mut values = Vec::new();
        for step in &self.steps {
            let value = match step {
                Step::Argument(at) => argument(*at).ok_or_else(wrong)?,
                step => {
                    let first = values.len().checked_sub(step.takes()).ok_or_else(wrong)?;
                    apply(step, values.split_off(first))?
                }
            };
            values.push(value);
        }
        values.pop().ok_or_else(wrong)
    }

    /// Written as SQL has it.
    fn text(&self, argument: impl Fn(usize) -> Option<String>) -> Result<String> {
        self.take(argument, |step, values| {
            let mut values = values.into_iter();
            let mut text = values.next().unwrap_or_default();
            match step {
                Step::Call(function) if is_negation(function) => text = format!("(- {text})"),
                Step::Call(function) => {
                    if let (Some(operator), Some(right)) = (operator(function), values.next()) {
                        text.extend([" ", &operator.to_string(), " ", &right]);
                    }
                }
                Step::Argument(_) | Step::Cast(_) => {}
            }
            Ok(text)
        })
    }
}

impl ScalarUDFImpl for Formula {
    fn name(&self) -> &'static str {
        "exact_formula"
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.text(|at| args.get(at).map(Expr::to_string))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.text(|at| args.get(at).map(|arg| arg.schema_name().to_string()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.take(
            |at| types.get(at).cloned(),
            |step, types| match step {
                Step::Call(function) => function.return_type(&types),
                Step::Cast(to) => Ok(to.clone()),
                Step::Argument(_) => Ok(DataType::Null),
            },
        )
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        strict_field(self, &args)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.take(
            |at| args.args.get(at).cloned(),
            |step, values| match step {
                Step::Call(function) => {
                    // The field that is promised is the formula's, not that of a step.
                    function.inner().invoke_with_args(ScalarFunctionArgs { args: values, ..without_values(&args) })
                }
                Step::Cast(to) => values.first().map_or_else(
                    || Err(DataFusionError::Internal("a cast of nothing".to_owned())),
                    |value| value.cast_to(to, None),
                ),
                Step::Argument(_) => Err(DataFusionError::Internal("an argument is no operation".to_owned())),
            },
        )
    }
}

/// Functions of exact numbers look at nothing but their arguments.
fn without_values(args: &ScalarFunctionArgs) -> ScalarFunctionArgs {
    ScalarFunctionArgs {
        args: Vec::new(),
        arg_fields: Vec::new(),
        number_rows: args.number_rows,
        return_field: Arc::clone(&args.return_field),
        config_options: Arc::clone(&args.config_options),
    }
}
