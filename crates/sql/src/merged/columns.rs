//! The names of the columns of tables, CTEs and subqueries.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Ident, ObjectName, OrderByExpr, Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias,
    TableFactor, visit_expressions,
};

use super::{Columns, Frame, Resolver};
use crate::Result;
use crate::names::TARGETS;
use crate::statement::{SCHEMA, identifier, marked, shown, wrap};
use crate::types::SqlType;

/// What the name of a table stands for.
enum Named<'a> {
    /// A CTE, and its columns if they are known.
    Cte(&'a Option<Columns>),
    /// A table or view of the catalog, if there is one of this name.
    Stored(String),
    Unknown,
}

impl Resolver<'_> {
    /// Learns the CTEs of a query, which is the innermost one.
    pub(super) fn define(&mut self, query: &Query) -> Result<()> {
        let Some(with) = &query.with else { return Ok(()) };
        for cte in &with.cte_tables {
            let name = identifier(&cte.alias.name);
            if with.recursive {
                // Its own name is known inside of it; its columns are those of the part that is not recursive.
                self.frame().ctes.push((name.clone(), None));
            }
            let columns = self.cte_columns(cte)?;
            self.frame().ctes.push((name, columns));
        }
        Ok(())
    }

    /// The columns of a CTE that sees those before it.
    pub(super) fn cte_columns(&mut self, cte: &Cte) -> Result<Option<Columns>> {
        Ok(self.query_columns(&cte.query)?.map(|columns| renamed(columns, Some(&cte.alias))))
    }

    /// The columns of a table of FROM as FROM calls them, if they are known.
    pub(super) fn factor_columns(&mut self, table: &TableFactor) -> Result<Option<Columns>> {
        let (columns, alias) = match table {
            TableFactor::Table { name, alias, args: None, .. } => (self.table_columns(name)?, alias),
            TableFactor::Derived { subquery, alias, .. } => (self.query_columns(subquery)?, alias),
            _ => return Ok(None),
        };
        Ok(columns.map(|columns| renamed(columns, alias.as_ref())))
    }

    /// The types of the columns of a table of FROM; none where it is no stored one.
    pub(super) fn factor_types(&self, table: &TableFactor) -> Result<Vec<SqlType>> {
        let TableFactor::Table { name, args: None, .. } = table else { return Ok(Vec::new()) };
        let Named::Stored(table) = self.named(name) else { return Ok(Vec::new()) };
        let relation = self.current.find(&table)?;
        Ok(relation.map_or_else(Vec::new, |relation| relation.columns().iter().map(|column| column.sql_type).collect()))
    }

    fn table_columns(&self, name: &ObjectName) -> Result<Option<Columns>> {
        let table = match self.named(name) {
            Named::Cte(columns) => return Ok(columns.clone()),
            Named::Stored(table) => table,
            Named::Unknown => return Ok(None),
        };
        let Some(relation) = self.current.find(&table)? else { return Ok(None) };
        let seen = self.view.and_then(|view| view.base(&table)).map_or(usize::MAX, |base| base.columns.len());
        Ok(Some(relation.columns().iter().take(seen).map(|column| Some(column.name.clone())).collect()))
    }

    fn named(&self, name: &ObjectName) -> Named<'_> {
        let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident().map(identifier)).collect();
        match parts.as_slice() {
            [table] => {
                let mut ctes = self.queries.iter().rev().flat_map(|frame| frame.ctes.iter().rev());
                match ctes.find(|(name, _)| name == table) {
                    Some((_, columns)) => Named::Cte(columns),
                    None => Named::Stored(table.clone()),
                }
            }
            [schema, table] if schema == SCHEMA || schema == TARGETS => Named::Stored(table.clone()),
            _ => Named::Unknown,
        }
    }

    fn query_columns(&mut self, query: &Query) -> Result<Option<Columns>> {
        self.queries.push(Frame::default());
        let columns = self.define(query).and_then(|()| self.body_columns(&query.body));
        self.queries.pop();
        columns
    }

    fn body_columns(&mut self, body: &SetExpr) -> Result<Option<Columns>> {
        let select = match body {
            SetExpr::Select(select) => select,
            SetExpr::Query(query) => return self.query_columns(query),
            SetExpr::SetOperation { left, .. } => return self.body_columns(left),
            SetExpr::Values(values) => {
                let width = values.rows.first().map_or(0, |row| row.len());
                return Ok(Some((1..=width).map(|at| Some(format!("column{at}"))).collect()));
            }
            _ => return Ok(None),
        };
        let mut columns = Vec::with_capacity(select.projection.len());
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(_) => match self.side(&mut select.from.clone())? {
                    Some(side) => columns.extend(side.names()),
                    None => return Ok(None),
                },
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let side = self.side(&mut select.from.clone())?;
                    let qualifier = name.0.last().and_then(|part| part.as_ident()).map(identifier);
                    match side.zip(qualifier).and_then(|(side, qualifier)| side.table(&qualifier)) {
                        Some(own) => columns.extend(own),
                        None => return Ok(None),
                    }
                }
                SelectItem::QualifiedWildcard(..) | SelectItem::ExprWithAliases { .. } => return Ok(None),
                SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => columns.push(name_of(item)),
            }
        }
        Ok(Some(columns))
    }
}

/// The names that items of a select list have.
pub(super) fn selected(items: &[SelectItem]) -> HashSet<String> {
    items.iter().filter_map(name_of).collect()
}

/// The names that items of a select list give to something else than the column of that name.
pub(super) fn new_names(items: &[SelectItem]) -> HashSet<String> {
    let new = |item: &SelectItem| {
        let name = name_of(item)?;
        let name = shown(&name).map_or(name.clone(), str::to_owned);
        let (SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. }) = item else {
            return None;
        };
        let mut expression = expression;
        while let Expr::Nested(inner) = expression {
            expression = inner;
        }
        let is_column = matches!(expression, Expr::Identifier(column) if identifier(column) == name);
        (!is_column).then_some(name)
    };
    items.iter().filter_map(new).collect()
}

/// A name that no column of a table has; the client sees the old one.
fn other_name(name: &Ident) -> Ident {
    Ident::with_quote('"', marked(&identifier(name), 1))
}

/// The names that the columns of a result have when those are [renamed](rename), and that they have now; nothing where one has no name.
pub(super) fn called(items: &[SelectItem], names: &HashSet<String>) -> Option<Vec<(Ident, Ident)>> {
    let call = |item: &SelectItem| {
        Some(match item {
            SelectItem::ExprWithAlias { alias, .. } if names.contains(&identifier(alias)) => {
                (other_name(alias), alias.clone())
            }
            SelectItem::ExprWithAlias { alias: name, .. } | SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                (name.clone(), name.clone())
            }
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => (parts.last()?.clone(), parts.last()?.clone()),
            _ => return None,
        })
    };
    items.iter().map(call).collect()
}

/// Calls the columns of a query by other names.
pub(super) fn call(query: &mut Query, names: &[(Ident, Ident)]) {
    let items: Vec<String> = names.iter().map(|(name, alias)| format!("{name} AS {alias}")).collect();
    wrap(query, &format!("SELECT {} FROM (SELECT 1) AS \"__ordered\"", items.join(", ")));
}

/// Renames columns of a result.
pub(super) fn rename(names: &HashSet<String>, items: &mut [SelectItem], orders: &mut [OrderByExpr]) {
    for item in items {
        if let SelectItem::ExprWithAlias { alias, .. } = item
            && names.contains(&identifier(alias))
        {
            *alias = other_name(alias);
        }
    }
    for order in orders {
        let mut alone = &mut order.expr;
        while let Expr::Nested(inner) = alone {
            alone = inner;
        }
        if let Expr::Identifier(name) = alone
            && names.contains(&identifier(name))
        {
            *name = other_name(name);
        }
    }
}

/// The name that a result's column of the same expression has, if no other column has it.
pub(super) fn alias_of(items: &[SelectItem], expression: &Expr) -> Option<Ident> {
    let text = expression.to_string();
    let found = items.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if expr.to_string() == text => Some(alias),
        _ => None,
    })?;
    let name = identifier(found);
    (items.iter().filter(|item| name_of(item).as_ref() == Some(&name)).count() == 1).then(|| found.clone())
}

/// One of some names that stands in an expression.
pub(super) fn one_of(expression: &Expr, names: &HashSet<String>) -> Option<String> {
    let found = visit_expressions(expression, |inner: &Expr| match inner {
        Expr::Identifier(name) if names.contains(&identifier(name)) => ControlFlow::Break(identifier(name)),
        _ => ControlFlow::Continue(()),
    });
    found.break_value()
}

fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(identifier(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(identifier(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(identifier),
        _ => None,
    }
}

/// Columns under the names that an alias gives the first ones.
fn renamed(mut columns: Columns, alias: Option<&TableAlias>) -> Columns {
    if let Some(alias) = alias {
        for (column, new) in columns.iter_mut().zip(&alias.columns) {
            *column = Some(identifier(&new.name));
        }
    }
    columns
}
