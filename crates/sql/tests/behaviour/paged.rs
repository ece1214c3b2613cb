//! Tables in page files.

use std::path::Path;

use ishigaki_base::ErrorKind;
use ishigaki_sql::Error;

use crate::shell::{Shell, error, rows, run};

/// A paged table `t` of 10,000 numbers in ascending order and their names, on pages of 4 KiB, and where it is. Without `ORDER BY` a query's
/// partitions are appended as they come.
fn filled() -> (Shell, String) {
    let shell = Shell::new();
    let place = shell.file("pages");
    shell.run(&create("t", &place));
    shell.run("INSERT INTO t SELECT value, 'name ' || value, value % 7 FROM generate_series(1, 10000) ORDER BY value");
    (shell, place)
}

fn create(table: &str, place: &str) -> String {
    format!(
        "CREATE TABLE {table} (n BIGINT NOT NULL, name TEXT, rest INT DEFAULT 3)
         WITH (storage = 'paged', location = '{place}', page_size = '4KiB')"
    )
}

/// The names of the files in a directory, sorted.
fn files(place: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn a_paged_table_shows_what_was_inserted_and_again_after_a_restart() {
    let (shell, _) = filled();
    let sums = "SELECT count(*), sum(n), min(name), max(rest) FROM t";
    assert_eq!(shell.rows(sums), ["10000|50005000|name 1|6"]);
    assert_eq!(shell.run("INSERT INTO t (name, n) VALUES (NULL, -1), ('x', -2)"), 2);
    let shell = shell.reopen();
    assert_eq!(shell.rows("SELECT * FROM t WHERE n < 0 ORDER BY n"), ["-2|x|3", "-1|NULL|3"]);
    assert_eq!(shell.rows("SELECT count(*), count(name) FROM t"), ["10002|10001"]);
    assert_eq!(shell.rows("DESCRIBE t")[0], "n|BIGINT|false|NULL|NULL");
    let shown = shell.rows("SHOW TABLES");
    assert!(shown[0].starts_with("t|3|NULL|storage = 'paged', location = '/"), "{shown:?}");
}

#[test]
fn scans_skip_pages_and_say_so() {
    let (shell, _) = filled();
    let plan = shell.plan("SELECT name FROM t WHERE n BETWEEN 5000 AND 5010 AND name LIKE '%5'");
    assert!(
        plan.contains("IshigakiPageScan: table=t, placement=local, pages=") && !plan.contains("FilterExec"),
        "{plan}"
    );
    let pages = plan.split_once("pages=").expect("says pages").1;
    let (kept, of) = pages.split_once(" of ").expect("says of how many");
    let of: u64 = of.split(',').next().and_then(|of| of.parse().ok()).expect("a number");
    assert!(kept.parse::<u64>().expect("a number") <= 2 && of > 10, "{plan}");
    assert_eq!(shell.rows("SELECT name FROM t WHERE n BETWEEN 5000 AND 5010 AND name LIKE '%5'"), ["name 5005"]);
    let analyzed = shell.rows("EXPLAIN ANALYZE SELECT count(name) FROM t WHERE n > 9990").join("\n");
    assert!(analyzed.contains("pages_read=") && analyzed.contains("pages_skipped="), "{analyzed}");
    // Known from the manifest: nothing is read.
    assert!(!shell.plan("SELECT count(*), min(n), max(n) FROM t").contains("IshigakiPageScan"));
    assert_eq!(shell.rows("SELECT count(*), min(n), max(n) FROM t"), ["10000|1|10000"]);
}

#[test]
fn conditions_are_answered_as_by_a_table_of_rows() {
    let (shell, _) = filled();
    shell.run("INSERT INTO t VALUES (0, NULL, NULL), (-5, '', 0)");
    shell.run("CREATE TABLE rows (n BIGINT NOT NULL, name TEXT, rest INT); INSERT INTO rows SELECT * FROM t");
    for condition in [
        "n = 77",
        "n IN (1, 5000, 20000)",
        "rest IS NULL",
        "name IS NOT NULL AND rest = 3",
        "NOT (rest < 6)",
        "rest <> 3 OR name LIKE 'name 99%'",
        "name > 'name 9'",
        "name NOT LIKE 'name%'",
        "n + rest > 10003",
        "n > (SELECT avg(n) + 4990 FROM rows)",
        "name = (SELECT min(name) FROM t WHERE n > 400)",
        "n IN (SELECT n * 1000 FROM rows WHERE rest = 2)",
        "CASE WHEN rest = 1 THEN n END < 100",
        "false",
    ] {
        let of = |table: &str| shell.rows(&format!("SELECT n, name, rest FROM {table} WHERE {condition} ORDER BY n"));
        assert_eq!(of("t"), of("rows"), "{condition}");
    }
}

#[test]
fn paged_tables_join_with_transactional_ones_and_themselves() {
    let (shell, _) = filled();
    shell.run("CREATE TABLE few (n BIGINT PRIMARY KEY, word TEXT); INSERT INTO few VALUES (9999, 'a'), (10000, 'b')");
    let join = "SELECT few.word, t.name FROM few JOIN t ON t.n = few.n ORDER BY 1";
    assert_eq!(shell.rows(join), ["a|name 9999", "b|name 10000"]);
    // What the join has learnt of the one side spares pages of the other.
    let join = "SELECT t.name FROM (VALUES (9999), (10000)) AS few (n) JOIN t ON t.n = few.n ORDER BY 1";
    assert_eq!(shell.rows(join), ["name 10000", "name 9999"]);
    let analyzed = shell.rows(&format!("EXPLAIN ANALYZE {join}")).join("\n");
    let scan = analyzed.lines().find(|line| line.contains("IshigakiPageScan")).expect("a scan");
    assert!(scan.contains("skips pages by=") && !scan.contains("pages_skipped=0"), "{scan}");
    assert_eq!(shell.rows("SELECT count(*) FROM t AS a JOIN t AS b ON a.n = b.n + 1"), ["9999"]);
    assert_eq!(shell.rows("SELECT n FROM t ORDER BY n DESC LIMIT 2"), ["10000", "9999"]);
    assert_eq!(shell.rows("SELECT n FROM t LIMIT 3").len(), 3);
    assert_eq!(shell.run("UPDATE few SET word = (SELECT max(name) FROM t WHERE t.n = few.n)"), 2);
    assert_eq!(shell.rows("SELECT word FROM few"), ["name 9999", "name 10000"]);
}

#[test]
fn copy_loads_all_of_a_file_or_nothing() {
    let (shell, place) = filled();
    let file = shell.file("rows.csv");
    std::fs::write(&file, "n,name\n1,one\n2,two\n").expect("writes");
    assert_eq!(shell.run(&format!("COPY t FROM '{file}'")), 2);
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["10002"]);
    let before = files(&place);
    let lines: Vec<String> = (0..30_000).map(|n| format!("{n},x")).collect();
    std::fs::write(&file, format!("n,name\n{}\nmuch,too\n", lines.join("\n"))).expect("writes");
    shell.refuses(&format!("COPY t FROM '{file}'"), &["line 30002", "column n is BIGINT"]);
    shell.refuses("INSERT INTO t (name) VALUES ('no number')", &["column n must not be NULL"]);
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["10002"]);
    assert_eq!(files(&place), before);
    let parquet = shell.file("rows.parquet");
    assert_eq!(shell.run(&format!("COPY t TO '{parquet}'")), 10_002);
    assert_eq!(shell.run(&format!("COPY t FROM '{parquet}'")), 10_002);
    assert_eq!(shell.rows("SELECT count(*), sum(n) FROM t"), ["20004|100010006"]);
}

#[test]
fn rows_of_a_paged_table_are_neither_updated_nor_deleted() {
    let (shell, place) = filled();
    for (sql, verb) in
        [("UPDATE t SET n = 1", "UPDATE"), ("DELETE FROM t", "DELETE"), ("EXPLAIN DELETE FROM t", "DELETE")]
    {
        let error = shell.error(sql);
        assert!(matches!(&error, Error::AppendOnly { table, verb: said } if table == "t" && said == verb), "{error}");
        assert!(error.to_string().contains("can only be appended to"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let keyed = format!("CREATE TABLE k (n INT PRIMARY KEY) WITH (storage = 'paged', location = '{place}')");
    shell.refuses(&keyed, &["PRIMARY KEY of a paged table"]);
    shell.refuses("CREATE TABLE k (n INT) WITH (fillfactor = 70)", &["fillfactor"]);
    shell.refuses(
        "CREATE TABLE k (n INT) WITH (storage = 'paged', location = 'node://host/k')",
        &["node://host/k", "port is missing"],
    );
    let sized = format!("CREATE TABLE k (n INT) WITH (storage = 'paged', location = '{place}', page_size = '5KiB')");
    shell.refuses(&sized, &["power of two"]);
    shell.refuses(
        &format!("CREATE TABLE \"ä\" (n INT) WITH (storage = paged, location = '{place}')"),
        &["ASCII letters"],
    );
    assert_eq!(shell.rows("SHOW TABLES").len(), 1);
}

#[test]
fn an_append_is_no_part_of_a_transaction_and_reads_in_one_stay_the_same() {
    let (shell, _) = filled();
    shell.run("BEGIN");
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["10000"]);
    let refused = shell.error("INSERT INTO t VALUES (1, 'x', 1)");
    assert!(matches!(refused, Error::InTransaction), "{refused}");
    run(&shell.other(), "INSERT INTO t VALUES (20000, 'y', 1)");
    assert_eq!(shell.rows("SELECT count(*) FROM t WHERE n > 0"), ["10000"]);
    assert_eq!(rows(&shell.other(), "SELECT count(*) FROM t"), ["10001"]);
    shell.run("COMMIT");
    assert_eq!(shell.rows("SELECT max(n) FROM t"), ["20000"]);
    // Rows that it makes are not met by the query that makes them.
    assert_eq!(shell.run("INSERT INTO t SELECT n + 20000, name, rest FROM t"), 10_001);
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["20002"]);
}

#[test]
fn files_come_and_go_with_the_transaction_that_makes_or_drops_them() {
    let shell = Shell::new();
    let place = shell.file("pages");
    shell.run(&format!("BEGIN; {}; ROLLBACK", create("t", &place)));
    assert_eq!(files(&place), [""; 0]);
    shell.run(&create("t", &place));
    let made = files(&place);
    assert!(made.contains(&"t.pages".to_owned()), "{made:?}");
    shell.run("INSERT INTO t VALUES (1, 'x', 1); BEGIN; DROP TABLE t");
    shell.refuses(&create("t", &place), &["COMMIT first"]);
    shell.run("ROLLBACK");
    assert_eq!(shell.rows("SELECT n FROM t"), ["1"]);
    // A statement that fails takes nothing with it.
    shell.run("BEGIN");
    shell.refuses("DROP TABLE t, nothing", &["no such table: nothing"]);
    shell.run("COMMIT");
    assert_eq!(shell.rows("SELECT n FROM t"), ["1"]);
    shell.run("BEGIN; DROP TABLE t; COMMIT");
    assert_eq!(files(&place), [""; 0]);
    assert_eq!(shell.rows("SHOW TABLES"), [""; 0]);
    shell.run(&create("t", &place));
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn files_that_were_there_before_are_used_when_it_is_said_and_stay() {
    let (shell, place) = filled();
    let other = Shell::new();
    other.refuses(&create("t", &place), &["there already", "existing = true", &place]);
    let using = create("t", &place).replace("page_size", "existing = true, page_size");
    other.refuses(&using.replace("name TEXT", "name INT"), &["it has the columns"]);
    other.run(&using);
    assert_eq!(other.rows("SELECT count(*) FROM t"), ["10000"]);
    let nothing = create("u", &place).replace("page_size", "existing = true, page_size");
    let error = other.error(&nothing).to_string();
    assert!(error.contains("no such page file") && error.contains(&place), "{error}");
    drop(shell);
    let (shell, place) = filled();
    other.run(&format!("DROP TABLE t; {}", create("t", &place).replace("page_size", "existing = true, page_size")));
    other.run("DROP TABLE t");
    assert!(Path::new(&place).join("t.pages").exists());
    assert_eq!(shell.rows("SELECT count(*) FROM t"), ["10000"]);
}

#[test]
fn several_locations_are_one_table() {
    let shell = Shell::new();
    let places = [shell.file("a"), shell.file("b"), shell.file("c")];
    shell.run(&create("t", &places.join(", ")));
    for part in 0..6 {
        let (from, to) = (part * 1000, part * 1000 + 999);
        shell.run(&format!("INSERT INTO t SELECT value, 'x', 1 FROM generate_series({from}, {to})"));
    }
    // Each append goes to the file with the fewest rows.
    for place in &places {
        let segments = files(place).iter().filter(|name| name.starts_with("t-")).count();
        assert_eq!(segments, 2, "{place}");
    }
    let shell = shell.reopen();
    assert_eq!(shell.rows("SELECT count(*), sum(n), min(n), max(n) FROM t"), ["6000|17997000|0|5999"]);
    assert_eq!(shell.rows("SELECT count(*) FROM t WHERE n BETWEEN 500 AND 4499"), ["4000"]);
    shell.run("DROP TABLE t");
    assert!(places.iter().all(|place| files(place).is_empty()));
    let twice = format!("{}, {}", places[0], places[0]);
    shell.refuses(&create("t", &twice), &["named twice"]);
}

#[test]
fn a_file_that_is_lost_or_damaged_is_an_error_with_its_place() {
    let (shell, place) = filled();
    let segment = files(&place).into_iter().find(|name| name.starts_with("t-")).expect("a segment");
    let path = Path::new(&place).join(segment);
    let mut bytes = std::fs::read(&path).expect("reads");
    // In the columns of the first page, behind its header.
    bytes[512] ^= 1;
    std::fs::write(&path, bytes).expect("writes");
    let shell = shell.reopen();
    let damaged = shell.error("SELECT sum(n), max(name), sum(rest) FROM t WHERE rest >= 0");
    assert_eq!(damaged.kind(), ErrorKind::Corrupt, "{damaged}");
    assert!(damaged.to_string().contains("page 0 is damaged"), "{damaged}");
    std::fs::remove_file(Path::new(&place).join("t.pages")).expect("removes");
    let lost = error(&shell.session, "SELECT * FROM t");
    assert!(matches!(&lost, Error::Location { table, place: at, .. } if table == "t" && *at == place), "{lost}");
    shell.run("DROP TABLE t");
}
