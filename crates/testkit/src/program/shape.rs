//! What programs look like, and how they are drawn.

use std::ops::RangeInclusive;

use ishigaki_base::random::Seed;

use super::{Program, Step};
use crate::history::Key;

/// What programs look like. The defaults make short, dense histories: nearly every transaction meets another.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Keys are drawn from `0..keys`.
    pub keys: u64,
    /// How many sessions run beside each other.
    pub sessions: usize,
    /// Transactions of each session.
    pub transactions: RangeInclusive<usize>,
    /// Steps of each transaction.
    pub steps: RangeInclusive<usize>,
    /// How often each step comes up, relative to the others: read, put, insert, delete, scan.
    pub weights: [u32; 5],
    /// One transaction in this many rolls back on its own; 0 means none.
    pub rollback_every: u32,
    /// One transaction in this many only reads, on a snapshot; 0 means none.
    pub snapshot_every: u32,
    /// One transaction in this many takes some of its writes back; 0 means none.
    pub undo_every: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            keys: 6,
            sessions: 3,
            transactions: 2..=5,
            steps: 1..=5,
            weights: [3, 3, 2, 2, 2],
            rollback_every: 10,
            snapshot_every: 0,
            undo_every: 0,
        }
    }
}

impl Shape {
    /// The programs of each session; always the same for the same seed.
    pub fn draw(&self, seed: Seed) -> Vec<Vec<Program>> {
        let mut random = seed.generator();
        (0..self.sessions)
            .map(|_| {
                let transactions = random.usize(self.transactions.clone());
                (0..transactions).map(|_| self.program(&mut random)).collect()
            })
            .collect()
    }

    fn program(&self, random: &mut fastrand::Rng) -> Program {
        let mut one_in = |many: u32| many != 0 && random.u32(0..many) == 0;
        let on_snapshot = one_in(self.snapshot_every);
        let commits = !one_in(self.rollback_every);
        let weights = if on_snapshot { [1, 0, 0, 0, 1] } else { self.weights };
        let steps = random.usize(self.steps.clone());
        let undoes = !on_snapshot && self.undo_every != 0 && random.u32(0..self.undo_every) == 0;
        let (mut drawn, mut savepoints) = (Vec::new(), 0);
        for _ in 0..steps {
            if undoes && random.u32(0..2) == 0 {
                self.detour(&mut drawn, &mut savepoints, random);
            }
            drawn.push(self.step(weights, random));
        }
        Program { steps: drawn, commits, on_snapshot }
    }

    /// A key is written and that is taken back: to a savepoint, to an older one than there is need for, or as a statement that
    /// fails. Before and behind it the key is often looked at.
    fn detour(&self, steps: &mut Vec<Step>, savepoints: &mut usize, random: &mut fastrand::Rng) {
        let key = random.u64(0..self.keys);
        steps.extend(self.look(key, random));
        let mut undone = vec![match random.u32(0..4) {
            0 | 1 => Step::Put(key),
            2 => Step::Insert(key),
            _ => Step::Delete(key),
        }];
        undone.extend((0..random.usize(0..=2)).map(|_| self.step(self.weights, random)));
        if random.u32(0..3) == 0 {
            steps.push(Step::Failing(undone));
        } else {
            steps.push(Step::Savepoint);
            steps.append(&mut undone);
            let back = if random.u32(0..4) == 0 { random.usize(0..=*savepoints) } else { *savepoints };
            steps.push(Step::RollBack(back));
            *savepoints = back + 1;
        }
        steps.extend(self.look(key, random));
    }

    /// A look at a key, in one of two cases.
    fn look(&self, key: Key, random: &mut fastrand::Rng) -> Option<Step> {
        match random.u32(0..4) {
            0 => Some(Step::Read(key)),
            1 => Some(Step::Scan(random.u64(0..=key)..random.u64(key + 1..=self.keys))),
            _ => None,
        }
    }

    fn step(&self, weights: [u32; 5], random: &mut fastrand::Rng) -> Step {
        let mut draw = random.u32(0..weights.iter().sum());
        let mut kind = 0;
        while draw >= weights[kind] {
            draw -= weights[kind];
            kind += 1;
        }
        let key = random.u64(0..self.keys);
        match kind {
            0 => Step::Read(key),
            1 => Step::Put(key),
            2 => Step::Insert(key),
            3 => Step::Delete(key),
            _ => Step::Scan(key..random.u64(key + 1..=self.keys)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_programs() {
        let shape = Shape::default();
        assert_eq!(shape.draw(Seed(7)), shape.draw(Seed(7)));
        assert_ne!(shape.draw(Seed(7)), shape.draw(Seed(8)));
    }

    #[test]
    fn programs_for_snapshots_only_read() {
        let shape = Shape { snapshot_every: 3, transactions: 200..=200, ..Shape::default() };
        let programs: Vec<_> = shape.draw(Seed(1)).into_iter().flatten().collect();
        let on_snapshot = || programs.iter().filter(|program| program.on_snapshot);
        assert!((100..300).contains(&on_snapshot().count()));
        let reads = |step: &Step| matches!(step, Step::Read(_) | Step::Scan(_));
        assert!(on_snapshot().flat_map(|program| &program.steps).all(reads));
    }

    #[test]
    fn every_kind_of_step_comes_up_within_the_keys() {
        let shape = Shape { transactions: 200..=200, ..Shape::default() };
        let steps: Vec<Step> = shape.draw(Seed(1)).into_iter().flatten().flat_map(|program| program.steps).collect();
        let mut kinds = [false; 5];
        for step in &steps {
            let (kind, key) = match step {
                Step::Read(key) => (0, *key),
                Step::Put(key) => (1, *key),
                Step::Insert(key) => (2, *key),
                Step::Delete(key) => (3, *key),
                Step::Scan(range) => {
                    assert!(range.start < range.end && range.end <= shape.keys);
                    (4, range.start)
                }
                Step::Savepoint | Step::RollBack(_) | Step::Failing(_) => {
                    panic!("nothing is to be taken back: {step:?}")
                }
            };
            kinds[kind] = true;
            assert!(key < shape.keys);
        }
        assert_eq!(kinds, [true; 5]);
    }

    #[test]
    fn programs_go_back_only_to_savepoints_that_are_there() {
        let shape = Shape { transactions: 1000..=1000, undo_every: 2, snapshot_every: 3, ..Shape::default() };
        let (mut back, mut older, mut failing) = (0, 0, 0);
        for program in shape.draw(Seed(1)).into_iter().flatten() {
            let mut savepoints = 0;
            for step in &program.steps {
                match step {
                    Step::Savepoint => savepoints += 1,
                    Step::RollBack(to) => {
                        assert!(*to < savepoints, "{program:?}");
                        older += usize::from(*to + 1 < savepoints);
                        savepoints = to + 1;
                        back += 1;
                    }
                    Step::Failing(_) => failing += 1,
                    _ => {}
                }
            }
            assert!(!program.on_snapshot || savepoints == 0);
        }
        assert!(back > 100 && older > 10 && failing > 50, "{back} {older} {failing}");
    }
}
