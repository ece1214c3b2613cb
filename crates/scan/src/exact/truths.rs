//! `bool_and` and `bool_or` over the frames of a window that leave rows behind: DataFusion's own can not forget a value.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::functions_aggregate::bool_and_or::{bool_and_udaf, bool_or_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};

/// Whether all values are true.
pub fn all_true() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Truth::function(bool_and_udaf(), true));
    Arc::clone(&FUNCTION)
}

/// Whether any value is true.
pub fn any_true() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Truth::function(bool_or_udaf(), false));
    Arc::clone(&FUNCTION)
}

#[derive(Debug)]
struct Truth {
    /// Whether all values have to be true, not only one.
    all: bool,
    /// DataFusion's function of this name.
    forgetful: Arc<AggregateUDF>,
}

impl Truth {
    fn function(forgetful: Arc<AggregateUDF>, all: bool) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::from(Self { all, forgetful }))
    }
}

impl PartialEq for Truth {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for Truth {}

impl Hash for Truth {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.all.hash(state);
    }
}

impl AggregateUDFImpl for Truth {
    fn name(&self) -> &str {
        self.forgetful.name()
    }

    fn aliases(&self) -> &[String] {
        self.forgetful.aliases()
    }

    fn signature(&self) -> &Signature {
        self.forgetful.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.forgetful.return_type(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.forgetful.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.forgetful.accumulator(args)
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Counted { all: self.all, truths: 0, lies: 0 }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.forgetful.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.forgetful.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// How many values of the frame are true, and how many are false.
#[derive(Debug)]
struct Counted {
    all: bool,
    truths: u64,
    lies: u64,
}

impl Counted {
    fn counts(values: &[ArrayRef]) -> Result<(u64, u64)> {
        let Some(values) = values.first().and_then(|values| values.as_boolean_opt()) else {
            return exec_err!("bool_and and bool_or are of one BOOLEAN");
        };
        let truths = BooleanArray::true_count(values) as u64;
        Ok((truths, BooleanArray::false_count(values) as u64))
    }
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (truths, lies) = Self::counts(values)?;
        self.truths += truths;
        self.lies += lies;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (truths, lies) = Self::counts(values)?;
        self.truths = self.truths.saturating_sub(truths);
        self.lies = self.lies.saturating_sub(lies);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let is_empty = self.truths == 0 && self.lies == 0;
        let value = if self.all { self.lies == 0 } else { self.truths > 0 };
        Ok(ScalarValue::Boolean((!is_empty).then_some(value)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}
