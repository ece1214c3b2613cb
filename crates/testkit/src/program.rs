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
//!     type Savepoint = BTreeMap<Key, Vec<u8>>;
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
//!     fn savepoint(&mut self) -> Result<Self::Savepoint, Infallible> {
//!         Ok(self.0.clone())
//!     }
//!     fn roll_back_to(&mut self, savepoint: &Self::Savepoint) -> Result<(), Infallible> {
//!         self.0.clone_from(savepoint);
//!         Ok(())
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

mod shape;

use std::ops::Range;

use crate::history::{Key, Trace, TraceSavepoint};
pub use shape::Shape;

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
    /// Take a savepoint.
    Savepoint,
    /// Go back to a savepoint: the one of that number among those that there are, from the oldest on. It stays; those behind
    /// it are gone.
    RollBack(usize),
    /// A statement of several steps that fails: all that it has written is taken back at once.
    Failing(Vec<Self>),
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
    /// A moment to go back to.
    type Savepoint;

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
    /// Takes a savepoint.
    fn savepoint(&mut self) -> Result<Self::Savepoint, Self::Error>;
    /// Takes back all that was written since then.
    fn roll_back_to(&mut self, savepoint: &Self::Savepoint) -> Result<(), Self::Error>;
}

/// The savepoints of one transaction, the engine's and the trace's.
#[derive(Debug)]
pub struct Savepoints<S>(Vec<(S, TraceSavepoint)>);

impl<S> Default for Savepoints<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl Program {
    /// Executes the steps on `target` and records them in `trace`. What came of it at the end is the caller's to record:
    /// [`Trace::commit`] after the engine's commit returned, [`Trace::abort`] (or a drop) in every other case.
    pub fn run<T: Target>(&self, target: &mut T, trace: &mut Trace<'_>) -> Result<(), T::Error> {
        let mut savepoints = Savepoints::default();
        self.steps.iter().try_for_each(|step| step.run(target, trace, &mut savepoints))
    }
}

impl Step {
    /// Executes one step of a transaction that has these savepoints. [`Program::run`] runs all steps of a program so.
    ///
    /// # Panics
    ///
    /// When it goes back to a savepoint that is not there.
    pub fn run<T: Target>(
        &self,
        target: &mut T,
        trace: &mut Trace<'_>,
        savepoints: &mut Savepoints<T::Savepoint>,
    ) -> Result<(), T::Error> {
        match self {
            Self::Read(key) => {
                let value = target.read(*key)?;
                trace.read(*key, value.as_deref());
            }
            // A write is recorded before it is made: even one that fails may, in a broken engine, be seen by others.
            Self::Put(key) => {
                let value = trace.write(*key);
                target.put(*key, &value)?;
            }
            Self::Insert(key) => {
                let value = trace.next_value();
                let inserted = target.insert(*key, &value)?;
                trace.exists(*key, !inserted);
                if inserted {
                    trace.write(*key);
                }
            }
            Self::Delete(key) => {
                let found = target.delete(*key)?;
                trace.exists(*key, found);
                if found {
                    trace.delete(*key);
                }
            }
            Self::Scan(range) => {
                let rows = target.scan(range.clone())?;
                trace.scan(range.clone(), rows.iter().map(|(key, value)| (*key, value.as_slice())));
            }
            Self::Savepoint => savepoints.0.push((target.savepoint()?, trace.savepoint())),
            Self::RollBack(number) => {
                savepoints.0.truncate(number + 1);
                let (engines, traces) = &savepoints.0[*number];
                target.roll_back_to(engines)?;
                trace.roll_back_to(*traces);
            }
            Self::Failing(steps) => {
                let before = (target.savepoint()?, trace.savepoint());
                steps.iter().try_for_each(|step| step.run(target, trace, savepoints))?;
                target.roll_back_to(&before.0)?;
                trace.roll_back_to(before.1);
            }
        }
        Ok(())
    }
}
