//! Verification, salvage and backup of databases with tables of rows and paged tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_device::{Directory, FileDirectory};
use ishigaki_page::Reader;
use ishigaki_sql::{BackedUp, Database, Salvaged, Settings, Target, Verification};
use ishigaki_testkit::seeded_runs;
use ishigaki_txn::{Progress, Source};

use crate::shell::rows;

const TABLES: [&str; 4] = ["stones", "walls", "notes", "pages"];

pub(crate) fn open(path: &Path) -> Database {
    Database::open(path, Settings::default()).expect("it opens")
}

/// What each table has, by text.
fn contents(database: &Database) -> BTreeMap<&'static str, Vec<String>> {
    let session = database.session();
    let all = |table: &&'static str| {
        let mut all = rows(&session, &format!("SELECT * FROM {table}"));
        all.sort();
        (*table, all)
    };
    TABLES.iter().map(all).collect()
}

/// A database with tables of rows, one of them without a key, and a paged one, in a checkpoint and in the log behind it.
fn filled() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("data");
    let database = open(&path);
    let session = database.session();
    let run = |sql: &str| drop(session.execute_blocking(sql).expect(sql));
    run("CREATE TABLE stones (id BIGINT PRIMARY KEY, name TEXT NOT NULL)");
    run("CREATE TABLE walls (stone BIGINT, wall TEXT, PRIMARY KEY (stone, wall))");
    run("CREATE TABLE notes (text TEXT)");
    let place = directory.path().join("elsewhere").display().to_string();
    run(&format!(
        "CREATE TABLE pages (n BIGINT NOT NULL, name TEXT)
         WITH (storage = 'paged', location = '{place}', page_size = '4KiB')"
    ));
    run("INSERT INTO stones SELECT value, 'stone ' || value FROM generate_series(1, 3000)");
    run("INSERT INTO walls SELECT value, 'wall ' || value % 7 FROM generate_series(1, 2000)");
    run("INSERT INTO notes SELECT 'note ' || value FROM generate_series(1, 500)");
    run("INSERT INTO pages SELECT value, 'page ' || value FROM generate_series(1, 5000)");
    run("CHECKPOINT");
    run("DELETE FROM stones WHERE id % 10 = 3");
    run("INSERT INTO notes VALUES ('the last one')");
    drop(session);
    database.close().expect("it closes");
    (directory, path)
}

fn directory(path: &Path) -> FileDirectory {
    FileDirectory::open(path).expect("it is there")
}

pub(crate) fn verify(path: &Path) -> Verification {
    let directory = directory(path);
    ishigaki_sql::verify(&directory, &directory, &Progress::default()).expect("it can be listed")
}

pub(crate) fn salvage(path: &Path, to: &Path) -> Salvaged {
    let (directory, to) = (directory(path), Target::folder(to).expect("made"));
    ishigaki_sql::salvage(&directory, &directory, &to, &Settings::default().txn, &Progress::default()).expect("saved")
}

pub(crate) fn backup(path: &Path, to: &Path) -> ishigaki_sql::Result<BackedUp> {
    let directory = directory(path);
    let _lock = directory.lock().expect("it is not in use");
    let source = Source { tables: &directory, log: &directory, is_in_use: false };
    ishigaki_sql::backup(source, &Target::folder(to)?, &Settings::default().txn, &Progress::default())
}

#[test]
fn a_sound_database_is_verified_table_by_table() {
    let (_directory, path) = filled();
    let found = verify(&path);
    assert!(found.is_sound(), "{found:?}");
    let names: Vec<_> = found.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["notes", "pages", "stones", "walls"]);
    assert!(found.tables[1].rows == 5000 && found.tables[1].pages > Some(5), "{found:?}");
    assert!(found.tables[2].rows >= 3000 && found.engine.checkpoint == Some(1), "{found:?}");
}

#[test]
fn a_row_that_is_not_one_of_its_tables_is_found_by_its_key() {
    let (_directory, path) = filled();
    let engine = ishigaki_txn::Database::open(&path, ishigaki_txn::Settings::default()).expect("it opens");
    let session = engine.session();
    session
        .run(|txn| {
            let table = txn.table("sql.rows.stones")?.expect("it is there");
            let key = 77_i64.wrapping_add(i64::MIN).to_be_bytes();
            assert!(txn.get(table, &key)?.is_some());
            txn.put(table, &key, b"\x01\x09\x00nonsense")
        })
        .expect("written");
    drop(session);
    engine.close().expect("closed");
    let found = verify(&path);
    assert_eq!((found.engine.is_sound(), found.damages.len()), (true, 1), "{found:?}");
    let damage = found.damages[0].to_string();
    assert!(damage.starts_with("table stones: key (77): "), "{damage}");
}

#[test]
fn a_backup_is_a_database_of_its_own_and_can_be_restored() {
    let (directory, path) = filled();
    let expected = contents(&open(&path));
    let (copy, restored) = (directory.path().join("copy"), directory.path().join("restored"));
    let done = backup(&path, &copy).expect("sound");
    assert_eq!((done.tables, done.pages.len()), (4, 1), "{done:?}");
    // The old one goes with its page files.
    fs::remove_dir_all(&path).expect("removed");
    fs::remove_dir_all(directory.path().join("elsewhere")).expect("removed");
    assert!(verify(&copy).is_sound());
    backup(&copy, &restored).expect("sound");
    let database = open(&copy);
    assert_eq!(contents(&database), expected);
    database.session().execute_blocking("INSERT INTO pages VALUES (-1, 'only here')").expect("appended");
    assert_eq!(contents(&open(&restored)), expected, "the restored one has page files of its own");
    let error = backup(&restored, &copy).expect_err("it holds something").to_string();
    assert!(error.contains("empty directory") || error.contains("is in the way"), "{error}");
}

/// Has another thread end, also when this one fails: it would be waited for for ever.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_backup_of_a_database_in_use_shows_one_moment_of_rows_and_pages() {
    let (directory, path) = filled();
    let database = open(&path);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = Ends(&done);
        // Each number is in the paged table before its row says so.
        scope.spawn(|| {
            let session = database.session();
            for number in 100_000.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                if number % 8 == 0 {
                    session.execute_blocking(&format!("INSERT INTO pages VALUES ({number}, 'x')")).expect("appended");
                    std::thread::sleep(std::time::Duration::from_millis(300));
                }
                session.execute_blocking(&format!("INSERT INTO notes VALUES ('{number}')")).expect("inserted");
            }
        });
        for round in 0..4 {
            let to = directory.path().join(format!("copy {round}"));
            let before: Vec<_> = rows(&database.session(), "SELECT count(*) FROM notes");
            match database.backup(&Target::folder(&to).expect("made"), &Progress::default()) {
                Ok(copied) => assert_eq!(copied.pages.len(), 1),
                Err(error) => {
                    assert!(error.to_string().contains("page files changed"), "{error}");
                    continue;
                }
            }
            let copy = open(&to);
            let after = rows(&copy.session(), "SELECT count(*) FROM notes");
            let count = |rows: &[String]| rows[0].parse::<u64>().expect("a number");
            assert!(count(&after) >= count(&before), "{after:?} of {before:?}");
            // Other notes are no numbers, and which condition comes first is not said.
            let numbers =
                "SELECT CASE WHEN text >= '100000' AND text < '200000' THEN CAST(text AS BIGINT) END AS n FROM notes";
            let lacks = format!(
                "SELECT count(*) FROM ({numbers}) AS numbers WHERE n % 8 = 0 AND n NOT IN (SELECT n FROM pages)"
            );
            assert_eq!(rows(&copy.session(), &lacks), ["0"], "a row whose page is missing");
            let ahead = format!(
                "SELECT count(*) FROM pages WHERE n >= 100000 AND n > (SELECT max(n) + 8 FROM ({numbers}) AS numbers)"
            );
            assert_eq!(rows(&copy.session(), &ahead), ["0"], "a page whose rows are missing");
        }
    });
}

#[test]
fn hidden_row_ids_are_not_given_out_again_after_a_salvage() {
    let (directory, path) = filled();
    let to = directory.path().join("saved");
    let saved = salvage(&path, &to);
    assert!(saved.is_complete(), "{saved:?}");
    let database = open(&to);
    let session = database.session();
    session.execute_blocking("INSERT INTO notes VALUES ('new')").expect("a new id");
    assert_eq!(rows(&session, "SELECT count(*) FROM notes"), ["502"]);
    assert!(verify(&directory.path().join("data")).is_sound());
}

/// Gives the paged table's segment another length: the rows that come back are those of its whole pages, the table alone is
/// refused, and what is missing is told.
#[test]
fn of_a_page_file_of_another_length_every_whole_page_is_salvaged() {
    const PAGE: u64 = 4096;
    let (directory, path) = filled();
    let expected = contents(&open(&path));
    let elsewhere = directory.path().join("elsewhere");
    let segment = elsewhere.join("pages-0000000001.pages");
    let sound = fs::read(&segment).expect("readable");
    let (page_rows, pages) = {
        let reader = Reader::open(Arc::new(self::directory(&elsewhere)), "pages").expect("sound");
        (reader.page_rows().expect("sound").values().to_vec(), reader.pages())
    };
    let (end, full) = (pages * PAGE, sound.len() as u64);
    assert!(pages > 8 && full > end, "{pages} pages, {full} bytes");
    for length in [0, 100, end / 2, end / 2 + 100, end - 100, end, end + 100, full - 100, full + 100, full + 1000] {
        let mut bytes = sound.clone();
        bytes.resize(length as usize, 0x5a);
        fs::write(&segment, &bytes).expect("writable");
        let whole = pages.min(length / PAGE) as usize;
        let rows_left: u64 = page_rows[..whole].iter().map(|&rows| u64::from(rows)).sum();

        let found = verify(&path);
        let table = found.tables.iter().find(|table| table.name == "pages").expect("it is in the catalog");
        assert_eq!((table.rows, table.pages), (rows_left, Some(whole as u64)), "{length} bytes: {found:?}");
        assert!(!found.is_sound() && table.damaged > 0, "{length} bytes: {found:?}");

        let to = directory.path().join(format!("saved {length}"));
        let saved = salvage(&path, &to);
        assert!(!saved.is_complete(), "{length} bytes: {saved:?}");
        let survey = saved.pages[0].found.as_ref().expect("the manifest is sound");
        assert_eq!((survey.rows, survey.expected_rows), (rows_left, 5000), "{length} bytes: {survey:?}");
        let lost: Vec<_> = survey.damages.iter().filter_map(|damage| damage.pages).collect();
        let cut_off = (whole as u64) < pages;
        assert_eq!(lost, Vec::from_iter(cut_off.then(|| (whole as u64, pages - 1))), "{length} bytes: {survey:?}");

        let back = contents(&open(&to));
        assert_eq!(back["pages"].len() as u64, rows_left, "{length} bytes");
        assert!(back["pages"].iter().all(|row| expected["pages"].contains(row)), "{length} bytes");
        for table in ["stones", "walls", "notes"] {
            assert_eq!(back[table], expected[table], "{length} bytes");
        }

        let database = open(&path);
        let session = database.session();
        assert_eq!(rows(&session, "SELECT count(*) FROM notes").len(), 1, "{length} bytes");
        let refused = session.execute_blocking("SELECT sum(n) FROM pages WHERE name <> ''");
        let refused = refused.map(drop).expect_err("the table is refused").to_string();
        assert!(refused.contains("ishigaki salvage DIR --to DIR2"), "{length} bytes: {refused}");
        drop(session);
        database.close().expect("it closes");
    }
}

/// A manifest's file that was made longer by some bytes has the manifest all the same.
#[test]
fn the_manifest_in_a_longer_file_is_found() {
    let (directory, path) = filled();
    let expected = contents(&open(&path));
    let manifest = directory.path().join("elsewhere/pages.pages");
    let mut bytes = fs::read(&manifest).expect("readable");
    bytes.extend_from_slice(&[0x5a; 100]);
    fs::write(&manifest, &bytes).expect("writable");
    let found = verify(&path);
    assert_eq!(found.damages.len(), 1, "{found:?}");
    assert!(found.damages[0].what.contains("is not a multiple of"), "{found:?}");
    let to = directory.path().join("saved");
    let saved = salvage(&path, &to);
    assert_eq!(saved.pages[0].found.as_ref().expect("it is found").rows, 5000, "{saved:?}");
    assert_eq!(contents(&open(&to)), expected);
}

/// Flips a bit of one of the files, of the database or of its paged table: the database then says what it did, or is refused
/// and everything else is salvaged.
#[test]
fn of_a_database_with_one_flipped_bit_everything_else_is_salvaged() {
    let (directory, path) = filled();
    let expected = contents(&open(&path));
    let elsewhere = directory.path().join("elsewhere");
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in [&path, &elsewhere] {
        files.extend(fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("an entry").path()));
    }
    files.retain(|file| !file.to_string_lossy().ends_with("LOCK") && !file.to_string_lossy().ends_with(".lock"));
    files.sort();
    let sum = |found: &BTreeMap<&str, Vec<String>>| found.values().map(|rows| rows.len() as u64).sum::<u64>();
    seeded_runs("flipped_bit_under_sql", 24, |seed| {
        let mut random = seed.generator();
        let file = &files[random.usize(..files.len())];
        let sound = fs::read(file).expect("readable");
        let used = sound.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1).max(1);
        let mut bytes = sound.clone();
        bytes[random.usize(..used)] ^= 1 << random.u8(..8);
        fs::write(file, &bytes).expect("writable");
        let found = verify(&path);
        let to = directory.path().join(format!("saved {}", seed.0));
        let saved = salvage(&path, &to);
        let rows = contents(&open(&to));
        for (table, rows) in &rows {
            let known: std::collections::HashSet<_> = expected[table].iter().collect();
            // A row of the checkpoint whose deletion in the log is lost comes back.
            let strange: Vec<_> = rows.iter().filter(|row| !known.contains(row)).collect();
            assert!(
                strange.is_empty() || !saved.engine.lost.is_empty() || saved.engine.lost_behind.is_some(),
                "{file:?}: {strange:?}"
            );
        }
        if found.is_sound() {
            assert_eq!(rows, expected, "{file:?} is sound");
        }
        if saved.is_complete() {
            assert_eq!(rows, expected, "{file:?}: complete");
        }
        // Without the manifest of a page file no page is found.
        let is_manifest = file.ends_with("pages.pages");
        let least = if is_manifest { sum(&expected) - 5000 } else { sum(&expected) - 2500 };
        assert!(sum(&rows) >= least, "{file:?}: {} of {} rows", sum(&rows), sum(&expected));
        fs::write(file, &sound).expect("writable");
        fs::remove_dir_all(&to).expect("removed");
    });
}

/// Opens the engine below, and has something done to its tables.
pub(crate) fn tamper(path: &Path, work: impl Fn(&mut ishigaki_txn::Transaction) -> ishigaki_txn::Result<()>) {
    let engine = ishigaki_txn::Database::open(path, ishigaki_txn::Settings::default()).expect("it opens");
    let session = engine.session();
    session.run(|txn| work(txn)).expect("done");
    drop(session);
    engine.close().expect("closed");
}

fn with_views() -> (tempfile::TempDir, PathBuf) {
    let (directory, path) = filled();
    let database = open(&path);
    let session = database.session();
    session.execute_blocking("CREATE VIEW some AS SELECT id, name FROM stones WHERE id < 10").expect("made");
    session.execute_blocking("CREATE VIEW fewer (n) AS SELECT count(*) FROM some JOIN pages ON id = n").expect("made");
    drop(session);
    database.close().expect("closed");
    (directory, path)
}

#[test]
fn views_are_verified_backed_up_and_salvaged() {
    let (directory, path) = with_views();
    let found = verify(&path);
    assert!(found.is_sound(), "{found:?}");
    assert_eq!(found.views, ["fewer", "some"]);
    let (copy, saved_to) = (directory.path().join("copy"), directory.path().join("saved"));
    assert_eq!(backup(&path, &copy).expect("copied").views, 2);
    let saved = salvage(&path, &saved_to);
    assert!(saved.is_complete(), "{saved:?}");
    assert_eq!(saved.views, ["fewer", "some"]);
    for path in [copy, saved_to] {
        assert_eq!(rows(&open(&path).session(), "SELECT n FROM fewer"), ["8"]);
        assert!(verify(&path).is_sound());
    }
}

#[test]
fn a_view_whose_table_is_lost_is_kept_and_named() {
    let (directory, path) = with_views();
    tamper(&path, |txn| {
        let catalog = txn.table("sql.catalog")?.expect("it is there");
        txn.delete(catalog, b"stones")?;
        txn.drop_table("sql.rows.stones").map(drop)
    });
    let found = verify(&path);
    let damage = found.damages.iter().map(ToString::to_string).find(|it| it.contains("view")).expect("it is told");
    assert!(damage.contains("view some reads stones (id BIGINT, name TEXT), which is not there"), "{damage}");
    let to = directory.path().join("saved");
    let saved = salvage(&path, &to);
    let what = "stones (id BIGINT, name TEXT), which is not there".to_owned();
    assert_eq!((saved.is_complete(), saved.broken_views), (false, vec![("some".to_owned(), what)]));
    let database = open(&to);
    let session = database.session();
    let fails = |sql: &str| session.query_blocking(sql).expect_err(sql).to_string();
    assert_eq!(
        fails("SELECT * FROM fewer"),
        "view some: it reads stones, which is not there; CREATE that again, or DROP VIEW"
    );
    for columns in ["id BIGINT, name BIGINT", "id BIGINT", "id BIGINT, name TEXT, more TEXT"] {
        session.execute_blocking(&format!("BEGIN; CREATE TABLE stones ({columns})")).expect("made");
        let error = fails("SELECT * FROM some");
        assert!(error.contains("view some: it reads stones, which has other columns"), "{error}");
        session.execute_blocking("ROLLBACK").expect("undone");
    }
    session.execute_blocking("CREATE TABLE stones (id BIGINT PRIMARY KEY, name TEXT)").expect("made");
    session.execute_blocking("INSERT INTO stones VALUES (3, 'x')").expect("stored");
    assert_eq!(rows(&session, "SELECT * FROM fewer"), ["1"]);
}

#[test]
fn a_view_that_can_not_be_read_is_named() {
    let (directory, path) = with_views();
    tamper(&path, |txn| {
        let views = txn.table("sql.views")?.expect("it is there");
        txn.put(views, b"some", b"\x09nonsense")
    });
    let found = verify(&path);
    assert!(found.damages.iter().any(|damage| damage.to_string().contains("view some: ")), "{found:?}");
    let saved = salvage(&path, &directory.path().join("saved"));
    assert_eq!(saved.unreadable_views.first().map(|(name, _)| name.as_str()), Some("some"));
    assert!(!saved.is_complete() && saved.views == ["fewer"], "{saved:?}");
}

#[test]
fn a_database_older_than_views_gets_them() {
    let (_directory, path) = filled();
    // It has no such table, and the tables of its rows have the numbers behind the three that there were.
    tamper(&path, |txn| txn.drop_table("sql.views").map(drop));
    assert!(verify(&path).is_sound());
    let database = open(&path);
    database.session().execute_blocking("CREATE VIEW later AS SELECT count(*) AS n FROM stones").expect("made");
    assert_eq!(rows(&database.session(), "SELECT n FROM later"), ["2700"]);
    database.close().expect("closed");
    assert_eq!(verify(&path).views, ["later"]);
}
