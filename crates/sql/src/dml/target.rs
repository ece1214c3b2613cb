//! The query that finds the rows which an UPDATE or DELETE is about.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, LimitClause, ObjectName, OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr,
    Statement as Ast, TableAlias, TableFactor, TableWithJoins,
};

use crate::names::TARGETS;
use crate::row::KEY_COLUMN;
use crate::statement::{Statement, identifier, table_name};
use crate::table::TableDefinition;
use crate::worker::Context;
use crate::{Error, Result};

/// The table that a statement changes.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) definition: Arc<TableDefinition>,
    /// What the statement calls it.
    alias: Ident,
}

impl Target {
    /// Looks the table up. It must be a table alone, without joins.
    pub(super) fn find(context: &Context<'_>, tables: &[TableWithJoins], verb: &str) -> Result<Self> {
        let refuse = |what: &str| {
            Err(Error::unsupported(
                format!("{verb} {what}"),
                "name one table, and put other tables into subqueries of WHERE or SET",
            ))
        };
        let [TableWithJoins { relation, joins }] = tables else { return refuse("of several tables") };
        if !joins.is_empty() {
            return refuse("with a JOIN");
        }
        let TableFactor::Table { name, alias, .. } = relation else {
            return refuse("of something that is not a table");
        };
        // What else the parser may have seen beside name and alias must not be there.
        let plain = TableFactor::Table {
            name: name.clone(),
            alias: alias.clone(),
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        };
        if *relation != plain {
            return refuse("with an option on the table");
        }
        let alias = match alias {
            None => {
                let last = name.0.last().and_then(|part| part.as_ident());
                last.cloned().ok_or_else(|| Error::NoSuchTable { table: name.to_string() })?
            }
            Some(TableAlias { name, columns, .. }) if columns.is_empty() => name.clone(),
            Some(_) => return refuse("with new names for columns"),
        };
        let definition = context.current.definition(&table_name(name)?, verb)?;
        if definition.pages().is_some() {
            return Err(Error::AppendOnly { table: definition.name().to_owned(), verb: verb.to_owned() });
        }
        Ok(Self { definition, alias: Ident::with_quote('"', identifier(&alias)) })
    }

    /// A column of the table.
    pub(super) fn column(&self, name: &str) -> Expr {
        Expr::CompoundIdentifier(vec![self.alias.clone(), Ident::with_quote('"', name)])
    }

    /// `SELECT <the engine's key>, <expressions> FROM <the table>, <others> WHERE … ORDER BY … LIMIT …`
    pub(super) fn query(
        &self,
        expressions: Vec<Expr>,
        others: &[TableWithJoins],
        selection: Option<&Expr>,
        order_by: &[OrderByExpr],
        limit: Option<&Expr>,
    ) -> Result<Ast> {
        let mut query = template()?;
        let SetExpr::Select(select) = query.body.as_mut() else { return Err(broken()) };
        // Names of their own: two columns may be set to the same expression.
        let items = expressions.into_iter().enumerate().map(|(position, expr)| SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', format!("__new_{position}")),
        });
        select.projection = std::iter::once(SelectItem::UnnamedExpr(self.column(KEY_COLUMN))).chain(items).collect();
        select.selection = selection.cloned();
        let Some(TableWithJoins { relation: TableFactor::Table { name, alias, .. }, .. }) = select.from.first_mut()
        else {
            return Err(broken());
        };
        *name = ObjectName::from(vec![Ident::with_quote('"', TARGETS), Ident::with_quote('"', self.definition.name())]);
        if let Some(alias) = alias {
            alias.name = self.alias.clone();
        }
        select.from.extend_from_slice(others);
        if !order_by.is_empty() {
            query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(order_by.to_vec()), interpolate: None });
        }
        if let Some(limit) = limit {
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(limit.clone()), offset: None, limit_by: Vec::new() });
        }
        Ok(Ast::Query(query))
    }
}

/// A query to be filled in.
fn template() -> Result<Box<Query>> {
    match Statement::parse("SELECT a FROM t AS t")?.pop().map(|statement| statement.to_ast()) {
        Some(Ast::Query(query)) => Ok(query),
        _ => Err(broken()),
    }
}

fn broken() -> Error {
    datafusion::error::DataFusionError::Execution("the template of a query does not parse as one".to_owned()).into()
}
