//! Page files of tables that never were, or are no more.

use std::path::Path;
use std::sync::Arc;

use ishigaki_device::{Directory, FileDirectory};
use ishigaki_page::{Settings, Writer};
use ishigaki_sql::arrow::datatypes::{DataType, Field, Schema};
use ishigaki_sql::{Database, Target};
use ishigaki_txn::Progress;

use crate::shell::{Shell, rows, run, settings};

fn create(table: &str, place: &str) -> String {
    format!("CREATE TABLE {table} (n BIGINT) WITH (storage = 'paged', location = '{place}', page_size = '4KiB')")
}

/// The database as it is found after its process was killed now: no bytes are written while it is copied.
fn killed(shell: &Shell) -> (tempfile::TempDir, Database) {
    let copy = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(shell.directory.path().join("data")).expect("the database") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_file() {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copied");
        }
    }
    let database = Database::open(copy.path(), settings()).expect("opens");
    (copy, database)
}

fn entries(place: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
}

#[test]
fn a_file_whose_table_was_not_committed_goes_when_the_database_is_opened() {
    let shell = Shell::new();
    let (place, other) = (shell.file("pages"), shell.file("other"));
    shell.run(&create("kept", &place));
    shell.run("INSERT INTO kept VALUES (1)");
    shell.run("BEGIN");
    shell.run(&create("t", &place));
    shell.run(&create("u", &other));
    assert!(Path::new(&place).join("t.pages").exists() && Path::new(&other).join("u.pages").exists());
    let (_copy, database) = killed(&shell);
    let session = database.session();
    let mut left = entries(&place);
    left.sort();
    assert_eq!(left, ["kept-0000000001.pages", "kept.pages", "kept.pages.lock"]);
    assert!(entries(&other).is_empty(), "{:?}", entries(&other));
    assert_eq!(rows(&session, "SELECT n FROM kept"), ["1"]);
    run(&session, &create("t", &place));
    run(&session, "INSERT INTO t VALUES (2)");
    // What the first one undoes now is not the second one's.
    shell.run("ROLLBACK");
    assert_eq!(rows(&session, "SELECT n FROM t"), ["2"]);
}

#[test]
fn a_file_that_could_not_be_removed_with_its_table_goes_when_the_database_is_opened() {
    let shell = Shell::new();
    let place = shell.file("pages");
    shell.run(&create("t", &place));
    shell.run("INSERT INTO t VALUES (1)");
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(&place).expect("the folder"));
    let writer = Writer::open(Arc::clone(&directory), "t", Settings::default()).expect("no append is under way");
    shell.run("DROP TABLE t");
    assert!(Path::new(&place).join("t.pages").exists(), "another program writes it");
    // Nor does an opening that comes too early lose sight of it.
    let shell = shell.reopen();
    assert!(Path::new(&place).join("t.pages").exists());
    drop(writer);
    let shell = shell.reopen();
    assert!(entries(&place).is_empty(), "{:?}", entries(&place));
    // Another file of that name is not the one that was noted.
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    Writer::create(directory, "t", Arc::new(schema), Settings::default()).expect("made");
    let _shell = shell.reopen();
    assert!(Path::new(&place).join("t.pages").exists());
}

#[test]
fn a_file_that_is_noted_is_out_of_the_way_of_the_next_table_of_its_name() {
    let shell = Shell::new();
    let place = shell.file("pages");
    shell.run(&create("t", &place));
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(&place).expect("the folder"));
    let writer = Writer::open(directory, "t", Settings::default()).expect("no append is under way");
    shell.run("DROP TABLE t");
    drop(writer);
    shell.run(&create("t", &place));
    shell.run("INSERT INTO t VALUES (3)");
    assert_eq!(shell.reopen().rows("SELECT n FROM t"), ["3"]);
}

#[test]
fn what_a_transaction_makes_drops_and_undoes_leaves_no_note_that_could_cost_a_table() {
    let shell = Shell::new();
    let place = shell.file("pages");
    shell.run(&create("kept", &place));
    shell.run("INSERT INTO kept VALUES (1)");
    shell.run("BEGIN; SAVEPOINT s");
    shell.run(&create("t", &place));
    shell.run("DROP TABLE kept; ROLLBACK TO s");
    shell.run(&create("t", &place));
    shell.run("SAVEPOINT s2; DROP TABLE t; ROLLBACK TO s2; COMMIT");
    shell.run("INSERT INTO t VALUES (2)");
    let shell = shell.reopen();
    assert_eq!(shell.rows("SELECT kept.n, t.n FROM kept, t"), ["1|2"]);
    shell.run("BEGIN");
    shell.run(&create("u", &place));
    shell.run("DROP TABLE u; DROP TABLE t; COMMIT");
    let mut left = entries(&place);
    left.sort();
    assert_eq!(left, ["kept-0000000001.pages", "kept.pages", "kept.pages.lock"]);
}

#[test]
fn a_backup_made_between_a_file_and_its_commit_removes_nothing_of_the_original() {
    let shell = Shell::new();
    let place = shell.file("pages");
    shell.run("BEGIN");
    shell.run(&create("t", &place));
    let other = tempfile::tempdir().expect("a folder");
    let copy = other.path().join("copy");
    shell.database.backup(&Target::folder(&copy).expect("made"), &Progress::default()).expect("a backup");
    shell.run("COMMIT");
    shell.run("INSERT INTO t VALUES (1)");
    let database = Database::open(&copy, settings()).expect("opens");
    assert!(rows(&database.session(), "SHOW TABLES").is_empty());
    drop(database);
    assert_eq!(shell.reopen().rows("SELECT n FROM t"), ["1"]);
}
