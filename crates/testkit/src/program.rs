//! Small random transaction programs that know no engine, and how an engine executes them.
//!
//! [`Shape::draw`] makes the programs of several sessions from a seed. An engine implements [`Target`] for one of its open
//! transactions; [`Program::run`] then executes a program step by step and writes what happened into a
//! [`Trace`]. Few keys and short programs make conflicts likely and histories readable.
//!
//! ```
//! use ishigaki_base::random::Seed;
//! use ishigaki_testkit::history::{Key, Level, Recorder};
//! use ishigaki_testkit::program::{Program, Shape, Target};
//! use std::collections::BTreeMap;
//! use std::convert::Infallible;
//! use std::ops::Range;
//!
//! /// The smallest engine: one transaction at a time.
//! struct Serial<'a>(&'a mut BTreeMap<Key, Vec<u8>>);
//!
//! impl Target for Serial<'_> {
//!     type Error = Infallible;
//!     fn read(&mut self, key: Key) -> Result<Option<Vec<u8>>, Infallible> {
//!         Ok(self.0.get(&key).cloned())
//!     }
//!     fn put(&mut self, key: Key, value: &[u8]) -> Result<(), Infallible> {
//!         self.0.insert(key, value.to_vec());
//!         Ok(())
//!     }
//!     fn insert(&mut self, key: Key, value: &[u8]) -> Result<bool, Infallible> {
//!         let free = !self.0.contains_key(&key);
//!         self.0.entry(key).or_insert_with(|| value.to_vec());
//!         Ok(free)
//!     }
//!     fn delete(&mut self, key: Key) -> Result<bool, Infallible> {
//!         Ok(self.0.remove(&key).is_some())
//!     }
//!     fn scan(&mut self, range: Range<Key>) -> Result<Vec<(Key, Vec<u8>)>, Infallible> {
//!         Ok(self.0.range(range).map(|(key, value)| (*key, value.clone())).collect())
//!     }
//! }
//!
//! let recorder = Recorder::new();
//! let mut table = BTreeMap::new();
//! let mut lsn = 0;
//! for program in Shape::default().draw(Seed(1)).into_iter().flatten().filter(|program| program.commits) {
//!     let mut trace = recorder.begin();
//!     program.run(&mut Serial(&mut table), &mut trace).unwrap();
//!     lsn += 1;
//!     trace.commit(lsn); // a trace that is dropped counts as aborted
//! }
//! recorder.finish().check(Level::Strict).unwrap();
//! ```

use std::ops::{Range, RangeInclusive};

use ishigaki_base::random::Seed;

use crate::history::{Key, Trace};

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read a key.
    Read(Key),
    /// Insert or replace a key.
    Put(Key),
    /// Insert a key that must be absent; nothing happens when it is there.
    Insert(Key),
    /// Delete a key if it is there.
    Delete(Key),
    /// Read every key of a range.
    Scan(Range<Key>),
}

/// One transaction: what it does, and whether it means to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// False when it rolls back after its last step.
    pub commits: bool,
    /// True when it only reads, and is meant for a snapshot where the engine has them.
    pub on_snapshot: bool,
}

/// An engine's open transaction, as a program sees it. Values are opaque bytes that must come back as they went in.
pub trait Target {
    /// What the engine says when it can not go on, for example that the transaction conflicts.
    type Error;

    /// The value of `key`.
    fn read(&mut self, key: Key) -> Result<Option<Vec<u8>>, Self::Error>;
    /// Inserts or replaces.
    fn put(&mut self, key: Key, value: &[u8]) -> Result<(), Self::Error>;
    /// Inserts and answers true, or finds the key there, does nothing and answers false.
    fn insert(&mut self, key: Key, value: &[u8]) -> Result<bool, Self::Error>;
    /// Deletes, and answers whether the key was there.
    fn delete(&mut self, key: Key) -> Result<bool, Self::Error>;
    /// Every key of the range with its value, in ascending order.
    fn scan(&mut self, range: Range<Key>) -> Result<Vec<(Key, Vec<u8>)>, Self::Error>;
}

impl Program {
    /// Executes the steps on `target` and records them in `trace`. What came of it at the end is the caller's to record:
    /// [`Trace::commit`] after the engine's commit returned, [`Trace::abort`] (or a drop) in every other case.
    pub fn run<T: Target>(&self, target: &mut T, trace: &mut Trace<'_>) -> Result<(), T::Error> {
        for step in &self.steps {
            match step {
                Step::Read(key) => {
                    let value = target.read(*key)?;
                    trace.read(*key, value.as_deref());
                }
                // A write is recorded before it is made: even one that fails may, in a broken engine, be seen by others.
                Step::Put(key) => {
                    let value = trace.write(*key);
                    target.put(*key, &value)?;
                }
                Step::Insert(key) => {
                    let value = trace.next_value();
                    let inserted = target.insert(*key, &value)?;
                    trace.exists(*key, !inserted);
                    if inserted {
                        trace.write(*key);
                    }
                }
                Step::Delete(key) => {
                    let found = target.delete(*key)?;
                    trace.exists(*key, found);
                    if found {
                        trace.delete(*key);
                    }
                }
                Step::Scan(range) => {
                    let rows = target.scan(range.clone())?;
                    trace.scan(range.clone(), rows.iter().map(|(key, value)| (*key, value.as_slice())));
                }
            }
        }
        Ok(())
    }
}

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
        let steps = (0..steps).map(|_| self.step(weights, random)).collect();
        Program { steps, commits, on_snapshot }
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
            };
            kinds[kind] = true;
            assert!(key < shape.keys);
        }
        assert_eq!(kinds, [true; 5]);
    }
}
