//! A promise in the documents names the tests that hold it, and a test that was renamed holds nothing.

use std::collections::BTreeSet;

use super::finding::Finding;

/// The document whose promises are checked.
pub(crate) const DOCUMENT: &str = "docs/semantics.md";

/// Underscores from which on a name in code quotes is taken for a test's: a sentence has some words.
const SENTENCE: usize = 3;

/// The names of the functions that a source file defines.
pub(crate) fn functions(source: &str) -> impl Iterator<Item = &str> {
    source.split("fn ").skip(1).map(|rest| &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())])
}

/// Judges the document of promises, given all functions that there are.
pub(crate) fn check(text: &str, functions: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let quoted = text.split('`').skip(1).step_by(2);
        let tests = quoted.filter(|name| name.chars().all(is_name) && name.matches('_').count() >= SENTENCE);
        for test in tests.filter(|name| !functions.contains(*name)) {
            let what = format!("there is no test `{test}`");
            findings.push(Finding::error(DOCUMENT, line, what, "name the test that holds the promise, or write it"));
        }
    }
    findings
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> BTreeSet<String> {
        functions("#[test]\nfn nothing_is_ever_lost() {\n}\nfn helper<T>(t: T) {}\n").map(str::to_owned).collect()
    }

    #[test]
    fn functions_are_found_by_their_names() {
        assert_eq!(known().into_iter().collect::<Vec<_>>(), ["helper", "nothing_is_ever_lost"]);
    }

    #[test]
    fn a_promise_with_its_test_passes() {
        assert_eq!(check("| Safe. | `nothing_is_ever_lost` |", &known()), []);
    }

    #[test]
    fn a_promise_whose_test_is_gone_fails_with_its_line() {
        let findings = check("\n| Safe. | `nothing_was_ever_lost` |", &known());
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().starts_with("docs/semantics.md:2: error: there is no test"), "{}", findings[0]);
    }

    #[test]
    fn other_code_in_quotes_is_no_test() {
        assert_eq!(check("`Session::run`, `lock_wait`, `--memory`", &known()), []);
    }
}
