//! COPY: files in and out.

use std::time::Duration;

use crate::shell::{Shell, run};
use ishigaki_base::ErrorKind;
use ishigaki_txn::ProtocolKind;

const TABLE: &str = "CREATE TABLE t (
    id INT PRIMARY KEY, b BIGINT, d DOUBLE, n DECIMAL(12, 3), f BOOLEAN, x TEXT, y BYTEA, e DATE, w TIMESTAMP
)";

const ROWS: &str = r#"INSERT INTO t VALUES
    (1, -9223372036854775808, 0.1, -123456789.125, true, 'plain', X'00ff', '2024-02-29', '2024-02-29 12:34:56.789012'),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, 0, 1e300, 0, false, '', X'', '0001-01-01', '9999-12-31 23:59:59'),
    (4, 1, -2.5, 1.5, true, 'a, "quoted" text
over two lines', X'2c22', '1970-01-01', '1970-01-01 00:00:00')"#;

fn filled() -> Shell {
    let shell = Shell::with(TABLE);
    shell.run(ROWS);
    shell
}

/// The numbers from 0, one on each line.
fn lines(count: u32) -> String {
    (0..count).map(|n| n.to_string() + "\n").collect()
}

fn write(shell: &Shell, name: &str, text: &str) -> String {
    let file = shell.file(name);
    std::fs::write(&file, text).expect("writes");
    file
}

#[test]
fn every_format_gives_back_what_it_was_given() {
    for options in [
        "t.csv'",
        "t.csv' WITH (HEADER false)",
        "t.tsv' WITH (HEADER, NULL '\\N')",
        "t.txt' WITH (FORMAT csv, DELIMITER ';', QUOTE '''')",
        "t.csv' CSV HEADER",
        "t.parquet'",
        "t.bin' WITH (FORMAT parquet)",
    ] {
        let shell = filled();
        let expected = shell.rows("SELECT * FROM t ORDER BY id");
        let place = format!("'{}/{options}", shell.directory.path().display());
        assert_eq!(shell.run(&format!("COPY t TO {place}")), 4, "{options}");
        shell.run("DELETE FROM t");
        assert_eq!(shell.run(&format!("COPY t FROM {place}")), 4, "{options}");
        assert_eq!(shell.rows("SELECT * FROM t ORDER BY id"), expected, "{options}");
    }
}

#[test]
fn null_and_the_empty_text_differ_in_csv() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY, x TEXT)");
    let file = write(&shell, "t.csv", "1,\n2,\"\"\n3,\"NULL\"\n");
    shell.run(&format!("COPY t FROM '{file}'"));
    assert_eq!(shell.rows("SELECT id, x IS NULL, x FROM t ORDER BY id"), ["1|true|NULL", "2|false|", "3|false|NULL"]);
    shell.run(&format!("COPY t TO '{file}'"));
    assert_eq!(std::fs::read_to_string(&file).expect("reads"), "id,x\n1,\n2,\"\"\n3,NULL\n");
}

#[test]
fn a_header_names_the_columns_in_any_order_and_the_others_get_their_defaults() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT 7, x TEXT, z TEXT)");
    let file = write(&shell, "t.csv", "\u{feff}X,id\r\none,1\r\n\r\ntwo,2\r\n");
    assert_eq!(shell.run(&format!("COPY t FROM '{file}'")), 2);
    assert_eq!(shell.rows("SELECT * FROM t ORDER BY id"), ["1|7|one|NULL", "2|7|two|NULL"]);
    let file = write(&shell, "other.csv", "key,word\n3,three\n");
    shell.refuses(&format!("COPY t FROM '{file}' WITH (HEADER)"), &["other.csv", "line 1", "header"]);
    assert_eq!(shell.run(&format!("COPY t (id, x) FROM '{file}' WITH (HEADER)")), 1);
    assert_eq!(shell.rows("SELECT * FROM t WHERE id = 3"), ["3|7|three|NULL"]);
}

#[test]
fn an_error_in_a_file_names_file_and_line_and_loads_nothing() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY, x VARCHAR(5) NOT NULL)");
    for (text, words) in [
        ("1,a\n2,b\nthree,c\n", vec!["line 3", "column id", "'three'"]),
        ("1,a\n2,\"b\n\n\"\n1,c\n", vec!["line 5", "duplicate key (id) = (1)"]),
        ("1,a\n\n2,toolong\n", vec!["line 3", "column x", "'toolong'"]),
        ("1,a\n2,\n", vec!["line 2", "column x", "NULL"]),
        ("1,a\n2\n", vec!["line 2", "1 fields, expected 2"]),
        ("1,a\n2,\"b\n", vec!["line 2", "never closed"]),
        ("1,a,9\n", vec!["line 1", "3 fields, expected 2"]),
    ] {
        let file = write(&shell, "bad.csv", text);
        shell.refuses(&format!("COPY t FROM '{file}'"), &[&["bad.csv"], words.as_slice()].concat());
        assert_eq!(shell.rows("SELECT count(*) FROM t"), ["0"], "{text:?}");
    }
    std::fs::write(shell.file("bad.csv"), b"1,\xff\n").expect("writes");
    shell.refuses(&format!("COPY t FROM '{}'", shell.file("bad.csv")), &["line 1", "UTF-8"]);
}

#[test]
fn a_bad_line_far_into_a_file_undoes_all_lines_before_it() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY, x INT); BEGIN; INSERT INTO t VALUES (-1, 0)");
    let mut text = lines(30_000).replace('\n', ",0\n");
    text.push_str("30000,bad\n");
    let file = write(&shell, "bad.csv", &text);
    shell.refuses(&format!("COPY t FROM '{file}'"), &["line 30001", "'bad'"]);
    shell.run("COMMIT");
    assert_eq!(shell.rows("SELECT id FROM t"), ["-1"]);
}

#[test]
fn files_that_are_not_there_or_not_what_they_say_are_named() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY)");
    let missing = shell.error(&format!("COPY t FROM '{}'", shell.file("missing.csv")));
    assert_eq!(missing.kind(), ErrorKind::Unavailable);
    assert!(missing.to_string().contains("missing.csv"), "{missing}");
    let file = write(&shell, "not.parquet", "no, this is text");
    shell.refuses(&format!("COPY t FROM '{file}'"), &["not.parquet"]);
    let file = write(&shell, "what.is.this", "1");
    shell.refuses(&format!("COPY t FROM '{file}'"), &["what.is.this", "FORMAT"]);
    shell.refuses("COPY t FROM STDIN", &["STDIN", "not supported"]);
    shell.refuses(&format!("COPY t FROM '{file}' WITH (FORMAT binary)"), &["binary"]);
    shell.refuses(&format!("COPY t FROM '{file}' WITH (FORMAT csv, FREEZE)"), &["FREEZE"]);
}

#[test]
fn a_query_can_be_copied_out_and_replaces_an_old_file_only_when_it_is_complete() {
    let shell = filled();
    let file = write(&shell, "out.csv", "old");
    shell.error(&format!("COPY (SELECT 1 / (id - 4) FROM t) TO '{file}'"));
    assert_eq!(std::fs::read_to_string(&file).expect("reads"), "old");
    assert_eq!(shell.run(&format!("COPY (SELECT id, x FROM t WHERE id < 3 ORDER BY id DESC) TO '{file}'")), 2);
    assert_eq!(std::fs::read_to_string(&file).expect("reads"), "id,x\n2,\n1,plain\n");
    assert_eq!(shell.run(&format!("COPY t (x) TO '{file}' WITH (HEADER false)")), 4);
    let left: Vec<_> =
        std::fs::read_dir(shell.directory.path()).expect("lists").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_line_that_may_be_a_row_is_no_header_unless_that_is_said() {
    let shell = Shell::with("CREATE TABLE t (a TEXT, b TEXT); CREATE TABLE u (a TEXT, n INT)");
    let file = write(&shell, "t.csv", "b,a\n1,2\n");
    shell.refuses(&format!("COPY t FROM '{file}'"), &["t.csv", "line 1", "HEADER true", "HEADER false"]);
    assert_eq!(shell.run(&format!("COPY t FROM '{file}' WITH (HEADER false)")), 2);
    assert_eq!(shell.run(&format!("COPY t FROM '{file}' WITH (HEADER)")), 1);
    assert_eq!(shell.rows("SELECT * FROM t ORDER BY a, b"), ["1|2", "2|1", "b|a"]);
    // A name of one of two columns, or one that is no number, is no row.
    assert_eq!(shell.run(&format!("COPY t FROM '{}'", write(&shell, "one.csv", "b\n3\n"))), 1);
    assert_eq!(shell.run(&format!("COPY u FROM '{}'", write(&shell, "u.csv", "a,n\nx,3\n"))), 1);
}

#[test]
fn parquet_columns_are_found_by_name() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY, x TEXT DEFAULT 'd')");
    let file = shell.file("q.parquet");
    shell.run(&format!("COPY (SELECT 'one' AS x, CAST(1 AS BIGINT) AS id UNION ALL SELECT 'two', 2) TO '{file}'"));
    assert_eq!(shell.run(&format!("COPY t FROM '{file}'")), 2);
    assert_eq!(shell.rows("SELECT * FROM t ORDER BY id"), ["1|one", "2|two"]);
    shell.run(&format!("DELETE FROM t; COPY t (id) FROM '{file}'"));
    assert_eq!(shell.rows("SELECT * FROM t ORDER BY id"), ["1|d", "2|d"]);
    shell.run(&format!("COPY (SELECT 1 AS id, 2 AS stranger) TO '{file}'"));
    shell.refuses(&format!("COPY t FROM '{file}'"), &["q.parquet", "stranger"]);
}

#[test]
fn progress_counts_bytes_and_rows() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY)");
    let text = lines(20_000);
    let file = write(&shell, "t.csv", &text);
    let progress = shell.session.progress();
    shell.run(&format!("COPY t FROM '{file}'"));
    assert_eq!(
        (progress.bytes(), progress.total_bytes(), progress.rows()),
        (text.len() as u64, text.len() as u64, 20_000)
    );
}

#[test]
fn a_copy_can_be_cancelled_and_loads_nothing() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY)");
    let text = lines(2_000_000);
    let file = write(&shell, "t.csv", &text);
    let (cancel, progress) = (shell.session.cancel_handle(), shell.session.progress());
    let canceller = std::thread::spawn(move || {
        while progress.rows() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        cancel.cancel();
    });
    assert_eq!(shell.error(&format!("COPY t FROM '{file}'")).kind(), ErrorKind::Cancelled);
    canceller.join().expect("cancels");
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn a_damaged_parquet_file_is_refused_by_name_and_the_transaction_goes_on() {
    let shell = filled();
    let file = shell.file("t.parquet");
    shell.run(&format!("COPY t TO '{file}'"));
    let whole = std::fs::read(&file).expect("reads");
    shell.run("CREATE TABLE u (id INT, b BIGINT, d DOUBLE, n DECIMAL(12, 3), f BOOLEAN, x TEXT, y BYTEA, e DATE, w TIMESTAMP)");
    shell.run("BEGIN");
    let schema = whole.windows(12).position(|bytes| bytes == b"ARROW:schema").expect("Arrow's schema is in it");
    // Damage that makes the reader of that schema panic is among this.
    for (at, flip) in (schema + 40..schema + 100).flat_map(|at| [1_u8, 2, 4, 16].map(|flip| (at, flip))) {
        let mut damaged = whole.clone();
        damaged[at] ^= flip;
        std::fs::write(&file, damaged).expect("writes");
        if let Err(error) = shell.session.execute_blocking(&format!("COPY u FROM '{file}'")) {
            assert!(error.to_string().contains("t.parquet"), "byte {at}: {error}");
        }
    }
    shell.run("COMMIT");
}

#[test]
fn a_copy_goes_through_links_and_keeps_the_mode_of_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let shell = filled();
    let (real, link) = (shell.file("real.csv"), shell.file("link.csv"));
    std::fs::write(&real, "old").expect("writes");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).expect("is ours");
    std::os::unix::fs::symlink(&real, &link).expect("links");
    shell.run(&format!("COPY (SELECT 1 AS one, NULL AS n) TO '{link}'"));
    assert!(std::fs::symlink_metadata(&link).expect("is there").is_symlink());
    assert_eq!(std::fs::read_to_string(&real).expect("reads"), "one,n\n1,\n");
    assert_eq!(std::fs::metadata(&real).expect("is there").permissions().mode() & 0o777, 0o600);
    shell.run("COPY (SELECT 1) TO '/dev/null' WITH (FORMAT csv)");
    assert!(!std::fs::metadata("/dev/null").expect("is there").is_file());
}

#[test]
fn copy_from_a_pipe_is_never_run_twice() {
    let shell = Shell::under(ProtocolKind::Locking);
    shell.run("CREATE TABLE t (n BIGINT PRIMARY KEY)");
    let pipe = shell.file("pipe.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    // The older transaction has the row, so COPY meets a conflict; a second run would read an empty rest, and load nothing.
    let other = shell.other();
    run(&other, "BEGIN; INSERT INTO t VALUES (1)");
    std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&pipe, "1\n2\n"));
        let error = shell.error(&format!("COPY t FROM '{pipe}'"));
        let text = error.to_string();
        assert!(text.contains(&pipe) && text.contains("nothing was loaded"), "{text}");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    });
    run(&other, "ROLLBACK");
    std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&pipe, "1\n2\n"));
        assert_eq!(shell.run(&format!("COPY t FROM '{pipe}'")), 2);
    });
    // What can be read again is loaded as soon as it is possible.
    let file = shell.file("file.csv");
    std::fs::write(&file, "3\n").expect("written");
    run(&other, "BEGIN; INSERT INTO t VALUES (3)");
    std::thread::scope(|scope| {
        let loads = scope.spawn(|| shell.other().execute_blocking(&format!("COPY t FROM '{file}'")));
        std::thread::sleep(std::time::Duration::from_millis(100));
        run(&other, "ROLLBACK");
        loads.join().expect("no panic").expect("loaded");
    });
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["3"]);
}

#[test]
fn copy_to_follows_no_link_that_lies_where_its_temporary_file_would() {
    let shell = Shell::with("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (1)");
    let (victim, out) = (shell.file("victim"), shell.file("out.csv"));
    std::fs::write(&victim, "precious").expect("written");
    let foretold = format!("{out}.{}.tmp", std::process::id());
    std::os::unix::fs::symlink(&victim, &foretold).expect("linked");
    shell.run(&format!("COPY t TO '{out}'"));
    assert_eq!(std::fs::read_to_string(&victim).expect("it is there"), "precious");
    assert!(std::fs::symlink_metadata(&foretold).expect("it stays").is_symlink());
    assert_eq!(std::fs::read_to_string(&out).expect("it is there"), "n\n1\n");
    // A file that only its owner may read is so at every moment, and others' sessions are not in the way.
    std::fs::set_permissions(&out, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("set");
    std::thread::scope(|scope| {
        for session in 0..4 {
            let (own, out) = (shell.other(), &out);
            scope.spawn(move || run(&own, &format!("COPY (SELECT {session} AS n) TO '{out}'")));
        }
    });
    let text = std::fs::read_to_string(&out).expect("it is there");
    assert!(text.len() == 4 && text.starts_with("n\n"), "{text}");
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&out).expect("there").permissions()) & 0o777,
        0o600
    );
}
