//! Pages that are not made for a tally, through the operators that it stands for.

use std::fmt;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, replace_children_if_necessary};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use parking_lot::Mutex;

use crate::table::reading::Reading;

/// Operators, the innermost first, on another input.
pub(super) fn over(input: Arc<dyn ExecutionPlan>, above: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    above.iter().try_fold(input, |input, node| replace_children_if_necessary(Arc::clone(node), vec![input]))
}

/// What comes of the rest of a reading.
pub(super) fn run(
    reading: Reading,
    above: &[Arc<dyn ExecutionPlan>],
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    over(Arc::new(Rest::new(reading)), above)?.execute(0, context)
}

/// The rest of a reading, once.
struct Rest {
    reading: Mutex<Option<Reading>>,
    properties: Arc<PlanProperties>,
}

impl Rest {
    fn new(reading: Reading) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(reading.schema())),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { reading: Mutex::new(Some(reading)), properties: Arc::new(properties) }
    }
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").finish_non_exhaustive()
    }
}

impl DisplayAs for Rest {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rest")
    }
}

impl ExecutionPlan for Rest {
    fn name(&self) -> &'static str {
        "Rest"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    crate::operator!(leaf);

    crate::operator!(no expressions);

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reading = self.reading.lock().take();
        let reading =
            reading.ok_or_else(|| DataFusionError::Internal("the rest of a reading was taken before".to_owned()))?;
        let schema = Arc::clone(reading.schema());
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, reading.batches())))
    }
}
