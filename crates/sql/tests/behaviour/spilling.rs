//! Statements over more rows than the memory for queries holds.

use std::fs;
use std::path::Path;

use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_sql::{Database, Session, Settings};
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
    let sum = (ROWS - 1) * ROWS / 2;
    let joined = "SELECT count(*), sum(a.id), sum(b.mixed) FROM large a JOIN large b ON a.mixed = b.id AND a.pad <> b.pad || 'z'";
    assert_eq!(large.rows(joined), [format!("{ROWS}|{sum}|{sum}")]);
    assert_eq!(large.spilled(), [] as [String; 0]);
    let folder = large.directory.path().join("spill");
    let Large { directory: _directory, database, session } = large;
    drop((database, session));
    assert_eq!(files(&folder), [] as [String; 0], "nothing stays, the lock neither");
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
        assert_eq!(large.spilled(), [] as [String; 0]);
    }
}
