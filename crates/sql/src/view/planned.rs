//! Planning queries that name views: each view that a query names is planned first, and by itself.
//!
//! DataFusion asks for tables by name while it plans a query. So the plans of a query's views are made before that, and lie
//! in [`VIEWS`] while the query is planned.

use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Column as PlanColumn;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as PlannerStatement;
use datafusion::sql::sqlparser::ast::Statement as Ast;

use crate::statement::{self, CATALOG, Command, SCHEMA, Statement};
use crate::worker::Context;
use crate::{Error, Result, merged, planning, query};

use super::ViewDefinition;

/// How many views may read one another in a row.
const MOST_NESTED: usize = 64;

tokio::task_local! {
    /// The views of the query that is being planned.
    static VIEWS: HashMap<String, Arc<Planned>>;
}

/// The view of a name, in the query that is being planned.
pub(crate) fn provider(name: &str) -> Option<Arc<dyn TableProvider>> {
    VIEWS.try_with(|views| views.get(name).map(|view| Arc::clone(view) as Arc<dyn TableProvider>)).ok().flatten()
}

/// Whose query is planned.
#[derive(Clone, Copy)]
struct Inside<'a> {
    view: &'a ViewDefinition,
    /// How many views there are from the statement to this one.
    depth: usize,
}

/// A plan that is being made.
type Planning<'a> = Pin<Box<dyn Future<Output = Result<LogicalPlan>> + Send + 'a>>;

/// Plans a statement.
pub(crate) async fn plan(context: &Context<'_>, ast: &Ast) -> Result<LogicalPlan> {
    plan_inside(context, ast, None).await
}

fn plan_inside<'a>(context: &'a Context<'_>, ast: &'a Ast, inside: Option<Inside<'a>>) -> Planning<'a> {
    Box::pin(async move {
        let view = inside.map(|inside| inside.view);
        let resolved = |one_type| {
            let mut resolved = Box::new(ast.clone());
            merged::resolve(context.current, view, &mut resolved, one_type).map(|merges| (resolved, merges))
        };
        let (statement, merges) = resolved(false)?;
        let statement = PlannerStatement::Statement(statement);
        let mut views = HashMap::new();
        for name in named(context, &statement)? {
            if let Some(view) = context.current.view(&name)? {
                views.insert(name, Arc::new(Planned::new(context, &view, inside).await?));
            }
        }
        let planned_as = async |statement, one_type| match context.state.statement_to_plan(statement).await {
            Err(error) if query::has_alike_names(&error) => {
                let (mut named, _) = resolved(one_type)?;
                statement::name_all(&mut named);
                Ok(context.state.statement_to_plan(PlannerStatement::Statement(named)).await?)
            }
            planned => Ok::<_, Error>(planned?),
        };
        let planned = async {
            let plan = planned_as(statement, false).await?;
            if !merges || !planning::compares_types(&plan)? {
                return Ok(plan);
            }
            planned_as(PlannerStatement::Statement(resolved(true)?.0), true).await
        };
        let plan = VIEWS.scope(views, planned).await?;
        planning::check_nodes(&plan)?;
        Ok(plan)
    })
}

/// The names of tables and views that a statement reads, of those that the schema of all tables may have.
pub(crate) fn named(context: &Context<'_>, statement: &PlannerStatement) -> Result<Vec<String>> {
    let references = context.state.resolve_table_references(statement)?;
    let own = references.into_iter().filter(|reference| {
        reference.catalog().is_none_or(|catalog| catalog == CATALOG)
            && reference.schema().is_none_or(|schema| schema == SCHEMA)
    });
    Ok(own.map(|reference| reference.table().to_owned()).collect())
}

/// A view in a query: its plan, with as many of its columns as the query sees.
#[derive(Debug)]
struct Planned {
    plan: LogicalPlan,
    schema: SchemaRef,
}

impl Planned {
    async fn new(context: &Context<'_>, view: &ViewDefinition, around: Option<Inside<'_>>) -> Result<Self> {
        let failed = |reason: String| Error::View { view: view.name().to_owned(), reason };
        let depth = around.map_or(1, |around| around.depth + 1);
        if depth > MOST_NESTED {
            let reason = format!("more than {MOST_NESTED} views read one another; keep the rows of one in a table");
            return Err(failed(reason));
        }
        check_bases(context, view)?;
        let unreadable = |error: &Error| failed(format!("its query can not be read any more, {REMEDY}: {error}"));
        let statements = Statement::parse(view.query()).map_err(|error| unreadable(&error))?;
        let [statement] = statements.as_slice() else {
            return Err(Error::corrupt(format!("view {}: its text is not one query", view.name())));
        };
        let Command::Query(ast) = Command::of(statement.ast()).map_err(|error| unreadable(&error))? else {
            return Err(Error::corrupt(format!("view {}: its text is not a query", view.name())));
        };
        let plan = plan_inside(context, ast, Some(Inside { view, depth })).await?;
        let given = plan.schema().fields().len();
        if given != view.columns().len() {
            let reason =
                format!("its query gives {given} columns now, and {} when it was made; ", view.columns().len());
            return Err(failed(reason + REMEDY));
        }
        let seen = around.and_then(|around| around.view.base(view.name())).map_or(given, |base| base.columns.len());
        let plan = shown(plan, view, seen)?;
        let schema = Arc::clone(plan.schema().inner());
        Ok(Self { plan, schema })
    }
}

/// What helps where a view is not what it was.
const REMEDY: &str = "DROP VIEW and CREATE it again";

/// Whether all that a view reads is there, with the columns that it had.
fn check_bases(context: &Context<'_>, view: &ViewDefinition) -> Result<()> {
    for base in view.bases() {
        let reason = match context.current.find(&base.name)? {
            None => format!("it reads {}, which is not there; CREATE that again, or DROP VIEW", base.name),
            Some(relation) if base.fits(&relation) => continue,
            Some(_) => {
                let base = &base.name;
                format!("it reads {base}, which has other columns than when the view was made; {REMEDY}")
            }
        };
        return Err(Error::View { view: view.name().to_owned(), reason });
    }
    Ok(())
}

/// A view's query with its first columns, under the view's names for them.
fn shown(plan: LogicalPlan, view: &ViewDefinition, columns: usize) -> Result<LogicalPlan> {
    let names = || view.columns().iter().map(|column| column.name.as_str());
    let is_so = plan.schema().fields().iter().map(|field| field.name().as_str()).eq(names());
    if is_so && columns == view.columns().len() {
        return Ok(plan);
    }
    let column = |(position, name): (usize, &str)| {
        let (qualifier, field) = plan.schema().qualified_field(position);
        let column = Expr::Column(PlanColumn::from((qualifier, field)));
        if field.name() == name { column } else { column.alias(name) }
    };
    let columns: Vec<Expr> = names().enumerate().take(columns).map(column).collect();
    Ok(LogicalPlanBuilder::from(plan).project(columns)?.build()?)
}

#[async_trait]
impl TableProvider for Planned {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }

    /// Never asked for: the plan stands in the place of the view.
    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::Internal("a view is scanned in the place of its query".to_owned()))
    }
}
