//! Values: every operator and function that `docs/sql.md` lists, by the family of what comes out.

use super::{Generator, nested};
use crate::kind::Family;
use crate::tree::{Sort, Tree, tree};

impl Generator<'_> {
    /// A value of a family, at most `depth` operations deep.
    pub(super) fn value(&mut self, family: Family, depth: usize) -> Tree {
        if depth == 0 || self.chance(35) {
            return self.leaf(family, false);
        }
        if self.chance(25) {
            return self.choice(family, depth - 1);
        }
        if self.chance(8)
            && let Some(scalar) = self.scalar_subquery(family)
        {
            return scalar;
        }
        match family {
            Family::Integer => self.integer(depth - 1),
            Family::Decimal => self.decimal(depth - 1),
            Family::Float => self.float(depth - 1),
            Family::Text => self.text(depth - 1),
            Family::Boolean => self.condition(depth - 1),
            Family::Date => self.date(),
            Family::Timestamp => self.timestamp(),
            Family::Bytes => self.leaf(family, false),
        }
    }

    /// A value of a family with which arithmetic is safe.
    pub(super) fn tame(&mut self, family: Family) -> Tree {
        self.leaf(family, true)
    }

    /// What takes one of several values of a family.
    fn choice(&mut self, family: Family, depth: usize) -> Tree {
        let sort = Sort::Value(family);
        let (a, b) = (self.value(family, depth), self.value(family, depth));
        match self.random.u8(..5) {
            0 => {
                let condition = self.condition(depth);
                tree!(sort; "CASE WHEN ", condition, " THEN ", a, " ELSE ", b, " END")
            }
            1 => {
                let (first, second) = (self.condition(depth), self.condition(depth));
                tree!(sort; "CASE WHEN ", first, " THEN ", a, " WHEN ", second, " THEN ", b, " END")
            }
            2 => tree!(sort; "COALESCE(", a, ", ", b, ")"),
            3 => tree!(sort; "NULLIF(", a, ", ", b, ")"),
            _ => {
                let other = Family::any(self.random);
                let (of, when) = (self.value(other, 0), self.value(other, 0));
                tree!(sort; "CASE ", of, " WHEN ", when, " THEN ", a, " ELSE ", b, " END")
            }
        }
    }

    fn integer(&mut self, depth: usize) -> Tree {
        let family = Family::Integer;
        let sort = Sort::Value(family);
        match self.random.u8(..14) {
            0..=3 => {
                let (a, op, b) = (self.tame(family), self.pick(&[" + ", " - ", " * "]), self.operand(family));
                tree!(sort; "(", a, op, b, ")")
            }
            4 | 5 => {
                let (a, op, b) = (self.tame(family), self.pick(&[" / ", " % "]), self.tame(family));
                tree!(sort; "(", a, op, "NULLIF(", b, ", 0))")
            }
            6 => tree!(sort; "(- ", self.tame(family), ")"),
            7 => tree!(sort; "abs(", self.tame(family), ")"),
            8 => tree!(sort; self.pick(&["length(", "octet_length(", "ascii("]), self.value(Family::Text, depth), ")"),
            9 if self.chance(30) => {
                let part = self.pick(&["YEAR", "MONTH", "DAY", "HOUR", "MICROSECONDS"]);
                let (to, from) = (self.value(Family::Timestamp, depth), self.value(Family::Timestamp, 0));
                tree!(sort; format!("CAST(EXTRACT({part} FROM age("), to, ", ", from, ")) AS INTEGER)")
            }
            9 if self.chance(30) => {
                let part = self.pick(&["DAY", "HOUR", "MINUTE", "MICROSECONDS"]);
                let (to, from) = (self.value(Family::Timestamp, depth), self.value(Family::Timestamp, 0));
                tree!(sort; format!("CAST(EXTRACT({part} FROM "), to, " - ", from, ") AS INTEGER)")
            }
            9 => {
                let part = self.pick(&["YEAR", "MONTH", "DAY", "DOW", "DOY", "QUARTER", "WEEK", "HOUR"]);
                let of = self.value(Family::Timestamp, depth);
                tree!(sort; format!("CAST(EXTRACT({part} FROM "), of, ") AS INTEGER)")
            }
            10 => {
                let (a, b) = (self.tame(Family::Date), self.tame(Family::Date));
                tree!(sort; "(", a, " - ", b, ")")
            }
            11 => {
                let (text, what) = (self.value(Family::Text, depth), self.value(Family::Text, 0));
                tree!(sort; "strpos(", text, ", ", what, ")")
            }
            12 => {
                let from = if self.chance(50) { Family::Decimal } else { Family::Boolean };
                tree!(sort; "CAST(", self.tame(from), " AS INTEGER)")
            }
            _ => {
                let (a, b) = (self.value(family, depth), self.value(family, depth));
                tree!(sort; self.pick(&["greatest(", "least("]), a, ", ", b, ")")
            }
        }
    }

    fn decimal(&mut self, depth: usize) -> Tree {
        let family = Family::Decimal;
        let sort = Sort::Value(family);
        let other = if self.chance(30) { Family::Integer } else { family };
        match self.random.u8(..11) {
            0..=2 => {
                let (a, op, b) = (self.tame(family), self.pick(&[" + ", " - ", " * "]), self.operand(other));
                tree!(sort; "(", a, op, b, ")")
            }
            3 => {
                self.inexact = true;
                let (a, b) = (self.tame(family), self.tame(other));
                tree!(sort; "(", a, " / NULLIF(", b, ", 0))")
            }
            4 => tree!(sort; "CAST(", self.tame(Family::Integer), " AS DECIMAL(12,3))"),
            5 => tree!(sort; self.pick(&["abs(", "floor(", "ceil(", "(- "]), self.tame(family), ")"),
            6 => {
                tree!(sort; self.pick(&["round(", "trunc("]), self.tame(family), self.pick(&[", 1)", ", 0)", ")", ", -1)", ", 2 - 1)"]))
            }
            7 => tree!(sort; "CAST(", self.tame(family), self.pick(&[" AS DECIMAL(6,1))", " AS DECIMAL(20,0))"])),
            8 => {
                let of = if self.chance(80) { self.leaf(Family::Float, false) } else { self.float(depth) };
                tree!(sort; "CAST(", of, self.pick(&[" AS DECIMAL(38,19))", " AS DECIMAL(12,3))", " AS DECIMAL(30,0))"]))
            }
            9 => tree!(sort; self.pick(&[
                "1e3",
                "2.50e1",
                "-1.5E-3",
                "12e-2",
                "'1e2'::DECIMAL(8,2)",
                "' -25E-1'::DECIMAL(5,2)",
                "'.005'::DECIMAL(5,2)",
                "'123456789012345678901234567890e-20'::DECIMAL(38,19)",
            ])),
            _ => {
                let (a, b) = (self.value(family, depth), self.value(family, depth));
                tree!(sort; self.pick(&["greatest(", "least("]), a, ", ", b, ")")
            }
        }
    }

    fn float(&mut self, depth: usize) -> Tree {
        let family = Family::Float;
        let sort = Sort::Value(family);
        match self.random.u8(..6) {
            0..=2 => {
                let (a, op, b) = (self.tame(family), self.pick(&[" + ", " - ", " * "]), self.operand(family));
                tree!(sort; "(", a, op, b, ")")
            }
            3 => {
                let from = if self.chance(50) { Family::Decimal } else { Family::Integer };
                tree!(sort; "CAST(", self.tame(from), " AS DOUBLE PRECISION)")
            }
            4 => tree!(sort; self.pick(&["abs(", "floor(", "ceil(", "(- "]), self.tame(family), ")"),
            _ => tree!(sort; "sqrt(abs(", self.value(family, depth.min(1)), "))"),
        }
    }

    /// What stands behind an operator: now and then a text of no type, which is of the number's beside it.
    fn operand(&mut self, family: Family) -> Tree {
        if self.chance(94) {
            return self.tame(family);
        }
        let written = match family {
            Family::Integer => self.pick(&["'3'", "' -2 '", "'+7'", "'0'"]),
            Family::Decimal => self.pick(&["'1.25'", "' -0.5'", "'.3'", "'12'"]),
            _ => self.pick(&["'1.5'", "'-2'", "'1e3'", "'NaN'"]),
        };
        Tree::value(family, written)
    }

    fn text(&mut self, depth: usize) -> Tree {
        let family = Family::Text;
        let sort = Sort::Value(family);
        let text = self.value(family, depth);
        match self.random.u8(..11) {
            0..=2 => tree!(sort; "(", text, " || ", self.value(family, 0), ")"),
            3 => match self.pick(&["upper(", "lower(", "trim(", "ltrim(", "rtrim(", "reverse(", "md5("]) {
                "upper(" => upper(text),
                function => tree!(sort; function, text, ")"),
            },
            4 => {
                let (from, length) = (self.random.i8(-1..4), self.random.u8(..4));
                tree!(sort; "substr(", text, format!(", {from}, {length})"))
            }
            5 => tree!(sort; "replace(", text, ", ", self.value(family, 0), ", 'x')"),
            6 => tree!(sort; self.pick(&["left(", "right("]), text, format!(", {})", self.random.i8(-2..4))),
            7 => tree!(sort; self.pick(&["lpad(", "rpad("]), text, format!(", {}, 'xy')", self.random.i8(-2..6))),
            8 if self.chance(50) => {
                let families = [Family::Boolean, Family::Integer, Family::Decimal, Family::Date];
                let of = families[self.random.usize(..families.len())];
                tree!(sort; self.pick(&["concat(", "concat_ws('-', "]), text, ", ", self.spelled(of), ")")
            }
            8 => tree!(sort; "concat(", text, ", ", self.value(family, 0), ")"),
            9 => {
                let families = [Family::Integer, Family::Boolean, Family::Date, Family::Decimal, Family::Timestamp];
                let from = families[self.random.usize(..families.len())];
                tree!(sort; "CAST(", self.spelled(from), " AS TEXT)")
            }
            _ => tree!(sort; "CAST(", text, format!(" AS VARCHAR({}))", self.random.u8(1..5))),
        }
    }

    /// What becomes a text. Decimals are of one scale: how many digits those of a row of VALUES have is each side's own choice, and
    /// a part of their text might hide it.
    fn spelled(&mut self, family: Family) -> Tree {
        let value = self.value(family, 0);
        match family {
            Family::Decimal => tree!(Sort::Value(family); "CAST(", value, " AS DECIMAL(12,3))"),
            _ => value,
        }
    }

    fn date(&mut self) -> Tree {
        let sort = Sort::Value(Family::Date);
        match self.random.u8(..3) {
            0 | 1 => {
                let (date, op, days) = (self.tame(Family::Date), self.pick(&[" + ", " - "]), self.random.u16(..800));
                tree!(sort; "(", date, op, days.to_string(), ")")
            }
            _ => tree!(sort; "CAST(", self.value(Family::Timestamp, 0), " AS DATE)"),
        }
    }

    fn timestamp(&mut self) -> Tree {
        let sort = Sort::Value(Family::Timestamp);
        match self.random.u8(..4) {
            0 | 1 => {
                let from = if self.chance(60) { Family::Timestamp } else { Family::Date };
                let interval = self.pick(&["1 day", "1 month", "4 minutes", "3 years", "90 seconds", "1 month 3 days"]);
                let (from, op) = (self.tame(from), self.pick(&[" + ", " - "]));
                tree!(sort; "(", from, op, format!("INTERVAL '{interval}')"))
            }
            2 => {
                let part = self.pick(&["year", "month", "day", "hour", "minute", "quarter", "week"]);
                tree!(sort; format!("date_trunc('{part}', "), self.value(Family::Timestamp, 0), ")")
            }
            _ => tree!(sort; "CAST(", self.value(Family::Date, 0), " AS TIMESTAMP)"),
        }
    }

    /// A subquery of at most one row, which an aggregate without GROUP BY gives.
    fn scalar_subquery(&mut self, family: Family) -> Option<Tree> {
        if self.scopes.len() > 2 {
            return None;
        }
        if self.chance(20) {
            return Some(self.constant_of_rows(family));
        }
        let (tables, scope) = self.one_table();
        self.scopes.push(scope);
        // Now and then one that may have several rows, which is an error.
        let several = self.chance(10);
        let found = match family {
            _ if several => self.reference_here(family),
            Family::Integer if self.chance(40) => Some(Tree::value(family, "count(*)")),
            Family::Boolean | Family::Bytes => None,
            _ => {
                // Of its own columns: an aggregate of another SELECT's belongs to that one.
                let of = self.reference_here(family);
                of.map(|of| tree!(Sort::Value(family); self.pick(&["min(", "max("]), of, ")"))
            }
        };
        let clause = found.map(|found| {
            let filter = self.where_clause(1);
            tree!(Sort::Query(1); "SELECT ", found, " FROM ", tables, filter)
        });
        self.scopes.pop();
        Some(nested(family, clause?))
    }

    /// A subquery that gives one value if a table has any row of a kind, and else no row, which is NULL.
    fn constant_of_rows(&mut self, family: Family) -> Tree {
        let around = std::mem::take(&mut self.scopes);
        let (tables, scope) = self.one_table();
        self.scopes.push(scope);
        let value = self.constant(family, false);
        let filter = self.where_clause(1);
        self.scopes = around;
        let end = self.pick(&[" LIMIT 1", " LIMIT 1", " LIMIT 1 OFFSET 1", " FETCH FIRST ROW ONLY", " LIMIT 0"]);
        nested(family, tree!(Sort::Query(1); "SELECT ", value, " FROM ", tables, filter, end))
    }
}

/// A text in upper case, without the letter of which the two sides make another number of letters: what is computed of that would differ, too, and hide the reason.
pub(super) fn upper(text: Tree) -> Tree {
    tree!(Sort::Value(Family::Text); "upper(replace(", text, ", 'ß', 's'))")
}
