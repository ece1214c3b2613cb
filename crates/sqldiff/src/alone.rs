//! Checks that need no rival: our own answers must fit together.

use ishigaki_base::random::Seed;

use crate::compare::{Terms, same_multisets};
use crate::generate::Generator;
use crate::generate::schema;
use crate::report::Tally;
use crate::tree::{Side, Tree};
use crate::value::{Answer, Row, Value};
use crate::{Ours, Result};

/// How many conditions an episode tries.
const CONDITIONS: usize = 12;

/// Plays an episode on our side alone: gives a sentence that says what does not fit together.
pub fn episode(ours: &mut Ours, seed: Seed, tally: &mut Tally) -> Result<Option<String>> {
    tally.episodes += 1;
    let mut random = seed.generator();
    let (tables, setup) = schema::draw(&mut random);
    ours.clear()?;
    let places = ours.places();
    let sql = |tree: &Tree| tree.sql(Side::Ours(&places));
    for tree in &setup {
        // A row that does not fit is not there; the others are.
        ours.run(&sql(tree));
    }
    let mut generator = Generator::new(&mut random, &tables);
    for _ in 0..CONDITIONS {
        let drawn = generator.selection();
        tally.statements += 1;
        if let Some(wrong) = check(ours, &sql(&drawn.columns), &sql(&drawn.from), &sql(&drawn.condition), tally) {
            let setup: Vec<String> = setup.iter().map(|tree| sql(tree) + ";").collect();
            return Ok(Some(format!("{wrong}\nseed {seed}; tables:\n{}", setup.join("\n"))));
        }
    }
    Ok(None)
}

/// `WHERE p`, `WHERE NOT p` and `WHERE p IS NULL` give all rows together; and `p` in the select list is as often true,
/// false and NULL as these have rows.
fn check(ours: &mut Ours, columns: &str, from: &str, condition: &str, tally: &mut Tally) -> Option<String> {
    let base = format!("SELECT {columns} FROM {from}");
    let mut ask = |sql: &str| match ours.run(sql) {
        Answer::Rows(rows) => Some(rows),
        Answer::Refused(message) => {
            tally.refuse(&message);
            None
        }
        _ => {
            tally.failed += 1;
            None
        }
    };
    let all = ask(&base)?;
    let mut parts: Vec<Row> = Vec::new();
    let mut counts = Vec::new();
    for part in [condition.to_owned(), format!("NOT ({condition})"), format!("({condition}) IS NULL")] {
        let rows = ask(&format!("{base} WHERE {part}"))?;
        counts.push(Value::Whole(rows.len().to_string()));
        parts.extend(rows);
    }
    if !same_multisets(&parts, &all, Terms::default()) {
        let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
        return Some(format!(
            "{base} has {} rows; with the condition, its NOT and its IS NULL there are {}:\n{condition}",
            all.len(),
            counts.join(" + ")
        ));
    }
    for rewritten in [
        format!(
            "SELECT count(*) FILTER (WHERE p), count(*) FILTER (WHERE NOT p), count(*) FILTER (WHERE p IS NULL) \
             FROM (SELECT {condition} AS p FROM {from}) AS q"
        ),
        format!(
            "SELECT coalesce(sum(CASE WHEN {condition} THEN 1 ELSE 0 END), 0), \
             coalesce(sum(CASE WHEN NOT ({condition}) THEN 1 ELSE 0 END), 0), \
             coalesce(sum(CASE WHEN ({condition}) IS NULL THEN 1 ELSE 0 END), 0) FROM {from}"
        ),
    ] {
        if let Some(rows) = ask(&rewritten)
            && rows != [counts.clone()]
        {
            let found = rows.first().map(|row| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "));
            let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
            return Some(format!(
                "a condition selects {} rows, and counted in the select list {}:\n{rewritten}",
                counts.join(" + "),
                found.unwrap_or_default()
            ));
        }
    }
    None
}
