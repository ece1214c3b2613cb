//! What the tables must be: the transactions that are there, applied in the order of their LSNs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use ishigaki_base::Lsn;
use ishigaki_txn::Database;
use ishigaki_wal::CommitRule;

/// All tables by name, with all their keys.
pub(crate) type Tables = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// What one step of a transaction did.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Create(String),
    Drop(String),
    Put(String, Vec<u8>, Vec<u8>),
    Delete(String, Vec<u8>),
}

/// The table in which every transaction leaves a mark of its own, so that a database tells which of them it has.
pub(crate) const MARKS: &str = "marks";

/// The transactions whose commit returned, and which of them were acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    rule: CommitRule,
    committed: BTreeMap<Lsn, Committed>,
    acknowledged: BTreeSet<Lsn>,
    /// Marks given out: what failed may be there all the same, so none is used again.
    marks: u32,
}

#[derive(Clone, Debug)]
struct Committed {
    /// Its key in [`MARKS`]; none for the transaction that made that table.
    mark: Option<Vec<u8>>,
    effects: Vec<Effect>,
}

impl Model {
    /// Of a database whose log acknowledges by that rule.
    pub(crate) fn new(rule: CommitRule) -> Self {
        Self { rule, committed: BTreeMap::new(), acknowledged: BTreeSet::new(), marks: 0 }
    }

    /// A mark for one more transaction.
    pub(crate) fn next_mark(&mut self, random: &mut fastrand::Rng) -> Vec<u8> {
        self.marks += 1;
        [&random.u64(..).to_be_bytes()[..], &self.marks.to_be_bytes()].concat()
    }

    pub(crate) fn commit(&mut self, lsn: Lsn, mark: Option<Vec<u8>>, effects: Vec<Effect>) {
        let before = self.committed.insert(lsn, Committed { mark, effects });
        assert!(before.is_none(), "two transactions committed as {lsn}");
    }

    /// How many transactions committed.
    pub(crate) fn commits(&self) -> usize {
        self.committed.len()
    }

    /// Adds what another thread did.
    pub(crate) fn merge(&mut self, other: Self) {
        for (lsn, Committed { mark, effects }) in other.committed {
            self.commit(lsn, mark, effects);
        }
        other.acknowledged.into_iter().for_each(|lsn| self.acknowledge(lsn));
    }

    /// A transaction has been promised to somebody; by the watermark's rule all before it as well.
    pub(crate) fn acknowledge(&mut self, lsn: Lsn) {
        self.acknowledged.insert(lsn);
        if self.rule == CommitRule::Watermark {
            self.acknowledged.extend(self.committed.range(..=lsn).map(|(&lsn, _)| lsn));
        }
    }

    /// The tables after the transactions that `kept` says.
    fn tables(&self, kept: impl Fn(Lsn, &Committed) -> bool) -> Tables {
        let mut tables = Tables::new();
        let kept = self.committed.iter().filter(|&(&lsn, committed)| kept(lsn, committed));
        for effect in kept.flat_map(|(_, committed)| &committed.effects) {
            match effect {
                Effect::Create(name) => assert!(tables.insert(name.clone(), BTreeMap::new()).is_none()),
                Effect::Drop(name) => assert!(tables.remove(name).is_some()),
                Effect::Put(name, key, value) => {
                    tables.get_mut(name).unwrap().insert(key.clone(), value.clone());
                }
                Effect::Delete(name, key) => assert!(tables.get_mut(name).unwrap().remove(key).is_some()),
            }
        }
        tables
    }

    /// The tables after all transactions.
    pub(crate) fn all(&self) -> Tables {
        self.tables(|_, _| true)
    }

    /// Checks a database that was opened after a crash: everything acknowledged is there whole, nothing is there in part.
    /// What it shows is what counts from here on: it may have been seen, so it must never go away, and what is missing must
    /// never come back.
    pub(crate) fn check(&mut self, database: &Database) {
        let kept = self.check_state(database);
        for lsn in &self.acknowledged {
            assert!(kept.contains(lsn), "transaction {lsn} was acknowledged and is not there");
        }
        self.committed.retain(|lsn, _| kept.contains(lsn));
        self.acknowledged = kept;
    }

    /// Checks that a database shows exactly the state after the transactions whose marks it has, in the order of their
    /// LSNs, whatever was acknowledged; returns those.
    pub(crate) fn check_state(&self, database: &Database) -> BTreeSet<Lsn> {
        let shown = read_all(database);
        let is_kept = |committed: &Committed| match (shown.get(MARKS), &committed.mark) {
            (Some(marks), Some(mark)) => marks.contains_key(mark),
            (marks, _) => marks.is_some(),
        };
        let expected = self.tables(|_, committed| is_kept(committed));
        assert!(shown == expected, "{}", first_difference(&shown, &expected));
        let kept: BTreeSet<Lsn> =
            self.committed.iter().filter(|(_, committed)| is_kept(committed)).map(|(&lsn, _)| lsn).collect();
        if self.rule == CommitRule::Watermark {
            let cut = database.recovery().log.cut;
            assert!(self.committed.range(..=cut).map(|(lsn, _)| lsn).eq(&kept), "not all up to {cut} are there");
        }
        kept
    }
}

/// Reads every table.
pub(crate) fn read_all(database: &Database) -> Tables {
    let mut txn = database.session().begin().unwrap();
    let mut tables = Tables::new();
    for (name, id) in txn.tables().unwrap() {
        let mut rows = BTreeMap::new();
        txn.scan(id, (Bound::Unbounded, Bound::Unbounded), |key, value| {
            assert_eq!(rows.insert(key.to_vec(), value.to_vec()), None, "a key is shown twice");
            ControlFlow::Continue(())
        })
        .unwrap();
        tables.insert(name, rows);
    }
    tables
}

fn first_difference(shown: &Tables, expected: &Tables) -> String {
    if !shown.keys().eq(expected.keys()) {
        return format!("the tables are {:?}, not {:?}", shown.keys(), expected.keys());
    }
    for (name, rows) in expected {
        for key in rows.keys().chain(shown[name].keys()) {
            let (shown, expected) = (shown[name].get(key), rows.get(key));
            if shown != expected {
                let text = |value: Option<&Vec<u8>>| {
                    value.map(|value| value[..value.len().min(20)].escape_ascii().to_string())
                };
                let key = key.escape_ascii();
                return format!("{name}: {key} is {:?}, not {:?}", text(shown), text(expected));
            }
        }
    }
    "they are the same".to_owned()
}
