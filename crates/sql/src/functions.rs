//! Functions that `PostgreSQL` has and DataFusion has not.
//!
//! Plans that run in pieces elsewhere do not get them: the processes there do not know them, so such a statement fails with their
//! names while it is planned.

mod buckets;
mod digest;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

/// All of them.
pub(crate) fn all() -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(ScalarUDF::from(digest::Digest::default())),
        Arc::new(ScalarUDF::from(buckets::WidthBucket::default())),
    ]
}
