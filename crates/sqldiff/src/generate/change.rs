//! Statements that change rows.

use super::{Drawn, Generator, schema};
use crate::compare::Terms;
use crate::generate::schema::Table;
use crate::kind::Type;
use crate::tree::{Part, Sort, Tree, tree};

impl Generator<'_> {
    pub(super) fn change(&mut self) -> Drawn {
        let tables: Vec<&Table> = self.tables.iter().filter(|table| !table.view).collect();
        let mut table = tables[self.random.usize(..tables.len())].clone();
        // An append to a paged table is a transaction by itself.
        if table.paged
            && self.open.is_some()
            && let Some(other) = tables.iter().find(|table| !table.paged)
        {
            table = (*other).clone();
        }
        let tree = match self.random.u8(..10) {
            0..=1 => {
                let rows = self.random.usize(1..4);
                schema::insert(&table, rows, self.random)
            }
            2 | 3 => self.insert_query(&table),
            4..=7 if !table.paged => self.update(&table),
            _ if !table.paged => self.delete(&table),
            _ => {
                let rows = self.random.usize(1..3);
                schema::insert(&table, rows, self.random)
            }
        };
        let terms = Terms { ordered: false, inexact: self.inexact, strict: false };
        Drawn { tree, terms, changes: vec![table.name], controls: false, is_look: false }
    }

    fn insert_query(&mut self, table: &Table) -> Tree {
        let families: Vec<_> = table.columns.iter().map(|column| column.family).collect();
        let query = self.query(&families, 1);
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        tree!(Sort::Words; format!("INSERT INTO {} ({}) ", table.name, names.join(", ")), query)
    }

    fn update(&mut self, table: &Table) -> Tree {
        self.enter(table);
        let columns = &table.columns[1..];
        let count = self.random.usize(1..=columns.len().min(3));
        let start = self.random.usize(..columns.len());
        let mut items = Vec::new();
        for number in 0..count {
            let column = &columns[(start + number) % columns.len()];
            let value = if self.chance(40) {
                self.literal(column.kind.unwrap_or(Type::Text))
            } else {
                self.value(column.family, 2)
            };
            items.push(tree!(Sort::Words; format!("{} = ", column.name), value));
        }
        let filter = self.where_clause(3);
        self.scopes.pop();
        let items = Part::List { separator: ", ", items, least: 1 };
        tree!(Sort::Words; format!("UPDATE {} SET ", table.name), items, filter)
    }

    fn delete(&mut self, table: &Table) -> Tree {
        self.enter(table);
        let filter = self.condition(3);
        self.scopes.pop();
        tree!(Sort::Words; format!("DELETE FROM {} WHERE ", table.name), filter)
    }

    fn enter(&mut self, table: &Table) {
        let source = super::Source { name: table.name.clone(), of: table.name.clone(), columns: table.columns.clone() };
        self.scopes.push(super::Scope { sources: vec![source], merged: Vec::new() });
    }
}
