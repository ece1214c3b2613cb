//! A condition that a scan applies itself.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::prep_null_mask_filter;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::utils::{collect_columns, conjunction, reassign_expr_columns, split_conjunction};
use ishigaki_page::{Comparison, Interval, Page, PageDecoder};

use super::{labelled, through};

/// Whether a scan can answer a filter: from columns of a row alone, and always the same for the same row.
pub(super) fn support(filter: &Expr) -> TableProviderFilterPushDown {
    let mut alone = !filter.is_volatile();
    let visited = filter.apply(|node| {
        alone &= !matches!(
            node,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
        );
        Ok(if alone { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    if alone && visited.is_ok() { TableProviderFilterPushDown::Exact } else { TableProviderFilterPushDown::Unsupported }
}

/// A condition on rows of a table.
///
/// All that compares a column to a constant is judged on packed values; only rows that pass that are unpacked for the rest of
/// it, and only rows that pass all of it for what comes out.
#[derive(Debug)]
pub(crate) struct Filter {
    /// Over the table's columns.
    expression: Arc<dyn PhysicalExpr>,
    /// The columns that it looks at, ascending.
    columns: Vec<usize>,
    /// Columns whose values must be within an interval.
    intervals: Vec<(usize, Interval)>,
    /// What else must be true.
    rest: Option<Rest>,
}

/// A condition that values are unpacked for.
#[derive(Debug)]
struct Rest {
    /// The columns that it looks at, ascending.
    columns: Vec<usize>,
    /// Over these columns alone.
    condition: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
}

/// Rows of a page.
pub(super) enum Chosen {
    All,
    /// By their ascending indices.
    These(Vec<u32>),
}

impl Filter {
    pub(crate) fn new(expression: Arc<dyn PhysicalExpr>, table: &SchemaRef) -> Result<Self> {
        let mut intervals: Vec<(usize, Interval)> = Vec::new();
        let mut rest = Vec::new();
        for conjunct in split_conjunction(&expression) {
            match interval(conjunct) {
                None => rest.push(Arc::clone(conjunct)),
                Some((column, interval)) => match intervals.iter_mut().find(|(known, _)| *known == column) {
                    Some((_, known)) => *known = known.clone().intersection(&interval),
                    None => intervals.push((column, interval)),
                },
            }
        }
        let rest = if rest.is_empty() { None } else { Some(Rest::new(conjunction(rest), table)?) };
        let columns = columns_of(&expression);
        Ok(Self { expression, columns, intervals, rest })
    }

    pub(crate) fn expression(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expression
    }

    /// The columns that it looks at, ascending.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The columns that it needs unpacked, if there is anything that it needs them for.
    pub(super) fn unpacked(&self) -> Option<&[usize]> {
        self.rest.as_ref().map(|rest| rest.columns.as_slice())
    }

    /// Which rows of each page pass. The decoder is one of the [columns that are needed unpacked](Self::unpacked).
    pub(super) fn choose(&self, pages: &[Arc<Page>], decoder: Option<&mut PageDecoder>) -> Result<Vec<Chosen>> {
        let mut chosen = pages.iter().map(|page| self.within(page)).collect::<Result<Vec<_>>>()?;
        let (Some(rest), Some(decoder)) = (&self.rest, decoder) else { return Ok(chosen) };
        for (page, chosen) in pages.iter().zip(&chosen) {
            chosen.decode(page, decoder)?;
        }
        if decoder.rows() == 0 {
            return Ok(chosen);
        }
        let passing = rest.passing(&decoder.finish().map_err(through)?)?;
        let mut first = 0;
        for (page, chosen) in pages.iter().zip(&mut chosen) {
            let of_page = passing.slice(first, chosen.count(page));
            first += of_page.len();
            chosen.keep(&of_page);
        }
        Ok(chosen)
    }

    /// The rows of a page that are within all intervals.
    fn within(&self, page: &Page) -> Result<Chosen> {
        let mut all: Option<BooleanBuffer> = None;
        for (column, interval) in &self.intervals {
            let within = page.within(*column, interval).map_err(through)?;
            all = Some(match all {
                None => within,
                Some(all) => &all & &within,
            });
        }
        Ok(all.map_or(Chosen::All, |rows| Chosen::of(&rows)))
    }

    /// Which share of rows may pass, guessed from its form alone.
    pub(super) fn selectivity(&self) -> f64 {
        split_conjunction(&self.expression).into_iter().map(guess).product::<f64>().max(1e-4)
    }
}

impl Rest {
    fn new(condition: Arc<dyn PhysicalExpr>, table: &SchemaRef) -> Result<Self> {
        let columns = columns_of(&condition);
        let schema = Arc::new(table.project(&columns)?);
        let condition = reassign_expr_columns(condition, &schema)?;
        Ok(Self { columns, condition, schema })
    }

    /// Which rows pass, of a batch of the columns that it looks at.
    fn passing(&self, batch: &RecordBatch) -> Result<BooleanBuffer> {
        let batch = labelled(&self.schema, batch)?;
        let answers = self.condition.evaluate(&batch)?.into_array(batch.num_rows())?;
        let answers = answers.as_boolean_opt().ok_or_else(|| {
            DataFusionError::Internal(format!("a filter answers with {}, not with true or false", answers.data_type()))
        })?;
        Ok(trues(answers))
    }
}

impl Chosen {
    fn of(rows: &BooleanBuffer) -> Self {
        if rows.count_set_bits() == rows.len() { Self::All } else { Self::These(rows.set_indices_u32().collect()) }
    }

    /// How many of that page.
    fn count(&self, page: &Page) -> usize {
        match self {
            Self::All => page.rows(),
            Self::These(rows) => rows.len(),
        }
    }

    /// Of these rows only those that pass as well.
    fn keep(&mut self, passing: &BooleanBuffer) {
        match self {
            Self::All => *self = Self::of(passing),
            Self::These(rows) => {
                let mut at = 0;
                rows.retain(|_| {
                    at += 1;
                    passing.value(at - 1)
                });
            }
        }
    }

    /// Has the rows of a page decoded.
    pub(super) fn decode(&self, page: &Page, decoder: &mut PageDecoder) -> Result<()> {
        match self {
            Self::All => decoder.push(page),
            Self::These(rows) if rows.is_empty() => Ok(()),
            Self::These(rows) => decoder.push_rows(page, rows),
        }
        .map_err(through)
    }
}

/// The columns that an expression looks at, ascending.
fn columns_of(expression: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    let mut columns: Vec<usize> = collect_columns(expression).iter().map(Column::index).collect();
    columns.sort_unstable();
    columns
}

/// The values that a column must have, where a condition says just that.
fn interval(conjunct: &Arc<dyn PhysicalExpr>) -> Option<(usize, Interval)> {
    let compared = conjunct.downcast_ref::<BinaryExpr>()?;
    let column = |side: &Arc<dyn PhysicalExpr>| side.downcast_ref::<Column>().map(Column::index);
    let (column, literal, operator) = match (column(compared.left()), column(compared.right())) {
        (Some(column), None) => (column, compared.right(), *compared.op()),
        (None, Some(column)) => (column, compared.left(), compared.op().swap()?),
        _ => return None,
    };
    let comparison = match operator {
        Operator::Eq => Comparison::Equal,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    };
    let literal = literal.downcast_ref::<Literal>()?.value().to_array().ok()?;
    Some((column, Interval::of(comparison, &literal)?))
}

/// NULL is not true.
fn trues(answers: &BooleanArray) -> BooleanBuffer {
    if answers.null_count() == 0 { answers.values().clone() } else { prep_null_mask_filter(answers).values().clone() }
}

fn guess(conjunct: &Arc<dyn PhysicalExpr>) -> f64 {
    match conjunct.downcast_ref::<BinaryExpr>().map(BinaryExpr::op) {
        Some(Operator::Eq) => 0.05,
        Some(Operator::NotEq) => 0.9,
        Some(Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) => 0.5,
        _ => 0.2,
    }
}
