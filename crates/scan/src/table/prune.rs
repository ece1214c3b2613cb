//! Which pages can be skipped: DataFusion's pruning over the zone maps of a page file.
//!
//! What a zone map does not know, such as the upper bound of long strings that can not be raised, keeps the page.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use ishigaki_page::{Reader, Zones};

use super::through;

/// For each page of a file whether a row of it may make the expression true. The expression's columns are `schema`'s, and
/// have the names of the file's. Nothing is said when the expression can not be judged by bounds.
pub(super) fn pages(
    reader: &Reader,
    expression: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
) -> Result<Option<Vec<bool>>> {
    // Some expressions have no form that bounds could answer.
    let built = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).try_build(Arc::clone(expression));
    let Ok(predicate) = built else { return Ok(None) };
    if predicate.always_true() || reader.pages() == 0 {
        return Ok(None);
    }
    let mut zones = HashMap::new();
    for column in collect_columns(expression) {
        let Ok(position) = reader.schema().index_of(column.name()) else { continue };
        if let Some(known) = reader.zones(position).map_err(through)? {
            zones.insert(column.name().to_owned(), known);
        }
    }
    let rows = reader.page_rows().map_err(through)?;
    let known = Known { pages: rows.len(), rows: widened(rows.values()), zones };
    Ok(Some(predicate.prune(&known)?))
}

/// The zone maps of some columns.
struct Known {
    pages: usize,
    rows: ArrayRef,
    zones: HashMap<String, Zones>,
}

fn widened(counts: &[u32]) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(counts.iter().map(|&count| u64::from(count))))
}

impl PruningStatistics for Known {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.zones.get(&column.name).map(|zones| Arc::clone(&zones.min))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.zones.get(&column.name).map(|zones| Arc::clone(&zones.max))
    }

    fn num_containers(&self) -> usize {
        self.pages
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        self.zones.get(&column.name).map(|zones| widened(zones.nulls.values()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::clone(&self.rows))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
