//! EXPLAIN: the plan of a query, or of the query that a DML statement is made of. Only EXPLAIN ANALYZE of a query runs
//! anything.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::physical_plan::displayable;
use datafusion::sql::sqlparser::ast::Statement as Ast;

use crate::dml::{delete, insert, update};
use crate::outcome::Rows;
use crate::worker::{Context, Reply};
use crate::{Outcome, Result, query, statement};

/// Runs an EXPLAIN: `ast` is all of it, `statement` what is to be explained.
pub(crate) async fn run(
    context: &Context<'_>,
    ast: &Ast,
    statement: &Ast,
    reply: &mut Reply,
) -> Result<Option<Outcome>> {
    let prepared = match statement {
        Ast::Insert(insert) => insert::prepare(context, insert).await?.1,
        Ast::Update(update) => update::prepare(context, update).await?.1,
        Ast::Delete(delete) => delete::prepare(context, delete).await?.1,
        _ => return query::run(context, ast, reply).await,
    };
    let (mut logical, mut physical) = (prepared.headline.clone(), prepared.headline);
    for plan in &prepared.plans {
        let optimized = context.guard(async { Ok(context.state.optimize(plan)?) }).await?;
        append(&mut logical, &statement::without_marks(&optimized.display_indent().to_string()));
        let plan = context.guard(async { Ok(context.state.create_physical_plan(plan).await?) }).await?;
        append(&mut physical, &statement::without_marks(&displayable(plan.as_ref()).indent(false).to_string()));
    }
    let kinds: ArrayRef = Arc::new(StringArray::from(vec!["logical_plan", "physical_plan"]));
    let plans: ArrayRef = Arc::new(StringArray::from(vec![logical, physical]));
    let batch = RecordBatch::try_from_iter([("plan_type", kinds), ("plan", plans)])?;
    Ok(Some(Outcome::Rows(Rows::complete(batch.schema(), vec![batch]))))
}

/// The texts of plans without what tells columns' names apart.
pub(crate) fn without_marks(batch: &RecordBatch) -> Result<RecordBatch> {
    let plain = |column: &ArrayRef| -> ArrayRef {
        match column.as_string_opt::<i32>() {
            Some(texts) => {
                let texts = texts.iter().map(|text| text.map(statement::without_marks));
                Arc::new(texts.collect::<StringArray>())
            }
            None => Arc::clone(column),
        }
    };
    Ok(RecordBatch::try_new(batch.schema(), batch.columns().iter().map(plain).collect())?)
}

/// Puts a plan under a headline.
fn append(text: &mut String, plan: &str) {
    for line in plan.lines() {
        text.push_str("\n  ");
        text.push_str(line);
    }
}
