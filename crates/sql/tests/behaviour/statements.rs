//! Statements, transactions, sessions, errors.

use std::time::{Duration, Instant};

use crate::shell::{Shell, error, rows, run};
use ishigaki_base::ErrorKind;
use ishigaki_sql::arrow::array::RecordBatch;
use ishigaki_sql::{Error, Outcome, Statement, TransactionStatus};
use ishigaki_txn::ProtocolKind;

#[test]
fn what_was_committed_is_there_after_reopening() {
    let shell = Shell::with(
        "CREATE TABLE t (id INT PRIMARY KEY, name TEXT);
         INSERT INTO t VALUES (1, 'one'), (2, 'two');
         UPDATE t SET name = 'zwei' WHERE id = 2;
         BEGIN; DELETE FROM t; ROLLBACK;",
    )
    .reopen();
    assert_eq!(shell.rows("SELECT * FROM t ORDER BY id"), ["1|one", "2|zwei"]);
    shell.run("INSERT INTO t VALUES (3, 'three')");
    let shell = shell.reopen();
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["3"]);
}

#[test]
fn a_transaction_is_kept_whole_by_commit_and_gone_whole_by_rollback() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY)");
    shell.run("BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)");
    assert_eq!(shell.session.transaction_status(), TransactionStatus::Open);
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["2"]);
    shell.run("ROLLBACK");
    assert_eq!(shell.session.transaction_status(), TransactionStatus::None);
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["0"]);
    shell.run("START TRANSACTION ISOLATION LEVEL SERIALIZABLE; INSERT INTO t VALUES (3); COMMIT");
    assert_eq!(shell.rows("SELECT id FROM t"), ["3"]);
}

#[test]
fn commit_and_rollback_need_a_transaction_and_begin_needs_none() {
    let shell = Shell::new();
    assert!(matches!(shell.error("COMMIT"), Error::NoTransaction));
    assert!(matches!(shell.error("ROLLBACK"), Error::NoTransaction));
    shell.run("BEGIN");
    assert!(matches!(shell.error("BEGIN"), Error::InTransaction));
    shell.run("COMMIT");
}

#[test]
fn a_statement_that_fails_has_no_effect_and_the_transaction_goes_on() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1), (2)");
    shell.refuses("INSERT INTO t VALUES (3), (4), (1)", &["table t", "duplicate key (id) = (1)"]);
    assert_eq!(shell.session.transaction_status(), TransactionStatus::Open);
    assert_eq!(shell.rows("SELECT id FROM t ORDER BY id"), ["1", "2"]);
    shell.run("INSERT INTO t VALUES (3); COMMIT");
    assert_eq!(shell.rows("SELECT id FROM t ORDER BY id"), ["1", "2", "3"]);
}

#[test]
fn tables_come_and_go_with_their_transaction() {
    let shell = Shell::with("CREATE TABLE stays (id INT PRIMARY KEY); INSERT INTO stays VALUES (1)");
    shell.run("BEGIN; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); DROP TABLE stays");
    assert_eq!(shell.rows("SELECT id FROM t"), ["1"]);
    shell.refuses("SELECT * FROM stays", &["stays"]);
    shell.run("ROLLBACK");
    shell.refuses("SELECT * FROM t", &["t"]);
    assert_eq!(shell.rows("SELECT id FROM stays"), ["1"]);
    shell.run("BEGIN; DROP TABLE stays; CREATE TABLE stays (name TEXT); INSERT INTO stays VALUES ('new'); COMMIT");
    let shell = shell.reopen();
    assert_eq!(shell.rows("SELECT * FROM stays"), ["new"]);
}

#[test]
fn if_exists_and_if_not_exists_say_nothing_where_there_is_nothing_to_do() {
    let shell = Shell::with("CREATE TABLE IF NOT EXISTS t (id INT); CREATE TABLE IF NOT EXISTS t (other TEXT)");
    shell.refuses("CREATE TABLE t (id INT)", &["t", "exists"]);
    shell.run("DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS t");
    shell.refuses("DROP TABLE t", &["no such table", "t"]);
}

#[test]
fn columns_left_out_get_their_defaults() {
    let shell = Shell::with(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT NOT NULL DEFAULT 2 + 3, s TEXT DEFAULT upper('x'), d DATE);
         INSERT INTO t (id) VALUES (1);
         INSERT INTO t (s, id) VALUES ('y', 2), (DEFAULT, 3);
         INSERT INTO t VALUES (4, DEFAULT, NULL, '2024-02-29');
         UPDATE t SET n = DEFAULT, s = 'z' WHERE id = 4;
         CREATE TABLE only_defaults (a INT DEFAULT 1, b TEXT);
         INSERT INTO only_defaults DEFAULT VALUES;",
    );
    assert_eq!(
        shell.rows("SELECT * FROM t ORDER BY id"),
        ["1|5|X|NULL", "2|5|y|NULL", "3|5|X|NULL", "4|5|z|2024-02-29"]
    );
    assert_eq!(shell.rows("SELECT * FROM only_defaults"), ["1|NULL"]);
}

#[test]
fn a_default_that_can_never_be_stored_is_refused_when_the_table_is_made() {
    let shell = Shell::new();
    shell.refuses("CREATE TABLE t (id INT DEFAULT 'abc')", &["table t", "id", "'abc'"]);
    shell.refuses("CREATE TABLE t (id INT, n INT DEFAULT id + 1)", &["id"]);
    shell.refuses("CREATE TABLE t (n INT DEFAULT (SELECT 1))", &["DEFAULT", "not supported"]);
    shell.refuses("SELECT * FROM t", &["t"]);
}

#[test]
fn errors_name_table_column_and_value() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY, n SMALLINT NOT NULL, s VARCHAR(3), d DECIMAL(4, 2))");
    shell.run("INSERT INTO t VALUES (1, 1, 'abc', 1.25)");
    shell.refuses("INSERT INTO t VALUES (1, 2, 'x', 2)", &["table t", "duplicate key (id) = (1)"]);
    shell.refuses("INSERT INTO t VALUES (2, NULL, 'x', 2)", &["table t", "column n", "NULL"]);
    shell.refuses("INSERT INTO t (id) VALUES (2)", &["table t", "column n", "NULL"]);
    shell.refuses("INSERT INTO t VALUES (2, 70000, 'x', 2)", &["table t", "column n", "70000", "SMALLINT"]);
    shell.refuses("INSERT INTO t VALUES (2, 1, 'abcd', 2)", &["table t", "column s", "'abcd'", "VARCHAR(3)"]);
    shell.refuses("INSERT INTO t VALUES (2, 1, 'x', 123.4)", &["table t", "column d", "123.4", "DECIMAL(4, 2)"]);
    shell.refuses("INSERT INTO t VALUES (2, 'one', 'x', 2)", &["table t", "column n", "'one'", "SMALLINT"]);
    shell.refuses("INSERT INTO t VALUES (2, true, 'x', 2)", &["table t", "column n", "SMALLINT"]);
    shell.refuses("INSERT INTO t (id, n, s, d) VALUES (2, 1, 'x')", &["table t", "3 values for 4 columns"]);
    shell.refuses("INSERT INTO t (id, nope) VALUES (2, 1)", &["table t", "no column nope"]);
    shell.refuses("INSERT INTO nope VALUES (1)", &["no such table", "nope"]);
    shell.refuses("UPDATE t SET nope = 1", &["table t", "no column nope"]);
    shell.refuses("UPDATE t SET n = n * 1000 + 39999", &["table t", "column n", "40999"]);
    shell.refuses("UPDATE t SET n = NULL", &["table t", "column n"]);
    shell.refuses("SELECT nope FROM t", &["nope"]);
    shell.refuses("SELEC 1", &["syntax error"]);
    assert_eq!(shell.rows("SELECT * FROM t"), ["1|1|abc|1.25"]);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY, n INT)");
    for (statement, name) in [
        ("ALTER TABLE t ADD COLUMN x INT", "ALTER TABLE"),
        ("CREATE INDEX i ON t (n)", "CREATE INDEX"),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", "CREATE TEMPORARY VIEW"),
        ("CREATE TABLE v (id INT UNIQUE)", "UNIQUE"),
        ("CREATE TABLE v (id INT CHECK (id > 0))", "CHECK"),
        ("CREATE TABLE v (id INT REFERENCES t (id))", "REFERENCES"),
        ("CREATE TABLE v (id INT, FOREIGN KEY (id) REFERENCES t (id))", "FOREIGN KEY"),
        ("CREATE TABLE v (id INT) WITH (fillfactor = 70)", "option"),
        ("CREATE TEMPORARY TABLE v (id INT)", "TEMPORARY"),
        ("CREATE EXTERNAL TABLE v (id INT) STORED AS PARQUET LOCATION 'x'", "EXTERNAL"),
        ("SET x = 1", "SET"),
        ("PREPARE p AS SELECT 1", "PREPARE"),
        ("MERGE INTO t USING t AS u ON t.id = u.id WHEN MATCHED THEN DELETE", "MERGE"),
        ("SELECT 1 INTO v", "SELECT INTO"),
        ("BEGIN READ ONLY", "READ ONLY"),
    ] {
        shell.refuses(statement, &[name, "not supported"]);
    }
    assert_eq!(shell.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"), ["t"]);
}

#[test]
fn files_are_not_tables() {
    let shell = Shell::new();
    let file = shell.file("secret.csv");
    std::fs::write(&file, "a\n1\n").expect("writes");
    shell.refuses(&format!("SELECT * FROM '{file}'"), &["not found"]);
}

#[test]
fn tables_and_columns_can_be_listed() {
    let shell =
        Shell::with("CREATE TABLE b (id INT PRIMARY KEY, name VARCHAR(5) DEFAULT 'x'); CREATE TABLE a (x REAL)");
    assert_eq!(shell.rows("SHOW TABLES"), ["a|1|NULL|NULL", "b|2|id|NULL"]);
    assert_eq!(shell.rows("DESCRIBE b"), ["id|INTEGER|false|NULL|1", "name|VARCHAR(5)|true|'x'|NULL"]);
    assert_eq!(shell.rows("SHOW COLUMNS FROM a"), ["x|REAL|true|NULL|NULL"]);
    assert_eq!(
        shell.rows("SELECT column_name FROM information_schema.columns WHERE table_name = 'b' ORDER BY 1"),
        ["id", "name"]
    );
}

#[test]
fn names_are_folded_to_lower_case_unless_they_are_quoted() {
    let shell =
        Shell::with(r#"CREATE TABLE Stones (Id INT PRIMARY KEY, "Big Name" TEXT); INSERT INTO STONES VALUES (1, 'x')"#);
    assert_eq!(shell.rows(r#"SELECT ID, "Big Name" FROM stones"#), ["1|x"]);
    assert_eq!(shell.run(r#"UPDATE Stones SET "Big Name" = 'y' WHERE iD = 1"#), 1);
    shell.refuses(r#"SELECT "ID" FROM stones"#, &["ID"]);
}

#[test]
fn queries_join_group_window_and_nest() {
    let shell = Shell::with(
        "CREATE TABLE kinds (id INT PRIMARY KEY, name TEXT);
         INSERT INTO kinds VALUES (1, 'corner'), (2, 'wedge'), (3, 'none');
         CREATE TABLE stones (id INT PRIMARY KEY, kind INT, weight DOUBLE PRECISION);
         INSERT INTO stones VALUES (1, 1, 10), (2, 1, 30), (3, 2, 5), (4, NULL, 1);",
    );
    assert_eq!(
        shell
            .rows(
                "SELECT k.name, count(s.id), sum(s.weight) FROM kinds k LEFT JOIN stones s ON s.kind = k.id
             GROUP BY k.id ORDER BY k.id"
            )
            .len(),
        3
    );
    assert_eq!(
        shell.rows(
            "WITH heavy AS (SELECT * FROM stones WHERE weight > 4)
             SELECT id, rank() OVER (PARTITION BY kind ORDER BY weight DESC) FROM heavy ORDER BY id"
        ),
        ["1|2", "2|1", "3|1"]
    );
    assert_eq!(
        shell.rows("SELECT name FROM kinds WHERE id = (SELECT kind FROM stones ORDER BY weight DESC LIMIT 1)"),
        ["corner"]
    );
    assert_eq!(shell.rows("SELECT 0.1 + 0.2 = 0.3, '7'::INT + 1, 1e3"), ["true|8|1000"]);
}

#[test]
fn a_table_without_a_primary_key_holds_equal_rows() {
    let shell =
        Shell::with("CREATE TABLE t (x INT); INSERT INTO t VALUES (1), (1), (2); INSERT INTO t SELECT x FROM t");
    assert_eq!(shell.rows("SELECT x, count(*) FROM t GROUP BY x ORDER BY x"), ["1|4", "2|2"]);
    assert_eq!(shell.run("UPDATE t SET x = 3 WHERE x = 1"), 4);
    assert_eq!(shell.run("DELETE FROM t WHERE x = 2"), 2);
    let shell = shell.reopen();
    shell.run("INSERT INTO t VALUES (4)");
    assert_eq!(shell.rows("SELECT x, count(*) FROM t GROUP BY x ORDER BY x"), ["3|4", "4|1"]);
}

#[test]
fn a_reader_in_a_transaction_waits_for_a_writer_and_sees_its_commit_whole() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0), (2, 0)");
    let other = shell.other();
    run(&other, "BEGIN");
    shell.run("BEGIN; UPDATE t SET x = 1");
    let reader = std::thread::spawn(move || rows(&other, "SELECT sum(x) FROM t"));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!reader.is_finished(), "read an uncommitted row, or not at all");
    shell.run("COMMIT");
    assert_eq!(reader.join().expect("reads"), ["2"]);
}

/// A query that streams stands for any that takes long: what it has not read yet changes before it does.
#[test]
fn a_long_query_beside_writers_shows_one_moment_and_is_in_nobodys_way() {
    for protocol in [ProtocolKind::Locking, ProtocolKind::TicToc] {
        let shell = Shell::under(protocol);
        shell.run("CREATE TABLE t (id BIGINT PRIMARY KEY, x BIGINT)");
        shell.run("INSERT INTO t SELECT value, 1 FROM generate_series(1, 100000)");
        let writer = shell.other();
        let statement = Statement::parse("SELECT id, x FROM t").expect("parses").remove(0);
        let Ok(Outcome::Rows(mut result)) = shell.session.run_blocking(&statement) else { panic!("rows") };
        let first = result.next_blocking().expect("a batch").expect("rows");
        assert!(first.num_rows() < 50_000);
        assert_eq!(run(&writer, "UPDATE t SET x = 2 WHERE id % 3 = 0"), 33_333);
        assert_eq!(run(&writer, "DELETE FROM t WHERE id % 3 = 1"), 33_334);
        run(&writer, "INSERT INTO t SELECT value, 3 FROM generate_series(100001, 110000)");
        run(&writer, "DROP TABLE t");
        let mut seen: Vec<_> = crate::shell::text(&first);
        seen.extend(result.collect_blocking().expect("reads").iter().flat_map(crate::shell::text));
        assert!(seen.into_iter().eq((1..=100_000).map(|id| format!("{id}|1"))));
        assert!(shell.error("SELECT id, x FROM t").to_string().contains('t'));
    }
}

#[test]
fn a_query_outside_of_a_transaction_sees_what_was_committed_and_does_not_wait_for_the_rest() {
    for protocol in [ProtocolKind::Locking, ProtocolKind::TicToc] {
        let shell = Shell::under(protocol);
        shell.run("CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0), (2, 0)");
        let other = shell.other();
        shell.run("BEGIN; UPDATE t SET x = 1 WHERE id = 1; CREATE TABLE u (id INT PRIMARY KEY)");
        assert_eq!(rows(&other, "SELECT sum(x) FROM t"), ["0"]);
        assert_eq!(rows(&other, "SHOW TABLES").len(), 1);
        shell.run("UPDATE t SET x = 1 WHERE id = 2; COMMIT");
        assert_eq!(rows(&other, "SELECT sum(x) FROM t"), ["2"]);
        assert_eq!(rows(&other, "SHOW TABLES").len(), 2);
    }
}

#[test]
fn a_session_does_not_see_rows_that_another_rolled_back() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY)");
    let other = shell.other();
    run(&other, "BEGIN; INSERT INTO t VALUES (1); ROLLBACK");
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn two_sessions_that_count_together_lose_no_count() {
    let shell = Shell::with("CREATE TABLE counter (id INT PRIMARY KEY, n BIGINT); INSERT INTO counter VALUES (1, 0)");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let session = shell.other();
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(run(&session, "UPDATE counter SET n = n + 1 WHERE id = 1"), 1);
                }
            });
        }
    });
    assert_eq!(shell.rows("SELECT n FROM counter"), ["200"]);
}

#[test]
fn after_a_conflict_the_transaction_must_be_rolled_back() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0), (2, 0)");
    let (old, young) = (shell.other(), shell.other());
    run(&old, "BEGIN; UPDATE t SET x = 1 WHERE id = 1");
    run(&young, "BEGIN; UPDATE t SET x = 1 WHERE id = 2");
    // The younger gives way at once rather than wait for the older.
    assert_eq!(error(&young, "UPDATE t SET x = 2 WHERE id = 1").kind(), ErrorKind::Conflict);
    assert_eq!(young.transaction_status(), TransactionStatus::Aborted);
    assert!(matches!(error(&young, "SELECT 1"), Error::Aborted));
    assert!(matches!(error(&young, "COMMIT"), Error::Aborted));
    assert_eq!(young.transaction_status(), TransactionStatus::None);
    run(&old, "UPDATE t SET x = 1 WHERE id = 2; COMMIT");
    assert_eq!(shell.rows("SELECT sum(x) FROM t"), ["2"]);
}

#[test]
fn an_error_that_comes_from_a_state_that_never_was_is_a_conflict() {
    let shell = Shell::under(ProtocolKind::TicToc);
    shell.run("CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0)");
    let other = shell.other();
    shell.run("BEGIN");
    assert_eq!(shell.rows("SELECT x FROM t WHERE id = 1"), ["0"]);
    run(&other, "BEGIN; UPDATE t SET x = 1 WHERE id = 1; INSERT INTO t VALUES (2, 1); COMMIT");
    // That key and the row that was read were never there together.
    assert_eq!(shell.error("INSERT INTO t VALUES (2, 0)").kind(), ErrorKind::Conflict);
    assert_eq!(shell.session.transaction_status(), TransactionStatus::Aborted);
    shell.run("ROLLBACK");
    assert_eq!(shell.error("INSERT INTO t VALUES (2, 0)").kind(), ErrorKind::Invalid);
}

#[test]
fn no_row_appears_in_a_range_that_a_transaction_has_read() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (5)");
    let other = shell.other();
    shell.run("BEGIN");
    assert_eq!(shell.rows("SELECT count(*) FROM t WHERE id BETWEEN 1 AND 5"), ["2"]);
    let writer = std::thread::spawn(move || run(&other, "INSERT INTO t VALUES (3)"));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(shell.rows("SELECT count(*) FROM t WHERE id BETWEEN 1 AND 5"), ["2"]);
    shell.run("COMMIT");
    assert_eq!(writer.join().expect("writes"), 1);
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["3"]);
}

#[test]
fn a_statement_can_be_cancelled_and_the_session_goes_on() {
    let shell =
        Shell::with("CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t SELECT value FROM generate_series(1, 3000)");
    let cancel = shell.session.cancel_handle();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        cancel.cancel();
    });
    let begun = Instant::now();
    let failed = shell.error("SELECT count(*) FROM t a, t b, t c WHERE a.id + b.id + c.id = 0");
    assert_eq!(failed.kind(), ErrorKind::Cancelled, "{failed}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    canceller.join().expect("cancels");
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["3000"]);
}

#[test]
fn a_wait_for_a_lock_can_be_cancelled() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 0)");
    let old = shell.other();
    run(&old, "BEGIN");
    run(&old, "SELECT 1 FROM t WHERE id = 99");
    shell.run("BEGIN; UPDATE t SET x = 1 WHERE id = 1");
    let cancel = old.cancel_handle();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        cancel.cancel();
    });
    assert_eq!(error(&old, "SELECT x FROM t").kind(), ErrorKind::Cancelled);
    canceller.join().expect("cancels");
    assert_eq!(old.transaction_status(), TransactionStatus::Open);
    shell.run("COMMIT");
    assert_eq!(rows(&old, "SELECT x FROM t; COMMIT"), Vec::<String>::new());
}

#[test]
fn a_cancelled_insert_leaves_no_row() {
    let shell = Shell::with("CREATE TABLE t (id BIGINT PRIMARY KEY)");
    let cancel = shell.session.cancel_handle();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        cancel.cancel();
    });
    let failed = shell.error("INSERT INTO t SELECT value FROM generate_series(1, 1000000000)");
    assert_eq!(failed.kind(), ErrorKind::Cancelled, "{failed}");
    canceller.join().expect("cancels");
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn a_result_streams_and_holds_the_session_until_it_is_read_or_dropped() {
    let shell = Shell::new();
    let statement = Statement::parse("SELECT value FROM generate_series(1, 1000000)").expect("parses").remove(0);
    let Ok(Outcome::Rows(mut result)) = shell.session.run_blocking(&statement) else { panic!("rows") };
    let first = result.next_blocking().expect("a batch").expect("rows");
    assert!(first.num_rows() > 0);
    assert!(shell.error("SELECT 1").to_string().contains("still open"));
    drop(result);
    assert_eq!(shell.rows("SELECT 1"), ["1"]);
    let Ok(Outcome::Rows(result)) = shell.session.run_blocking(&statement) else { panic!("rows") };
    let rows: usize = result.collect_blocking().expect("reads").iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 1_000_000);
    assert_eq!(shell.rows("SELECT 1"), ["1"]);
}

#[test]
fn a_query_that_needs_too_much_memory_fails_and_says_what_to_do() {
    let shell = Shell::new();
    // The one value that it makes can not be spilled.
    let failed = shell.error("SELECT length(string_agg(repeat('x', 1000), '')) FROM generate_series(1, 400000)");
    assert_eq!(failed.kind(), ErrorKind::Exhausted, "{failed}");
    assert_eq!(shell.rows("SELECT 1"), ["1"]);
}

#[test]
fn nesting_does_not_overflow_the_stack() {
    let shell = Shell::new();
    let sum = vec!["1"; 1000].join(" + ");
    assert_eq!(shell.rows(&format!("SELECT {sum}")), ["1000"]);
    let or: Vec<String> = (0..500).map(|n| format!("value = {n}")).collect();
    assert_eq!(shell.rows(&format!("SELECT count(*) FROM generate_series(1, 10) WHERE {}", or.join(" OR "))), ["10"]);
    let nested = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    shell.refuses(&nested, &["nested too deeply"]);
    let endless = vec!["1"; 1_000_000].join(" + ");
    shell.refuses(&format!("SELECT {endless}"), &["nested too deeply"]);
}

#[test]
fn columns_of_a_query_may_look_alike() {
    let shell = Shell::with("CREATE TABLE t (id INT, a INT, b TEXT); INSERT INTO t SELECT 1, 0, 0");
    assert_eq!(shell.run("INSERT INTO t SELECT id + 1, a, a FROM t"), 1);
    assert_eq!(shell.rows("SELECT id, id::TEXT, id FROM t ORDER BY id"), ["1|1|1", "2|2|2"]);
    assert_eq!(shell.rows("SELECT sum(id), 1, 1, sum(id) FROM t"), ["3|1|1|3"]);
}

#[test]
fn values_of_different_types_meet_their_column_each_as_it_was_written() {
    let shell = Shell::with(
        "CREATE TABLE t (id INT, d DOUBLE, n DECIMAL(20, 2), x TEXT);
         INSERT INTO t VALUES (1, 1e300, 1, 'a'), (2, 2.5, 123456789012345678.25, 7), ('3', NULL, '0.5', true), (4, 4, 1e2, NULL)",
    );
    assert_eq!(
        shell.rows("SELECT * FROM t ORDER BY id"),
        ["1|1e300|1.00|a", "2|2.5|123456789012345678.25|7", "3|NULL|0.50|true", "4|4.0|100.00|NULL"]
    );
}

#[test]
fn a_failing_statement_ends_a_script_and_keeps_what_came_before() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY)");
    shell.error("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)");
    assert_eq!(shell.rows("SELECT id FROM t"), ["1"]);
    // A text that is not SQL throughout is not run at all.
    shell.error("INSERT INTO t VALUES (3); INSERT INTO");
    assert_eq!(shell.rows("SELECT id FROM t"), ["1"]);
}

#[test]
fn a_dropped_session_rolls_back() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY)");
    let other = shell.other();
    run(&other, "BEGIN; INSERT INTO t VALUES (1)");
    drop(other);
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["0"]);
}

#[tokio::test]
async fn async_callers_on_a_runtime_of_one_thread_are_served() {
    let shell = Shell::with("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)");
    let other = shell.other();
    other.execute("BEGIN; UPDATE t SET id = 2").await.expect("updates");
    // The other writer blocks on this one's lock; this thread must stay free to commit.
    let (updated, ()) = tokio::join!(shell.session.execute("UPDATE t SET id = id + 1"), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        other.execute("COMMIT").await.expect("commits");
    });
    assert_eq!(updated.expect("updates")[0].affected(), Some(1));
    let read = shell.session.query("SELECT id FROM t").await;
    assert_eq!(crate::shell::text(&read.expect("reads")[0]), ["3"]);
}
