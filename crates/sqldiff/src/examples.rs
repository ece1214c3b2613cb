//! The examples of a page about SQL, run as the page says of them.
//!
//! A block of code that begins with ```` ```sql tables ```` makes tables on both sides, the statements of one with
//! ```` ```sql same ```` are answered the same on both, and those of one with ```` ```sql refused ```` are refused here. A statement
//! ends where a line ends with a semicolon.

use crate::compare::{Terms, Verdict};
use crate::generate::Drawn;
use crate::tester::Tester;
use crate::tree::Tree;
use crate::{Error, Result};

/// What a page says of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    Tables,
    Same,
    Refused,
}

/// Runs all examples of a page; gives those that are not as it says, in words, and how many there are.
pub fn check(tester: &mut Tester, page: &str) -> Result<(Vec<String>, usize)> {
    tester.clear()?;
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (promise, statement) in statements(page) {
        count += 1;
        let words = statement.split_whitespace().next().unwrap_or_default().to_uppercase();
        let controls = ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"].contains(&words.as_str());
        let ordered = statement.to_uppercase().contains(" ORDER BY ") && !statement.to_uppercase().contains("OVER (");
        let terms = Terms { ordered, inexact: true, strict: true };
        let step = tester.step(&Drawn {
            tree: Tree::words(statement),
            terms,
            changes: Vec::new(),
            controls,
            is_look: false,
        })?;
        let kept = match promise {
            Promise::Tables | Promise::Same => step.verdict == Verdict::Same,
            Promise::Refused => step.verdict == Verdict::Refused,
        };
        if !kept {
            wrong.push(format!(
                "{statement}\n  said to be {promise:?}\n  ours:   {}\n  theirs: {}",
                step.ours, step.theirs
            ));
        }
    }
    if count == 0 {
        return Err(Error::Io(std::io::Error::other("the page has no examples")));
    }
    Ok((wrong, count))
}

fn statements(page: &str) -> Vec<(Promise, &str)> {
    let mut found = Vec::new();
    for (name, promise) in [("tables", Promise::Tables), ("same", Promise::Same), ("refused", Promise::Refused)] {
        let fence = format!("```sql {name}\n");
        for (at, _) in page.match_indices(&fence) {
            let body = &page[at + fence.len()..];
            let body = body.split("\n```").next().unwrap_or_default();
            let mut place = at;
            for statement in body.split(";\n") {
                place += 1;
                found.push((place, promise, statement.trim().trim_end_matches(';')));
            }
        }
    }
    // As they stand on the page.
    found.sort_by_key(|(place, ..)| *place);
    found
        .into_iter()
        .filter(|(.., statement)| !statement.is_empty())
        .map(|(_, promise, text)| (promise, text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_found_in_their_order() {
        let page = "```sql refused\nA;\nB\n C;\n```\n```sql\nno;\n```\n```sql same\nD;\n```\n";
        assert_eq!(statements(page), [(Promise::Refused, "A"), (Promise::Refused, "B\n C"), (Promise::Same, "D")]);
    }
}
