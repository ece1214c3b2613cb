//! CREATE TABLE, CREATE TABLE AS and TRUNCATE; CREATE VIEW and DROP in rooms of their own.
//!
//! What a definition says is taken over or refused by name; nothing is passed over. The catalog's rows are written in the
//! statement's transaction, so tables come and go with its COMMIT or ROLLBACK; and so do the page files of paged tables.

mod create_view;
mod drop;

use std::sync::Arc;

use datafusion::arrow::datatypes::Fields;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, Expr, IndexColumn, PrimaryKeyConstraint, Query, SelectItem, SetExpr,
    Statement as Ast, TableConstraint, TruncateTableTarget,
};

use crate::dml::defaults;
use crate::dml::insert::Inserter;
use crate::paged::{self, Wish};
use crate::row::{self, KEY_COLUMN};
use crate::statement::{Statement, identifier, shown, table_name};
use crate::table::{Column, Paged, TableDefinition};
use crate::types::SqlType;
use crate::worker::Context;
use crate::{Error, Outcome, Result, query};

pub(crate) use create_view::create_view;
pub(crate) use drop::drop;

/// `CREATE TABLE`.
pub(crate) async fn create_table(context: &Context<'_>, create: &CreateTable) -> Result<Outcome> {
    check_options(create)?;
    let done = Outcome::Done { tag: "CREATE TABLE" };
    let name = table_name(&create.name)?;
    if create.if_not_exists && context.current.find(&name)?.is_some() {
        return Ok(done);
    }
    if let Some(query) = &create.query {
        return create_as(context, &name, create, query).await;
    }
    let (columns, primary_key) = columns(&name, create)?;
    let definition = match paged::options_of(&name, &create.table_options)? {
        Wish::Paged(paged) => create_paged(context, &name, columns, &primary_key, &paged)?,
        Wish::Rows => context
            .current
            .with_catalog(|catalog, transaction| catalog.create(transaction, &name, columns, primary_key))?,
    };
    // A default that can never be stored is better refused here than at the first INSERT.
    for (position, column) in definition.columns().iter().enumerate() {
        if let Some(plan) = defaults::plan(context, column).await? {
            let collected = query::collect(context, &[plan], "a default").await?;
            for batch in &collected.batches {
                row::cast(&definition, position, batch.column(0))?;
            }
        }
    }
    Ok(done)
}

/// `CREATE TABLE … AS`: a table of a query's columns and rows. It has no key, and every column may be NULL.
async fn create_as(context: &Context<'_>, name: &str, create: &CreateTable, query: &Query) -> Result<Outcome> {
    if paged::options_of(name, &create.table_options)? != Wish::Rows
        || !create.columns.is_empty()
        || !create.constraints.is_empty()
    {
        return Err(Error::unsupported(
            "CREATE TABLE … AS with columns, constraints or WITH",
            "CREATE the TABLE with its columns first, then INSERT INTO … SELECT",
        ));
    }
    let plan = context.guard(query::plan(context, &Ast::Query(Box::new(query.clone())))).await?;
    let names = result_names(query, plan.schema().fields()).map_err(|nameless| Error::Definition {
        table: name.to_owned(),
        reason: format!("a column has no name; write {nameless} AS name"),
    })?;
    // Alternatives of several types have found their common one by then.
    let analyzed = query::analyzed(context, &plan).await?;
    let columns = names.into_iter().zip(analyzed.schema().fields()).map(|(name, field)| {
        let sql_type = SqlType::from_arrow(field.data_type())?;
        Ok(Column { name, sql_type, nullable: true, default: None })
    });
    let columns = columns.collect::<Result<_>>()?;
    let definition =
        context.current.with_catalog(|catalog, transaction| catalog.create(transaction, name, columns, Vec::new()))?;
    let mut inserter = Inserter::new(context, definition)?;
    let mut source = context.guard(query::start(context.state, &plan)).await?;
    while let Some(batch) = query::next(context, &mut source).await? {
        inserter.insert(context, &batch)?;
    }
    Ok(Outcome::Affected { tag: "SELECT", rows: inserter.finish(context)? })
}

/// What the columns of a query are called, if all of them have names; else one that has none.
fn result_names<'a>(query: &'a Query, fields: &Fields) -> Result<Vec<String>, &'a Expr> {
    let mut body = query.body.as_ref();
    let items = loop {
        match body {
            SetExpr::SetOperation { left, .. } => body = left,
            SetExpr::Query(inner) => body = &inner.body,
            SetExpr::Select(select) => break select.projection.as_slice(),
            _ => break &[],
        }
    };
    let nameless = items.iter().find_map(|item| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => None,
        SelectItem::UnnamedExpr(expression) => Some(expression),
        _ => None,
    });
    match nameless {
        Some(expression) => Err(expression),
        None => Ok(fields.iter().map(|field| shown(field.name()).unwrap_or(field.name()).to_owned()).collect()),
    }
}

/// `TRUNCATE` of one or several. All of them, or none.
pub(crate) fn truncate(context: &Context<'_>, tables: &[TruncateTableTarget]) -> Result<Outcome> {
    for table in tables {
        let name = table_name(&table.name)?;
        context.current.definition(&name, "TRUNCATE")?;
        context.current.with_catalog(|catalog, transaction| catalog.truncate(transaction, &name))?;
    }
    Ok(Outcome::Done { tag: "TRUNCATE TABLE" })
}

/// A table whose rows are in page files, and these files.
fn create_paged(
    context: &Context<'_>,
    name: &str,
    columns: Vec<Column>,
    primary_key: &[usize],
    paged: &Paged,
) -> Result<Arc<TableDefinition>> {
    if !primary_key.is_empty() {
        return Err(Error::unsupported(
            "PRIMARY KEY of a paged table",
            "leave it out: a paged table keeps no keys apart",
        ));
    }
    let table = TableDefinition::paged(name.to_owned(), columns, paged.clone())?;
    let table = context.current.with_catalog(|catalog, transaction| catalog.create_paged(transaction, table))?;
    context.current.make_files(&table, paged)?;
    Ok(table)
}

/// Refuses everything that a plain `CREATE TABLE name (columns, constraints)` does not have.
fn check_options(create: &CreateTable) -> Result<()> {
    let refuse = |what: &str, remedy: &str| Err(Error::unsupported(what, remedy));
    if create.external {
        return refuse("CREATE EXTERNAL TABLE", "CREATE TABLE first, then COPY … FROM the file");
    }
    if create.temporary {
        return refuse("CREATE TEMPORARY TABLE", "CREATE TABLE, and DROP TABLE in the same transaction");
    }
    if create.or_replace {
        return refuse("CREATE OR REPLACE TABLE", "DROP TABLE IF EXISTS first, in the same transaction");
    }
    // The parser knows many databases' options. Whatever is left must look like the plainest table.
    let plain = Statement::parse("CREATE TABLE plain (a INT)")?;
    let Some(Ast::CreateTable(mut plain)) = plain.first().map(Statement::to_ast) else {
        return refuse("this CREATE TABLE", "name the columns in parentheses");
    };
    plain.name.clone_from(&create.name);
    plain.columns.clone_from(&create.columns);
    plain.constraints.clone_from(&create.constraints);
    plain.if_not_exists = create.if_not_exists;
    plain.query.clone_from(&create.query);
    // Read by itself, and refused there.
    plain.table_options.clone_from(&create.table_options);
    if plain == *create {
        Ok(())
    } else {
        refuse(
            "an option of this CREATE TABLE",
            "behind the parentheses of the columns there may be WITH (storage = …), and nothing else",
        )
    }
}

/// The columns, and the positions of the primary key's.
fn columns(table: &str, create: &CreateTable) -> Result<(Vec<Column>, Vec<usize>)> {
    let wrong = |reason: String| Error::Definition { table: table.to_owned(), reason };
    let mut columns = Vec::with_capacity(create.columns.len());
    let mut primary_key: Option<Vec<String>> = None;
    let mut set_key = |names: Vec<String>| match primary_key.replace(names) {
        None => Ok(()),
        Some(_) => Err(wrong("a table has one primary key; name several columns as PRIMARY KEY (a, b)".to_owned())),
    };
    for definition in &create.columns {
        let (column, is_key) = column(table, definition)?;
        if is_key {
            set_key(vec![column.name.clone()])?;
        }
        columns.push(column);
    }
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::PrimaryKey(key) => set_key(key_columns(key)?)?,
            other => return Err(constraint_unsupported(&other.to_string())),
        }
    }
    let positions = primary_key.unwrap_or_default().into_iter().map(|name| {
        let position = columns.iter().position(|column| column.name == *name);
        position.ok_or_else(|| Error::NoSuchColumn { table: table.to_owned(), column: name.clone() })
    });
    let positions = positions.collect::<Result<_>>()?;
    Ok((columns, positions))
}

/// A column, and whether it is the primary key.
fn column(table: &str, definition: &ColumnDef) -> Result<(Column, bool)> {
    let name = identifier(&definition.name);
    let wrong = |reason: String| Error::Definition { table: table.to_owned(), reason };
    if name == KEY_COLUMN {
        return Err(wrong(format!("a column cannot be named {KEY_COLUMN}; choose another name")));
    }
    let mut column =
        Column { name, sql_type: SqlType::from_sql(&definition.data_type)?, nullable: true, default: None };
    let (mut is_key, mut null) = (false, false);
    for option in &definition.options {
        match &option.option {
            ColumnOption::Null => null = true,
            ColumnOption::NotNull => column.nullable = false,
            ColumnOption::Default(expression) => column.default = Some(expression.to_string()),
            ColumnOption::PrimaryKey(key) => {
                check_key(key)?;
                is_key = true;
            }
            other => return Err(constraint_unsupported(&other.to_string())),
        }
    }
    if null && (is_key || !column.nullable) {
        return Err(wrong(format!("column {} is both NULL and NOT NULL", column.name)));
    }
    Ok((column, is_key))
}

fn key_columns(key: &PrimaryKeyConstraint) -> Result<Vec<String>> {
    check_key(key)?;
    let name = |column: &IndexColumn| match &column.column.expr {
        Expr::Identifier(ident)
            if column.operator_class.is_none()
                && column.column.options.asc != Some(false)
                && column.column.options.nulls_first.is_none() =>
        {
            Ok(identifier(ident))
        }
        _ => Err(Error::unsupported(format!("PRIMARY KEY ({column})"), "name columns; the key is in ascending order")),
    };
    key.columns.iter().map(name).collect()
}

fn check_key(key: &PrimaryKeyConstraint) -> Result<()> {
    if key.index_name.is_some()
        || key.index_type.is_some()
        || !key.index_options.is_empty()
        || key.characteristics.is_some()
    {
        return Err(Error::unsupported("an option of PRIMARY KEY", "write PRIMARY KEY alone"));
    }
    Ok(())
}

/// Names a constraint by its words in capitals: `UNIQUE`, `FOREIGN KEY`, `REFERENCES`, `CHECK`.
fn constraint_unsupported(constraint: &str) -> Error {
    let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let words: Vec<&str> = constraint.split(|c: char| !c.is_alphanumeric() && c != '_').take_while(is_word).collect();
    let words = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let what = if words.is_empty() { constraint.to_owned() } else { words };
    let remedy = match what.split(' ').next() {
        Some("UNIQUE") => "make the columns the PRIMARY KEY",
        _ => "PRIMARY KEY, NOT NULL and DEFAULT are what a column may have; check the rest in the program",
    };
    Error::unsupported(what, remedy)
}
