//! The columns that one or several tables of a FROM show.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, JoinConstraint, SelectItem, Value};

use ishigaki_scan::exact::COMMON_TYPE;

use super::Columns;
use crate::statement::{called, identifier};
use crate::types::SqlType;
use crate::{Error, Result};

/// Which rows a join fills up.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Inner,
    Left,
    Right,
    Full,
}

/// A column that a FROM shows.
pub(super) struct Column {
    name: Option<String>,
    /// What it is computed of; none where it has no name to say so.
    pub(super) expression: Option<Expr>,
    /// Its type, where it is a table's.
    of: Option<SqlType>,
    pub(super) is_merged: bool,
}

/// Columns in the order of `*`.
#[derive(Default)]
pub(super) struct Side {
    columns: Vec<Column>,
    /// All columns of each table, merged or not.
    tables: Vec<(String, Columns)>,
    pub(super) merges: bool,
    /// Whether it is what an ON sees: each name of it is said with its table.
    pub(super) in_on: bool,
    /// New names of the result's columns, where it is what an ORDER BY sees: none is meant in an expression.
    pub(super) outputs: HashSet<String>,
}

/// How often a name is there.
pub(super) enum Found<'a> {
    None,
    One(&'a Column),
    Several,
}

impl Side {
    /// The columns of a table, and the types of the first ones, if they are known.
    pub(super) fn of(table: &str, columns: Columns, types: &[SqlType]) -> Self {
        let column = |(at, name): (usize, &Option<String>)| Column {
            name: name.clone(),
            expression: name.as_ref().map(|name| qualified(table, name)),
            of: types.get(at).copied(),
            is_merged: false,
        };
        let shown = columns.iter().enumerate().map(column).collect();
        Self { columns: shown, tables: vec![(table.to_owned(), columns)], ..Self::default() }
    }

    pub(super) fn names(&self) -> Columns {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// All columns of one table.
    pub(super) fn table(&self, table: &str) -> Option<Columns> {
        let mut named = self.tables.iter().filter(|(name, _)| name == table);
        match (named.next(), named.next()) {
            (Some((_, columns)), None) => Some(columns.clone()),
            _ => None,
        }
    }

    pub(super) fn find(&self, name: &str) -> Found<'_> {
        let mut found = self.columns.iter().filter(|column| column.name.as_deref() == Some(name));
        match (found.next(), found.next()) {
            (None, _) => Found::None,
            (Some(column), None) => Found::One(column),
            (Some(_), Some(_)) => Found::Several,
        }
    }

    pub(super) fn has_duplicates(&self) -> bool {
        let mut seen = HashSet::new();
        self.columns.iter().any(|column| !seen.insert(&column.name))
    }

    /// Both, as for a comma or ON.
    pub(super) fn beside(mut self, other: Self) -> Self {
        self.columns.extend(other.columns);
        self.tables.extend(other.tables);
        self.merges |= other.merges;
        self
    }

    /// Both, with some columns merged; and what is to be equal.
    pub(super) fn merge(self, other: Self, by: &JoinConstraint, kind: Kind, one_type: bool) -> Result<(Self, Expr)> {
        let names = self.common(&other, by)?;
        let mut merged = Vec::with_capacity(names.len());
        let mut condition: Option<Expr> = None;
        for name in &names {
            let ((left, left_type), (right, right_type)) = (self.only(name)?, other.only(name)?);
            let equal = binary(left.clone(), BinaryOperator::Eq, right.clone());
            let of = left_type.filter(|left| right_type.is_some_and(|right| left.arrow() == right.arrow()));
            // A column alone may be one that a group determines.
            let taken = |one, other| if of.is_some() || !one_type { one } else { call(COMMON_TYPE, one, other) };
            condition = Some(match condition {
                Some(before) => binary(before, BinaryOperator::And, equal),
                None => equal,
            });
            let expression = match kind {
                Kind::Inner | Kind::Left => taken(left, right),
                Kind::Right => taken(right, left),
                Kind::Full => call("coalesce", left, right),
            };
            merged.push(Column { name: Some(name.clone()), expression: Some(expression), of, is_merged: true });
        }
        let rest = |column: &Column| column.name.as_ref().is_none_or(|name| !names.contains(name));
        let mut both = self.beside(other);
        merged.extend(both.columns.into_iter().filter(rest));
        both.columns = merged;
        both.merges = true;
        Ok((both, condition.unwrap_or_else(|| Expr::Value(Value::Boolean(true).into()))))
    }

    /// The names of the columns that are merged.
    fn common(&self, other: &Self, by: &JoinConstraint) -> Result<Vec<String>> {
        let mut names = Vec::new();
        if let JoinConstraint::Using(given) = by {
            for name in given {
                let name = match name.0.as_slice() {
                    [part] => part.as_ident().map(identifier),
                    _ => None,
                };
                let name = name.filter(|name| !names.contains(name));
                names.push(name.ok_or_else(|| {
                    Error::unsupported("USING with a name that is none, or twice", "name each column once")
                })?);
            }
        } else {
            let common = |name: &&String| !matches!(other.find(name), Found::None);
            names.extend(self.columns.iter().filter_map(|column| column.name.as_ref()).filter(common).cloned());
        }
        Ok(names)
    }

    /// The one column of a name, and its type.
    fn only(&self, name: &str) -> Result<(Expr, Option<SqlType>)> {
        match self.find(name) {
            Found::One(Column { expression: Some(expression), of, .. }) => Ok((expression.clone(), *of)),
            Found::Several => Err(Error::unsupported(
                format!("USING or NATURAL with {name}, which one side has several times"),
                "name the columns with their tables: ON a.k = b.k",
            )),
            _ => Err(Error::unsupported(
                format!("USING ({name}), which is not a column of both sides"),
                "name columns that both have",
            )),
        }
    }

    /// The items that `*` stands for, or `table.*`.
    pub(super) fn items(&self, table: Option<&str>) -> Result<Vec<SelectItem>> {
        let nameless = || {
            Error::unsupported(
                "* of a subquery of FROM in which a column has no name, where it has to be written out",
                "give each column of the subquery a name: SELECT count(*) AS n",
            )
        };
        let mut items = Vec::new();
        if let Some(table) = table {
            let Some(columns) = self.table(table) else {
                return Err(Error::unsupported(
                    format!("{table}.*, which is not one table of FROM"),
                    "write the name that FROM gives the table",
                ));
            };
            for column in columns {
                let column = column.as_ref().ok_or_else(nameless)?;
                items.push(SelectItem::UnnamedExpr(qualified(table, column)));
            }
            return Ok(items);
        }
        for column in &self.columns {
            let (Some(name), Some(expr)) = (&column.name, column.expression.clone()) else { return Err(nameless()) };
            items.push(if matches!(expr, Expr::CompoundIdentifier(_)) {
                SelectItem::UnnamedExpr(expr)
            } else {
                SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
            });
        }
        Ok(items)
    }
}

fn qualified(table: &str, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::with_quote('"', table), Ident::with_quote('"', column)])
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn call(function: &str, left: Expr, right: Expr) -> Expr {
    called(Ident::with_quote('"', function), [left, right])
}
