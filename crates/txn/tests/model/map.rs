//! One transaction at a time, against ordered maps that do the same.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use ishigaki_device::MemoryDirectory;
use ishigaki_txn::{Database, Error, ProtocolKind, Savepoint, Settings, Transaction};
use proptest::prelude::*;

use super::adaptor::small_settings;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Tables = BTreeMap<String, Map>;

#[derive(Clone, Debug)]
enum Action {
    Create(u8),
    DropTable(u8),
    Put(u8, Vec<u8>, Vec<u8>),
    Insert(u8, Vec<u8>, Vec<u8>),
    Delete(u8, Vec<u8>),
    Get(u8, Vec<u8>),
    Scan(u8, Bound<Vec<u8>>, Bound<Vec<u8>>, usize),
    Savepoint,
    RollbackTo,
    Commit,
    Rollback,
    Reopen,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    // Few short keys that meet often, and some long ones that do not lie inline.
    prop_oneof![
        4 => prop::collection::vec(0_u8..3, 0..3),
        1 => (0_u8..3).prop_map(|byte| vec![byte; 30]),
    ]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        2 => key().prop_map(Bound::Included),
        2 => key().prop_map(Bound::Excluded),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let table = || 0_u8..3;
    let value = || prop::collection::vec(any::<u8>(), 0..50);
    prop_oneof![
        3 => table().prop_map(Action::Create),
        1 => table().prop_map(Action::DropTable),
        8 => (table(), key(), value()).prop_map(|(table, key, value)| Action::Put(table, key, value)),
        6 => (table(), key(), value()).prop_map(|(table, key, value)| Action::Insert(table, key, value)),
        6 => (table(), key()).prop_map(|(table, key)| Action::Delete(table, key)),
        6 => (table(), key()).prop_map(|(table, key)| Action::Get(table, key)),
        6 => (table(), bound(), bound(), 1_usize..6)
            .prop_map(|(table, start, end, page)| Action::Scan(table, start, end, page)),
        2 => Just(Action::Savepoint),
        2 => Just(Action::RollbackTo),
        3 => Just(Action::Commit),
        2 => Just(Action::Rollback),
        1 => Just(Action::Reopen),
    ]
}

/// The database and what it should be.
struct Pair {
    protocol: ProtocolKind,
    directory: Arc<MemoryDirectory>,
    database: Option<Database>,
    committed: Tables,
    open: Option<Open>,
}

/// A transaction and what it should see.
struct Open {
    txn: Transaction,
    tables: Tables,
    savepoint: Option<(Savepoint, Tables)>,
}

fn name(table: u8) -> String {
    format!("table {table}")
}

/// Pages through a range and returns what was seen.
fn pages(txn: &mut Transaction, table: &str, start: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>, page: usize) -> Option<Map> {
    let id = txn.table(table).unwrap()?;
    let (mut rows, mut from) = (Map::new(), start.clone());
    loop {
        let mut count = 0;
        txn.scan(id, (from.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice)), |key, value| {
            assert!(rows.last_key_value().is_none_or(|(last, _)| **last < *key), "keys only grow");
            rows.insert(key.to_vec(), value.to_vec());
            count += 1;
            if count == page { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        if count < page {
            return Some(rows);
        }
        from = Bound::Excluded(rows.last_key_value().unwrap().0.clone());
    }
}

fn within(map: &Map, start: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>) -> Map {
    let inside = |key: &Vec<u8>| {
        (match start {
            Bound::Unbounded => true,
            Bound::Included(start) => start <= key,
            Bound::Excluded(start) => start < key,
        }) && (match end {
            Bound::Unbounded => true,
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
        })
    };
    map.iter().filter(|(key, _)| inside(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Open {
    fn act(&mut self, action: &Action) {
        match action {
            Action::Create(table) => self.create(&name(*table)),
            Action::DropTable(table) => {
                let dropped = self.txn.drop_table(&name(*table));
                match self.tables.remove(&name(*table)) {
                    Some(_) => dropped.unwrap(),
                    None => assert!(matches!(dropped, Err(Error::NoSuchTable { .. }))),
                }
            }
            Action::Get(table, key) => {
                let id = self.txn.table(&name(*table)).unwrap();
                let found = id.and_then(|id| self.txn.get(id, key).unwrap());
                assert_eq!(found.as_ref(), self.tables.get(&name(*table)).and_then(|map| map.get(key)));
            }
            Action::Scan(table, start, end, page) => {
                let rows = pages(&mut self.txn, &name(*table), start, end, *page);
                assert_eq!(rows, self.tables.get(&name(*table)).map(|map| within(map, start, end)));
            }
            Action::Savepoint => self.savepoint = Some((self.txn.savepoint(), self.tables.clone())),
            Action::RollbackTo => {
                if let Some((savepoint, tables)) = &self.savepoint {
                    self.txn.rollback_to(savepoint);
                    self.tables = tables.clone();
                }
            }
            Action::Put(table, ..) | Action::Insert(table, ..) | Action::Delete(table, ..) => {
                self.write(&name(*table), action);
            }
            Action::Commit | Action::Rollback | Action::Reopen => unreachable!("ends the transaction"),
        }
    }

    fn create(&mut self, name: &str) {
        let created = self.txn.create_table(name);
        if self.tables.contains_key(name) {
            assert!(matches!(created, Err(Error::TableExists { .. })));
        } else {
            assert_eq!(self.txn.table(name).unwrap(), Some(created.unwrap()));
            self.tables.insert(name.to_owned(), Map::new());
        }
    }

    fn write(&mut self, name: &str, action: &Action) {
        let Some(id) = self.txn.table(name).unwrap() else {
            assert!(!self.tables.contains_key(name));
            return;
        };
        let map = self.tables.get_mut(name).unwrap();
        match action {
            Action::Put(_, key, value) => {
                self.txn.put(id, key, value).unwrap();
                map.insert(key.clone(), value.clone());
            }
            Action::Insert(_, key, value) => {
                let inserted = self.txn.insert(id, key, value);
                if map.contains_key(key) {
                    assert!(matches!(inserted, Err(Error::DuplicateKey { .. })));
                } else {
                    inserted.unwrap();
                    map.insert(key.clone(), value.clone());
                }
            }
            Action::Delete(_, key) => assert_eq!(self.txn.delete(id, key).unwrap(), map.remove(key).is_some()),
            _ => unreachable!("not a write"),
        }
    }
}

impl Pair {
    fn new(protocol: ProtocolKind) -> Self {
        let directory = Arc::new(MemoryDirectory::new());
        let mut pair = Self { protocol, directory, database: None, committed: Tables::new(), open: None };
        pair.reopen();
        pair
    }

    fn reopen(&mut self) {
        self.open = None;
        if let Some(database) = self.database.take() {
            database.close().unwrap();
        }
        let settings = Settings { lock_wait: std::time::Duration::ZERO, protocol: self.protocol, ..small_settings() };
        self.database = Some(Database::open_in(self.directory.clone(), settings).unwrap());
    }

    fn open(&mut self) -> &mut Open {
        let (database, committed) = (self.database.as_ref().unwrap(), &self.committed);
        self.open.get_or_insert_with(|| Open {
            txn: database.session().begin().unwrap(),
            tables: committed.clone(),
            savepoint: None,
        })
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Commit => {
                self.open();
                let open = self.open.take().unwrap();
                open.txn.commit().unwrap().wait().unwrap();
                self.committed = open.tables;
            }
            Action::Rollback => self.open = None,
            Action::Reopen => self.reopen(),
            other => self.open().act(other),
        }
    }

    /// When all tables are dropped, nothing is in use any more.
    fn check_memory(&mut self) {
        self.open = None;
        let database = self.database.as_ref().unwrap();
        let session = database.session();
        for name in self.committed.keys() {
            session.run(|txn| txn.drop_table(name)).unwrap();
        }
        assert_eq!(database.memory().used.0, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn one_transaction_at_a_time_does_what_a_map_does(actions in prop::collection::vec(action(), 1..80)) {
        for protocol in super::PROTOCOLS {
            let mut pair = Pair::new(protocol);
            for action in &actions {
                pair.act(action);
            }
            pair.check_memory();
        }
    }
}
