//! Which keys a query reads, and that it reads the right ones.

use crate::shell::Shell;

/// 100 rows keyed by (a, b) with a = 0..10 and b = 0..10, and 100 keyed by id.
fn tables() -> Shell {
    Shell::with(
        "CREATE TABLE one (id BIGINT PRIMARY KEY, x INT);
         INSERT INTO one SELECT value, value * 10 FROM generate_series(1, 100);
         CREATE TABLE two (a INT, b TEXT, c INT, PRIMARY KEY (a, b));
         INSERT INTO two SELECT i.value, chr(97 + j.value), 10 * i.value + j.value
         FROM generate_series(0, 9) AS i(value), generate_series(0, 9) AS j(value);",
    )
}

fn check(shell: &Shell, query: &str, access: &str, rows: usize) {
    let plan = shell.plan(query);
    // What can never be true, DataFusion often finds out before the table is asked.
    let found = plan.contains(&format!("access={access},")) || access == "none" && plan.contains("EmptyExec");
    assert!(found, "{query}:\n{plan}");
    assert_eq!(shell.rows(query).len(), rows, "{query}");
}

#[test]
fn equality_on_the_whole_key_is_a_point_read() {
    let shell = tables();
    check(&shell, "SELECT * FROM one WHERE id = 7", "point", 1);
    check(&shell, "SELECT * FROM one WHERE 7 = id AND x = 71", "point", 0);
    check(&shell, "SELECT * FROM one WHERE id = 7 AND id = 8", "none", 0);
    check(&shell, "SELECT * FROM one WHERE id = 1000", "point", 0);
    check(&shell, "SELECT * FROM two WHERE b = 'c' AND a = 3", "point", 1);
}

#[test]
fn bounds_on_the_first_key_column_are_a_range() {
    let shell = tables();
    check(&shell, "SELECT * FROM one WHERE id > 10 AND id <= 20", "range", 10);
    check(&shell, "SELECT * FROM one WHERE id BETWEEN 10 AND 20 AND id < 15", "range", 5);
    check(&shell, "SELECT * FROM one WHERE id >= 99", "range", 2);
    check(&shell, "SELECT * FROM one WHERE id > 20 AND id < 10", "none", 0);
    check(&shell, "SELECT * FROM two WHERE a = 3", "range", 10);
    check(&shell, "SELECT * FROM two WHERE a = 3 AND b > 'c' AND b <= 'f'", "range", 3);
    check(&shell, "SELECT * FROM two WHERE a > 7", "range", 20);
}

#[test]
fn lists_are_several_point_reads() {
    let shell = tables();
    check(&shell, "SELECT * FROM one WHERE id IN (5, 3, 1000, 5, 4, 77)", "points", 4);
    check(&shell, "SELECT * FROM one WHERE id = 5 OR id = 3", "points", 2);
    check(&shell, "SELECT * FROM one WHERE id IN (5, 3, 77, 78, 79) AND id < 10", "points", 2);
    check(&shell, "SELECT * FROM two WHERE a = 2 AND b IN ('a', 'x', 'c', 'd', 'e')", "points", 4);
}

#[test]
fn other_conditions_read_the_whole_table() {
    let shell = tables();
    check(&shell, "SELECT * FROM one WHERE x = 50", "full", 1);
    check(&shell, "SELECT * FROM one WHERE id + 1 = 5", "full", 1);
    check(&shell, "SELECT * FROM one WHERE id <> 5", "full", 99);
    check(&shell, "SELECT * FROM two WHERE b = 'c'", "full", 10);
    check(&shell, "SELECT * FROM one WHERE id = 5 OR x = 60", "full", 2);
    check(&shell, "SELECT * FROM one WHERE id NOT IN (5, 6, 7, 8, 9)", "full", 95);
}

#[test]
fn a_literal_of_another_type_reads_the_same_rows() {
    let shell = tables();
    assert_eq!(shell.rows("SELECT id FROM one WHERE id = 7.0"), ["7"]);
    assert_eq!(shell.rows("SELECT id FROM one WHERE id = 7.5"), Vec::<String>::new());
    assert_eq!(shell.rows("SELECT id FROM one WHERE id < 2.5 ORDER BY id"), ["1", "2"]);
    assert_eq!(shell.rows("SELECT count(*) FROM one WHERE id > 99999999999999999999"), ["0"]);
    assert_eq!(shell.rows("SELECT a FROM two WHERE a = 99999999999 AND b = 'a'"), Vec::<String>::new());
    assert_eq!(shell.rows("SELECT id FROM one WHERE id = NULL"), Vec::<String>::new());
    assert_eq!(shell.rows("SELECT id FROM one WHERE id IN (1, NULL)"), ["1"]);
}

#[test]
fn update_and_delete_read_only_the_keys_that_they_need() {
    let shell = tables();
    assert!(shell.plan("UPDATE one SET x = 0 WHERE id = 7").contains("access=point,"));
    assert!(shell.plan("DELETE FROM two WHERE a = 3 AND b < 'c'").contains("access=range,"));
}

#[test]
fn rows_come_in_key_order_without_sorting() {
    let shell = tables();
    let plan = shell.plan("SELECT * FROM two ORDER BY a, b");
    assert!(!plan.contains("SortExec"), "{plan}");
    assert!(shell.plan("SELECT * FROM two ORDER BY b, a").contains("SortExec"));
    let rows = shell.rows("SELECT id FROM one WHERE id IN (9, 3, 27, 4, 5) ORDER BY id");
    assert_eq!(rows, ["3", "4", "5", "9", "27"]);
}

#[test]
fn a_limit_stops_the_scan() {
    let shell = tables();
    let plan = shell.plan("SELECT * FROM one LIMIT 3");
    assert!(plan.contains("limit=3"), "{plan}");
    assert_eq!(shell.rows("SELECT id FROM one ORDER BY id LIMIT 3 OFFSET 2"), ["3", "4", "5"]);
    assert_eq!(shell.rows("SELECT id FROM one WHERE id > 50 LIMIT 2"), ["51", "52"]);
}

#[test]
fn counting_decodes_no_column() {
    let shell = tables();
    let plan = shell.plan("SELECT count(*) FROM one");
    assert!(plan.contains("columns=[]"), "{plan}");
    assert_eq!(shell.rows("SELECT count(*) FROM one"), ["100"]);
    assert_eq!(shell.rows("SELECT count(*) FROM one WHERE id > 90"), ["10"]);
}

#[test]
fn tables_of_many_pages_are_read_whole() {
    let shell = Shell::with(
        "CREATE TABLE big (id BIGINT PRIMARY KEY, s TEXT);
         INSERT INTO big SELECT value, CAST(value AS TEXT) FROM generate_series(1, 50000);",
    );
    assert_eq!(
        shell.rows("SELECT count(*), sum(id), sum(CAST(s AS BIGINT)) FROM big"),
        ["50000|1250025000|1250025000"]
    );
    assert_eq!(shell.rows("SELECT count(*) FROM big WHERE id > 100 AND id < 40000"), ["39899"]);
    shell.run("BEGIN; DELETE FROM big WHERE id % 2 = 0; INSERT INTO big VALUES (50001, 'x')");
    assert_eq!(shell.rows("SELECT count(*) FROM big"), ["25001"]);
    assert_eq!(shell.rows("SELECT count(s) FROM big"), ["25001"]);
    shell.run("ROLLBACK");
    assert_eq!(shell.rows("SELECT count(*) FROM big"), ["50000"]);
}

#[test]
fn a_key_of_several_tables_stays_when_joins_get_another_order() {
    let shell = Shell::with(
        "CREATE TABLE t (a BIGINT, b TEXT); CREATE TABLE u (id INT, b TEXT);
         INSERT INTO u VALUES (1, NULL), (2, 'x'), (3, 'yx'); INSERT INTO t VALUES (2, 'z'), (1, 'a')",
    );
    // The subquery has a row for each pair of x.b and y.b.
    let sql = "SELECT x.id, y.id FROM u AS x, u AS y
               WHERE strpos(x.b, y.b) = (SELECT max(t.a) FROM t WHERE x.b < t.b AND y.b < t.b) ORDER BY 1, 2";
    assert_eq!(shell.rows(sql), ["3|2"]);
    let none = sql.replace("FROM t WHERE", "FROM t WHERE t.a > 9 AND");
    assert!(shell.rows(&none).is_empty());
    let plain = "SELECT x.id, y.id FROM u AS x CROSS JOIN u AS y JOIN (SELECT DISTINCT b, id FROM u) AS z
                 ON x.b = z.b AND y.id + x.id = z.id + 3 ORDER BY 1, 2";
    assert_eq!(shell.rows(plain), ["2|3", "3|3"]);
}

#[test]
fn a_total_with_a_filter_is_not_the_total_of_its_subquery() {
    let shell = Shell::with("CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (1, 'x')");
    shell.run("CREATE VIEW v AS SELECT sum(1) AS s FROM t WHERE false HAVING max(b) IS NULL");
    assert_eq!(shell.rows("SELECT sum(5.5) FILTER (WHERE 1 >= 1) FROM v"), ["5.5"]);
    assert_eq!(shell.rows("SELECT count(*) FILTER (WHERE s > 0), min('a') FROM v"), ["0|a"]);
    assert_eq!(shell.rows("SELECT count(*) FROM v"), ["1"]);
}

#[test]
fn decimals_of_other_digits_are_joined() {
    let shell = Shell::with(
        "CREATE TABLE t (a DECIMAL(5, 2), b DECIMAL(8, 3), c DECIMAL(38, 10)); INSERT INTO t VALUES (1, 2.5, 3.25), (2, 3, NULL);
         CREATE TABLE u (a DECIMAL(38, 0), b DECIMAL(30, 19), c INT); INSERT INTO u VALUES (1, 3.25, 2), (2, 3, 2), (NULL, 1, 1)",
    );
    for (sql, rows) in [
        ("SELECT t.a FROM t JOIN u ON t.c = u.b", &["1.00"][..]),
        ("SELECT t.a, u.c FROM t LEFT JOIN u ON t.b = u.b AND t.a = u.a ORDER BY 1", &["1.00|NULL", "2.00|2"]),
        ("SELECT count(*) FROM t JOIN u USING (a)", &["2"]),
        ("SELECT count(*) FROM t FULL JOIN u ON t.a = u.a AND t.c = u.b", &["4"]),
        ("SELECT a FROM t WHERE c IN (SELECT b FROM u)", &["1.00"]),
        ("SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.b = t.c)", &["2.00"]),
    ] {
        assert_eq!(shell.rows(sql), rows, "{sql}");
    }
}

#[test]
fn the_only_query_of_a_union_that_has_rows_is_taken_column_by_column() {
    let shell = Shell::with("CREATE TABLE o (a INT, b INT); INSERT INTO o VALUES (1, 2)");
    for (query, expected) in [
        ("SELECT a + 1 FROM o WHERE 1 = 2 UNION ALL VALUES (5)", "5"),
        ("SELECT 5 FROM o WHERE 1 = 2 UNION ALL VALUES (6), (7)", "6, 7"),
        ("SELECT a, b FROM o WHERE 1 = 2 UNION ALL SELECT b, a FROM o", "2|1"),
        ("SELECT u.a, u.b FROM (SELECT a, b FROM o WHERE false UNION SELECT b, a FROM o) AS u", "2|1"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}
