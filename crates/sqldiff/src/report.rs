//! What the tester has to say: how much it did, and a difference as scripts that show it.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

use ishigaki_base::random::Seed;

use crate::value::Answer;

/// How much was tested.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Statements that both sides were asked.
    pub statements: u64,
    /// Statements that ours refused by name.
    pub refused: u64,
    /// Statements that failed on both sides, in the same class.
    pub failed: u64,
    /// Statements that only one side failed at, where SQL leaves open whether it must.
    pub doubtful: u64,
    /// Differences that are kept on purpose.
    pub kept: u64,
    /// Errors here where the rival answers, by their first words: how many, and the first one's episode and statement.
    pub failures: BTreeMap<String, (u64, String)>,
    /// Differences that are known faults, by what they are.
    pub open: BTreeMap<&'static str, u64>,
    /// Episodes.
    pub episodes: u64,
    /// By the first words of the refusal.
    pub refusals: BTreeMap<String, u64>,
    /// The time it took.
    pub took: Duration,
}

impl Tally {
    pub(crate) fn refuse(&mut self, message: &str) {
        self.refused += 1;
        *self.refusals.entry(first_words(message)).or_default() += 1;
    }

    pub(crate) fn fail(&mut self, message: &str, seed: Seed, statement: &str) {
        let example = || (0, format!("{seed}: {statement}"));
        self.failures.entry(first_words(message)).or_insert_with(example).0 += 1;
    }

    /// The share of statements that were refused.
    pub fn refused_share(&self) -> f64 {
        self.refused as f64 / self.statements.max(1) as f64
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |count: u64| 100.0 * count as f64 / self.statements.max(1) as f64;
        write!(
            f,
            "{} statements in {} episodes, {:.0} a second; refused here {:.1} %, failed on both sides {:.1} %, doubtful \
             {:.1} %, kept on purpose {:.2} %",
            self.statements,
            self.episodes,
            self.statements as f64 / self.took.as_secs_f64().max(1e-9),
            percent(self.refused),
            percent(self.failed),
            percent(self.doubtful),
            percent(self.kept),
        )?;
        for (what, count) in &self.open {
            write!(f, "\n    known and not mended, {count} times: {what}")?;
        }
        for (message, (count, example)) in most(&self.failures, |(count, _)| *count) {
            write!(f, "\n    failed here alone {count} times: {message}\n        {example}")?;
        }
        for (message, count) in most(&self.refusals, |count| *count) {
            write!(f, "\n    refused {count} times: {message}")?;
        }
        Ok(())
    }
}

/// The most frequent ones.
fn most<T>(counted: &BTreeMap<String, T>, count: impl Fn(&T) -> u64) -> Vec<(&String, &T)> {
    let mut counted: Vec<_> = counted.iter().collect();
    counted.sort_by_key(|(_, one)| std::cmp::Reverse(count(one)));
    counted.truncate(12);
    counted
}

fn first_words(message: &str) -> String {
    let start: String = message.chars().take(110).collect();
    start.split([';', '\n']).next().unwrap_or_default().to_owned()
}

/// A difference, shrunk.
#[derive(Clone, Debug)]
pub struct Difference {
    pub(crate) seed: Seed,
    pub(crate) kind: &'static str,
    /// Statements as ours was asked them, and as theirs.
    pub(crate) script: Vec<(String, String)>,
    pub(crate) ours: Answer,
    pub(crate) theirs: Answer,
    /// The statement that shows it, before it was shrunk, and how many went before it.
    pub(crate) statement: String,
    pub(crate) number: u64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: seed {}, at statement {}", self.kind, self.seed, self.number)?;
        let script = |of: fn(&(String, String)) -> &String| {
            self.script.iter().fold(String::new(), |mut text, both| {
                let _ = writeln!(text, "{};", of(both));
                text
            })
        };
        let (ours, theirs) = (script(|both| &both.0), script(|both| &both.1));
        if ours == theirs {
            writeln!(f, "-- into `ishigaki sql --data DIR`, and into `psql`:\n{ours}")?;
        } else {
            writeln!(f, "-- into `ishigaki sql --data DIR`:\n{ours}\n-- into `psql`:\n{theirs}")?;
        }
        writeln!(f, "ours:   {}", self.ours)?;
        writeln!(f, "theirs: {}", self.theirs)?;
        write!(f, "drawn as: {}", self.statement)
    }
}
