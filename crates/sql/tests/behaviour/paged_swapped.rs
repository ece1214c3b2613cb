//! Manifests that were put in place of a paged table's: another table's, or an older one of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ishigaki_base::ErrorKind;
use ishigaki_sql::{Database, Settings};

use crate::damage::{backup, open, salvage, tamper, verify};
use crate::shell::{error, rows, run};

/// A folder with a database in `data`, whose paged tables `p` and `q` have 1,000 numbers each, those of `q` negative.
struct Place {
    folder: tempfile::TempDir,
    data: PathBuf,
}

const SUMS: &str = "SELECT count(*), sum(n) FROM";

impl Place {
    fn filled() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let place = Self { data: folder.path().join("data"), folder };
        let database = place.open();
        for (table, sign) in [("p", ""), ("q", "-")] {
            let location = place.path(table).display().to_string();
            run(
                &database.session(),
                &format!("CREATE TABLE {table} (n BIGINT) WITH (storage = 'paged', location = '{location}')"),
            );
            place.append_to(&database, table, sign);
        }
        database.close().expect("closed");
        place
    }

    fn append_to(&self, database: &Database, table: &str, sign: &str) {
        assert!(self.data.exists());
        run(&database.session(), &format!("INSERT INTO {table} SELECT {sign}value FROM generate_series(1, 1000)"));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self) -> Database {
        open(&self.data)
    }

    fn manifest(&self, table: &str) -> PathBuf {
        self.path(table).join(format!("{table}.pages"))
    }

    /// Every file of a table, with its bytes.
    fn files(&self, table: &str) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.path(table)).expect("a folder").map(|entry| entry.expect("an entry"));
        let files = entries.map(|entry| {
            let name = entry.file_name().into_string().expect("UTF-8");
            (name, fs::read(entry.path()).expect("readable"))
        });
        files.collect()
    }

    /// Every statement on a table is refused with those words, in a database that is open, and nothing of its files changes.
    fn refuses(&self, database: &Database, table: &str, words: &[&str]) {
        let before = self.files(table);
        let session = database.session();
        for statement in [
            format!("SELECT * FROM {table}"),
            format!("SELECT count(*) FROM {table}"),
            format!("INSERT INTO {table} VALUES (7)"),
        ] {
            let error = error(&session, &statement);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{statement}: {error}");
            for word in words {
                assert!(error.to_string().contains(word), "{statement}: {error}");
            }
        }
        assert_eq!(self.files(table), before, "nothing is touched");
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("made");
        for entry in fs::read_dir(from).expect("a folder") {
            let entry = entry.expect("an entry");
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).expect("copied");
    }
}

#[test]
fn another_tables_manifest_is_refused_by_everything_and_none_of_its_rows_are_shown() {
    let words = ["is that of another page file", "put the file's own manifest back"];
    let place = Place::filled();
    let own = fs::read(place.manifest("q")).expect("readable");
    let foreign = fs::read(place.manifest("p")).expect("readable");
    // While it is open, and its pages and those of the other table are in memory.
    let database = place.open();
    for table in ["p", "q"] {
        rows(&database.session(), &format!("SELECT * FROM {table}"));
    }
    fs::write(place.manifest("q"), &foreign).expect("writable");
    place.refuses(&database, "q", &words);
    assert_eq!(rows(&database.session(), &format!("{SUMS} p")), ["1000|500500"]);
    database.close().expect("closed");
    // Alone, and with the pages that belong to it.
    for pages in [false, true] {
        if pages {
            copy(&place.path("p/p-0000000001.pages"), &place.path("q/q-0000000001.pages"));
        }
        let found = verify(&place.data);
        assert!(!found.is_sound());
        assert!(
            found.all_damages().all(|damage| damage.what.contains(words[0]) && damage.file.contains("/q")),
            "{found:?}"
        );
        let error = backup(&place.data, &place.path(&format!("backup-{pages}"))).expect_err("it is not the table's");
        assert!(error.to_string().contains(words[0]), "{error}");
        let saved = salvage(&place.data, &place.path(&format!("saved-{pages}")));
        assert!(!saved.is_complete());
        let of_q = saved.pages.iter().find(|pages| pages.table == "q").expect("it is named");
        assert!(of_q.found.as_ref().is_err_and(|why| why.contains(words[0])), "{of_q:?}");
        let saved = open(&place.path(&format!("saved-{pages}")));
        assert_eq!(rows(&saved.session(), &format!("{SUMS} q")), ["0|NULL"]);
        assert_eq!(rows(&saved.session(), &format!("{SUMS} p")), ["1000|500500"]);
        saved.close().expect("closed");
        let before = place.files("q");
        let database = place.open();
        assert_eq!(place.files("q"), before, "opening has touched nothing");
        rows(&database.session(), "SELECT * FROM p");
        place.refuses(&database, "q", &words);
        database.close().expect("closed");
        if !pages {
            fs::write(place.manifest("q"), &own).expect("writable");
            let database = place.open();
            assert_eq!(rows(&database.session(), &format!("{SUMS} q")), ["1000|-500500"]);
            database.close().expect("closed");
            fs::write(place.manifest("q"), &foreign).expect("writable");
        }
    }
}

#[test]
fn an_older_manifest_is_refused_and_what_came_later_stays_until_the_newest_one_is_back() {
    let words = ["is an older copy: it has 1 of at least 2 appends", "put the newest manifest back"];
    let place = Place::filled();
    let old = fs::read(place.manifest("q")).expect("readable");
    let database = place.open();
    place.append_to(&database, "q", "");
    let new = fs::read(place.manifest("q")).expect("readable");
    assert_eq!(rows(&database.session(), &format!("{SUMS} q")), ["2000|0"]);
    fs::write(place.manifest("q"), &old).expect("writable");
    place.refuses(&database, "q", &words);
    database.close().expect("closed");
    let before = place.files("q");
    let found = verify(&place.data);
    assert_eq!(found.all_damages().count(), 1, "{found:?}");
    let damage = found.all_damages().next().expect("one");
    assert!(damage.what.contains(words[0]) && damage.file.ends_with("q/q.pages"), "{damage:?}");
    let error = backup(&place.data, &place.path("backup")).expect_err("it is not whole");
    assert!(error.to_string().contains(words[0]), "{error}");
    let saved = salvage(&place.data, &place.path("saved"));
    assert!(!saved.is_complete());
    let saved = open(&place.path("saved"));
    assert_eq!(rows(&saved.session(), &format!("{SUMS} q")), ["1000|-500500"]);
    // The files of what was salvaged are others, which are noted from their first opening on.
    place.append_to(&saved, "q", "");
    assert_eq!(rows(&saved.session(), &format!("{SUMS} q")), ["2000|0"]);
    saved.close().expect("closed");
    for _ in 0..2 {
        let database = place.open();
        place.refuses(&database, "q", &words);
        database.close().expect("closed");
    }
    assert_eq!(place.files("q"), before);
    fs::write(place.manifest("q"), &new).expect("writable");
    let database = place.open();
    place.append_to(&database, "q", "");
    assert_eq!(rows(&database.session(), &format!("{SUMS} q")), ["3000|500500"]);
    database.close().expect("closed");
    assert!(verify(&place.data).is_sound());
    backup(&place.data, &place.path("backup-2")).expect("it is whole");
    let copied = open(&place.path("backup-2"));
    assert_eq!(rows(&copied.session(), &format!("{SUMS} q")), ["3000|500500"]);
    copied.close().expect("closed");
}

#[test]
fn an_append_that_was_not_noted_before_the_process_was_killed_is_noted_by_the_next_opening() {
    let place = Place::filled();
    let old = fs::read(place.manifest("q")).expect("readable");
    copy(&place.data, &place.path("before"));
    let database = place.open();
    place.append_to(&database, "q", "");
    database.close().expect("closed");
    // As it was when the manifest was current, and the log had nothing of it.
    fs::remove_dir_all(&place.data).expect("removed");
    copy(&place.path("before"), &place.data);
    assert!(verify(&place.data).is_sound());
    let database = place.open();
    assert_eq!(rows(&database.session(), &format!("{SUMS} q")), ["2000|0"]);
    database.close().expect("closed");
    fs::write(place.manifest("q"), &old).expect("writable");
    assert!(!verify(&place.data).is_sound());
}

#[test]
fn a_database_from_before_there_were_notes_gets_them_when_it_is_opened() {
    let place = Place::filled();
    tamper(&place.data, |txn| txn.drop_table("sql.page_states").map(drop));
    assert!(verify(&place.data).is_sound());
    let foreign = fs::read(place.manifest("p")).expect("readable");
    let database = place.open();
    assert_eq!(rows(&database.session(), &format!("{SUMS} q")), ["1000|-500500"]);
    database.close().expect("closed");
    fs::write(place.manifest("q"), foreign).expect("writable");
    assert!(!verify(&place.data).is_sound());
    place.refuses(&place.open(), "q", &["is that of another page file"]);
}

#[test]
fn a_table_of_files_that_were_there_knows_them_again_and_takes_others_only_when_it_is_made_anew() {
    let place = Place::filled();
    let (folder, location) = (tempfile::tempdir().expect("a folder"), place.path("q").display().to_string());
    let other = Database::open(folder.path().join("data"), Settings::default()).expect("opens");
    let create =
        format!("CREATE TABLE q (n BIGINT) WITH (storage = 'paged', location = '{location}', existing = true)");
    run(&other.session(), &create);
    // Its own database appends, and so does this one; neither is in the other's way.
    let own = place.open();
    place.append_to(&own, "q", "");
    place.append_to(&other, "q", "");
    for database in [&own, &other] {
        assert_eq!(rows(&database.session(), &format!("{SUMS} q")), ["3000|500500"]);
    }
    run(&own.session(), &format!("DROP TABLE q; {}", create.replace(", existing = true", "")));
    place.append_to(&own, "q", "");
    place.refuses(&other, "q", &["is that of another page file", "existing = true"]);
    run(&other.session(), &format!("DROP TABLE q; {create}"));
    assert_eq!(rows(&other.session(), &format!("{SUMS} q")), ["1000|500500"]);
}
