//! Queries: SELECT in all its shapes, set operations, VALUES and WITH.

use super::{Column, Generator};
use crate::generate::schema::Table;
use crate::kind::Family;
use crate::tree::{Part, Sort, Tree, tree};

/// The parts of a SELECT.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) columns: Tree,
    pub(crate) from: Tree,
    pub(crate) condition: Tree,
}

impl Generator<'_> {
    /// A query by itself, and whether its rows have a total order.
    pub(super) fn top_query(&mut self) -> (Tree, bool) {
        let families: Vec<Family> = (0..self.random.usize(1..5)).map(|_| Family::any(self.random)).collect();
        let mut query = if self.chance(12) { self.with(&families) } else { self.query(&families, 2) };
        let ordered = self.chance(35);
        if ordered {
            self.put_in_order(&mut query, families.len());
        }
        (query, ordered)
    }

    /// Orders the rows of a query by all of its columns, and often keeps some of them alone.
    pub(super) fn put_in_order(&mut self, query: &mut Tree, columns: usize) {
        let item = |number: usize| {
            let direction = self.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST", " ASC NULLS LAST"]);
            Tree::words(format!("{number}{direction}"))
        };
        let items: Vec<Tree> = (1..=columns).map(item).collect();
        let least = items.len();
        query.parts.push(tree!(Sort::Words; " ORDER BY ", Part::List { separator: ", ", items, least }).into());
        if self.chance(30) {
            query.parts.push(Part::Maybe(Tree::words(format!(" OFFSET {}", self.random.u8(..3)))));
        }
        if self.chance(40) {
            let limit = self.random.u8(..5);
            let limit = if self.chance(20) {
                format!(" FETCH FIRST {} ROWS ONLY", limit + 1)
            } else {
                format!(" LIMIT {limit}")
            };
            query.parts.push(Part::Maybe(Tree::words(limit)));
        }
    }

    /// A query with columns of these families, in no order.
    pub(super) fn query(&mut self, families: &[Family], depth: usize) -> Tree {
        if depth > 0 && self.chance(15) {
            let (left, right) = (self.query(families, depth - 1), self.query(families, depth - 1));
            let op = self.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]);
            return tree!(Sort::Query(families.len()); "(", left, format!(") {op} ("), right, ")");
        }
        if self.chance(4) {
            return self.values(families);
        }
        let (from, scope) = self.from(depth);
        if self.chance(30) {
            return self.grouped(families, from, scope);
        }
        self.scopes.push(scope);
        let column = |&family: &Family| {
            if self.chance(10)
                && let Some(window) = self.window(family)
            {
                return window;
            }
            self.value(family, 2)
        };
        let items = families.iter().map(column).collect();
        let columns = Part::List { separator: ", ", items, least: 1 };
        let filter = self.where_clause(3);
        self.scopes.pop();
        let distinct = if self.chance(15) { Part::Maybe(Tree::words("DISTINCT ")) } else { "".into() };
        tree!(Sort::Query(families.len()); "SELECT ", distinct, columns, " FROM ", from, filter)
    }

    /// What ternary partitioning takes apart: the columns of a FROM, and a condition on it.
    pub(crate) fn selection(&mut self) -> Selection {
        self.scopes.clear();
        let (from, scope) = self.from(1);
        self.scopes.push(scope);
        let items = (0..self.random.usize(1..4))
            .map(|_| {
                let family = Family::any(self.random);
                self.leaf(family, false)
            })
            .collect();
        let columns = tree!(Sort::Words; Part::List { separator: ", ", items, least: 1 });
        let condition = self.condition(3);
        self.scopes.pop();
        Selection { columns, from, condition }
    }

    fn values(&mut self, families: &[Family]) -> Tree {
        let around = std::mem::take(&mut self.scopes);
        let row = |_| {
            let items: Vec<Tree> = families.iter().map(|&family| self.constant(family, false)).collect();
            tree!(Sort::Words; "(", Part::List { separator: ", ", items, least: families.len() }, ")")
        };
        let items: Vec<Tree> = (0..3).map(row).collect();
        self.scopes = around;
        tree!(Sort::Query(families.len()); "VALUES ", Part::List { separator: ", ", items, least: 1 })
    }

    /// `WITH w AS (…) SELECT`, the first query used as a table, often twice.
    fn with(&mut self, families: &[Family]) -> Tree {
        let inner: Vec<Family> = (0..self.random.usize(1..4)).map(|_| Family::any(self.random)).collect();
        let query = self.query(&inner, 1);
        let name = self.fresh("w");
        let column = |(number, &family): (usize, &Family)| Column {
            name: format!("c{}", number + 1),
            family,
            kind: None,
            tame: false,
        };
        let columns: Vec<Column> = inner.iter().enumerate().map(column).collect();
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let table = Table { name: name.clone(), columns, ..Table::default() };
        let tables: Vec<Table> = self.tables.iter().cloned().chain([table.clone(), table.clone(), table]).collect();
        let mut over = Generator::new(self.random, &tables);
        over.names = self.names;
        let outer = over.query(families, 1);
        let (inexact, names_used) = (over.inexact, over.names);
        self.inexact |= inexact;
        self.names = names_used;
        tree!(Sort::Query(families.len()); format!("WITH {name} ({}) AS (", names.join(", ")), query, ") ", outer)
    }
}
