//! One operation on a column, whatever its values are. The sort of the tree says of which family the result is.

use crate::generate::schema::Table;
use crate::generate::{Column, Generator};
use crate::kind::{Family, Type};
use crate::tree::{Sort, Tree, tree};

impl Generator<'_> {
    /// `None` where the table has no column of the family.
    pub(super) fn edge(&mut self, table: &Table, family: Family) -> Option<Tree> {
        let fitting: Vec<&Column> = table.columns.iter().filter(|column| column.family == family).collect();
        let column = *fitting.get(self.random.usize(..fitting.len().max(1)))?;
        let (kind, column) = (column.kind?, Tree::value(family, column.name.clone()));
        Some(match family {
            Family::Integer => self.edge_of_integers(kind, column),
            Family::Decimal => self.edge_of_decimals(column),
            Family::Float => self.edge_of_floats(column),
            Family::Date => self.edge_of_dates(column),
            Family::Timestamp => self.edge_of_timestamps(column),
            _ => self.edge_of_texts(column),
        })
    }

    fn cast(&mut self, column: Tree, to: &[(Family, &str)]) -> Tree {
        let (family, name) = to[self.random.usize(..to.len())];
        tree!(Sort::Value(family); "CAST(", column, format!(" AS {name})"))
    }

    fn edge_of_integers(&mut self, kind: Type, column: Tree) -> Tree {
        let sort = Sort::Value(Family::Integer);
        // A number of the column's own type: what a bare number is differs.
        let number = |number: &str| match number.parse::<i64>() {
            Ok(_) if kind != Type::BigInt => format!("({number})::{kind}"),
            _ => format!("({number})"),
        };
        match self.random.u8(..10) {
            0..=3 => {
                let other = number(self.pick(&["1", "2", "-1", "a", "id", "3"]));
                tree!(sort; "(", column, self.pick(&[" + ", " - ", " * "]), other, ")")
            }
            4 => tree!(sort; "(- ", column, ")"),
            5 => tree!(sort; "abs(", column, ")"),
            6 => {
                let other = number(self.pick(&["2", "-1", "a", "3", "-2"]));
                tree!(sort; "(", column, self.pick(&[" / ", " % "]), other, ")")
            }
            7 if kind == Type::Integer => tree!(Sort::Value(Family::Boolean); "CAST(", column, " AS BOOLEAN)"),
            _ => self.cast(
                column,
                &[
                    (Family::Integer, "SMALLINT"),
                    (Family::Integer, "INTEGER"),
                    (Family::Integer, "BIGINT"),
                    (Family::Decimal, "DECIMAL(5,2)"),
                    (Family::Float, "REAL"),
                    (Family::Float, "DOUBLE PRECISION"),
                    (Family::Text, "TEXT"),
                ],
            ),
        }
    }

    fn edge_of_decimals(&mut self, column: Tree) -> Tree {
        let sort = Sort::Value(Family::Decimal);
        match self.random.u8(..10) {
            0..=3 => {
                let other = self.pick(&["1", "0.5", "99999999999999999999999999999999999999", "-1", "a", "1.01"]);
                tree!(sort; "(", column, self.pick(&[" + ", " - ", " * "]), format!("({other}))"))
            }
            4 => {
                self.inexact = true;
                let other = self.pick(&["3", "-7", "0.5", "id"]);
                tree!(sort; "(", column, format!(" / ({other}))"))
            }
            5 => tree!(sort; self.pick(&["abs(", "(- ", "floor(", "ceil(", "round(", "trunc("]), column, ")"),
            6 => tree!(sort; "round(", column, format!(", {})", self.random.i8(-3..12))),
            7 => tree!(sort; self.pick(&["round(", "trunc("]), column, self.pick(&[", 2 - 1)", ", id)"])),
            _ => self.cast(
                column,
                &[
                    (Family::Integer, "SMALLINT"),
                    (Family::Integer, "INTEGER"),
                    (Family::Integer, "BIGINT"),
                    (Family::Decimal, "DECIMAL(5,2)"),
                    (Family::Decimal, "DECIMAL(38,0)"),
                    (Family::Decimal, "DECIMAL(10,4)"),
                    (Family::Float, "DOUBLE PRECISION"),
                    (Family::Text, "TEXT"),
                ],
            ),
        }
    }

    fn edge_of_floats(&mut self, column: Tree) -> Tree {
        let sort = Sort::Value(Family::Float);
        match self.random.u8(..6) {
            0 | 1 => {
                let other = self.pick(&["2", "0.5", "-1", "1e300", "id", "0", "'-Infinity'"]);
                tree!(sort; "(", column, self.pick(&[" + ", " - ", " * ", " / "]), format!("({other}))"))
            }
            2 => tree!(sort; self.pick(&["abs(", "(- ", "floor(", "ceil(", "trunc(", "round("]), column, ")"),
            _ => self.cast(
                column,
                &[
                    (Family::Integer, "SMALLINT"),
                    (Family::Integer, "INTEGER"),
                    (Family::Integer, "BIGINT"),
                    (Family::Float, "REAL"),
                    (Family::Float, "DOUBLE PRECISION"),
                    (Family::Text, "TEXT"),
                ],
            ),
        }
    }

    fn edge_of_dates(&mut self, column: Tree) -> Tree {
        let sort = Sort::Value(Family::Date);
        match self.random.u8(..6) {
            0..=2 => {
                let days = self.pick(&["1", "-1", "146097", "800000", "3000000"]);
                tree!(sort; "(", column, self.pick(&[" + ", " - "]), format!("({days}))"))
            }
            3 => tree!(Sort::Value(Family::Integer); "(", column, " - DATE '2000-01-01')"),
            4 => self.cast(column, &[(Family::Timestamp, "TIMESTAMP"), (Family::Text, "TEXT")]),
            _ => self.parts(column, &["YEAR", "MONTH", "DAY", "DOW", "ISODOW", "DOY", "QUARTER", "WEEK", "ISOYEAR"]),
        }
    }

    fn edge_of_timestamps(&mut self, column: Tree) -> Tree {
        let sort = Sort::Value(Family::Timestamp);
        match self.random.u8(..6) {
            0..=2 => {
                let interval = self.pick(&["1 month", "1 year", "4 minutes", "0.000001 second", "-13 months", "1 day"]);
                tree!(sort; "(", column, self.pick(&[" + ", " - "]), format!("INTERVAL '{interval}')"))
            }
            3 => self.cast(column, &[(Family::Date, "DATE"), (Family::Text, "TEXT")]),
            4 => {
                let part = self.pick(&["year", "quarter", "month", "week", "day", "hour", "second"]);
                tree!(sort; format!("date_trunc('{part}', "), column, ")")
            }
            _ => self.parts(column, &["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "EPOCH", "DOY"]),
        }
    }

    fn edge_of_texts(&mut self, column: Tree) -> Tree {
        let sort = Sort::Value(Family::Text);
        match self.random.u8(..5) {
            0 => tree!(sort; "CAST(", column, format!(" AS VARCHAR({}))", self.random.u8(1..4))),
            1 => self.cast(
                column,
                &[
                    (Family::Integer, "INTEGER"),
                    (Family::Date, "DATE"),
                    (Family::Boolean, "BOOLEAN"),
                    (Family::Decimal, "DECIMAL(5,2)"),
                ],
            ),
            2 => {
                tree!(sort; self.pick(&["trim(LEADING FROM ", "trim(TRAILING 'a' FROM ", "trim(BOTH FROM ", "trim('a' FROM "]), column, ")")
            }
            3 => tree!(sort; "repeat(", column, format!(", {})", self.random.i8(-1..3))),
            _ => {
                tree!(sort; self.pick(&["substr(", "left(", "right("]), column, format!(", {})", self.random.i8(-3..5)))
            }
        }
    }

    fn parts(&mut self, column: Tree, parts: &[&str]) -> Tree {
        let part = self.pick(parts);
        tree!(Sort::Value(Family::Decimal); format!("EXTRACT({part} FROM "), column, ")")
    }
}
