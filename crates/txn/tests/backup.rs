//! Backups: of a database that is closed, was killed, or is in use, with checkpoints in between.

#[path = "damage/kit.rs"]
#[allow(dead_code, reason = "shared with the tests of damages")]
mod kit;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_base::ErrorKind;
use ishigaki_device::{AlignedBuffer, Directory, MemoryDirectory};
use ishigaki_txn::{Database, Error, Progress, Source, Unfinished, backup, verify};

use kit::{Contents, Image, Sample, contents, open, settings};

fn unfinished() -> (Arc<dyn Directory>, Unfinished) {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    (directory.clone(), Unfinished::begin(directory).unwrap())
}

fn stopped(directory: &Arc<dyn Directory>) -> Source<'_> {
    Source { tables: directory.as_ref(), log: directory.as_ref(), is_in_use: false }
}

#[test]
fn a_backup_of_a_stopped_database_has_everything_and_changes_nothing() {
    for sample in [Sample::closed(), Sample::killed()] {
        let from = sample.image().directory();
        let (to, draft) = unfinished();
        let report = backup(stopped(&from), &draft, &Progress::default()).unwrap();
        assert!(report.checkpoint.is_some() && report.records > 100 && report.again == 0, "{report:?}");
        draft.finish().unwrap();
        assert!(Image::of(from.as_ref()) == *sample.image(), "the source was written to");
        assert!(verify(to.as_ref(), to.as_ref(), &Progress::default()).unwrap().is_sound());
        assert_eq!(contents(&open(&to).unwrap()), sample.contents());
    }
}

#[test]
fn a_damaged_database_is_not_backed_up() {
    let sample = Sample::killed();
    for name in sample.image().0.keys().filter(|name| name.starts_with("checkpoint") || *name == "wal-000-00000000") {
        let mut image = sample.image().clone();
        image.0.get_mut(name).unwrap()[30] ^= 1;
        let from = image.directory();
        let (_, draft) = unfinished();
        if let Err(error) = backup(stopped(&from), &draft, &Progress::default()) {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}: {error}");
        } else {
            // Of the one before, which is not in a backup.
            assert!(name == "checkpoint.previous" || name.starts_with("checkpoint-00000001"), "{name}");
        }
    }
}

#[test]
fn a_directory_whose_backup_was_cut_off_is_no_database() {
    let from = Sample::closed().image().directory();
    let (to, draft) = unfinished();
    backup(stopped(&from), &draft, &Progress::default()).unwrap();
    drop(draft);
    let error = Database::open_in(to.clone(), settings(1)).unwrap_err();
    assert!(matches!(error, Error::Unfinished), "{error}");
    assert!(Unfinished::begin(to).is_err());
}

/// Each thread counts its own row up, and tells what was acknowledged.
#[test]
fn what_was_acknowledged_before_a_database_in_use_is_backed_up_is_in_the_backup() {
    let from: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(from.clone(), settings(2)).unwrap();
    let table = database.session().run(|txn| txn.create_table("t")).unwrap();
    let (done, known) = (AtomicBool::new(false), parking_lot::Mutex::new(BTreeMap::new()));
    let mut overtaken = 0;
    std::thread::scope(|scope| {
        for thread in 0..3_u8 {
            let (session, done, known) = (database.session(), &done, &known);
            scope.spawn(move || {
                for number in 0_u64.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let value = format!("{number:09}").repeat(20);
                    // Both rows in one transaction: a backup with half of one is no moment of the database.
                    let put = session.run(|txn| {
                        txn.put(table, &[thread, 0], value.as_bytes())?;
                        txn.put(table, &[thread, 1], value.as_bytes())
                    });
                    put.unwrap();
                    known.lock().insert(thread, number);
                    std::thread::sleep(std::time::Duration::from_micros(500));
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                database.checkpoint().unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        for round in 0..20 {
            let before = known.lock().clone();
            let (to, draft) = unfinished();
            let report = if round % 2 == 0 {
                database.backup(&draft, &Progress::default()).unwrap()
            } else {
                let source = Source { tables: from.as_ref(), log: from.as_ref(), is_in_use: true };
                match backup(source, &draft, &Progress::default()) {
                    Err(Error::BackupOvertaken) => continue,
                    done => done.unwrap(),
                }
            };
            overtaken += report.again;
            draft.finish().unwrap();
            let found: Contents = contents(&open(&to).unwrap());
            for (thread, number) in before {
                let row = |part| String::from_utf8(found["t"][&vec![thread, part]].clone()).unwrap();
                assert_eq!(row(0), row(1), "round {round}");
                assert!(row(0)[..9].parse::<u64>().unwrap() >= number, "round {round}: {} of {number}", &row(0)[..9]);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    println!("{overtaken} times a checkpoint came in between");
}

#[test]
fn a_backup_of_a_damaged_database_in_use_is_refused_too() {
    let from: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let database = Database::open_in(from.clone(), settings(1)).unwrap();
    let session = database.session();
    let table = session.run(|txn| txn.create_table("t")).unwrap();
    for number in 0..100_u32 {
        session.run(|txn| txn.put(table, &number.to_be_bytes(), &[3; 300])).unwrap();
    }
    let device = from.open("wal-000-00000000").unwrap();
    let mut bytes = AlignedBuffer::zeroed(512);
    device.read_at(1024, &mut bytes).unwrap();
    bytes[9] ^= 1;
    device.write_durable(1024, &bytes).unwrap();
    let error = database.backup(&unfinished().1, &Progress::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("ishigaki salvage"), "{error}");
}
