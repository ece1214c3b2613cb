//! Our operators in a plan that is written down, for another process to run.
//!
//! Each is a byte that says which it is, and what it was made of beside its input. Rules that optimize plans are not run over one that was read again: what an
//! operator asks of them is not written.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::GlobalLimitExec;

use super::skipping::SkipExec;
use super::veil::Veil;

const VEIL: u8 = b'v';
const SKIP: u8 = b's';

/// An operator of ours, without its input. `None` for other operators.
pub fn encode_operator(operator: &dyn ExecutionPlan) -> Option<Vec<u8>> {
    if operator.is::<Veil>() {
        return Some(vec![VEIL]);
    }
    let skipping = operator.downcast_ref::<SkipExec>()?;
    let rows = u64::try_from(skipping.rows()).ok()?;
    Some([&[SKIP][..], &rows.to_le_bytes()].concat())
}

/// The operator that [`encode_operator`] wrote. `None` if the bytes are none of its.
pub fn decode_operator(bytes: &[u8], input: Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    match bytes {
        [VEIL] => Some(Veil::over(input)),
        [SKIP, rows @ ..] => {
            let rows = usize::try_from(u64::from_le_bytes(rows.try_into().ok()?)).ok()?;
            Some(Arc::new(GlobalLimitExec::new(input, rows, None)))
        }
        _ => None,
    }
}
