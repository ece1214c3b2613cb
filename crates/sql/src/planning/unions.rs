//! A UNION of which one query is left when the others have no rows.
//!
//! DataFusion's rule takes that query's columns by the names that the UNION has for them: there may be none of such a name, or another one.

use std::sync::Arc;

use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};

/// That query, column by column, if it is the only one.
pub(super) fn only_query(union: &Union) -> Result<Option<LogicalPlan>> {
    let has_rows =
        |input: &&Arc<LogicalPlan>| !matches!(&***input, LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row);
    let mut inputs = union.inputs.iter().filter(has_rows);
    let (Some(input), None) = (inputs.next(), inputs.next()) else { return Ok(None) };
    let columns = input.schema().iter().zip(union.schema.iter()).map(|((own, field), (qualifier, united))| {
        Expr::Column(Column::new(own.cloned(), field.name())).alias_qualified(qualifier.cloned(), united.name())
    });
    let schema = Arc::clone(&union.schema);
    Projection::try_new_with_schema(columns.collect(), Arc::clone(input), schema).map(LogicalPlan::Projection).map(Some)
}
