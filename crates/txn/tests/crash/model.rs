//! What the tables must be: the transactions that committed, applied in the order of their LSNs.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use ishigaki_base::Lsn;
use ishigaki_txn::Database;

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

/// The transactions whose commit returned, and how many of them were acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    committed: BTreeMap<Lsn, Vec<Effect>>,
    pub(crate) acknowledged: Lsn,
}

impl Model {
    pub(crate) fn commit(&mut self, lsn: Lsn, effects: Vec<Effect>) {
        assert!(self.committed.insert(lsn, effects).is_none(), "two transactions committed as {lsn}");
    }

    /// How many transactions committed.
    pub(crate) fn commits(&self) -> usize {
        self.committed.len()
    }

    /// Adds what another thread did.
    pub(crate) fn merge(&mut self, other: Self) {
        other.committed.into_iter().for_each(|(lsn, effects)| self.commit(lsn, effects));
        self.acknowledge(other.acknowledged);
    }

    /// Everything up to `lsn` has been promised to somebody.
    pub(crate) fn acknowledge(&mut self, lsn: Lsn) {
        self.acknowledged = self.acknowledged.max(lsn);
    }

    /// The tables after the transactions up to `cut`.
    pub(crate) fn tables(&self, cut: Lsn) -> Tables {
        let mut tables = Tables::new();
        for effect in self.committed.range(..=cut).flat_map(|(_, effects)| effects) {
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

    /// Checks a database that was opened after a crash: everything acknowledged is there whole, nothing is there in part.
    /// What it shows is what counts from here on: it may have been seen, so it must never go away, and what is missing must
    /// never come back.
    pub(crate) fn check(&mut self, database: &Database) {
        let cut = database.recovery().log.cut;
        assert!(cut >= self.acknowledged, "acknowledged up to {}, kept up to {cut}", self.acknowledged);
        self.check_state(database);
        self.committed.retain(|&lsn, _| lsn <= cut);
        self.acknowledged = cut;
    }

    /// Checks that a database shows exactly the state of its cut, whatever was acknowledged.
    pub(crate) fn check_state(&self, database: &Database) {
        let expected = self.tables(database.recovery().log.cut);
        let shown = read_all(database);
        assert!(shown == expected, "{}", first_difference(&shown, &expected));
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
