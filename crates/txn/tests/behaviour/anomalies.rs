//! The classic anomalies, each played step by step: somebody must give way, or somebody have seen something else.

use super::*;

/// A transaction that may give way at any step.
struct Player(Option<Transaction>);

impl Player {
    fn begin(database: &Database) -> Self {
        Self(Some(database.session().begin().unwrap()))
    }

    /// Does something, if it has not given way; it does now if it meets a conflict.
    fn act<T>(&mut self, act: impl FnOnce(&mut Transaction) -> Result<T, Error>) -> Option<T> {
        match act(self.0.as_mut()?) {
            Ok(seen) => Some(seen),
            Err(Error::Conflict { .. }) => {
                self.0 = None;
                None
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// What it sees; nothing, too, if it gave way.
    fn read(&mut self, table: TableId, key: &[u8]) -> Option<Vec<u8>> {
        self.act(|txn| txn.get(table, key)).flatten()
    }

    fn write(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        self.act(|txn| txn.put(table, key, value));
    }

    fn count(&mut self, table: TableId) -> Option<usize> {
        self.act(|txn| count_keys(txn, table))
    }

    /// Whether it could commit.
    fn commit(self) -> bool {
        match self.0.map(Transaction::commit) {
            Some(Ok(_)) => true,
            None | Some(Err(Error::Conflict { .. })) => false,
            Some(Err(other)) => panic!("{other}"),
        }
    }
}

/// A table with these keys, all with the same value.
fn with(keys: &[&[u8]]) -> (Database, TableId) {
    let (database, table) = open(impatient());
    database.session().run(|txn| keys.iter().try_for_each(|key| txn.put(table, key, b"old"))).unwrap();
    (database, table)
}

#[test]
fn a_lost_update_does_not_happen() {
    let (database, table) = with(&[b"key"]);
    let (mut a, mut b) = (Player::begin(&database), Player::begin(&database));
    a.read(table, b"key");
    b.read(table, b"key");
    b.write(table, b"key", b"b");
    let b = b.commit();
    a.write(table, b"key", b"a");
    assert!(!(a.commit() && b));
}

#[test]
fn a_write_skew_does_not_happen() {
    let (database, table) = with(&[b"x", b"y"]);
    let (mut a, mut b) = (Player::begin(&database), Player::begin(&database));
    for player in [&mut a, &mut b] {
        player.read(table, b"x");
        player.read(table, b"y");
    }
    a.write(table, b"x", b"a");
    b.write(table, b"y", b"b");
    assert!(!(a.commit() & b.commit()));
}

/// A key that was read, written and taken back is a key that was read, whatever it takes to take it back.
#[test]
fn a_write_skew_over_a_write_that_was_taken_back_does_not_happen() {
    type Act = fn(&mut Transaction, TableId) -> Result<(), Error>;
    let get: Act = |txn, table| txn.get(table, b"x").map(drop);
    let scan: Act = |txn, table| txn.scan(table, ALL, |_, _| ControlFlow::Continue(()));
    let put: Act = |txn, table| txn.put(table, b"x", b"undone");
    let delete: Act = |txn, table| txn.delete(table, b"x").map(drop);
    let insert: Act = |txn, table| txn.insert(table, b"x", b"undone").or(Ok(()));
    let insert_and_delete: Act = |txn, table| {
        txn.put(table, b"x", b"undone")?;
        txn.delete(table, b"x").map(drop)
    };
    let nothing: Act = |_, _| Ok(());
    let looks = [(get, nothing), (nothing, get), (scan, nothing), (nothing, scan), (get, scan)];
    let changes = [put, delete, insert, insert_and_delete];
    let cases = looks.iter().flat_map(|look| changes.iter().map(move |change| (look, change)));
    for (number, ((before, behind), change)) in cases.enumerate() {
        for is_there in [false, true] {
            let (database, table) = with(if is_there { &[b"x", b"y"] } else { &[b"y"] });
            // By timestamps, `y` is younger than whatever is known of `x`.
            (0..9).for_each(|_| drop(super::put(&database.session(), table, b"y")));
            let (mut a, mut b) = (Player::begin(&database), Player::begin(&database));
            a.act(|txn| before(txn, table));
            a.act(|txn| {
                let savepoint = txn.savepoint();
                change(txn, table)?;
                txn.rollback_to(&savepoint);
                behind(txn, table)
            });
            b.read(table, b"y");
            a.write(table, b"y", b"a");
            b.write(table, b"x", b"b");
            let both = a.commit() & b.commit();
            assert!(!both, "case {number}, x is there: {is_there}");
        }
    }
}

#[test]
fn a_read_skew_does_not_happen() {
    let (database, table) = with(&[b"x", b"y"]);
    let (mut reader, mut writer) = (Player::begin(&database), Player::begin(&database));
    let x = reader.read(table, b"x");
    writer.write(table, b"x", b"new");
    writer.write(table, b"y", b"new");
    writer.commit();
    let y = reader.read(table, b"y");
    assert!(x == y || !reader.commit());
}

/// A transaction that only reads sees what shows that the two others did not come one after the other (Fekete, O'Neil and
/// O'Neil, 2004).
#[test]
fn an_anomaly_that_only_a_reader_sees_does_not_happen() {
    let (database, table) = with(&[b"x", b"y"]);
    let (mut withdrawal, mut deposit) = (Player::begin(&database), Player::begin(&database));
    withdrawal.read(table, b"x");
    withdrawal.read(table, b"y");
    deposit.read(table, b"y");
    deposit.write(table, b"y", b"deposit");
    let deposit = deposit.commit();
    let mut reader = Player::begin(&database);
    let seen = (reader.read(table, b"x"), reader.read(table, b"y"));
    let reader = reader.commit() && seen == (Some(b"old".to_vec()), Some(b"deposit".to_vec()));
    withdrawal.write(table, b"x", b"withdrawal");
    assert!(!(withdrawal.commit() && deposit && reader));
}

/// The same with a snapshot for the reader, which meets no conflict: so it must be one of the others who gives way. Where
/// versions have timestamps, what the withdrawal has read is valid for long: it could well come before the deposit, had
/// nobody seen the one without the other.
#[test]
fn an_anomaly_that_only_a_snapshot_shows_does_not_happen() {
    for looks in [true, false] {
        let (database, table) = with(&[b"x", b"y", b"z"]);
        let session = database.session();
        (0..9).for_each(|_| session.run(|txn| txn.put(table, b"z", b"newer")).unwrap());
        session.run(|txn| txn.get(table, b"z").and_then(|_| txn.get(table, b"y"))).unwrap();
        let (mut withdrawal, mut deposit) = (Player::begin(&database), Player::begin(&database));
        withdrawal.read(table, b"x");
        withdrawal.read(table, b"y");
        deposit.read(table, b"y");
        deposit.write(table, b"y", b"deposit");
        let deposit = deposit.commit();
        let snapshot = looks.then(|| session.snapshot().unwrap());
        withdrawal.write(table, b"x", b"withdrawal");
        let withdrawal = withdrawal.commit();
        let Some(snapshot) = snapshot else {
            // Without this the other case would say little.
            assert_eq!(withdrawal && deposit, settings().protocol == ProtocolKind::TicToc);
            continue;
        };
        let seen = |key: &[u8]| snapshot.get(table, key).unwrap().unwrap();
        let between = (seen(b"x"), seen(b"y")) == (b"old".to_vec(), b"deposit".to_vec());
        assert!(!(withdrawal && deposit && between));
    }
}

#[test]
fn a_phantom_does_not_appear() {
    let (database, table) = with(&[b"a", b"c"]);
    let (mut a, mut b) = (Player::begin(&database), Player::begin(&database));
    a.count(table);
    b.count(table);
    a.write(table, b"b", b"");
    b.write(table, b"d", b"");
    assert!(!(a.commit() & b.commit()));
}

#[test]
fn a_phantom_does_not_appear_under_an_absent_key() {
    let (database, table) = with(&[]);
    let (mut a, mut b) = (Player::begin(&database), Player::begin(&database));
    a.read(table, b"x");
    b.read(table, b"y");
    a.write(table, b"y", b"");
    b.write(table, b"x", b"");
    assert!(!(a.commit() & b.commit()));
}

/// A key that is swapped for another one between two looks at a range: neither the number of rows nor the transactions that
/// wrote them tell.
#[test]
fn a_scan_that_meets_a_commit_half_way_is_not_taken_for_whole() {
    let (database, table) = with(&[b"b"]);
    database.session().run(|txn| txn.put(table, b"last", b"")).unwrap();
    let mut reader = Player::begin(&database);
    let mut seen = Vec::new();
    reader.act(|txn| {
        txn.scan(table, ALL, |key, _| {
            if key == b"b" {
                // Behind the reader's back, before and after where it is.
                let mut writer = Player::begin(&database);
                writer.write(table, b"a", b"new");
                writer.write(table, b"c", b"new");
                writer.commit();
            }
            seen.push(key.to_vec());
            ControlFlow::Continue(())
        })
    });
    let mut remover = Player::begin(&database);
    remover.act(|txn| txn.delete(table, b"c"));
    remover.commit();
    let (a, c) = (seen.contains(&b"a".to_vec()), seen.contains(&b"c".to_vec()));
    reader.write(table, b"last", b"");
    assert!(!reader.commit() || a == c, "{seen:?}");
}

/// Somebody reads what is not there and overwrites something; who reads that as it was before must not see what is there
/// later.
#[test]
fn an_insertion_comes_behind_all_who_found_the_key_absent() {
    for scans in [false, true] {
        let (database, table) = with(&[b"y", b"z"]);
        let session = database.session();
        // `z` may be read for long; `y` is younger than that.
        (0..9).for_each(|_| session.run(|txn| txn.put(table, b"y", b"newer")).unwrap());
        session.run(|txn| txn.get(table, b"y").and_then(|_| txn.get(table, b"z"))).unwrap();
        let mut late = Player::begin(&database);
        let z = late.read(table, b"z");
        let mut absent = Player::begin(&database);
        if scans {
            let range = (Bound::Included(b"a".as_slice()), Bound::Excluded(b"c".as_slice()));
            absent.act(|txn| txn.scan(table, range, |_, _| ControlFlow::Continue(())));
        } else {
            absent.read(table, b"b");
        }
        absent.write(table, b"z", b"new");
        let absent = absent.commit();
        let mut inserter = Player::begin(&database);
        inserter.write(table, b"b", b"");
        let inserter = inserter.commit();
        let sees_it = late.read(table, b"b").is_some();
        assert!(!(absent && inserter && late.commit() && sees_it && z.is_some()), "scans: {scans}");
    }
}

/// A key that was deleted and comes again is younger than its deletion.
#[test]
fn an_insertion_comes_behind_the_deletion_of_the_same_key() {
    let (database, table) = with(&[b"x", b"y", b"z"]);
    let session = database.session();
    (0..9).for_each(|_| session.run(|txn| txn.put(table, b"y", b"newer")).unwrap());
    session.run(|txn| txn.get(table, b"y").and_then(|_| txn.get(table, b"z"))).unwrap();
    let mut late = Player::begin(&database);
    late.read(table, b"z");
    // Young by `y`, and overwrites `z`.
    let mut remover = Player::begin(&database);
    remover.read(table, b"y");
    remover.act(|txn| txn.delete(table, b"x"));
    remover.write(table, b"z", b"new");
    let deletes = remover.commit();
    let mut inserter = Player::begin(&database);
    inserter.write(table, b"x", b"again");
    let inserts = inserter.commit();
    let again = late.read(table, b"x").is_some_and(|value| value == b"again");
    assert!(!(deletes && inserts && late.commit() && again));
}

/// As with an insertion: who saw a table gone comes behind all who have used it.
#[test]
fn a_drop_comes_behind_all_who_have_used_the_table() {
    type Usage = fn(&mut Transaction, TableId) -> Result<(), Error>;
    let usages: [Usage; 3] = [
        |txn, table| txn.get(table, b"key").map(drop),
        |txn, table| txn.get(table, b"absent").map(drop),
        |txn, table| txn.scan(table, ALL, |_, _| ControlFlow::Continue(())),
    ];
    for (number, usage) in usages.into_iter().enumerate() {
        let (database, other) = with(&[b"y", b"z"]);
        let session = database.session();
        let table = session.run(|txn| txn.create_table("used")).unwrap();
        session.run(|txn| txn.put(table, b"key", b"")).unwrap();
        (0..9).for_each(|_| session.run(|txn| txn.put(other, b"y", b"newer")).unwrap());
        session.run(|txn| txn.get(other, b"y").and_then(|_| txn.get(other, b"z"))).unwrap();
        let mut late = Player::begin(&database);
        late.read(other, b"z");
        let mut user = Player::begin(&database);
        user.read(other, b"y");
        user.act(|txn| usage(txn, table));
        user.write(other, b"z", b"new");
        let fits = user.commit();
        let mut dropper = Player::begin(&database);
        dropper.act(|txn| txn.drop_table("used"));
        let drops = dropper.commit();
        let sees_it_gone = late.act(|txn| txn.table("used")) == Some(None);
        assert!(!(fits && drops && late.commit() && sees_it_gone), "usage {number}");
    }
}
