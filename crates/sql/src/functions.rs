//! Functions that `PostgreSQL` has and DataFusion has not.
//!
//! Plans that run in pieces elsewhere do not get them: the processes there do not know them, so such a statement fails with their
//! names while it is planned.

mod age;
mod apart;
mod buckets;
mod coalesce;
mod common_type;
mod digest;
mod end_of_groups;
mod eras;
mod mode;
mod scaled;
mod type_of;

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

pub(crate) use apart::APART;
pub(crate) use end_of_groups::END_OF_GROUPS;
pub(crate) use eras::era;
pub(crate) use scaled::scaled;

/// All of one value each.
pub(crate) fn all() -> Vec<Arc<ScalarUDF>> {
    let mut all = vec![
        Arc::new(ScalarUDF::from(digest::Digest::default())),
        Arc::new(ScalarUDF::from(buckets::WidthBucket::default())),
        Arc::new(ScalarUDF::from(age::Age::default())),
        Arc::new(ScalarUDF::from(type_of::TypeOf::default())),
    ];
    all.extend(scaled::all());
    all.extend(eras::all());
    all
}

/// Those of which a plan has calls before it is optimized, and none afterwards.
pub(crate) fn planned() -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(ScalarUDF::from(apart::Apart::default())),
        Arc::new(ScalarUDF::from(coalesce::Coalesce::default())),
        Arc::new(ScalarUDF::from(common_type::CommonType::default())),
        Arc::new(ScalarUDF::from(end_of_groups::EndOfGroups::default())),
    ]
}

/// All of the values of a group.
pub(crate) fn aggregates() -> Vec<Arc<AggregateUDF>> {
    vec![Arc::new(AggregateUDF::from(mode::Mode::default()))]
}
