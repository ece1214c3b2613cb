//! `docs/sql.md` says what is supported; here it is held to that.

use std::time::Duration;

use ishigaki_sqldiff::{KEPT, OPEN, Ours, Tester, Theirs, examples};

const PAGE: &str = include_str!("../../../docs/sql.md");

#[test]
fn every_example_of_the_page_about_sql_is_answered_as_it_says() {
    let theirs = match Theirs::start() {
        Ok(theirs) => theirs,
        Err(error) if error.is_absence() => {
            eprintln!("SKIPPED: every_example_of_the_page_about_sql_is_answered_as_it_says: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let mut tester = Tester::new(Ours::open().expect("our side opens"), theirs, Duration::ZERO);
    let (wrong, count) = examples::check(&mut tester, PAGE).expect("both sides answer");
    assert!(wrong.is_empty(), "{} of {count} examples are not as the page says:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn the_page_about_sql_shows_every_known_difference_with_its_reason() {
    for (list, heading) in [(KEPT, "## What differs on purpose"), (OPEN, "## Known faults")] {
        let section = PAGE.split(heading).nth(1).expect("the section is there");
        let section = section.split("\n## ").next().expect("a section");
        for kept in list {
            let row = format!("| {} | {} |", kept.what, kept.reason);
            assert!(section.contains(&row), "missing under {heading}: {row}");
        }
        let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Here |")).count();
        assert_eq!(rows, list.len(), "under {heading} the page shows what the list does not have");
    }
}
