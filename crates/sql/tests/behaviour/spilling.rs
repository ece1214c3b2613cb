//! Statements over more rows than the memory for queries holds.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_sql::{Database, Session, Settings, Spilled, Statement};
use tempfile::TempDir;

use crate::shell::{error, rows, run};

/// Rows of the table, some 150 MiB.
const ROWS: u64 = 160_000;

/// The memory for queries.
const MEMORY: ByteSize = ByteSize::mib(96);

struct Large {
    directory: TempDir,
    database: Database,
    session: Session,
}

impl Large {
    /// A table several times as large as the memory for queries.
    fn with(spill_limit: ByteSize) -> Self {
        Self::of(ROWS, MEMORY, spill_limit)
    }

    fn of(row_count: u64, query_memory: ByteSize, spill_limit: ByteSize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings { query_memory, spill_limit, threads: 2.try_into().ok(), ..Settings::default() };
        let database = Database::open(directory.path(), settings).unwrap();
        let session = database.session();
        run(&session, "CREATE TABLE large (id BIGINT PRIMARY KEY, mixed BIGINT NOT NULL, pad TEXT NOT NULL)");
        for from in (0..row_count).step_by(10_000) {
            let values = format!(
                "SELECT value, value * 7919 % {ROWS}, repeat('x', 900) || CAST(value AS TEXT) FROM generate_series({from}, {})",
                from + 9_999
            );
            run(&session, &format!("INSERT INTO large {values}"));
        }
        Self { directory, database, session }
    }

    fn rows(&self, sql: &str) -> Vec<String> {
        rows(&self.session, sql)
    }

    /// Waits until no file of spilled rows is left. The parts of a failed statement that work on other threads end on their own.
    fn wait_for_no_file(&self) {
        let began = Instant::now();
        while !self.spilled().is_empty() {
            assert!(began.elapsed() < Duration::from_mins(1), "{:?}", self.spilled());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Files of spilled rows.
    fn spilled(&self) -> Vec<String> {
        files(&self.directory.path().join("spill"))
            .into_iter()
            .filter(|name| Path::new(name).extension().is_none_or(|end| end != "lock"))
            .collect()
    }
}

fn files(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let of = |path: &Path| if path.is_dir() { files(path) } else { vec![path.display().to_string()] };
    entries.flat_map(|entry| of(&entry.unwrap().path())).collect()
}

const AGGREGATE: &str = "SELECT count(*), sum(n), max(length(p)) FROM \
                         (SELECT mixed + 0 AS m, pad || 'y' AS t, count(*) AS n, max(pad) AS p FROM large GROUP BY 1, 2)";

#[test]
fn a_sort_larger_than_memory_gives_all_rows_in_order() {
    let large = Large::with(ByteSize::gib(1));
    let sorted = large.rows("SELECT mixed, id, pad FROM large ORDER BY mixed, pad");
    assert_eq!(sorted.len() as u64, ROWS);
    for (at, row) in sorted.iter().enumerate() {
        assert!(row.starts_with(&format!("{at}|")), "{row}");
    }
    let analyzed = large.rows("EXPLAIN ANALYZE SELECT mixed, id, pad FROM large ORDER BY mixed, pad").join("\n");
    assert!(analyzed.contains("spill_count=") && !analyzed.contains("spill_count=0,"), "{analyzed}");
    assert_eq!(large.spilled(), [] as [String; 0]);
}

#[test]
fn a_grouping_and_a_join_larger_than_memory_give_what_a_small_one_would() {
    let large = Large::with(ByteSize::gib(1));
    assert_eq!(large.rows(AGGREGATE), [format!("{ROWS}|{ROWS}|{}", 900 + (ROWS - 1).to_string().len())]);
    assert_eq!(large.database.spilled().bytes, 0, "nothing stays of a statement that has ended");
    let sum = (ROWS - 1) * ROWS / 2;
    let joined = "SELECT count(*), sum(a.id), sum(b.mixed) FROM large a JOIN large b ON a.mixed = b.id AND a.pad <> b.pad || 'z'";
    assert_eq!(large.rows(joined), [format!("{ROWS}|{sum}|{sum}")]);
    // Sorted rows, too, meet where one has 0 and the other -0.
    let zeros = "SELECT count(*), min(a.id) FROM large a JOIN large b \
                 ON (- a.mixed::DOUBLE PRECISION) = (0.0 - b.id::DOUBLE PRECISION) AND a.pad <> b.pad || 'z'";
    assert_eq!(large.rows(zeros), [format!("{ROWS}|0")]);
    assert_eq!(large.spilled(), [] as [String; 0]);
    let folder = large.directory.path().join("spill");
    let Large { directory: _directory, database, session } = large;
    drop((database, session));
    assert_eq!(files(&folder), [] as [String; 0], "nothing stays, the lock neither");
}

#[test]
fn one_thread_and_many_sort_group_and_join_in_memory_that_is_little_for_each() {
    for (threads, memory) in [(1, 24), (8, 24), (16, 12)] {
        let directory = tempfile::tempdir().unwrap();
        let settings =
            Settings { query_memory: ByteSize::mib(memory), threads: threads.try_into().ok(), ..Settings::default() };
        let database = Database::open(directory.path(), settings).unwrap();
        let session = database.session();
        let wide = "SELECT value AS id, value * 7919 % 40000 AS mixed, repeat('x', 900) || value AS pad FROM generate_series(0, 39999)";
        let sorted = rows(&session, &format!("SELECT mixed FROM ({wide}) AS t ORDER BY mixed, pad"));
        assert!(sorted.iter().enumerate().all(|(at, row)| *row == at.to_string()), "{threads} threads");
        let grouped = format!(
            "SELECT count(*), sum(n) FROM (SELECT pad || 'y' AS p, count(*) AS n FROM ({wide}) t GROUP BY 1) AS g"
        );
        assert_eq!(rows(&session, &grouped), ["40000|40000"], "{threads} threads");
        let joined = format!(
            "SELECT count(*), sum(a.id), sum(b.mixed) FROM ({wide}) a JOIN ({wide}) b ON a.mixed = b.id AND a.pad <> b.pad || 'z'"
        );
        assert_eq!(rows(&session, &joined), ["40000|799980000|799980000"], "{threads} threads");
    }
}

#[test]
fn the_folder_is_made_for_the_first_rows_that_are_spilled_and_says_how_much_there_is() {
    let large = Large::with(ByteSize::gib(1));
    let folder = large.directory.path().join("spill");
    large.rows("SELECT count(*) FROM large");
    assert!(!folder.exists(), "nothing was spilled yet");
    assert_eq!(large.database.spilled(), Spilled { bytes: 0, files: 0, limit: 1 << 30 });
    let sort = Statement::parse("SELECT mixed, id, pad FROM large ORDER BY mixed, pad").unwrap().pop().unwrap();
    let mut sorted = large.session.run_blocking(&sort).unwrap().into_rows().unwrap();
    sorted.next_blocking().unwrap().unwrap();
    let spilled = large.database.spilled();
    assert!(spilled.bytes > 0 && spilled.files > 0 && large.spilled().len() >= spilled.files, "{spilled:?}");
    drop(sorted);
    drop(large.session);
    drop(large.database);
    assert!(!folder.exists());
}

#[test]
fn a_folder_that_can_not_be_made_is_told_by_the_statement_that_needs_it() {
    let directory = tempfile::tempdir().unwrap();
    let no_folder = directory.path().join("file");
    fs::write(&no_folder, b"").unwrap();
    let settings = Settings {
        query_memory: ByteSize::mib(8),
        spill_directory: Some(no_folder.join("spill")),
        threads: 2.try_into().ok(),
        ..Settings::default()
    };
    let database = Database::open(directory.path().join("data"), settings).unwrap();
    let session = database.session();
    assert_eq!(rows(&session, "SELECT 1"), ["1"]);
    let sorted = "SELECT repeat('x', 900) || value AS t FROM generate_series(1, 40000) ORDER BY t";
    let failed = error(&session, sorted);
    let text = failed.to_string();
    assert!(text.contains("rows can not be spilled to this folder") && text.contains("--spill-directory"), "{text}");
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
}

#[test]
fn a_statement_that_may_not_spill_fails_alone_and_says_which_setting_helps() {
    for limit in [ByteSize::b(0), ByteSize::mib(1)] {
        let large = Large::of(ROWS / 8, ByteSize::mib(8), limit);
        let failed = error(&large.session, AGGREGATE);
        assert_eq!(failed.kind(), ErrorKind::Exhausted, "{failed}");
        if limit.0 > 0 {
            assert!(failed.to_string().contains("`Settings::spill_limit`"), "{failed}");
        }
        assert_eq!(large.rows("SELECT count(*) FROM large"), [(ROWS / 8).to_string()]);
        large.wait_for_no_file();
    }
}

#[test]
fn what_an_update_or_a_delete_remembers_of_its_rows_counts_as_memory_and_nothing_is_changed_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let open = |query_memory| {
        let settings = Settings { query_memory, threads: 2.try_into().ok(), ..Settings::default() };
        Database::open(directory.path(), settings).unwrap()
    };
    let statements = [
        ("UPDATE one SET n = two.n FROM two WHERE one.id = two.id", "rows to update needs ", 12),
        ("DELETE FROM one USING two WHERE one.id = two.id", "rows to delete needs ", 5),
    ];
    let database = open(ByteSize::mib(512));
    let session = database.session();
    run(&session, "CREATE TABLE one (id BIGINT PRIMARY KEY, n BIGINT)");
    run(&session, "CREATE TABLE two (id BIGINT PRIMARY KEY, n BIGINT)");
    run(&session, "INSERT INTO two SELECT value, 1 FROM generate_series(1, 100000)");
    run(&session, "INSERT INTO one SELECT id, 0 FROM two");
    drop((session, database));
    for (statement, what, memory) in statements {
        let database = open(ByteSize::mib(memory));
        let session = database.session();
        let failed = error(&session, statement);
        assert_eq!(failed.kind(), ErrorKind::Exhausted, "{failed}");
        let text = failed.to_string();
        let wanted = text.split_once(what).and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
        assert!(wanted.is_some_and(|bytes| bytes < 1000), "no memory to remember one more row: {text}");
        assert_eq!(rows(&session, "SELECT count(*), sum(n) FROM one"), ["100000|0"]);
    }
    let database = open(ByteSize::mib(512));
    let session = database.session();
    run(&session, statements[0].0);
    assert_eq!(rows(&session, "SELECT count(*), sum(n) FROM one"), ["100000|100000"]);
    run(&session, statements[1].0);
    assert_eq!(rows(&session, "SELECT count(*) FROM one"), ["0"]);
}

#[test]
fn the_condition_of_a_join_of_sorted_rows_reads_its_own_columns_whatever_is_selected() {
    let large = Large::of(40_000, ByteSize::mib(16), ByteSize::gib(4));
    for (selected, columns) in [("a.id, b.id", 2), ("b.id", 1)] {
        for kind in ["", "LEFT "] {
            let query = format!(
                "SELECT {selected} FROM large a {kind}JOIN large b ON a.id = b.id AND a.pad || 'z' > b.pad || 'y' AND a.mixed <= b.mixed"
            );
            let rows = large.rows(&query);
            assert_eq!(rows.len(), 40_000, "{query}");
            assert!(rows.iter().all(|row| row.split('|').count() == columns && !row.contains("NULL")), "{query}");
        }
    }
}
