//! Random SQL on both sides, for a fixed time.

use std::time::{Duration, Instant};

use ishigaki_base::random::Seed;
use ishigaki_sqldiff::{Difference, Ours, Tally, Tester, Theirs, alone};
use ishigaki_testkit::chosen_seed;

/// A number from the environment: `ISHIGAKI_SQLDIFF_SECONDS` is how long a test draws, `…_SHRINK` how many seconds it makes a
/// script smaller in, `…_ENOUGH` after how many differences it stops looking for others.
fn chosen(name: &str, default: u64) -> u64 {
    let text = std::env::var(format!("ISHIGAKI_SQLDIFF_{name}"));
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// The root of the test command's seeds: its verdict on a tree is the same each time. The long test draws others.
const ROOT: Seed = Seed(0x6973_6869_6761_6b69);

/// Seeds one after the other, or the chosen one alone.
fn seeds(seconds: u64, root: Seed) -> impl Iterator<Item = Seed> {
    let time = Duration::from_secs(chosen("SECONDS", seconds));
    let (chosen, began) = (chosen_seed(), Instant::now());
    let mut number = 0;
    println!("root seed {root}");
    std::iter::from_fn(move || {
        number += 1;
        match chosen {
            Some(seed) => (number == 1).then_some(seed),
            None => (began.elapsed() < time).then(|| root.derive(number)),
        }
    })
}

fn compare_for(seconds: u64, root: Seed, name: &str) {
    let theirs = match Theirs::start() {
        Ok(theirs) => theirs,
        Err(error) if error.is_absence() => {
            println!("SKIPPED: {name}: there is no PostgreSQL to compare with: {error}");
            eprintln!("SKIPPED: {name}: there is no PostgreSQL to compare with: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let mut tester =
        Tester::new(Ours::open().expect("our side opens"), theirs, Duration::from_secs(chosen("SHRINK", 40)));
    let mut found: Vec<Difference> = Vec::new();
    for seed in seeds(seconds, root) {
        if let Some(difference) = tester.episode(seed).expect("both sides answer") {
            println!("{difference}\nreplay: ISHIGAKI_SEED={seed} cargo test -p ishigaki-sqldiff {name}\n");
            found.push(difference);
        }
        if found.len() as u64 >= chosen("ENOUGH", 8) {
            break;
        }
    }
    println!("{}", tester.tally());
    assert!(found.is_empty(), "{} differences from PostgreSQL, printed above", found.len());
}

#[test]
fn answers_are_those_of_postgresql() {
    compare_for(60, ROOT, "answers_are_those_of_postgresql");
}

#[test]
#[ignore = "takes as long as ISHIGAKI_SQLDIFF_SECONDS says, an hour if it says nothing"]
fn answers_are_those_of_postgresql_for_hours() {
    compare_for(3600, Seed::from_entropy(), "answers_are_those_of_postgresql_for_hours");
}

#[test]
fn a_condition_its_not_and_its_null_part_the_rows() {
    let mut ours = Ours::open().expect("our side opens");
    let mut tally = Tally::default();
    let began = Instant::now();
    for seed in seeds(15, ROOT) {
        let wrong = alone::episode(&mut ours, seed, &mut tally).expect("our side answers");
        if let Some(wrong) = wrong {
            panic!("{wrong}\nreplay: ISHIGAKI_SEED={seed} cargo test -p ishigaki-sqldiff a_condition_its_not");
        }
    }
    tally.took = began.elapsed();
    println!("{tally}");
}
