//! Makes a script that shows a difference smaller, as long as it shows that difference.

use std::time::{Duration, Instant};

use crate::compare::Verdict;
use crate::generate::Drawn;
use crate::tester::{Step, Tester};
use crate::tree::fewer;
use crate::{Result, tester};

/// The smallest script that was found in the time, and what its last statement gives.
pub(crate) fn shrink(
    tester: &mut Tester,
    script: Vec<Drawn>,
    seen: &Step,
    patience: Duration,
) -> Result<(Vec<Drawn>, Step)> {
    let until = Instant::now() + patience;
    let mut shrinker = Shrinker { tester, signature: (seen.verdict.clone(), seen.signature()), until };
    let mut script = script;
    let mut last = Step { verdict: seen.verdict.clone(), ours: seen.ours.clone(), theirs: seen.theirs.clone() };
    loop {
        let before = script.len();
        let mut again = shrinker.statements(&mut script, &mut last)?;
        for at in (0..script.len()).rev() {
            again |= shrinker.tree(&mut script, at, &mut last)?;
        }
        if !again && script.len() == before || Instant::now() > until {
            return Ok((script, last));
        }
    }
}

struct Shrinker<'a> {
    tester: &'a mut Tester,
    signature: (Verdict, (String, String)),
    until: Instant,
}

impl Shrinker<'_> {
    /// Leaves statements out, but for the last one.
    fn statements(&mut self, script: &mut Vec<Drawn>, last: &mut Step) -> Result<bool> {
        let mut changed = false;
        'again: loop {
            let Some((shows, before)) = script.split_last() else { return Ok(changed) };
            for mut rest in fewer(before, 0) {
                rest.push(shows.clone());
                if self.keeps(&rest, last)? {
                    *script = rest;
                    changed = true;
                    continue 'again;
                }
            }
            return Ok(changed);
        }
    }

    /// Makes one statement smaller.
    fn tree(&mut self, script: &mut Vec<Drawn>, at: usize, last: &mut Step) -> Result<bool> {
        let mut changed = false;
        'again: loop {
            for smaller in script[at].tree.smaller() {
                let mut candidate = script.clone();
                candidate[at].tree = smaller;
                if self.keeps(&candidate, last)? {
                    *script = candidate;
                    changed = true;
                    continue 'again;
                }
            }
            return Ok(changed);
        }
    }

    /// Whether a script shows the same difference.
    fn keeps(&mut self, script: &[Drawn], last: &mut Step) -> Result<bool> {
        if Instant::now() > self.until {
            return Ok(false);
        }
        let Some(step) = tester::Tester::play(self.tester, script)? else { return Ok(false) };
        let same = (step.verdict.clone(), step.signature()) == self.signature;
        if same {
            *last = step;
        }
        Ok(same)
    }
}
