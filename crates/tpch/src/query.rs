//! The queries, and their names on the command line.

use std::fmt;

use crate::{Error, Result};

/// One of the 22.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Query(u8);

macro_rules! texts {
    ($($number:literal),*) => { [$(include_str!(concat!("queries/q", $number, ".sql"))),*] };
}

const TEXTS: [&str; 22] = texts!(
    "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19",
    "20", "21", "22"
);

impl Query {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..=TEXTS.len() as u8).map(Self)
    }

    /// The query of that number.
    pub fn new(number: u8) -> Option<Self> {
        (1..=TEXTS.len() as u8).contains(&number).then_some(Self(number))
    }

    /// Queries as they are listed: `1,3,6` or `all`.
    pub fn list(words: &[String]) -> Result<Vec<Self>> {
        let mut queries = Vec::new();
        for word in words.iter().map(|word| word.trim()).filter(|word| !word.is_empty()) {
            if word.eq_ignore_ascii_case("all") {
                queries.extend(Self::all());
                continue;
            }
            let number = word.trim_start_matches(['q', 'Q']).parse().ok();
            queries.push(number.and_then(Self::new).ok_or_else(|| Error::Invalid {
                setting: "query",
                reason: format!("`{word}` is none of them; list numbers from 1 to 22, as in 1,3,6, or say all"),
            })?);
        }
        queries.sort_unstable();
        queries.dedup();
        if queries.is_empty() {
            return Err(Error::Invalid { setting: "query", reason: "list some, as in 1,3,6, or say all".to_owned() });
        }
        Ok(queries)
    }

    /// The columns of the answer that a query's text orders by, the first one first.
    pub(crate) fn ordered_by(text: &str) -> Vec<&str> {
        // What is behind the last one is the answer's own.
        let Some((_, behind)) = text.rsplit_once("ORDER BY ") else { return Vec::new() };
        let behind = behind.split("LIMIT").next().unwrap_or(behind);
        behind.split(',').filter_map(|column| column.split_whitespace().next()).collect()
    }

    /// Its number, from 1.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its text, for data of that scale: query 11 looks for a share that becomes smaller as the data grow.
    pub fn text(self, scale: f64) -> String {
        let fraction = format!("{:.10}", 0.0001 / scale);
        TEXTS[usize::from(self.0 - 1)].trim_end().replace(":fraction", &fraction)
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(words: &str) -> Result<Vec<u8>> {
        let words: Vec<String> = words.split(',').map(str::to_owned).collect();
        Ok(Query::list(&words)?.into_iter().map(Query::number).collect())
    }

    #[test]
    fn queries_are_listed_by_number_or_all_at_once() {
        assert_eq!(numbers("6, q1,6").expect("sound"), [1, 6]);
        assert_eq!(numbers("all").expect("sound"), (1..=22).collect::<Vec<_>>());
        for bad in ["0", "23", "x", ""] {
            numbers(bad).expect_err(bad);
        }
    }

    #[test]
    fn what_an_answer_is_ordered_by_is_read_from_the_text() {
        let of = |number| Query::new(number).expect("one of them").text(1.0);
        assert_eq!(Query::ordered_by(&of(3)), ["revenue", "o_orderdate"]);
        assert_eq!(Query::ordered_by(&of(16)), ["supplier_cnt", "p_brand", "p_type", "p_size"]);
        assert!(Query::ordered_by(&of(6)).is_empty());
    }

    #[test]
    fn no_parameter_is_left_open() {
        for query in Query::all() {
            assert!(!query.text(0.01).contains(':'), "query {query}");
        }
        assert!(Query(11).text(0.01).contains("* 0.0100000000"));
    }
}
