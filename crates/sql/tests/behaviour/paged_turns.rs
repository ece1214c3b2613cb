//! Page files between sessions, programs and crashes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ishigaki_device::{Directory, FileDirectory};
use ishigaki_page::{Settings, Writer};

use crate::shell::{Shell, run};

fn create(place: &str, existing: bool) -> String {
    format!(
        "CREATE TABLE t (n BIGINT) WITH (storage = 'paged', location = '{place}', page_size = '4KiB', existing = {existing})"
    )
}

/// A paged table `t` of ten numbers, and where it is.
fn filled() -> (Shell, String) {
    let shell = Shell::new();
    let place = shell.file("pages");
    shell.run(&create(&place, false));
    shell.run("INSERT INTO t SELECT * FROM generate_series(1, 10)");
    (shell, place)
}

#[test]
fn two_programs_append_to_one_file_in_turns() {
    let (shell, place) = filled();
    let other = Shell::new();
    other.run(&create(&place, true));
    for turn in 0..3 {
        run(&other.session, &format!("INSERT INTO t VALUES ({turn})"));
        shell.run(&format!("INSERT INTO t VALUES ({turn})"));
    }
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["16"]);
    // One that is at it keeps the others waiting, and readers not.
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(&place).expect("the folder"));
    let writer = Writer::open(directory, "t", Settings::default()).expect("no append is under way");
    std::thread::scope(|scope| {
        let (begin, waits) =
            (Instant::now(), scope.spawn(|| shell.other().execute_blocking("INSERT INTO t VALUES (99)")));
        assert_eq!(other.rows("SELECT count(*) FROM t"), ["16"]);
        std::thread::sleep(Duration::from_millis(300).saturating_sub(begin.elapsed()));
        assert!(!waits.is_finished());
        drop(writer);
        waits.join().expect("no panic").expect("it has its turn");
    });
    assert_eq!(other.rows("SELECT count(*) FROM t WHERE n = 99"), ["1"]);
}

#[test]
fn opening_a_database_removes_what_killed_appends_have_left_of_its_own_files() {
    let (shell, place) = filled();
    let (foreign, given) = (Shell::new(), shell.file("given"));
    foreign.run(&create(&given, false));
    let segment = |place: &str, name: &str| Path::new(place).join(name);
    let leftovers = [segment(&place, "t-0000000099.pages"), segment(&place, "t.pages.new")];
    let others =
        [segment(&place, "u-0000000001.pages"), segment(&place, "mine"), segment(&given, "t-0000000099.pages")];
    for path in leftovers.iter().chain(&others) {
        std::fs::write(path, [0; 4096]).expect("written");
    }
    let shell = shell.reopen();
    assert!(leftovers.iter().all(|path| !path.exists()), "they are of no append that is there");
    assert!(others.iter().all(|path| path.exists()), "they are not of this database's files");
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["10"]);
}

#[test]
fn an_insert_beside_one_who_replaces_the_table_fails_or_is_done_and_never_in_half() {
    let shell = Shell::new();
    let (place, over) = (shell.file("pages"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let replaces = scope.spawn(|| {
            let session = shell.other();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(3) {
                for table in ["CREATE TABLE t (n BIGINT)".to_owned(), create(&place, false)] {
                    // The inserter may be the one that wins.
                    let _ = session.execute_blocking(&table);
                    let _ = session.execute_blocking("DROP TABLE t");
                }
            }
            over.store(true, Ordering::SeqCst);
        });
        let session = shell.other();
        while !over.load(Ordering::SeqCst) {
            if let Err(error) = session.execute_blocking("INSERT INTO t VALUES (1)") {
                assert!(!error.to_string().contains("unexpectedly"), "{error}");
            }
        }
        replaces.join().expect("no panic");
    });
}
