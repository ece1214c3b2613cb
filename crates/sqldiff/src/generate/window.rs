//! Window functions whose answers the order of equal rows does not change.

use super::Generator;
use crate::kind::Family;
use crate::tree::{Part, Sort, Tree, tree};

impl Generator<'_> {
    /// A window function that gives a value of a family; `None` where there is none, or no column to order by.
    pub(super) fn window(&mut self, family: Family) -> Option<Tree> {
        let sort = Sort::Value(family);
        let by_family = Family::any(self.random);
        let by = self.reference_here(by_family)?;
        let partition = if self.chance(50) {
            let family = Family::any(self.random);
            match self.reference_here(family) {
                Some(column) => Part::Maybe(tree!(Sort::Words; "PARTITION BY ", column, " ")),
                None => "".into(),
            }
        } else {
            "".into()
        };
        let direction = self.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        let order = tree!(Sort::Words; "ORDER BY ", by, direction);
        let over = |frame: &str| tree!(Sort::Words; " OVER (", partition.clone(), order.clone(), frame, ")");
        let whole = tree!(Sort::Words; " OVER (", partition.clone(), ")");
        Some(match family {
            // Bounds of numbers, also beyond the ends of their types.
            Family::Integer
                if matches!(by_family, Family::Integer | Family::Decimal | Family::Float) && self.chance(30) =>
            {
                let bounds = [
                    "1 PRECEDING AND 1 FOLLOWING",
                    "2 PRECEDING AND CURRENT ROW",
                    "1 FOLLOWING AND 3 FOLLOWING",
                    "4 PRECEDING AND 1 PRECEDING",
                    "UNBOUNDED PRECEDING AND 100000 FOLLOWING",
                ];
                let frame = format!(" RANGE BETWEEN {}", self.pick(&bounds));
                tree!(sort; "count(*)", over(&frame))
            }
            Family::Integer => match self.random.u8(..7) {
                0 => tree!(sort; "rank()", over("")),
                1 => tree!(sort; "dense_rank()", over("")),
                2 => tree!(sort; "count(*)", over("")),
                3 => {
                    let of = self.reference_here(family)?;
                    tree!(sort; "count(", of, ")", over(" RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"))
                }
                4 => {
                    let (of, back) = (self.reference_here(family)?, self.random.u8(..3));
                    let total = self.total_order()?;
                    let default = self.pick(&["", ", 0", ", -7", ", NULL", ", '3'"]);
                    tree!(sort; self.pick(&["lag(", "lead("]), of, format!(", {back}{default})"), " OVER (", partition, total, ")")
                }
                5 => {
                    let total = self.total_order()?;
                    tree!(sort; self.pick(&["row_number()", "ntile(3)"]), " OVER (", partition, total, ")")
                }
                _ => {
                    let of = self.reference_here(family)?;
                    tree!(sort; self.pick(&["min(", "max("]), of, ")", if self.chance(50) { whole } else { over("") })
                }
            },
            // A default with a fraction makes decimals of whole numbers.
            Family::Decimal if self.chance(30) => {
                let (of, total) = (self.reference_here(Family::Integer)?, self.total_order()?);
                tree!(sort; self.pick(&["lag(", "lead("]), of, ", 1, -1.5) OVER (", partition, total, ")")
            }
            Family::Decimal => {
                let summed = if self.chance(60) { Family::Integer } else { family };
                let of = self.reference_here(summed)?;
                tree!(sort; "sum(", of, ")", if self.chance(40) { whole } else { over("") })
            }
            Family::Float => tree!(sort; self.pick(&["percent_rank()", "cume_dist()"]), over("")),
            Family::Text | Family::Date | Family::Timestamp => {
                let of = self.reference_here(family)?;
                match self.random.u8(..3) {
                    0 => tree!(sort; self.pick(&["min(", "max("]), of, ")", over("")),
                    1 => {
                        let total = self.total_order()?;
                        let function = self.pick(&["first_value(", "last_value("]);
                        let frame = self.pick(&["", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"]);
                        tree!(sort; function, of, ")", " OVER (", partition, total, frame, ")")
                    }
                    _ => {
                        let total = self.total_order()?;
                        let nth = self.random.u8(1..4);
                        tree!(sort; "nth_value(", of, format!(", {nth})"), " OVER (", partition, total, ")")
                    }
                }
            }
            Family::Boolean => {
                let (of, total) = (self.reference_here(family)?, self.total_order()?);
                let frames =
                    ["", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING"];
                let function = self.pick(&["bool_and(", "bool_or(", "every("]);
                tree!(sort; function, of, ") OVER (", partition, total, self.pick(&frames), ")")
            }
            Family::Bytes => return None,
        })
    }

    /// `ORDER BY id`, where the rows are those of one table with a key.
    fn total_order(&mut self) -> Option<Tree> {
        let scope = self.scopes.last()?;
        let [source] = scope.sources.as_slice() else { return None };
        let key = source.columns.first().filter(|column| column.name == "id")?;
        let name = format!("{}.{}", source.name, key.name);
        let keyed =
            self.tables.iter().any(|table| table.keyed && table.columns[0].kind == key.kind && source.of == table.name);
        keyed.then(|| tree!(Sort::Words; "ORDER BY ", name, self.pick(&["", " DESC"])))
    }
}
