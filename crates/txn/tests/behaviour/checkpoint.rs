//! Checkpoints: on demand, by themselves, and beside everything else.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ishigaki_device::Directory;
use ishigaki_txn::CheckpointSettings;
use ishigaki_wal::{CommitRule, LogKind};

use super::*;

/// Without the thread, so that nothing happens but what is asked for.
pub(super) fn on_demand() -> Settings {
    let checkpoint = CheckpointSettings { automatic: false, part: ByteSize::kib(64), ..Default::default() };
    Settings { checkpoint, ..settings() }
}

pub(super) fn reopen(directory: &MemoryDirectory) -> Database {
    Database::open_in(Arc::new(directory.clone()), on_demand()).unwrap()
}

/// A table's name, number and rows.
pub(super) type Contents = (String, TableId, Vec<(Vec<u8>, Vec<u8>)>);

/// Every table by name.
pub(super) fn everything(database: &Database) -> Vec<Contents> {
    let mut txn = database.session().begin().unwrap();
    let tables = txn.tables().unwrap();
    let rows = |txn: &mut Transaction, table| {
        let mut rows = Vec::new();
        let visit = |key: &[u8], value: &[u8]| {
            rows.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        };
        txn.scan(table, ALL, visit).unwrap();
        rows
    };
    tables.into_iter().map(|(name, table)| (name, table, rows(&mut txn, table))).collect()
}

#[test]
fn opening_loads_the_checkpoint_and_replays_only_what_came_after_it() {
    let directory = MemoryDirectory::new();
    let database = reopen(&directory);
    let session = database.session();
    // Short and long values, one longer than a part and longer than a page; keys beyond the stride of a walk.
    session
        .run(|txn| {
            let table = txn.create_table("rows")?;
            (0..5000_u32).try_for_each(|n| txn.put(table, &n.to_be_bytes(), &vec![n as u8; n as usize % 90]))?;
            txn.put(table, b"long", &vec![7; 300_000])?;
            txn.put(table, b"", b"the empty key")?;
            txn.create_table("empty").map(drop)
        })
        .unwrap();
    let report = database.checkpoint().unwrap();
    assert_eq!((report.number, report.rows), (1, 5004));
    assert!(report.bytes > 300_000 && report.parts > 5, "{report:?}");
    assert_eq!(database.checkpoint_progress(), None);
    let lsn = |txn: Transaction| {
        let ticket = txn.commit().unwrap();
        ticket.lsn()
    };
    let mut txn = session.begin().unwrap();
    let table = txn.table("rows").unwrap().unwrap();
    txn.put(table, b"after", b"the checkpoint").unwrap();
    txn.delete(table, b"long").unwrap();
    assert_eq!(lsn(txn), report.start.lsn);
    let (expected, used) = (everything(&database), database.memory().used);
    drop(session);
    database.close().unwrap();

    let database = reopen(&directory);
    let loaded = database.recovery().checkpoint.clone().unwrap();
    assert_eq!((loaded.number, loaded.rows, loaded.bytes), (1, report.rows, report.bytes));
    assert_eq!(everything(&database), expected);
    // Records and values take the same, to the byte; how full the nodes of the index are depends on the order of loading.
    let difference = database.memory().used.0.abs_diff(used.0);
    assert!(difference <= 4 * (16 << 10) && difference.is_multiple_of(16 << 10), "{difference}");
    assert_eq!(database.recovery().tables, 2);
    for (name, ..) in expected {
        database.session().run(|txn| txn.drop_table(&name)).unwrap();
    }
    assert_eq!(database.memory().used, ByteSize::b(0));
}

#[test]
fn only_the_files_of_the_last_two_checkpoints_stay() {
    let directory = MemoryDirectory::new();
    let database = reopen(&directory);
    let mut before = None;
    for round in 0..4_u8 {
        let name = format!("table {round}");
        let rows = |txn: &mut Transaction| {
            let table = txn.create_table(&name)?;
            (0..2000_u32).try_for_each(|n| txn.put(table, &n.to_be_bytes(), &[round; 100]))
        };
        database.session().run(rows).unwrap();
        let report = database.checkpoint().unwrap();
        let names = directory.list().unwrap();
        let of = names.iter().filter(|name| name.starts_with(&format!("checkpoint-{:08}-", report.number)));
        assert_eq!(of.count(), report.parts);
        // With a manifest each.
        let kept = before.replace(report.parts).map_or(0, |parts| parts + 1);
        assert_eq!(names.iter().filter(|name| name.starts_with("checkpoint")).count(), report.parts + 1 + kept);
    }
}

#[test]
fn numbers_of_tables_that_are_gone_are_not_used_again_after_a_checkpoint() {
    let directory = MemoryDirectory::new();
    let database = reopen(&directory);
    let session = database.session();
    let gone = session.run(|txn| txn.create_table("gone")).unwrap();
    session.run(|txn| txn.drop_table("gone")).unwrap();
    database.checkpoint().unwrap();
    drop(session);
    database.close().unwrap();
    let database = reopen(&directory);
    assert!(database.session().run(|txn| txn.create_table("new")).unwrap() > gone);
}

#[test]
fn uncommitted_writes_are_in_no_checkpoint() {
    let directory = MemoryDirectory::new();
    let database = reopen(&directory);
    let table = database.session().run(|txn| txn.create_table("table")).unwrap();
    database.session().run(|txn| txn.put(table, b"old", b"1")).unwrap();
    let mut open = database.session().begin().unwrap();
    open.put(table, b"old", b"2").unwrap();
    open.put(table, b"new", b"2").unwrap();
    open.create_table("new").unwrap();
    assert_eq!(database.checkpoint().unwrap().rows, 2);
    drop(open);
    database.close().unwrap();
    let expected = vec![("table".to_owned(), table, vec![(b"old".to_vec(), b"1".to_vec())])];
    assert_eq!(everything(&reopen(&directory)), expected);
}

#[test]
fn a_checkpoint_beside_transfers_loses_no_money() {
    const ACCOUNTS: u64 = 3000;
    let directory = MemoryDirectory::new();
    let database = reopen(&directory);
    let table = database.session().run(|txn| txn.create_table("accounts")).unwrap();
    let open = |txn: &mut Transaction| (0..ACCOUNTS).try_for_each(|n| txn.put(table, &n.to_be_bytes(), &[100]));
    database.session().run(open).unwrap();
    // Checkpoints give way to commits, so that there may be few of them beside so many transfers: these go on until there are.
    let made = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let transfers: Vec<_> = (0..2)
            .map(|seed| {
                let (session, made) = (database.session(), &made);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    for _ in (0..3_000_000).take_while(|turn| *turn < 15_000 || made.load(Ordering::Relaxed) <= 3) {
                        let (from, to) = (random.u64(..ACCOUNTS).to_be_bytes(), random.u64(..ACCOUNTS).to_be_bytes());
                        // An account with nothing in it is closed, and opened again when it gets something.
                        let transfer = |txn: &mut Transaction| {
                            let mut balance =
                                |key| txn.get_with(table, key, |value| value[0]).map(Option::unwrap_or_default);
                            let (less, more) = (balance(&from)?, balance(&to)?);
                            let amount = less.min(50).min(255 - more);
                            if from == to || amount == 0 {
                                return Ok(());
                            }
                            if less > amount {
                                txn.put(table, &from, &[less - amount])?;
                            } else {
                                txn.delete(table, &from)?;
                            }
                            txn.put(table, &to, &[more + amount])
                        };
                        session.run(transfer).unwrap();
                    }
                })
            })
            .collect();
        while transfers.iter().any(|thread| !thread.is_finished()) {
            database.checkpoint().unwrap();
            made.fetch_add(1, Ordering::Relaxed);
        }
        let made = made.load(Ordering::Relaxed);
        assert!(made > 3, "{made}");
    });
    let before = everything(&database);
    // As if the process had died: nothing tells the log that this is its end.
    std::mem::forget(database.clone());
    let survivor = copy(&directory);
    let after = everything(&reopen(&survivor));
    assert!(before == after);
    let money = |rows: &[(Vec<u8>, Vec<u8>)]| rows.iter().map(|(_, value)| u64::from(value[0])).sum::<u64>();
    assert_eq!(money(&after[0].2), 100 * ACCOUNTS);
}

#[test]
fn a_checkpoint_never_begins_between_the_lsn_of_a_commit_and_its_last_write() {
    const ROWS: u32 = 4000;
    let directory = MemoryDirectory::new();
    let database = reopen(&directory);
    let table = database.session().run(|txn| txn.create_table("stamps")).unwrap();
    let stamp = |stamp: u8| {
        let all = |txn: &mut Transaction| (0..ROWS).try_for_each(|n| txn.put(table, &n.to_be_bytes(), &[stamp]));
        database.session().run(all).unwrap();
    };
    stamp(0);
    for round in 1..=40_u8 {
        let drawn = database.log().last_drawn();
        std::thread::scope(|scope| {
            scope.spawn(|| stamp(round));
            // The moment in question.
            while database.log().last_drawn() == drawn {
                std::hint::spin_loop();
            }
            database.checkpoint().unwrap();
        });
        let after = everything(&reopen(&copy(&directory)));
        let lost = after[0].2.iter().filter(|(_, value)| *value != [round]).count();
        assert_eq!(lost, 0, "round {round}: rows are of an older commit");
    }
}

/// A directory with the same bytes.
fn copy(directory: &MemoryDirectory) -> MemoryDirectory {
    let twin = MemoryDirectory::new();
    copy_into(&twin, directory, |_| true);
    twin
}

fn copy_into(to: &MemoryDirectory, from: &MemoryDirectory, which: impl Fn(&str) -> bool) {
    for name in from.list().unwrap().iter().filter(|name| which(name)) {
        let device = from.open(name).unwrap();
        let mut bytes = ishigaki_device::AlignedBuffer::zeroed(device.len() as usize);
        device.read_at(0, &mut bytes).unwrap();
        to.create(name, device.len()).unwrap().write_durable(0, &bytes).unwrap();
    }
}

pub(super) fn wait_for(what: &str, mut happens: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happens() {
        assert!(began.elapsed() < Duration::from_secs(30), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn checkpoints_are_made_by_themselves_when_enough_was_committed_or_time_has_passed() {
    let often = Duration::from_millis(20);
    let never = Duration::from_hours(24);
    for (log_bytes, interval) in [(ByteSize::kib(10), never), (ByteSize::gib(1), often)] {
        // By size it is looked at once a second.
        let checkpoint = CheckpointSettings { log_bytes, interval, ..Default::default() };
        let directory = MemoryDirectory::new();
        let has_one = || directory.list().unwrap().iter().any(|name| name == "checkpoint");
        let database = Database::open_in(Arc::new(directory.clone()), Settings { checkpoint, ..settings() }).unwrap();
        std::thread::sleep(5 * often);
        assert!(!has_one(), "nothing was committed");
        let rows = |txn: &mut Transaction| {
            let table = txn.create_table("table")?;
            (0..200_u8).try_for_each(|n| txn.put(table, &[n], &[n; 100]))
        };
        database.session().run(rows).unwrap();
        wait_for("a checkpoint", has_one);
    }
}

#[test]
fn commits_that_wait_for_space_let_the_checkpoint_begin_that_makes_it() {
    const PATIENCE: Duration = Duration::from_secs(8);
    for kind in [LogKind::Parallel, LogKind::Serial] {
        for commit in [CommitRule::Watermark, CommitRule::Dependencies] {
            let log = narrow(kind, commit, PATIENCE);
            let database =
                Database::open_in(Arc::new(MemoryDirectory::new()), Settings { log, ..on_demand() }).unwrap();
            let table = database.session().run(|txn| txn.create_table("table")).unwrap();
            std::thread::scope(|scope| {
                // Far more than there is space for: some are held back when they have committed, others before.
                let put = |key: u8| {
                    let session = database.session();
                    scope.spawn(move || session.run(|txn| txn.put(table, &[key], &[key; 9_000])))
                };
                let commits: Vec<_> = (0..40).map(put).collect();
                wait_for("a full log", || database.log().space().live == database.log().space().bound);
                let began = Instant::now();
                while commits.iter().any(|commit| !commit.is_finished()) {
                    database.checkpoint().unwrap();
                }
                assert!(began.elapsed() < PATIENCE / 2, "{kind} by {commit:?}: {:?}", began.elapsed());
                for commit in commits {
                    commit.join().unwrap().unwrap();
                }
            });
            assert_eq!(everything(&database)[0].2.len(), 40);
        }
    }
}

#[test]
fn commits_beside_checkpoints_at_the_bound_of_the_log_neither_stall_nor_fail() {
    const PATIENCE: Duration = Duration::from_secs(8);
    for kind in [LogKind::Parallel, LogKind::Serial] {
        let log = ishigaki_wal::Settings { background: true, ..narrow(kind, CommitRule::Dependencies, PATIENCE) };
        let database = Database::open_in(Arc::new(MemoryDirectory::new()), Settings { log, ..on_demand() }).unwrap();
        let table = database.session().run(|txn| txn.create_table("table")).unwrap();
        std::thread::scope(|scope| {
            let writer = |number: u8| {
                let session = database.session();
                scope.spawn(move || {
                    let mut longest = Duration::ZERO;
                    for turn in 0..40 {
                        let began = Instant::now();
                        session.run(|txn| txn.put(table, &[number, turn], &[turn; 9_000])).unwrap();
                        longest = longest.max(began.elapsed());
                    }
                    longest
                })
            };
            let writers: Vec<_> = (0..8).map(writer).collect();
            while writers.iter().any(|writer| !writer.is_finished()) {
                database.checkpoint().unwrap();
            }
            let longest = writers.into_iter().map(|writer| writer.join().unwrap()).max().unwrap();
            assert!(longest < PATIENCE / 2, "{kind}: one commit took {longest:?}");
        });
    }
}

#[test]
fn a_log_that_fills_faster_than_a_checkpoint_is_looked_for_has_one_made() {
    let log = ishigaki_wal::Settings {
        background: true,
        ..narrow(LogKind::Parallel, CommitRule::Dependencies, Duration::from_secs(30))
    };
    let checkpoint = CheckpointSettings { automatic: true, ..CheckpointSettings::default() };
    let database =
        Database::open_in(Arc::new(MemoryDirectory::new()), Settings { log, checkpoint, ..settings() }).unwrap();
    let session = database.session();
    let table = session.run(|txn| txn.create_table("table")).unwrap();
    let began = Instant::now();
    // Some thirty times what the log may hold.
    for turn in 0..400_u32 {
        session.run(|txn| txn.put(table, &[0], &vec![turn as u8; 9_000])).unwrap();
    }
    let (took, number) = (began.elapsed(), database.log().space());
    assert!(took < Duration::from_secs(8), "{took:?}, {number:?}");
}

/// A log of eight small segments at most.
fn narrow(kind: LogKind, commit: CommitRule, space_wait: Duration) -> ishigaki_wal::Settings {
    let (segment, space) = (ByteSize::kib(16), ByteSize::kib(128));
    ishigaki_wal::Settings { kind, commit, segment, space, space_wait, ..settings().log }
}

#[test]
fn closing_ends_a_slow_checkpoint_and_leaves_the_one_before() {
    let throttle = Some(ByteSize::kib(256));
    let slow = CheckpointSettings { throttle, interval: Duration::from_millis(1), ..on_demand().checkpoint };
    for (automatic, drops) in [(false, false), (true, false), (true, true)] {
        let directory = MemoryDirectory::new();
        let first = reopen(&directory);
        let fill = |txn: &mut Transaction| {
            let table = txn.create_table("table")?;
            (0..50_u8).try_for_each(|n| txn.put(table, &[n], &vec![n; 60_000]))
        };
        first.session().run(fill).unwrap();
        first.checkpoint().unwrap();
        first.session().run(|txn| txn.create_table("later")).unwrap();
        first.close().unwrap();

        let checkpoint = CheckpointSettings { automatic, ..slow.clone() };
        let settings = Settings { checkpoint, ..settings() };
        let database = Database::open_in(Arc::new(directory.clone()), settings).unwrap();
        let began = Instant::now();
        std::thread::scope(|scope| {
            let by_hand = (!automatic).then(|| scope.spawn(|| database.checkpoint().map(drop)));
            wait_for("progress", || database.checkpoint_progress().is_some_and(|progress| progress.rows > 0));
            let progress = database.checkpoint_progress().unwrap();
            assert!(progress.estimated_rows >= progress.rows && progress.estimated_rows < 100, "{progress:?}");
            if !drops {
                database.clone().close().unwrap();
            }
            if let Some(thread) = by_hand {
                assert_eq!(thread.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
            }
        });
        drop(database);
        // Three megabytes would take twelve seconds. The directory is free at once.
        let database = reopen(&directory);
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        assert_eq!(database.recovery().checkpoint.as_ref().map(|loaded| loaded.number), Some(1));
        assert_eq!(everything(&database).len(), 2);
    }
}

#[test]
fn a_full_medium_refuses_a_checkpoint_and_the_database_goes_on() {
    let capacity = Some(ByteSize::kib(768));
    let directory = MemoryDirectory::with(ishigaki_device::MemorySettings { capacity, ..Default::default() });
    let database = reopen(&directory);
    let table = database.session().run(|txn| txn.create_table("table")).unwrap();
    let put = |key: u8, length: usize| database.session().run(|txn| txn.put(table, &[key], &vec![key; length]));
    (0..80).for_each(|key| put(key, 5000).unwrap());
    let error = database.checkpoint().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert!(!directory.list().unwrap().iter().any(|name| name.starts_with("checkpoint")));
    put(1, 10).unwrap();
    let expected = everything(&database);
    database.close().unwrap();
    assert_eq!(everything(&reopen(&directory)), expected);
}

fn copy_files(from: &Path, to: &Path, which: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if which(&name) {
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

/// What must not be opened looks as if it could: the logs' generations and LSNs fit.
#[test]
fn a_checkpoint_and_a_log_that_are_not_of_one_moment_are_refused() {
    let commits = |database: &Database, count: u8| {
        let session = database.session();
        let table = session.run(|txn| txn.table("table")?.map_or_else(|| txn.create_table("table"), Ok)).unwrap();
        (0..count).for_each(|n| session.run(|txn| txn.put(table, &[n], &[n; 9_000])).unwrap());
    };
    let is_checkpoint = |name: &str| name.starts_with("checkpoint");
    let (directory, other) = (MemoryDirectory::new(), MemoryDirectory::new());
    let database = reopen(&directory);
    commits(&database, 3);
    let early = copy(&directory);
    commits(&database, 9);
    // One that shows commits from behind its beginning: without them the log does not fit.
    loop {
        let done = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    commits(&database, 1);
                }
            });
            let report = database.checkpoint();
            done.store(true, Ordering::Relaxed);
            report.unwrap()
        });
        if report.start.lsn <= report.end {
            break;
        }
    }
    let between = copy(&directory);
    commits(&database, 90);
    // The second one lets go of the log that the one before needs.
    database.checkpoint().unwrap();
    commits(&database, 3);
    database.checkpoint().unwrap();
    let late = copy(&directory);
    commits(&reopen(&other), 40);

    for (checkpoint, log, why) in [
        (&between, &other, "it belongs to log"),
        (&between, &early, "it was made when the log reached to"),
        (&between, &late, "the log was trimmed to"),
    ] {
        let mixed = MemoryDirectory::new();
        copy_into(&mixed, checkpoint, is_checkpoint);
        copy_into(&mixed, log, |name| !is_checkpoint(name));
        let error = Database::open_in(Arc::new(mixed), on_demand()).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(why), "{why}: {error}");
    }
    assert_eq!(everything(&reopen(&between))[0].2.len(), 9);
}

#[test]
fn a_checkpoint_beside_another_log_or_an_older_copy_of_its_own_is_refused() {
    let (home, older) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let is_log = |name: &str| name.starts_with("wal-");
    let database = Database::open(home.path(), on_demand()).unwrap();
    database.session().run(|txn| txn.create_table("early")).unwrap();
    database.close().unwrap();
    copy_files(home.path(), older.path(), is_log);
    let database = Database::open(home.path(), on_demand()).unwrap();
    database.session().run(|txn| txn.create_table("late")).unwrap();
    database.checkpoint().unwrap();
    database.close().unwrap();

    copy_files(older.path(), home.path(), is_log);
    let error = Database::open(home.path(), on_demand()).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("it ends in generation 1"), "{error}");
    for entry in fs::read_dir(home.path()).unwrap().map(Result::unwrap) {
        if is_log(&entry.file_name().into_string().unwrap()) {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let error = Database::open(home.path(), on_demand()).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("is needed from"), "{error}");
}

/// A log that was allowed far more is let go of by the first checkpoint, and no commit waits for that.
#[test]
fn commits_do_not_stall_after_opening_with_smaller_segments_or_less_space() {
    let log = |segment, space| ishigaki_wal::Settings {
        background: true,
        segment: ByteSize::kib(segment),
        space: ByteSize::kib(space),
        ..settings().log
    };
    for (segment, space) in [(32, 256), (512, 256), (32, 8192)] {
        let directory = MemoryDirectory::new();
        let large = Settings { log: log(512, 8192), ..on_demand() };
        let database = Database::open_in(Arc::new(directory.clone()), large).unwrap();
        let session = database.session();
        let table = session.run(|txn| txn.create_table("table")).unwrap();
        for turn in 0..300_u32 {
            session.run(|txn| txn.put(table, &turn.to_be_bytes(), &[turn as u8; 10_000])).unwrap();
        }
        drop(session);
        database.close().unwrap();

        let checkpoint = CheckpointSettings { automatic: true, ..on_demand().checkpoint };
        let small = Settings { log: log(segment, space), checkpoint, ..settings() };
        let database = Database::open_in(Arc::new(directory.clone()), small).unwrap();
        let (session, mut longest) = (database.session(), Duration::ZERO);
        for turn in 0..100_u32 {
            let began = Instant::now();
            session.run(|txn| txn.put(table, &turn.to_be_bytes(), &[turn as u8; 1000])).unwrap();
            longest = longest.max(began.elapsed());
        }
        assert!(
            longest < Duration::from_secs(3),
            "{segment} KiB, {space} KiB: {longest:?}, {:?}",
            database.log().space()
        );
        wait_for("the log to be as short as it may be", || {
            let space = database.log().space();
            space.used <= space.bound
        });
    }
}
