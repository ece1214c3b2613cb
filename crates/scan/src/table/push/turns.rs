//! The node's side of a scan that is divided: order after order, as long as it gets any.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::EmptyRecordBatchStream;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::mpsc::Sender;

use super::{Arriving, Job, Metrics, Piece};
use crate::table::divided::{Next, Run};
use crate::table::units::Unit;

/// Who has the node do orders.
pub(super) struct Turns {
    pub(super) job: Arc<Job>,
    pub(super) run: Arc<Run>,
    pub(super) schema: SchemaRef,
    pub(super) metrics: Metrics,
}

impl Turns {
    /// The rows of all orders, one order after the other. The next one begins when the last one's rows are taken.
    pub(super) fn rows(self) -> BoxStream<'static, Result<RecordBatch>> {
        let orders = futures::stream::unfold(self, |turns| async move {
            let units = turns.next().await?;
            Some((turns.order(units).await, turns))
        });
        orders.flatten().boxed()
    }

    async fn next(&self) -> Option<Vec<Unit>> {
        loop {
            match self.run.order() {
                Next::Now(units) => return Some(units),
                Next::Later => self.run.changed().await,
                Next::Nothing => return None,
            }
        }
    }

    /// The rows of one order. None if it is taken back or refused: then its pages are fetched.
    async fn order(&self, units: Vec<Unit>) -> BoxStream<'static, Result<RecordBatch>> {
        let (job, run) = (Arc::clone(&self.job), Arc::clone(&self.run));
        let pull = move |metrics: &Metrics, sender: &Sender<Result<Piece>>| {
            if !run.begins(sender, &metrics.taken_back) {
                return Ok(Piece::Nothing);
            }
            let last = job.pull(&units, metrics, sender, &|| run.answered())?;
            run.pushed(units.iter().map(Unit::count).sum());
            Ok(last)
        };
        let (run, node) = (Arc::clone(&self.run), self.job.node());
        let (schema, metrics) = (Arc::clone(&self.schema), self.metrics.clone());
        let nothing = Arc::clone(&schema);
        let instead = move || -> Result<SendableRecordBatchStream> {
            if let Some(node) = node {
                node.note_refusal();
            }
            run.refused();
            Ok(Box::pin(EmptyRecordBatchStream::new(nothing)))
        };
        Arriving::of(pull, schema, metrics).or(instead).await
    }
}
