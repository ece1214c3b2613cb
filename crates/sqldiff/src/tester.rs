//! Plays episodes on both sides and compares what they say.

use std::time::{Duration, Instant};

use ishigaki_base::random::Seed;

use crate::compare::{Terms, Verdict, compare};
use crate::divergences::{Seen, known};
use crate::generate::schema::{self, Table};
use crate::generate::view;
use crate::generate::{Drawn, Generator};
use crate::report::{Difference, Tally};
use crate::shrink;
use crate::tree::{Places, Side, Sort, Tree, tree};
use crate::value::Answer;
use crate::{Ours, Result, Theirs};

/// How many statements an episode has after its tables were filled.
const STATEMENTS: usize = 40;

/// By which the draws of views are told from others.
const VIEWS: u64 = 0x7669_6577;

/// Both sides, and what has been tested.
#[derive(Debug)]
pub struct Tester {
    pub(crate) ours: Ours,
    theirs: Theirs,
    tally: Tally,
    began: Instant,
    /// What a script is made smaller in.
    patience: Duration,
}

/// What came of one statement.
pub(crate) struct Step {
    pub(crate) verdict: Verdict,
    pub(crate) ours: Answer,
    pub(crate) theirs: Answer,
}

impl Step {
    /// By which a shrunk script is known to show the same difference.
    pub(crate) fn signature(&self) -> (String, String) {
        let of = |answer: &Answer| match answer {
            Answer::Failed(class, _) => format!("{class:?}"),
            Answer::Refused(_) => "refused".to_owned(),
            Answer::Rows(_) => "rows".to_owned(),
            Answer::Changed(_) => "changed".to_owned(),
        };
        (of(&self.ours), of(&self.theirs))
    }
}

impl Tester {
    /// Over two sides that are there. To make a script smaller may take `patience`.
    pub fn new(ours: Ours, theirs: Theirs, patience: Duration) -> Self {
        Self { ours, theirs, tally: Tally::default(), began: Instant::now(), patience }
    }

    /// How much was tested up to now.
    pub fn tally(&self) -> Tally {
        Tally { took: self.began.elapsed(), ..self.tally.clone() }
    }

    /// Plays the episode of a seed; gives the first difference, shrunk.
    pub fn episode(&mut self, seed: Seed) -> Result<Option<Difference>> {
        self.tally.episodes += 1;
        let mut random = seed.generator();
        let (mut tables, setup) = schema::draw(&mut random);
        self.clear()?;
        let mut script: Vec<Drawn> = setup.into_iter().map(|tree| Drawn::plain(tree, Vec::new())).collect();
        for drawn in script.clone() {
            let step = self.step(&drawn)?;
            if step.verdict != Verdict::Same {
                // What is left of a table that one side has not filled is no ground for a comparison.
                return self.judge(seed, &script, &step);
            }
        }
        // With draws of their own: what is drawn without views is what was drawn before there were any.
        let mut of_views = seed.derive(VIEWS).generator();
        if let Some(difference) = self.views(seed, &mut of_views, &mut tables, &mut script)? {
            return Ok(Some(difference));
        }
        let mut generator = Generator::new(&mut random, &tables);
        for _ in 0..STATEMENTS {
            let drawn = generator.statement();
            script.push(drawn.clone());
            let step = self.step(&drawn)?;
            self.count(&step);
            match step.verdict {
                Verdict::Same => {
                    for table in &drawn.changes {
                        let all = whole(table);
                        let step = self.step(&all)?;
                        if step.verdict != Verdict::Same {
                            script.push(all);
                            return self.judge(seed, &script, &step);
                        }
                    }
                }
                Verdict::Refused => {
                    script.pop();
                }
                // The sides may have different rows now.
                Verdict::Doubtful if !drawn.changes.is_empty() => return Ok(None),
                Verdict::Doubtful => {}
                Verdict::Different(_) => {
                    if let Some(difference) = self.judge(seed, &script, &step)? {
                        return Ok(Some(difference));
                    }
                    if !drawn.changes.is_empty() {
                        return Ok(None);
                    }
                }
            }
        }
        if tables.iter().any(|table| table.view) {
            for drawn in view::ends(&tables, &mut of_views) {
                script.push(drawn.clone());
                let step = self.step(&drawn)?;
                self.count(&step);
                if step.verdict != Verdict::Same {
                    return self.judge(seed, &script, &step);
                }
            }
        }
        Ok(None)
    }

    /// Makes views in some episodes, which are tables to the statements after that.
    fn views(
        &mut self,
        seed: Seed,
        random: &mut fastrand::Rng,
        tables: &mut Vec<Table>,
        script: &mut Vec<Drawn>,
    ) -> Result<Option<Difference>> {
        for number in 0..[0, 0, 1, 3][random.usize(..4)] {
            let (drawn, view) = Generator::new(random, tables).view(&format!("v{number}"));
            let step = self.step(&drawn)?;
            self.count(&step);
            match (&step.verdict, &step.ours) {
                (Verdict::Same, Answer::Changed(_)) => {
                    script.push(drawn);
                    tables.push(view);
                }
                // On neither side.
                (Verdict::Same | Verdict::Refused, _) => {}
                _ => {
                    script.push(drawn);
                    if let Some(difference) = self.judge(seed, script, &step)? {
                        return Ok(Some(difference));
                    }
                    script.pop();
                    self.theirs.run(&format!("DROP VIEW IF EXISTS v{number}"))?;
                    self.ours.run(&format!("DROP VIEW IF EXISTS v{number}"));
                }
            }
        }
        Ok(None)
    }

    fn count(&mut self, step: &Step) {
        self.tally.statements += 1;
        match (&step.verdict, &step.ours) {
            (Verdict::Refused, Answer::Refused(message)) => self.tally.refuse(message),
            (Verdict::Doubtful, _) => self.tally.doubtful += 1,
            (Verdict::Same, Answer::Failed(..)) => self.tally.failed += 1,
            _ => {}
        }
    }

    /// A difference, unless it is one that is kept.
    fn judge(&mut self, seed: Seed, script: &[Drawn], step: &Step) -> Result<Option<Difference>> {
        let Verdict::Different(kind) = step.verdict else { return Ok(None) };
        // What is in a table comes of the change before.
        let last = script.len() - 1 - usize::from(script.last().is_some_and(|drawn| drawn.is_look) && script.len() > 1);
        let statement: Vec<String> =
            script[last..].iter().map(|drawn| drawn.tree.sql(Side::Ours(&Places::shown()))).collect();
        let statement = statement.join("; ");
        let views = views(script);
        let found = Seen { statement: &statement, views: &views, ours: &step.ours, theirs: &step.theirs };
        if let Some((kept, open)) = known(&found) {
            if open {
                *self.tally.open.entry(kept.what).or_default() += 1;
                if let Answer::Failed(_, message) = &step.ours {
                    self.tally.fail(message, seed, &[views.as_str(), &statement].join("; "));
                }
            } else {
                self.tally.kept += 1;
            }
            return Ok(None);
        }
        let number = self.tally.statements;
        let (script, step) = shrink::shrink(self, script.to_vec(), step, self.patience)?;
        let script = script
            .iter()
            .map(|drawn| (drawn.tree.sql(Side::Ours(&Places::shown())), drawn.tree.sql(Side::Theirs)))
            .collect();
        Ok(Some(Difference { seed, kind, script, ours: step.ours, theirs: step.theirs, statement, number }))
    }

    /// Plays a whole script from nothing; gives the last step, or the first that is not the same on both sides.
    pub(crate) fn play(&mut self, script: &[Drawn]) -> Result<Option<Step>> {
        self.clear()?;
        let mut last = None;
        let mut before = String::new();
        for drawn in script {
            let step = self.step(drawn)?;
            let statement = drawn.tree.sql(Side::Ours(&Places::shown()));
            let statement = if drawn.is_look { format!("{before}; {statement}") } else { statement };
            before.clone_from(&statement);
            if let Verdict::Different(_) = step.verdict {
                let views = views(script);
                let seen = Seen { statement: &statement, views: &views, ours: &step.ours, theirs: &step.theirs };
                if known(&seen).is_none() {
                    return Ok(Some(step));
                }
            }
            last = Some(step);
        }
        Ok(last)
    }

    pub(crate) fn clear(&mut self) -> Result<()> {
        self.theirs.clear()?;
        self.ours.clear()
    }

    /// Asks both sides a statement. What ours refuses, theirs is not asked, so that both have the same rows.
    pub(crate) fn step(&mut self, drawn: &Drawn) -> Result<Step> {
        let statement = drawn.tree.sql(Side::Ours(&self.ours.places()));
        let ours = self.ours.run(&statement);
        let statement = drawn.tree.sql(Side::Theirs);
        let theirs = match &ours {
            Answer::Refused(_) => Answer::Changed(None),
            _ if drawn.controls => self.theirs.run(&statement)?,
            _ => self.theirs.run_as_ours(&statement)?,
        };
        Ok(Step { verdict: compare(&ours, &theirs, drawn.terms), ours, theirs })
    }
}

impl Drawn {
    pub(crate) fn plain(tree: Tree, changes: Vec<String>) -> Self {
        Self { tree, terms: Terms { strict: true, ..Terms::default() }, changes, controls: false, is_look: false }
    }
}

/// A query for all that is in a table.
pub(crate) fn whole(table: &str) -> Drawn {
    let drawn = Drawn::plain(tree!(Sort::Words; format!("SELECT * FROM {table}")), Vec::new());
    Drawn { is_look: true, ..drawn }
}

/// The names of the tables among these.
pub(crate) fn names(tables: &[Table]) -> Vec<String> {
    tables.iter().filter(|table| !table.view).map(|table| table.name.clone()).collect()
}

/// The views that a script makes.
fn views(script: &[Drawn]) -> String {
    let all = script.iter().map(|drawn| drawn.tree.sql(Side::Theirs));
    all.filter(|sql| sql.starts_with("CREATE VIEW")).collect::<Vec<_>>().join("; ")
}
