//! `ishigaki sql`, as scripts use it.

use std::fs;
use std::path::Path;

use crate::program::{Program, database};

const STONES: &str = "CREATE TABLE stones (id BIGINT PRIMARY KEY, name TEXT, weight DOUBLE)";
const ROWS: &str = "INSERT INTO stones VALUES (1, 'corner', 120.5), (2, 'wedge', NULL), (3, '', 7.25)";

/// A directory with a database that holds the stones.
pub(crate) fn stones() -> tempfile::TempDir {
    let directory = database();
    sql(directory.path()).args(["-c", STONES, "-c", ROWS]).succeeds();
    directory
}

pub(crate) fn sql(data: &Path) -> Program {
    Program::new().arg("sql").arg("--data").arg(data)
}

#[test]
fn what_one_process_commits_the_next_one_sees() {
    let directory = stones();
    let answer = sql(directory.path()).args(["--format", "csv", "-c", "SELECT * FROM stones ORDER BY id"]).succeeds();
    assert_eq!(answer.stdout, "id,name,weight\n1,corner,120.5\n2,wedge,\n3,\"\",7.25\n");
}

#[test]
fn rows_are_changed_deleted_joined_and_counted() {
    let directory = stones();
    let answer = sql(directory.path())
        .args(["--format", "csv"])
        .args(["-c", "CREATE TABLE walls (stone BIGINT, wall TEXT, PRIMARY KEY (stone, wall))"])
        .args(["-c", "INSERT INTO walls VALUES (1, 'north'), (1, 'east'), (2, 'north')"])
        .args(["-c", "UPDATE stones SET weight = 50 WHERE id = 2"])
        .args(["-c", "DELETE FROM stones WHERE id = 3"])
        .args(["-c", "SELECT wall, count(*) AS stones, sum(weight) AS weight FROM stones JOIN walls ON id = stone GROUP BY wall ORDER BY wall"])
        .succeeds();
    assert_eq!(answer.stdout, "wall,stones,weight\neast,1,120.5\nnorth,2,170.5\n");
}

#[test]
fn a_transaction_that_is_rolled_back_leaves_nothing() {
    let directory = stones();
    let script =
        "BEGIN; DELETE FROM stones; SELECT count(*) AS n FROM stones; ROLLBACK; SELECT count(*) AS n FROM stones;";
    let answer = sql(directory.path()).args(["--format", "json"]).stdin(script).succeeds();
    assert_eq!(answer.stdout, "{\"n\":0}\n{\"n\":3}\n");
}

#[test]
fn a_transaction_that_is_open_at_the_end_is_rolled_back_and_said_so() {
    let directory = stones();
    let answer = sql(directory.path()).args(["-c", "BEGIN", "-c", "DELETE FROM stones"]).succeeds();
    assert!(answer.stderr.contains("the open transaction is rolled back"), "{}", answer.stderr);
    let answer = sql(directory.path()).args(["--format", "csv", "-c", "SELECT count(*) AS n FROM stones"]).succeeds();
    assert_eq!(answer.stdout, "n\n3\n");
}

#[test]
fn a_table_for_people_shows_null_counts_and_times() {
    let directory = stones();
    let answer = sql(directory.path()).args(["-c", "SELECT id, weight FROM stones ORDER BY id"]).succeeds();
    let lines: Vec<&str> = answer.stdout.lines().collect();
    let table = [
        "+----+--------+",
        "| id | weight |",
        "+----+--------+",
        "|  1 |  120.5 |",
        "|  2 |   NULL |",
        "|  3 |   7.25 |",
        "+----+--------+",
    ];
    assert_eq!(lines[..7], table);
    assert!(lines[7].starts_with("3 rows ("), "{}", lines[7]);
    assert_eq!(lines.len(), 8);
}

#[test]
fn json_has_one_object_a_line_and_nothing_else() {
    let directory = stones();
    let answer = sql(directory.path())
        .args([
            "--format",
            "json",
            "-c",
            "UPDATE stones SET name = 'x' WHERE id = 1; SELECT * FROM stones WHERE id < 3 ORDER BY id",
        ])
        .succeeds();
    assert_eq!(
        answer.stdout,
        "{\"id\":1,\"name\":\"x\",\"weight\":120.5}\n{\"id\":2,\"name\":\"wedge\",\"weight\":null}\n"
    );
    assert_eq!(answer.stderr, "");
}

#[test]
fn the_first_error_ends_the_run_goes_to_stderr_and_shows_in_the_exit_code() {
    let directory = stones();
    let answer = sql(directory.path())
        .args(["--format", "csv", "-c", "INSERT INTO stones VALUES (1, 'again', 0)", "-c", "SELECT 1"])
        .fails_with(1);
    assert_eq!(answer.stdout, "");
    assert!(answer.stderr.starts_with("error: table stones: duplicate key (id) = (1)"), "{}", answer.stderr);
}

#[test]
fn an_error_in_a_file_names_file_and_line() {
    let directory = stones();
    let file = directory.path().join("load.sql");
    fs::write(&file, "-- a comment\nSELECT 1 AS n;\n\nSELEKT 2;\nSELECT 3;\n").unwrap();
    let answer = sql(directory.path()).args(["--format", "csv"]).arg(&file).fails_with(1);
    assert!(answer.stderr.starts_with(&format!("error: {}:4: syntax error", file.display())), "{}", answer.stderr);
    assert_eq!(answer.stdout, "n\n1\n");
}

#[test]
fn what_ends_a_line_is_kept_in_a_text() {
    let directory = tempfile::tempdir().unwrap();
    let script = "SELECT length('a\r\nb') AS x;\r\n.format csv\r\nSELECT 'c\nd\u{feff}' = 'c' || chr(10) || 'd' || chr(65279) AS y; -- so\r\nSELECT 1\r\n  AS z;\r\n";
    let answer = sql(directory.path()).args(["--format", "csv"]).stdin(script).succeeds();
    assert_eq!(answer.stdout, "x\n4\ny\ntrue\nz\n1\n");
}

#[test]
fn an_error_in_a_pipe_names_the_line() {
    let directory = stones();
    let answer = sql(directory.path()).stdin("SELECT 1;\nSELECT * FROM nowhere;\n").fails_with(1);
    assert!(answer.stderr.starts_with("error: stdin:2: ") && answer.stderr.contains("nowhere"), "{}", answer.stderr);
}

#[test]
fn statements_go_over_lines_and_quotes_hide_semicolons() {
    let directory = database();
    let script = "SELECT\n  'a;b' AS x,\n  'c''d' AS \"y;\" -- not; here\n;\nSELECT 2 AS z";
    let answer = sql(directory.path()).args(["--format", "json"]).stdin(script).succeeds();
    assert_eq!(answer.stdout, "{\"x\":\"a;b\",\"y;\":\"c'd\"}\n{\"z\":2}\n");
}

#[test]
fn commands_with_a_dot_work_in_scripts_too() {
    let directory = stones();
    let more = directory.path().join("more.sql");
    fs::write(&more, "SELECT count(*) AS n FROM stones;\n").unwrap();
    let script = format!(".format csv\n.tables\n.read {}\n.quit\nSELECT 'never';\n", more.display());
    let answer = sql(directory.path()).stdin(&script).succeeds();
    assert_eq!(answer.stdout, "table_name,columns,primary_key,storage\nstones,3,id,\nn\n3\n");
    let answer = sql(directory.path()).stdin(".nonsense\n").fails_with(2);
    assert!(answer.stderr.contains("there is no command `.nonsense`\nhint: .help"), "{}", answer.stderr);
}

#[test]
fn the_definitions_of_tables_make_them_again() {
    let directory = stones();
    let other = "CREATE TABLE \"Odd\" (b TEXT DEFAULT 'x' NOT NULL, a BIGINT, \"C d\" DATE, PRIMARY KEY (\"C d\", a))";
    sql(directory.path()).args(["-c", other]).succeeds();
    let answer = sql(directory.path()).stdin(".schema\n").succeeds();
    let odd = "CREATE TABLE \"Odd\" (\n    b TEXT DEFAULT 'x' NOT NULL,\n    a BIGINT,\n    \"C d\" DATE,\n    PRIMARY KEY (\"C d\", a)\n);\n";
    let stones =
        "CREATE TABLE stones (\n    id BIGINT,\n    name TEXT,\n    weight DOUBLE,\n    PRIMARY KEY (id)\n);\n";
    assert_eq!(answer.stdout, format!("{odd}{stones}"));
    // What is shown makes the same tables again.
    let copy = database();
    sql(copy.path()).stdin(&answer.stdout).succeeds();
    assert_eq!(sql(copy.path()).args(["-c", ".schema"]).succeeds().stdout, answer.stdout);
}

#[test]
fn the_definitions_of_views_make_them_again_in_an_order_that_works() {
    let directory = stones();
    let views = "CREATE VIEW z AS SELECT id, name FROM stones; CREATE VIEW a (\"N\") AS SELECT count(*) FROM z";
    sql(directory.path()).args(["-c", views]).succeeds();
    let answer = sql(directory.path()).stdin(".schema\n").succeeds().stdout;
    let z = "CREATE VIEW z (id, name) AS\nSELECT id, name FROM stones;\n";
    let a = "CREATE VIEW a (\"N\") AS\nSELECT count(*) FROM z;\n";
    assert!(answer.starts_with("CREATE TABLE stones (") && answer.ends_with(&format!("{z}{a}")), "{answer}");
    assert_eq!(sql(directory.path()).args(["-c", ".schema z"]).succeeds().stdout, z);
    let copy = database();
    sql(copy.path()).stdin(&answer).succeeds();
    assert_eq!(sql(copy.path()).args(["-c", ".schema"]).succeeds().stdout, answer);
    let listed = sql(copy.path()).args(["--format", "csv", "-c", ".views"]).succeeds().stdout;
    assert!(listed.starts_with("view_name,columns,query\nz,2,") && listed.contains("\na,1,"), "{listed}");
}

#[test]
fn ten_thousand_rows_come_in_and_go_out_by_copy() {
    let directory = database();
    let (from, to) = (directory.path().join("in.csv"), directory.path().join("out.csv"));
    let rows: Vec<String> = (1..=10_000).map(|id| format!("{id},name {id},{}", id * 2)).collect();
    fs::write(&from, format!("id,name,twice\n{}\n", rows.join("\n"))).unwrap();
    let data = directory.path().join("data");
    sql(&data).args(["-c", "CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, twice BIGINT)"]).succeeds();
    let answer = sql(&data).args(["-c", &format!("COPY t FROM '{}'", from.display())]).succeeds();
    assert!(answer.stdout.starts_with("COPY 10,000 ("), "{}", answer.stdout);
    assert_eq!(answer.stderr, "", "a progress bar where there is no terminal");
    let query = "SELECT count(*) AS n, sum(twice) AS s, max(name) AS m FROM t";
    let answer = sql(&data).args(["--format", "csv", "-c", query]).succeeds();
    assert_eq!(answer.stdout, "n,s,m\n10000,100010000,name 9999\n");
    sql(&data).args(["-c", &format!("COPY t TO '{}'", to.display())]).succeeds();
    assert_eq!(fs::read_to_string(to).unwrap().lines().count(), 10_001);
}

#[test]
fn a_second_process_is_told_that_the_directory_is_in_use() {
    let directory = stones();
    let mut first = sql(directory.path()).args(["--format", "csv"]).start();
    first.say("SELECT 1 AS n;\n");
    assert_eq!([first.hear(), first.hear()], ["n", "1"]);
    let answer = sql(directory.path()).args(["-c", "SELECT 1"]).fails_with(3);
    assert!(
        answer.stderr.starts_with("error: ") && answer.stderr.contains("in use by another process"),
        "{}",
        answer.stderr
    );
    first.ends();
    sql(directory.path()).args(["-c", "SELECT 1"]).succeeds();
}

#[test]
fn a_statement_runs_before_the_pipe_is_closed() {
    let directory = database();
    let mut program = sql(directory.path()).args(["--format", "json"]).start();
    for n in 0..3 {
        program.say(&format!("SELECT {n} AS n;\n"));
        assert_eq!(program.hear(), format!("{{\"n\":{n}}}"));
    }
    program.ends();
}

#[test]
fn a_reader_who_goes_away_ends_the_run_quietly() {
    let directory = database();
    let mut program = sql(directory.path())
        .args(["--format", "csv", "-c", "SELECT value AS n FROM generate_series(1, 1000000)"])
        .start();
    assert_eq!(program.hear(), "n");
    let answer = program.goes_unheard();
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    assert_eq!(answer.stderr, "");
}

#[test]
fn a_wrong_command_line_ends_with_code_two() {
    Program::new().args(["sql", "--frobnicate"]).fails_with(2);
    Program::new().args(["sql", "--format", "xml"]).fails_with(2);
    let directory = database();
    sql(directory.path()).args(["--memory", "much"]).fails_with(2);
    sql(directory.path()).args(["--log-level", "[["]).fails_with(2);
}

#[test]
fn a_file_that_is_not_there_leaves_no_database_behind() {
    let directory = database();
    let data = directory.path().join("data");
    let answer = sql(&data).arg("missing.sql").fails_with(1);
    assert!(answer.stderr.starts_with("error: missing.sql: "), "{}", answer.stderr);
    assert!(!data.exists());
}

#[test]
fn a_byte_order_mark_before_a_script_is_passed_over() {
    let directory = database();
    let answer = sql(directory.path()).args(["--format", "csv"]).stdin("\u{feff}SELECT 1 AS one;\n").succeeds();
    assert_eq!(answer.stdout, "one\n1\n");
}
