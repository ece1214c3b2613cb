//! CREATE VIEW and CREATE OR REPLACE VIEW.
//!
//! What is kept is the query as it was written, but that `*` is written out. It is planned once, so that a query that is
//! none is refused here, and read back as it will be read.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as PlannerStatement;
use datafusion::sql::sqlparser::ast::{
    CreateTableOptions, CreateView, Expr, Query, Statement as Ast, Value, visit_expressions,
};

use crate::catalog::Relation;
use crate::row::KEY_COLUMN;
use crate::statement::{CATALOG, Command, SCHEMA, Statement, identifier, table_name};
use crate::table::Column;
use crate::types::SqlType;
use crate::view::{self, Base, ViewDefinition};
use crate::worker::Context;
use crate::{Error, Outcome, Result, merged, query};

/// `CREATE VIEW`.
pub(crate) async fn create_view(context: &Context<'_>, create: &CreateView) -> Result<Outcome> {
    check_options(create)?;
    let name = table_name(&create.name)?;
    let old = match context.current.find(&name)? {
        Some(Relation::View(old)) if create.or_replace => Some(old),
        Some(Relation::View(_)) => return Err(Error::ViewExists { view: name }),
        Some(Relation::Table(_)) if create.or_replace => {
            return Err(Error::IsTable { table: name, verb: "CREATE OR REPLACE VIEW".to_owned() });
        }
        Some(Relation::Table(_)) => return Err(Error::TableExists { table: name }),
        None => None,
    };
    let view = define(context, name, create).await?;
    if let Some(old) = old {
        check_kept(old.columns(), &view)?;
    }
    context.current.with_catalog(|catalog, transaction| catalog.put_view(transaction, &view))?;
    Ok(Outcome::Done { tag: "CREATE VIEW" })
}

/// What the statement makes of the name.
async fn define(context: &Context<'_>, name: String, create: &CreateView) -> Result<ViewDefinition> {
    let wrong = |reason: String| Error::View { view: name.clone(), reason };
    let text = text(context, &create.query)?;
    let statements = Statement::parse(&text)?;
    let [Command::Query(ast)] = statements.iter().map(|it| Command::of(it.ast())).collect::<Result<Vec<_>>>()?[..]
    else {
        return Err(wrong("it wants one query behind AS".to_owned()));
    };
    let Ast::Query(query) = ast else { return Err(wrong("it wants a query behind AS".to_owned())) };
    let bases = bases(context, ast)?;
    check_no_circle(context, &name, &bases)?;
    let plan = context.guard(view::plan(context, ast)).await?;
    // Types that do not go together are found here, and no later than that.
    let analyzed = query::analyzed(context, &plan).await?;
    let fields = analyzed.schema().fields();
    if create.columns.len() > fields.len() {
        let (named, given) = (create.columns.len(), fields.len());
        return Err(wrong(format!("it names {named} columns, and its query gives {given}")));
    }
    let mut names: Vec<String> = create.columns.iter().map(|column| identifier(&column.name)).collect();
    if names.len() < fields.len() {
        let own = super::result_names(query, plan.schema().fields()).map_err(|nameless| {
            wrong(format!("a column has no name; write {nameless} AS name, or CREATE VIEW {name} (names)"))
        })?;
        names.extend(own.into_iter().skip(create.columns.len()));
    }
    if names.iter().any(|name| name == KEY_COLUMN) {
        return Err(wrong(format!("a column cannot be named {KEY_COLUMN}; choose another name")));
    }
    let types = fields.iter().map(|field| SqlType::from_arrow(field.data_type()));
    let columns = names.into_iter().zip(types).map(|(name, sql_type)| Ok((name, sql_type?))).collect::<Result<_>>()?;
    ViewDefinition::new(&name, columns, bases, text)
}

/// The text that is kept of a query, which must read back as that query.
fn text(context: &Context<'_>, query: &Query) -> Result<String> {
    let parameter = visit_expressions(query, |expression: &Expr| match expression {
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if parameter.is_break() {
        return Err(Error::unsupported("a parameter in a view", "write the value"));
    }
    let mut query = query.clone();
    merged::write_out(context.current, &mut query)?;
    let text = query.to_string();
    // The query of a CREATE VIEW is left as it was written, so it can be compared.
    let again = Statement::parse(&format!("CREATE VIEW v AS {text}"));
    let is_same = again.is_ok_and(|again| match again.first().map(Statement::ast) {
        Some(Ast::CreateView(again)) => *again.query == query,
        _ => false,
    });
    if is_same {
        Ok(text)
    } else {
        Err(Error::unsupported(
            "a view of a query whose text does not read back as that query",
            "write the query where the view is named",
        ))
    }
}

/// The tables and views that a query names, with their columns.
fn bases(context: &Context<'_>, ast: &Ast) -> Result<Vec<Base>> {
    let statement = PlannerStatement::Statement(Box::new(ast.clone()));
    let mut bases = Vec::new();
    for name in view::named(context, &statement)? {
        // Others are CTEs or functions, or are missed when the query is planned.
        if let Some(relation) = context.current.find(&name)? {
            bases.push(Base::of(name, relation.columns()));
        }
    }
    let foreign = context.state.resolve_table_references(&statement)?.into_iter().find(|reference| {
        let catalog = reference.catalog().is_none_or(|catalog| catalog == CATALOG);
        let schema = reference.schema().is_none_or(|schema| schema == SCHEMA || schema == "information_schema");
        !catalog || !schema
    });
    match foreign {
        Some(reference) => Err(Error::NoSuchTable { table: reference.to_string() }),
        None => Ok(bases),
    }
}

/// A replaced view keeps its columns: other views may read them.
fn check_kept(old: &[Column], view: &ViewDefinition) -> Result<()> {
    let wrong = |reason: String| {
        let reason = format!("OR REPLACE keeps the columns and adds others behind them, but {reason}; DROP VIEW first");
        Err(Error::View { view: view.name().to_owned(), reason })
    };
    for (position, old) in old.iter().enumerate() {
        match view.columns().get(position) {
            None => return wrong(format!("column {} would be gone", old.name)),
            Some(new) if new.name != old.name => {
                return wrong(format!("column {} would be called {}", old.name, new.name));
            }
            Some(new) if new.sql_type != old.sql_type => {
                return wrong(format!("column {} would be {} instead of {}", old.name, new.sql_type, old.sql_type));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// A view must not come to read itself.
fn check_no_circle(context: &Context<'_>, view: &str, bases: &[Base]) -> Result<()> {
    let mut left: Vec<String> = bases.iter().map(|base| base.name.clone()).collect();
    let mut seen = HashSet::new();
    while let Some(name) = left.pop() {
        if name == view {
            let reason = "it would read itself; WITH RECURSIVE in its query does that".to_owned();
            return Err(Error::View { view: name, reason });
        }
        if seen.insert(name.clone())
            && let Some(inner) = context.current.view(&name)?
        {
            left.extend(inner.bases().iter().map(|base| base.name.clone()));
        }
    }
    Ok(())
}

/// Refuses everything that a plain `CREATE [OR REPLACE] VIEW name (columns) AS query` does not have.
fn check_options(create: &CreateView) -> Result<()> {
    let refuse = |what: &str, remedy: &str| Err(Error::unsupported(what, remedy));
    if create.temporary {
        return refuse("CREATE TEMPORARY VIEW", "CREATE VIEW, and DROP VIEW in the same transaction");
    }
    if create.materialized {
        return refuse("CREATE MATERIALIZED VIEW", "CREATE TABLE … AS, and make it again when its rows are to be new");
    }
    if create.if_not_exists {
        return refuse("CREATE VIEW IF NOT EXISTS", "write CREATE OR REPLACE VIEW");
    }
    if create.options != CreateTableOptions::None {
        return refuse("WITH (…) of a view", "leave it out");
    }
    if create.columns.iter().any(|column| column.data_type.is_some() || column.options.is_some()) {
        return refuse("a type or an option of a view's column", "CAST the column in the query");
    }
    // The parser knows many databases' options. Whatever is left must look like the plainest view.
    let plain = Statement::parse("CREATE VIEW plain AS SELECT 1")?;
    let Some(Ast::CreateView(mut plain)) = plain.first().map(Statement::to_ast) else {
        return refuse("this CREATE VIEW", "write CREATE VIEW name AS SELECT …");
    };
    plain.name.clone_from(&create.name);
    plain.columns.clone_from(&create.columns);
    plain.query.clone_from(&create.query);
    plain.or_replace = create.or_replace;
    if plain == *create {
        Ok(())
    } else {
        refuse("an option of this CREATE VIEW", "write CREATE [OR REPLACE] VIEW name (columns) AS SELECT …")
    }
}
