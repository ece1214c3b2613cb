//! How orders, exact numbers, and the operators of our own plans stand in a plan that was written down; for all else Ballista's own codec does it.
//!
//! A function of exact numbers, or one whose results are bounded, has a payload, so that the reader takes that function even where
//! DataFusion has one of the same name, as for `sum`.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use ishigaki_scan::{Nodes, OrdersExec, exact};
use ishigaki_sql::{bounded_function, decode_operator, encode_operator, is_bounded};

/// How orders begin; Ballista's messages can not begin so.
const MAGIC: &[u8; 8] = b"ISGORDR1";

/// How an operator of [`ishigaki_sql`]'s begins.
const OPERATOR: &[u8; 8] = b"ISGOPER1";

/// The payload of functions that are not DataFusion's.
const EXACT: &[u8; 8] = b"ISGEXCT1";

/// The codec of clients, schedulers and executors.
#[derive(Debug)]
pub(crate) struct Codec {
    others: BallistaPhysicalExtensionCodec,
    /// By which orders are done that are read here.
    nodes: Arc<Nodes>,
}

impl Codec {
    pub(crate) fn new(nodes: Arc<Nodes>) -> Self {
        Self { others: BallistaPhysicalExtensionCodec::default(), nodes }
    }
}

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(operator) = bytes.strip_prefix(OPERATOR) {
            let [input] = inputs else {
                return Err(DataFusionError::Plan(format!("an operator over one input has {}", inputs.len())));
            };
            let unknown = || DataFusionError::Plan("an operator that this version does not know".to_owned());
            return decode_operator(operator, Arc::clone(input)).ok_or_else(unknown);
        }
        let Some(schema) = bytes.strip_prefix(MAGIC) else {
            return self.others.try_decode(bytes, inputs, context, converter);
        };
        let [orders] = inputs else {
            return Err(DataFusionError::Plan(format!("orders have {} inputs", inputs.len())));
        };
        Ok(Arc::new(OrdersExec::new(Arc::clone(orders), read(schema)?, Arc::clone(&self.nodes))?))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(operator) = encode_operator(node.as_ref()) {
            bytes.extend_from_slice(OPERATOR);
            bytes.extend_from_slice(&operator);
            return Ok(());
        }
        if !node.is::<OrdersExec>() {
            return self.others.try_encode(node, bytes, converter);
        }
        // What is to be done lies in its input.
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&written(&node.schema())?);
        Ok(())
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        let own = |bytes| exact::decode_scalar(name, bytes).or_else(|| bounded_function(name));
        match bytes.strip_prefix(EXACT).and_then(own) {
            Some(function) => Ok(function),
            None => self.others.try_decode_udf(name, bytes),
        }
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        let exact = exact::encode_scalar(function);
        if exact.is_some() || is_bounded(function) {
            bytes.extend_from_slice(EXACT);
            bytes.extend(exact.unwrap_or_default());
            return Ok(());
        }
        self.others.try_encode_udf(function, bytes)
    }

    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        match exact::aggregate_function(name).filter(|_| bytes == EXACT) {
            Some(function) => Ok(function),
            None => self.others.try_decode_udaf(name, bytes),
        }
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        if exact::aggregate_function(function.name()).is_some_and(|known| *known == *function) {
            bytes.extend_from_slice(EXACT);
            return Ok(());
        }
        self.others.try_encode_udaf(function, bytes)
    }
}

/// A schema as a stream of Arrow's without a batch.
fn written(schema: &Schema) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    writer.finish()?;
    Ok(writer.into_inner()?)
}

fn read(bytes: &[u8]) -> Result<SchemaRef> {
    Ok(StreamReader::try_new(bytes, None)?.schema())
}
