//! The differences from `PostgreSQL` that are kept on purpose, and those that are known and not mended yet. These are the only
//! lists: the tester reads them, and `docs/sql.md` shows them.

use crate::value::{Answer, Class, Value};

/// A difference that is known.
#[derive(Debug)]
pub struct Kept {
    /// What differs, as `docs/sql.md` says it.
    pub what: &'static str,
    /// Why it is so.
    pub reason: &'static str,
    /// Whether a difference is this one.
    applies: fn(&Seen<'_>) -> bool,
}

/// A difference that the tester has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) statement: &'a str,
    /// The views that were made before it.
    pub(crate) views: &'a str,
    pub(crate) ours: &'a Answer,
    pub(crate) theirs: &'a Answer,
}

impl Seen<'_> {
    /// Theirs fails with one of these states, and ours answers.
    fn fails_there(&self, states: &[&str]) -> bool {
        let (Answer::Failed(_, message), Answer::Rows(_) | Answer::Changed(_)) = (self.theirs, self.ours) else {
            return false;
        };
        states.iter().any(|state| message.starts_with(state))
    }

    fn theirs_answers(&self) -> bool {
        !matches!(self.theirs, Answer::Failed(..))
    }

    fn rows_differ(&self) -> bool {
        matches!(
            (self.ours, self.theirs),
            (Answer::Rows(_), Answer::Rows(_)) | (Answer::Changed(_), Answer::Changed(_))
        )
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.statement.contains(word))
    }
}

/// The differences that are kept on purpose.
pub const KEPT: &[Kept] = &[
    Kept {
        what: "a decimal result of more than 38 digits is an error",
        reason: "DECIMAL has at most 38 digits here; NUMERIC in PostgreSQL has up to 131,072 before the point",
        applies: |seen| matches!(seen.ours, Answer::Failed(Class::Overflow, _)) && seen.theirs_answers(),
    },
    Kept {
        what: "functions of floating-point numbers that overflow or have no result (`exp`, `power`, `ln`) give infinity or NaN",
        reason: "IEEE 754; PostgreSQL fails",
        applies: |seen| {
            let special = |value: &Value| matches!(value, Value::Float(number, _) if !number.is_finite());
            let states = seen.fails_there(&["22003 value out of range", "22012"]);
            states && matches!(seen.ours, Answer::Rows(rows) if rows.iter().flatten().any(special))
        },
    },
    Kept {
        what: "a text that is too long for its column is an error, also where only spaces at its end are too much",
        reason: "what is stored is what was given; PostgreSQL cuts the spaces",
        applies: |seen| matches!(seen.ours, Answer::Failed(Class::TooLong, _)) && seen.theirs_answers(),
    },
    Kept {
        what: "a DECIMAL has no NaN: what would be one is an error",
        reason: "it has at most 38 digits, and nothing else; keep such numbers in a DOUBLE",
        applies: |seen| {
            let is_nan = matches!(seen.ours, Answer::Failed(Class::Conversion, message) if message.contains("'NaN' to value of DECIMAL"));
            is_nan && seen.theirs_answers()
        },
    },
    Kept {
        what: "`upper` of a letter may give several: 'ß' becomes 'SS'",
        reason: "Unicode's mapping; PostgreSQL maps letter by letter by the C library",
        applies: |seen| {
            let doubled = |value: &Value| matches!(value, Value::Text(text) if text.contains("SS"));
            let is_shown = matches!(seen.ours, Answer::Rows(rows) if rows.iter().flatten().any(doubled));
            is_shown && (seen.says(&["upper("]) || seen.views.contains("upper("))
        },
    },
    Kept {
        what: "a subquery of several rows, as a value in a view or in another subquery, is an error only where the value is needed: a join, a condition or a set operation that leaves no row may spare it",
        reason: "which part of a statement is run first is the plan's choice; PostgreSQL has other plans",
        applies: |seen| {
            let in_view = seen.views.split("; ").any(|view| view.matches("SELECT").count() > 1);
            seen.fails_there(&["21000"]) && (in_view || seen.statement.matches("(SELECT").count() > 1)
        },
    },
    Kept {
        what: "of several errors in one statement another one may be told: an empty column that is NOT NULL only when all rows are computed, and before a key that is there already and a text that is too long",
        reason: "rows are computed first, and then written; PostgreSQL does both row by row",
        applies: |seen| match (seen.ours, seen.theirs) {
            (Answer::Failed(ours, _), Answer::Failed(Class::NotNull, _)) => ours.is_of_evaluation(),
            // PostgreSQL fits a value of another type into its column while it computes the row.
            (Answer::Failed(Class::NotNull, _), Answer::Failed(Class::DuplicateKey | Class::TooLong, _)) => true,
            _ => false,
        },
    },
    Kept {
        what: "types that PostgreSQL does not mix are converted: `text < date` compares",
        reason: "DataFusion converts where PostgreSQL wants a cast to be written; what PostgreSQL accepts means the same",
        applies: |seen| seen.fails_there(&["42883", "42846", "42804"]),
    },
    Kept {
        what: "variances and standard deviations are DOUBLE; of whole numbers and decimals they are rounded at the end alone",
        reason: "PostgreSQL gives those of numbers that are no floating-point ones as NUMERIC",
        applies: |seen| seen.rows_differ() && seen.says(&["var_", "variance(", "stddev"]),
    },
    Kept {
        what: "quotients and averages of decimals have 16 to 20 digits behind the point, whatever their size",
        reason: "a column has one scale; PostgreSQL gives each value as many digits as it takes for 16 that count",
        applies: |seen| {
            let divides = [" / ", "avg("];
            // A quotient of a view, as a text.
            let is_long = |value: &Value| matches!(value, Value::Text(text) if text.contains("0000000000000000"));
            let is_shown = || matches!(seen.ours, Answer::Rows(rows) if rows.iter().flatten().any(is_long));
            let in_views = || divides.iter().any(|word| seen.views.contains(word)) && is_shown();
            seen.rows_differ() && (seen.says(&divides) || in_views())
        },
    },
    Kept {
        what: "a decimal that becomes a text has as many digits behind the point as its column, in VALUES and set operations those of the row that has most",
        reason: "a column has one scale; PostgreSQL keeps for each value how it was written",
        applies: |seen| {
            let mixes = ["VALUES", "UNION", "INTERSECT", "EXCEPT"];
            let (Answer::Rows(ours), Answer::Rows(theirs)) = (seen.ours, seen.theirs) else { return false };
            // Rows that differ in their order alone are no such case.
            let differ = in_order(ours, str::to_owned) != in_order(theirs, str::to_owned);
            let are_alike = || in_order(ours, short_decimals) == in_order(theirs, short_decimals);
            let may_mix = seen.says(&mixes) || mixes.iter().any(|word| seen.views.contains(word));
            may_mix && differ && are_alike()
        },
    },
];

/// Rows in an order of their own, with what is made of their texts.
fn in_order(rows: &[Vec<Value>], of_text: fn(&str) -> String) -> Vec<Vec<String>> {
    let written = |value: &Value| match value {
        Value::Text(text) => of_text(text),
        other => other.to_string(),
    };
    let mut rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(written).collect()).collect();
    rows.sort();
    rows
}

/// A text with the decimals in it without zeros at the end.
fn short_decimals(text: &str) -> String {
    let mut short = String::new();
    // Whether what comes next is behind the point of a number.
    let mut is_behind = false;
    for part in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
        if is_behind {
            short.push_str(digits.trim_end_matches('0'));
            if !digits.is_empty() && short.ends_with('.') {
                short.pop();
            }
        } else {
            short.push_str(digits);
        }
        is_behind = !is_behind && !digits.is_empty() && part.ends_with('.');
        short.push_str(&part[digits.len()..]);
    }
    short
}

/// Differences that are known faults: they are counted and told with every run, and are to be mended.
pub const OPEN: &[Kept] = &[
    Kept {
        what: "DataFusion fails at some queries that PostgreSQL answers, and says so in its own words",
        reason: "an error before anything runs; no wrong answer comes of it",
        applies: |seen| {
            matches!(seen.ours, Answer::Failed(Class::Statement | Class::Other, _))
                && !matches!(seen.theirs, Answer::Failed(Class::Statement | Class::Other, _))
        },
    },
    Kept {
        what: "`ORDER BY` of a name that several columns of the result have, where `*` stands for some of them, takes one of them, where PostgreSQL says that the name is ambiguous",
        reason: "DataFusion takes the first one",
        applies: |seen| seen.fails_there(&["42702"]),
    },
];

/// The difference of the lists that this one is, and whether it is open.
pub(crate) fn known(seen: &Seen<'_>) -> Option<(&'static Kept, bool)> {
    let of = |list: &'static [Kept], open| list.iter().find(|kept| (kept.applies)(seen)).map(|kept| (kept, open));
    of(KEPT, false).or_else(|| of(OPEN, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_in_texts_are_alike_without_their_zeros() {
        for (text, short) in [
            ("ab-0.010ab", "ab-0.01ab"),
            ("Z-0.000", "Z-0"),
            ("10", "10"),
            ("1.50|2.0 x", "1.5|2 x"),
            ("a.b0", "a.b0"),
            ("é1.0", "é1"),
        ] {
            assert_eq!(short_decimals(text), short, "{text}");
        }
    }
}
