//! Statements that do one thing with values from the edges of their types, for every row: an error on one side alone is a
//! difference then, because no other order of evaluation can be the reason.

mod edge;

use super::{Drawn, Generator};
use crate::compare::Terms;
use crate::generate::schema::Table;
use crate::kind::{Family, Type};
use crate::tree::{Part, Sort, Tree, tree};

impl Generator<'_> {
    pub(super) fn strict(&mut self) -> Drawn {
        let tables: Vec<&Table> = self.tables.iter().filter(|table| !table.view).collect();
        let table = tables[self.random.usize(..tables.len())].clone();
        let families = [
            Family::Integer,
            Family::Integer,
            Family::Decimal,
            Family::Float,
            Family::Date,
            Family::Timestamp,
            Family::Text,
        ];
        let family = families[self.random.usize(..families.len())];
        let terms = |inexact| Terms { ordered: false, inexact, strict: true };
        let Some(value) = self.edge(&table, family) else {
            let tree = tree!(Sort::Query(1); format!("SELECT count(*) FROM {}", table.name));
            return Drawn { tree, terms: terms(false), changes: Vec::new(), controls: false, is_look: false };
        };
        // A cast gives a value of another family.
        let drawn = family;
        let family = match value.sort {
            Sort::Value(family) => family,
            _ => family,
        };
        let name = table.name.clone();
        let tree = match self.random.u8(..14) {
            0..=2 => tree!(Sort::Query(2); "SELECT id, ", value, format!(" FROM {name}")),
            3 => {
                let (op, than) = (self.pick(&[" < ", " = ", " >= ", " <> "]), self.constant(family, false));
                tree!(Sort::Query(1); format!("SELECT id FROM {name} WHERE "), value, op, than)
            }
            4 if !matches!(family, Family::Text | Family::Boolean) => {
                let function = match family {
                    Family::Integer | Family::Decimal if drawn == family => {
                        self.pick(&["sum(", "min(", "max(", "avg("])
                    }
                    _ => self.pick(&["min(", "max("]),
                };
                self.inexact |= function == "avg(";
                tree!(Sort::Query(1); "SELECT ", function, value, format!(") FROM {name}"))
            }
            5 => {
                tree!(Sort::Query(2); "SELECT ", value.clone(), format!(" AS v, count(*) FROM {name} GROUP BY "), value)
            }
            6 => {
                // Often by the name that one of the table's columns has.
                let taken = &table.columns[self.random.usize(1..table.columns.len())].name;
                let new = if self.chance(70) { taken } else { "v" };
                tree!(Sort::Query(2); "SELECT id AS k, ", value.clone(), format!(" AS {new} FROM {name} ORDER BY "), value, ", id")
            }
            // Values meet those of a column by their bits, not only by what is printed of them.
            7 => {
                let other = self.column_of(&table, family);
                let op = self.pick(&[" IN (", " NOT IN ("]);
                let query = format!("SELECT {other} FROM {name})");
                let tree = tree!(Sort::Query(1); format!("SELECT id FROM {name} WHERE "), value, op, query);
                // Where all that is looked among is NULL, PostgreSQL does not compute what is looked for.
                let terms = Terms { strict: false, ..terms(self.inexact) };
                return Drawn { tree, terms, changes: Vec::new(), controls: false, is_look: false };
            }
            8 => {
                let other = self.column_of(&table, family);
                let op = self.pick(&["EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"]);
                tree!(Sort::Query(2); "SELECT ", value, format!(", NULL FROM {name} {op} SELECT {other}, NULL FROM {name}"))
            }
            9 if !matches!(family, Family::Text | Family::Boolean) => {
                let by = &table.columns[self.random.usize(..table.columns.len())].name;
                let function = self.pick(&["min(", "max("]);
                tree!(Sort::Query(2); format!("SELECT {by}, {function}"), value, format!(") FROM {name} GROUP BY {by}"))
            }
            // Values meet others in a table of them, in an order and in parts.
            10..=12 => self.looked_up(&name, &value, family),
            _ => match self.assignment(&table, value.clone(), family) {
                Some(tree) => {
                    return Drawn {
                        tree,
                        terms: terms(self.inexact),
                        changes: vec![name],
                        controls: false,
                        is_look: false,
                    };
                }
                None => tree!(Sort::Query(1); "SELECT ", value, format!(" FROM {name}")),
            },
        };
        Drawn { tree, terms: terms(self.inexact), changes: Vec::new(), controls: false, is_look: false }
    }

    /// Rows that are told apart by what a value is equal to.
    fn looked_up(&mut self, table: &str, value: &Tree, family: Family) -> Tree {
        match self.random.u8(..4) {
            0 => {
                // Where all are NULL, PostgreSQL does not compute what is looked for.
                let (one, two) = (self.present(family, false), self.constant(family, false));
                let case = tree!(Sort::Value(Family::Integer); "CASE ", value.clone(), " WHEN ", one, " THEN 1 WHEN ", two, " THEN 2 ELSE 3 END");
                tree!(Sort::Query(2); "SELECT id, ", case, format!(" FROM {table}"))
            }
            1 => {
                let items = (0..self.random.usize(1..9)).map(|_| self.constant(family, false)).collect();
                let list = Part::List { separator: ", ", items, least: 1 };
                let op = self.pick(&[" IN (", " NOT IN ("]);
                tree!(Sort::Query(1); format!("SELECT id FROM {table} WHERE "), value.clone(), op, list, ")")
            }
            2 => {
                let windows = tree!(Sort::Words; "count(*) OVER (PARTITION BY ", value.clone(), "), rank() OVER (ORDER BY ", value.clone(), ")");
                tree!(Sort::Query(3); "SELECT id, ", windows, format!(" FROM {table}"))
            }
            _ => tree!(Sort::Query(1); "SELECT count(DISTINCT ", value.clone(), format!(") FROM {table}")),
        }
    }

    /// `UPDATE t SET column = value` for a column of the family.
    fn assignment(&mut self, table: &Table, value: Tree, family: Family) -> Option<Tree> {
        if table.paged {
            return None;
        }
        let fitting: Vec<&str> = table.columns[1..]
            .iter()
            .filter(|column| column.family == family || family == Family::Decimal && column.family == Family::Integer)
            .map(|column| column.name.as_str())
            .collect();
        let column = *fitting.get(self.random.usize(..fitting.len().max(1)))?;
        Some(tree!(Sort::Words; format!("UPDATE {} SET {column} = ", table.name), value))
    }

    /// A column of the family; NULL where there is none.
    fn column_of(&mut self, table: &Table, family: Family) -> String {
        let fitting: Vec<&str> =
            table.columns.iter().filter(|column| column.family == family).map(|column| column.name.as_str()).collect();
        match fitting.get(self.random.usize(..fitting.len().max(1))) {
            Some(column) => (*column).to_owned(),
            None => format!("CAST(NULL AS {})", family.name()),
        }
    }

    /// A literal for a column, now and then one that does not fit.
    pub(super) fn literal(&mut self, kind: Type) -> Tree {
        let tame = self.chance(60);
        let text = kind.literal(tame, self.random);
        Tree::value(kind.family(), text)
    }
}
