//! FROM: tables under their own names or others, joins of every kind, and subqueries.

use super::{Column, Generator, Scope, Source};
use crate::kind::Family;
use crate::tree::{Part, Sort, Tree, tree};

impl Generator<'_> {
    /// One table, often under its own name, so that it hides one of the same name around it.
    pub(super) fn one_table(&mut self) -> (Tree, Scope) {
        let (tree, source) = self.table(&[]);
        (tree, Scope { sources: vec![source], merged: Vec::new() })
    }

    /// A whole FROM.
    pub(super) fn from(&mut self, depth: usize) -> (Tree, Scope) {
        let (mut tree, first) = self.item(depth, &[]);
        let mut scope = Scope { sources: vec![first], merged: Vec::new() };
        let (mut joins, mut has_comma) = (0, false);
        while joins < 2 && self.chance(45) {
            joins += 1;
            let taken: Vec<String> = scope.sources.iter().map(|source| source.name.clone()).collect();
            let (right, source) = self.item(depth.saturating_sub(1), &taken);
            let (clause, last) = self.join(right, source, &mut scope);
            tree = tree!(Sort::Words; tree, clause);
            has_comma |= last;
            if last {
                break;
            }
        }
        if joins == 1 && !has_comma && self.chance(12) {
            return self.aliased(tree, &scope);
        }
        (tree, scope)
    }

    /// A join in parentheses under an alias, which hides its tables.
    fn aliased(&mut self, join: Tree, scope: &Scope) -> (Tree, Scope) {
        let name = self.fresh("j");
        let mut columns = scope.merged.clone();
        let all: Vec<&Column> = scope.sources.iter().flat_map(|source| &source.columns).collect();
        for column in &all {
            // A name that two columns have means none.
            if all.iter().filter(|other| other.name == column.name).count() == 1 {
                columns.push((*column).clone());
            }
        }
        let source = Source { name: name.clone(), of: String::new(), columns };
        (tree!(Sort::Words; "(", join, format!(") AS {name}")), Scope { sources: vec![source], merged: Vec::new() })
    }

    fn item(&mut self, depth: usize, taken: &[String]) -> (Tree, Source) {
        if depth > 0 && self.chance(15) {
            return self.derived(depth - 1);
        }
        self.table(taken)
    }

    fn table(&mut self, taken: &[String]) -> (Tree, Source) {
        let table = &self.tables[self.random.usize(..self.tables.len())];
        let columns = table.columns.clone();
        self.inexact |= table.inexact;
        let own = table.name.clone();
        if !taken.contains(&own) && self.chance(55) {
            return (Tree::words(own.clone()), Source { name: own.clone(), of: own, columns });
        }
        let name = self.fresh("x");
        (Tree::words(format!("{own} AS {name}")), Source { name, of: own, columns })
    }

    /// A subquery in FROM; it sees nothing of what is around it.
    fn derived(&mut self, depth: usize) -> (Tree, Source) {
        let around = std::mem::take(&mut self.scopes);
        let (mut query, families) = if self.chance(30) {
            self.of_a_join()
        } else {
            let families: Vec<Family> = (0..self.random.usize(1..4)).map(|_| Family::any(self.random)).collect();
            (self.query(&families, depth), families)
        };
        if self.chance(15) {
            self.put_in_order(&mut query, families.len());
        }
        self.scopes = around;
        let name = self.fresh("d");
        let names: Vec<String> = (1..=families.len()).map(|number| format!("c{number}")).collect();
        let column =
            |(name, &family): (&String, &Family)| Column { name: name.clone(), family, kind: None, tame: false };
        let columns = names.iter().zip(&families).map(column).collect();
        let tree = tree!(Sort::Words; "(", query, format!(") AS {name} ({})", names.join(", ")));
        (tree, Source { name, of: String::new(), columns })
    }

    /// Different rows of a join, of which the first column is often a table's key and has its values several times.
    fn of_a_join(&mut self) -> (Tree, Vec<Family>) {
        let (left, first) = self.table(&[]);
        let (right, second) = self.table(std::slice::from_ref(&first.name));
        let key = (first.name.clone(), first.columns[0].clone());
        let all =
            [&first, &second].into_iter().flat_map(|source| source.columns.iter().map(move |column| (source, column)));
        let all: Vec<(String, Column)> = all.map(|(source, column)| (source.name.clone(), column.clone())).collect();
        let others = (0..self.random.usize(1..3)).map(|_| all[self.random.usize(..all.len())].clone());
        let columns: Vec<(String, Column)> = std::iter::once(key).chain(others).collect();
        let families: Vec<Family> = columns.iter().map(|(_, column)| column.family).collect();
        let items = columns.iter().map(|(source, column)| Tree::words(format!("{source}.{}", column.name))).collect();
        let list = Part::List { separator: ", ", items, least: columns.len() };
        let mut scope = Scope { sources: vec![first], merged: Vec::new() };
        let (clause, _) = self.join(right, second, &mut scope);
        let from = tree!(Sort::Words; " FROM ", left, clause);
        let query = match self.random.u8(..4) {
            0 => tree!(Sort::Query(columns.len()); "SELECT DISTINCT ", list, from),
            1 => {
                // By all columns, which is the same.
                let places = (1..=columns.len()).map(|place| place.to_string()).collect::<Vec<_>>().join(", ");
                tree!(Sort::Query(columns.len()); format!("SELECT DISTINCT ON ({places}) "), list, from)
            }
            _ => tree!(Sort::Query(columns.len()); "SELECT ", list.clone(), from, " GROUP BY ", list),
        };
        (query, families)
    }

    /// Joins one more source to a scope; says whether it must be the last one, because JOIN binds closer than a comma.
    fn join(&mut self, right: Tree, source: Source, scope: &mut Scope) -> (Tree, bool) {
        let common: Vec<Column> = source
            .columns
            .iter()
            .filter(|column| {
                // Once on each side, and comparable; nothing merged, whose name would be ambiguous by now.
                let all = scope.sources.iter().flat_map(|source| &source.columns);
                let same: Vec<&Column> = all.filter(|other| other.name == column.name).collect();
                same.len() == 1 && same[0].family == column.family && scope.merged.is_empty()
            })
            .cloned()
            .collect();
        let kind = self.pick(&[" JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN "]);
        let all_common = source.columns.iter().all(|column| {
            let mut others = scope.sources.iter().flat_map(|source| &source.columns);
            common.iter().any(|known| known.name == column.name) || others.all(|other| other.name != column.name)
        });
        if !common.is_empty() && all_common && scope.sources.len() == 1 && self.chance(8) {
            scope.merged.extend(common);
            scope.sources.push(source);
            return (tree!(Sort::Words; " NATURAL", kind, right), false);
        }
        if !common.is_empty() && self.chance(25) {
            let column = common[self.random.usize(..common.len())].clone();
            let clause = format!(" USING ({})", column.name);
            scope.merged.push(column);
            scope.sources.push(source);
            return (tree!(Sort::Words; kind, right, clause), false);
        }
        if self.chance(25) {
            scope.sources.push(source);
            let between = self.pick(&[", ", " CROSS JOIN "]);
            return (tree!(Sort::Words; between, right), between == ", ");
        }
        // For FULL an equality of columns is all that both sides take.
        let equal = self.equality(&source, scope);
        scope.sources.push(source);
        let clause = match equal {
            Some(equal) if kind == " FULL JOIN " || self.chance(60) => tree!(Sort::Words; kind, right, " ON ", equal),
            None if kind == " FULL JOIN " => tree!(Sort::Words; " CROSS JOIN ", right),
            _ => {
                self.scopes.push(scope.clone());
                let condition = self.condition(1);
                self.scopes.pop();
                tree!(Sort::Words; kind, right, " ON ", condition)
            }
        };
        (clause, false)
    }

    /// A column of a source equal to one of a scope's.
    fn equality(&mut self, source: &Source, scope: &Scope) -> Option<Tree> {
        let mut pairs = Vec::new();
        for column in &source.columns {
            for other in &scope.sources {
                for known in other.columns.iter().filter(|known| known.family == column.family) {
                    pairs.push((format!("{}.{}", other.name, known.name), format!("{}.{}", source.name, column.name)));
                }
            }
        }
        if pairs.is_empty() {
            return None;
        }
        let (left, right) = pairs.swap_remove(self.random.usize(..pairs.len()));
        Some(tree!(Sort::Value(Family::Boolean); format!("{left} = {right}"), Part::from("")))
    }
}
