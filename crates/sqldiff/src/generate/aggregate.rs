//! Aggregates and the queries that group.

use super::expression::upper;
use super::{Generator, Scope};
use crate::kind::Family;
use crate::tree::{Part, Sort, Tree, tree};

impl Generator<'_> {
    /// `SELECT … GROUP BY … HAVING`, with columns of these families, over a FROM that is in scope.
    pub(super) fn grouped(&mut self, families: &[Family], from: Tree, scope: Scope) -> Tree {
        self.scopes.push(scope);
        let mut keys: Vec<(Family, Tree)> = Vec::new();
        if !self.chance(25) {
            for _ in 0..self.random.usize(1..3) {
                let family = Family::any(self.random);
                // A number alone would be the position of a column.
                if let Some(column) = self.reference_here(family) {
                    keys.push((family, if self.chance(25) { derived_key(family, column) } else { column }));
                }
            }
        }
        let columns = families.iter().map(|&family| {
            let fitting: Vec<&Tree> = keys.iter().filter(|key| key.0 == family).map(|key| &key.1).collect();
            if !fitting.is_empty() && self.chance(60) {
                fitting[self.random.usize(..fitting.len())].clone()
            } else {
                self.aggregate(family)
            }
        });
        let columns = Part::List { separator: ", ", items: columns.collect(), least: 1 };
        let filter = self.where_clause(2);
        let mut query = tree!(Sort::Query(families.len()); "SELECT ", columns, " FROM ", from, filter);
        if !keys.is_empty() {
            let items = keys.into_iter().map(|key| key.1).collect();
            query
                .parts
                .push(Part::Maybe(tree!(Sort::Words; " GROUP BY ", Part::List { separator: ", ", items, least: 1 })));
        }
        if self.chance(25) {
            let family = [Family::Integer, Family::Decimal, Family::Text, Family::Date][self.random.usize(..4)];
            let (a, op, b) =
                (self.aggregate(family), self.pick(&[" > ", " = ", " <= ", " <> "]), self.constant(family, true));
            query.parts.push(Part::Maybe(tree!(Sort::Words; " HAVING ", a, op, b)));
        }
        self.scopes.pop();
        query
    }

    /// A column of this SELECT's own tables.
    pub(super) fn reference_here(&mut self, family: Family) -> Option<Tree> {
        let around = self.scopes.split_off(self.scopes.len() - 1);
        let around = std::mem::replace(&mut self.scopes, around);
        let found = self.reference(family, false);
        self.scopes.splice(0..0, around);
        found
    }

    /// An aggregate that gives a value of a family, of this SELECT's own columns.
    fn aggregate(&mut self, family: Family) -> Tree {
        let sort = Sort::Value(family);
        let of = match family {
            Family::Boolean | Family::Integer | Family::Float | Family::Text | Family::Date | Family::Timestamp => {
                family
            }
            Family::Decimal if self.chance(50) => Family::Integer,
            Family::Decimal => family,
            Family::Bytes => return Tree::value(family, "'\\x61'::BYTEA"),
        };
        let counted = Family::any(self.random);
        let tame = family == Family::Float;
        let column = if tame { self.own_tame(of) } else { self.reference_here(of) };
        let column = column.unwrap_or_else(|| self.constant(of, true));
        let distinct = if self.chance(20) { "DISTINCT " } else { "" };
        let call = match family {
            Family::Integer => match self.random.u8(..6) {
                0 | 1 => tree!(sort; "count(*)"),
                2 | 3 => {
                    let counted = self.reference_here(counted).unwrap_or_else(|| Tree::words("1"));
                    tree!(sort; "count(", distinct, counted, ")")
                }
                _ => tree!(sort; self.pick(&["min(", "max("]), column, ")"),
            },
            Family::Decimal | Family::Float => match self.random.u8(..5) {
                0 | 1 => tree!(sort; "sum(", distinct, column, ")"),
                2 => {
                    self.inexact = true;
                    tree!(sort; "avg(", column, ")")
                }
                3 if family == Family::Float => {
                    tree!(sort; self.pick(&["stddev(", "var_pop(", "stddev_pop(", "variance("]), column, ")")
                }
                _ => tree!(sort; self.pick(&["min(", "max("]), column, ")"),
            },
            Family::Boolean => tree!(sort; self.pick(&["bool_and(", "bool_or(", "every("]), column, ")"),
            Family::Text | Family::Date | Family::Timestamp if self.chance(15) => {
                tree!(sort; "mode() WITHIN GROUP (ORDER BY ", column, self.pick(&[")", " DESC)"]))
            }
            Family::Text if self.chance(15) => {
                tree!(sort; "string_agg(", column.clone(), ", ',' ORDER BY ", column, ")")
            }
            _ => tree!(sort; self.pick(&["min(", "max("]), column, ")"),
        };
        if self.chance(12) {
            let filter = self.comparison_here();
            return tree!(sort; call, Part::Maybe(tree!(Sort::Words; " FILTER (WHERE ", filter, ")")));
        }
        call
    }

    fn own_tame(&mut self, family: Family) -> Option<Tree> {
        let around = self.scopes.split_off(self.scopes.len() - 1);
        let around = std::mem::replace(&mut self.scopes, around);
        let found = self.reference(family, true);
        self.scopes.splice(0..0, around);
        found
    }

    /// A plain comparison of this SELECT's own columns.
    fn comparison_here(&mut self) -> Tree {
        let family = Family::any(self.random);
        let (a, b) = (self.reference_here(family), self.constant(family, false));
        let a = a.unwrap_or_else(|| b.clone());
        tree!(Sort::Value(Family::Boolean); a, self.pick(&[" = ", " <> ", " < ", " >= "]), b)
    }
}

/// What is grouped by instead of a column alone.
fn derived_key(family: Family, column: Tree) -> Tree {
    let sort = Sort::Value(family);
    match family {
        Family::Text => upper(column),
        Family::Date => tree!(sort; "COALESCE(", column, ", DATE '2024-01-01')"),
        Family::Boolean => tree!(sort; "(NOT ", column, ")"),
        Family::Integer => tree!(sort; "COALESCE(", column, ", 0)"),
        _ => column,
    }
}
