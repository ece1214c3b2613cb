//! Conditions: comparisons of every family, the logic of NULL, and subqueries.

use super::{Generator, Source};
use crate::kind::Family;
use crate::tree::{Part, Sort, Tree, tree};

const TRUTH: Sort = Sort::Value(Family::Boolean);

impl Generator<'_> {
    /// A condition, at most `depth` operations deep.
    pub(super) fn condition(&mut self, depth: usize) -> Tree {
        if depth == 0 {
            return self.comparison(0);
        }
        match self.random.u8(..25) {
            0..=6 => self.comparison(depth),
            7 | 8 => {
                let (a, op, b) = (self.condition(depth - 1), self.pick(&[" AND ", " OR "]), self.condition(depth - 1));
                tree!(TRUTH; "(", a, op, b, ")")
            }
            9 | 10 => tree!(TRUTH; "(NOT ", self.condition(depth - 1), ")"),
            11 => {
                let of = Family::any(self.random);
                tree!(TRUTH; "(", self.value(of, depth - 1), self.pick(&[" IS NULL)", " IS NOT NULL)"]))
            }
            12 => {
                let truth =
                    self.pick(&[" IS TRUE)", " IS NOT TRUE)", " IS FALSE)", " IS UNKNOWN)", " IS NOT UNKNOWN)"]);
                tree!(TRUTH; "(", self.condition(depth - 1), truth)
            }
            13 => self.like(depth - 1),
            14 => self.in_list(depth - 1),
            15 => self.between(depth - 1),
            16 => self.leaf(Family::Boolean, false),
            17 => self.rows(),
            18 | 19 => self.exists(),
            20 => self.intervals(),
            _ => self.membership(),
        }
    }

    fn comparison(&mut self, depth: usize) -> Tree {
        let family = Family::any(self.random);
        // Numbers of different families are compared as numbers.
        let other = match family {
            Family::Integer if self.chance(20) => Family::Decimal,
            Family::Decimal | Family::Float if self.chance(20) => Family::Integer,
            Family::Date if self.chance(15) => Family::Timestamp,
            _ => family,
        };
        let (a, b) = (self.value(family, depth), self.value(other, depth.min(1)));
        if family == Family::Boolean && self.chance(15) {
            // A text of no type is a truth there.
            let written = self.pick(&["'t'", "'f'", "' yes '", "'OFF'", "'1'", "'tru'"]);
            return tree!(TRUTH; "(", a, self.pick(&[" = ", " <> ", " < ", " >= "]), written, ")");
        }
        let op = self.pick(&[
            " = ",
            " = ",
            " <> ",
            " < ",
            " <= ",
            " > ",
            " >= ",
            " IS DISTINCT FROM ",
            " IS NOT DISTINCT FROM ",
        ]);
        tree!(TRUTH; "(", a, op, b, ")")
    }

    fn like(&mut self, depth: usize) -> Tree {
        let text = self.value(Family::Text, depth);
        if self.chance(15) {
            let op = self.pick(&[" ~ ", " ~* ", " !~ ", " !~* "]);
            let pattern = self.pick(&["'a.b'", "'^.a'", "'b$'", "'.'", "'[^a]'", "'a|b'", "'a{2}'", "''"]);
            let text = if self.chance(50) {
                tree!(Sort::Value(Family::Text); "replace(", text, ", '_', E'\\n')")
            } else {
                text
            };
            return tree!(TRUTH; "(", text, op, pattern, ")");
        }
        let op = self.pick(&[" LIKE ", " NOT LIKE ", " ILIKE ", " SIMILAR TO "]);
        let pattern = self.pick(&[
            "'%a%'",
            "'a_'",
            "'_%'",
            "'%'",
            "''",
            "'a\\%'",
            "'A%'",
            "'_'",
            "'a{1,2}%'",
            "'(a|b){2}c?'",
            "'_{2,}'",
        ]);
        let escape = if op.contains("LIKE") && self.chance(10) { " ESCAPE '!'" } else { "" };
        tree!(TRUTH; "(", text, op, pattern, escape, ")")
    }

    fn in_list(&mut self, depth: usize) -> Tree {
        let family = Family::any(self.random);
        let value = self.value(family, depth);
        let mut list = |value: Tree| {
            let count = self.random.usize(1..7);
            // What is computed of the row, among constants.
            let item = |_| if self.chance(12) { self.value(family, 1) } else { self.leaf(family, false) };
            let items = (0..count).map(item).collect();
            let list = Part::List { separator: ", ", items, least: 1 };
            tree!(TRUTH; "(", value, self.pick(&[" IN (", " NOT IN ("]), list, "))")
        };
        let first = list(value.clone());
        // Several lists of one value must not become one, nor alternatives that could be lists.
        let second = list(value.clone());
        match self.random.u8(..8) {
            0 => tree!(TRUTH; "(", first, " AND ", second, ")"),
            1 => tree!(TRUTH; "(", first, " OR ", second, ")"),
            2 => tree!(TRUTH; "(NOT (", first, " AND ", second, "))"),
            3 => {
                let mut either = || tree!(TRUTH; "(", value.clone(), " = ", self.leaf(family, false), " OR ", value.clone(), " = ", self.leaf(family, false), ")");
                let (one, two) = (either(), either());
                tree!(TRUTH; "(NOT (", one, " AND ", two, "))")
            }
            _ => first,
        }
    }

    fn between(&mut self, depth: usize) -> Tree {
        let family = Family::any(self.random);
        let (value, low, high) = (self.value(family, depth), self.leaf(family, false), self.leaf(family, false));
        tree!(TRUTH; "(", value, self.pick(&[" BETWEEN ", " NOT BETWEEN ", " BETWEEN SYMMETRIC ", " NOT BETWEEN SYMMETRIC "]), low, " AND ", high, ")")
    }

    /// Two intervals compared, of which months, days and hours may come to the same.
    fn intervals(&mut self) -> Tree {
        let mut interval = || match self.random.u8(..3) {
            0 => {
                let (to, from) = (self.tame(Family::Timestamp), self.tame(Family::Timestamp));
                tree!(Sort::Words; "age(", to, ", ", from, ")")
            }
            _ => Tree::words(self.pick(&[
                "INTERVAL '1 month'",
                "INTERVAL '30 days'",
                "INTERVAL '1 day'",
                "INTERVAL '24:00:00'",
                "INTERVAL '23:59:59.5'",
                "INTERVAL '-1 month 31 days'",
                "- INTERVAL '1 month -31 days'",
                "INTERVAL '1 year'",
                "INTERVAL '360 days'",
            ])),
        };
        let (left, right) = (interval(), interval());
        tree!(TRUTH; "(", left, self.pick(&[" = ", " <> ", " < ", " <= ", " > ", " >= ", " IS DISTINCT FROM "]), right, ")")
    }

    fn rows(&mut self) -> Tree {
        let (first, second) = (Family::any(self.random), Family::any(self.random));
        let mut row = || {
            let (a, b) = (self.leaf(first, false), self.leaf(second, false));
            tree!(Sort::Words; "(", a, ", ", b, ")")
        };
        let (left, right, third) = (row(), row(), row());
        if self.chance(30) {
            let list = Part::List { separator: ", ", items: vec![right, third], least: 1 };
            return tree!(TRUTH; "(", left, self.pick(&[" IN (", " NOT IN ("]), list, "))");
        }
        tree!(TRUTH; "(", left, self.pick(&[" = ", " <> ", " < ", " <= ", " > ", " >= "]), right, ")")
    }

    fn exists(&mut self) -> Tree {
        if self.scopes.len() > 2 {
            return self.comparison(0);
        }
        let outside = self.outside();
        let (tables, scope) = self.one_table();
        self.scopes.push(scope);
        let filter = outside.unwrap_or_else(|| self.where_clause(1));
        self.scopes.pop();
        let query = tree!(Sort::Query(1); "SELECT 1 FROM ", tables, filter);
        tree!(TRUTH; self.pick(&["EXISTS (", "NOT EXISTS ("]), query, ")")
    }

    /// Sometimes a WHERE for a subquery that compares two columns from outside of it, whose types are those that they have there.
    fn outside(&mut self) -> Option<Part> {
        if !self.chance(15) {
            return None;
        }
        let sources = self.scopes.iter().flat_map(|scope| &scope.sources);
        let of = |source: &'_ Source| {
            let name = source.name.clone();
            source
                .columns
                .iter()
                .map(move |column| (format!("{name}.{}", column.name), column.family))
                .collect::<Vec<_>>()
        };
        let columns: Vec<(String, Family)> = sources.flat_map(of).collect();
        let number = |family: Family| matches!(family, Family::Integer | Family::Decimal | Family::Float);
        let (left, family) = columns.get(self.random.usize(..columns.len().max(1)))?.clone();
        let is_like = |other: Family| other == family || number(other) && number(family);
        let others: Vec<&String> =
            columns.iter().filter(|(name, other)| *name != left && is_like(*other)).map(|(name, _)| name).collect();
        let right = (*others.get(self.random.usize(..others.len().max(1)))?).clone();
        let op = self.pick(&["=", "=", "<>", "<", ">=", "IS DISTINCT FROM"]);
        Some(Part::Maybe(Tree::words(format!(" WHERE {left} {op} {right}"))))
    }

    /// IN (subquery), = ANY, <> ALL and their kin.
    fn membership(&mut self) -> Tree {
        if self.scopes.len() > 2 {
            return self.comparison(0);
        }
        let family = Family::any(self.random);
        let value = self.value(family, 1);
        let outside = self.outside();
        let (tables, scope) = self.one_table();
        self.scopes.push(scope);
        let column = self.value(family, 1);
        let filter = outside.unwrap_or_else(|| self.where_clause(1));
        self.scopes.pop();
        let query = tree!(Sort::Query(1); "SELECT ", column, " FROM ", tables, filter);
        // The last ones are refused mostly.
        let op = if self.chance(92) {
            self.pick(&[" IN (", " IN (", " NOT IN (", " NOT IN (", " = ANY (", " <> ALL ("])
        } else {
            self.pick(&[" > ANY (", " <= ALL (", " < SOME (", " = ALL ("])
        };
        tree!(TRUTH; "(", value, op, query, "))")
    }

    /// A WHERE with a condition, or none.
    pub(super) fn where_clause(&mut self, depth: usize) -> Part {
        if self.chance(20) {
            return "".into();
        }
        Part::Maybe(tree!(Sort::Words; " WHERE ", self.condition(depth)))
    }
}
