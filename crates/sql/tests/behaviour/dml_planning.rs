//! The traps of planning UPDATE and DELETE: each statement changes the rows of its WHERE clause, all of it, and nothing
//! else; and only when it is run.

use crate::shell::Shell;

/// Five rows, and a second table with two of the keys.
fn stones() -> Shell {
    Shell::with(
        "CREATE TABLE t (id INT PRIMARY KEY, x INT);
         INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (4, 40), (5, 50);
         CREATE TABLE u (id INT PRIMARY KEY);
         INSERT INTO u VALUES (2), (4);",
    )
}

fn ids(shell: &Shell) -> String {
    shell.rows("SELECT id FROM t ORDER BY id").join(" ")
}

fn values(shell: &Shell) -> String {
    shell.rows("SELECT x FROM t ORDER BY id").join(" ")
}

#[test]
fn delete_where_in_a_subquery_deletes_those_rows_only() {
    let shell = stones();
    assert_eq!(shell.run("DELETE FROM t WHERE id IN (SELECT id FROM u)"), 2);
    assert_eq!(ids(&shell), "1 3 5");
}

#[test]
fn delete_where_not_in_a_subquery_deletes_the_others() {
    let shell = stones();
    assert_eq!(shell.run("DELETE FROM t WHERE id NOT IN (SELECT id FROM u)"), 3);
    assert_eq!(ids(&shell), "2 4");
}

#[test]
fn delete_where_exists_follows_the_outer_row() {
    let shell = stones();
    assert_eq!(shell.run("DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id)"), 2);
    assert_eq!(ids(&shell), "1 3 5");
}

#[test]
fn delete_where_compares_with_a_subquery_of_the_same_table() {
    let shell = stones();
    assert_eq!(shell.run("DELETE FROM t WHERE x > (SELECT avg(x) FROM t)"), 2);
    assert_eq!(ids(&shell), "1 2 3");
}

#[test]
fn delete_where_false_deletes_nothing() {
    let shell = stones();
    assert_eq!(shell.run("DELETE FROM t WHERE false"), 0);
    assert_eq!(shell.run("DELETE FROM t WHERE 1 = 2"), 0);
    assert_eq!(ids(&shell), "1 2 3 4 5");
}

#[test]
fn delete_where_null_deletes_nothing() {
    let shell = stones();
    assert_eq!(shell.run("DELETE FROM t WHERE NULL"), 0);
    assert_eq!(shell.run("DELETE FROM t WHERE id = NULL"), 0);
    assert_eq!(ids(&shell), "1 2 3 4 5");
}

#[test]
fn delete_without_where_deletes_everything() {
    let shell = stones();
    assert_eq!(shell.run("DELETE FROM t"), 5);
    assert_eq!(ids(&shell), "");
}

#[test]
fn delete_limit_0_deletes_nothing() {
    let shell = stones();
    assert_eq!(shell.run("DELETE FROM t LIMIT 0"), 0);
    assert_eq!(ids(&shell), "1 2 3 4 5");
}

#[test]
fn delete_with_limit_deletes_so_many_rows() {
    let shell = stones();
    assert_eq!(shell.run("DELETE FROM t WHERE id > 1 LIMIT 2"), 2);
    assert_eq!(ids(&shell).split(' ').count(), 3);
    assert!(ids(&shell).starts_with('1'));
}

#[test]
fn explain_delete_deletes_nothing() {
    let shell = stones();
    let plan = shell.plan("DELETE FROM t WHERE id IN (SELECT id FROM u)");
    assert!(plan.contains("IshigakiDelete: table=t"), "{plan}");
    assert!(plan.contains("IshigakiScan: table=u"), "{plan}");
    assert_eq!(ids(&shell), "1 2 3 4 5");
}

#[test]
fn explain_update_and_explain_insert_change_nothing() {
    let shell = stones();
    assert!(shell.plan("UPDATE t SET x = 0").contains("IshigakiUpdate: table=t, set=[x]"));
    assert!(shell.plan("INSERT INTO t VALUES (6, 60)").contains("IshigakiInsert: table=t"));
    assert_eq!(values(&shell), "10 20 30 40 50");
}

#[test]
fn explain_analyze_of_a_change_is_refused() {
    let shell = stones();
    for statement in ["DELETE FROM t", "UPDATE t SET x = 0", "INSERT INTO t VALUES (6, 60)"] {
        shell.refuses(&format!("EXPLAIN ANALYZE {statement}"), &["EXPLAIN ANALYZE", "not supported"]);
    }
    assert_eq!(values(&shell), "10 20 30 40 50");
}

#[test]
fn update_where_in_a_subquery_updates_those_rows_only() {
    let shell = stones();
    assert_eq!(shell.run("UPDATE t SET x = 0 WHERE id IN (SELECT id FROM u)"), 2);
    assert_eq!(values(&shell), "10 0 30 0 50");
}

#[test]
fn update_where_false_updates_nothing() {
    let shell = stones();
    assert_eq!(shell.run("UPDATE t SET x = 0 WHERE false"), 0);
    assert_eq!(values(&shell), "10 20 30 40 50");
}

#[test]
fn update_sets_a_column_from_a_subquery_of_the_outer_row() {
    let shell = stones();
    assert_eq!(shell.run("UPDATE t SET x = (SELECT count(*) FROM u WHERE u.id = t.id)"), 5);
    assert_eq!(values(&shell), "0 1 0 1 0");
}

#[test]
fn update_reads_all_rows_before_it_changes_the_first() {
    let shell = stones();
    assert_eq!(shell.run("UPDATE t SET x = x + (SELECT max(x) FROM t)"), 5);
    assert_eq!(values(&shell), "60 70 80 90 100");
}

#[test]
fn update_of_the_primary_key_moves_each_row_once() {
    let shell = stones();
    assert_eq!(shell.run("UPDATE t SET id = id + 1"), 5);
    assert_eq!(ids(&shell), "2 3 4 5 6");
    assert_eq!(shell.run("UPDATE t SET id = id - 1 WHERE id < 4"), 2);
    assert_eq!(ids(&shell), "1 2 4 5 6");
    assert_eq!(values(&shell), "10 20 30 40 50");
}

#[test]
fn update_that_swaps_keys_is_no_duplicate() {
    let shell = stones();
    assert_eq!(shell.run("UPDATE t SET id = 3 - id WHERE id IN (1, 2)"), 2);
    assert_eq!(values(&shell), "20 10 30 40 50");
}

#[test]
fn update_onto_a_key_that_stays_is_refused_and_has_no_effect() {
    let shell = stones();
    shell.refuses("UPDATE t SET id = 5 WHERE id < 3", &["duplicate key (id) = (5)", "table t"]);
    shell.refuses("UPDATE t SET id = 7 WHERE id < 3", &["duplicate key (id) = (7)"]);
    assert_eq!(ids(&shell), "1 2 3 4 5");
    assert_eq!(values(&shell), "10 20 30 40 50");
}

#[test]
fn update_with_order_and_limit_takes_the_first_rows() {
    let shell = stones();
    assert_eq!(shell.run("UPDATE t SET x = 0 WHERE x > 10 LIMIT 0"), 0);
    assert_eq!(values(&shell), "10 20 30 40 50");
}

#[test]
fn update_from_and_delete_using_change_each_row_once() {
    let shell = stones();
    shell.run(
        "CREATE TABLE v (id INT, y INT); INSERT INTO v VALUES (1, 11), (1, 11), (2, 22), (3, 33), (3, 34), (9, 99)",
    );
    assert_eq!(shell.run("UPDATE t SET x = v.y FROM v WHERE t.id = v.id AND v.id < 3"), 2);
    assert_eq!(values(&shell), "11 22 30 40 50");
    // Which of two values it is to be can not be told.
    shell.refuses("UPDATE t SET x = y FROM v WHERE t.id = v.id", &["matched several times"]);
    assert_eq!(values(&shell), "11 22 30 40 50");
    assert_eq!(
        shell.run("UPDATE t AS s SET x = t.x + y FROM t JOIN v ON t.id = v.id WHERE s.id = t.id + 3 AND y < 20"),
        1
    );
    assert_eq!(values(&shell), "11 22 30 22 50");
    assert_eq!(shell.run("UPDATE t SET x = 0 FROM v"), 5);
    assert_eq!(shell.run("DELETE FROM t USING v, u WHERE t.id = v.id AND v.y > 10"), 3);
    assert_eq!(ids(&shell), "4 5");
}

#[test]
fn join_and_returning_are_refused() {
    let shell = stones();
    shell.refuses("DELETE FROM t RETURNING id", &["RETURNING"]);
    shell.refuses("UPDATE t SET x = 0 RETURNING id", &["RETURNING"]);
    shell.refuses("INSERT INTO t VALUES (9, 9) RETURNING id", &["RETURNING"]);
    shell.refuses("INSERT INTO t VALUES (1, 9) ON CONFLICT DO NOTHING", &["ON CONFLICT"]);
    assert_eq!(values(&shell), "10 20 30 40 50");
}

#[test]
fn an_alias_of_the_table_is_known_in_where_and_set() {
    let shell = stones();
    assert_eq!(shell.run("UPDATE t AS s SET x = s.x + 1 WHERE s.id = 1"), 1);
    assert_eq!(shell.run("DELETE FROM t s WHERE s.id > 1"), 4);
    assert_eq!(values(&shell), "11");
    shell.refuses("DELETE FROM t AS s WHERE t.id = 1", &["t.id"]);
}

#[test]
fn insert_from_the_table_itself_reads_it_before_it_grows() {
    let shell = stones();
    assert_eq!(shell.run("INSERT INTO t SELECT id + 5, x FROM t"), 5);
    assert_eq!(shell.run("INSERT INTO t SELECT id + 10, x FROM t"), 10);
    assert_eq!(ids(&shell).split(' ').count(), 20);
}

#[test]
fn the_key_column_of_a_target_is_hidden_from_queries() {
    let shell = stones();
    shell.refuses("SELECT __key FROM t", &["__key"]);
    assert_eq!(shell.rows("SELECT * FROM t WHERE id = 1"), ["1|10"]);
    assert_eq!(shell.rows("SELECT table_schema FROM information_schema.tables WHERE table_name = 't'"), ["public"]);
}

#[test]
fn delete_where_the_key_is_in_a_list_of_null_deletes_nothing() {
    let shell = Shell::with("CREATE TABLE n (id INT PRIMARY KEY, a INT)");
    shell.run("INSERT INTO n VALUES (1, 1), (2, 2)");
    for condition in ["id IN (NULL)", "id = NULL", "id > NULL", "id IN (NULL, NULL)", "NOT (id <> NULL)"] {
        assert_eq!(shell.run(&format!("DELETE FROM n WHERE {condition}")), 0, "{condition}");
        assert_eq!(shell.run(&format!("UPDATE n SET a = 0 WHERE {condition}")), 0, "{condition}");
        assert_eq!(shell.rows(&format!("SELECT count(*) FROM n WHERE {condition}")), ["0"], "{condition}");
    }
}

#[test]
fn in_a_subquery_is_not_false_where_it_is_null() {
    let shell = Shell::with("CREATE TABLE h (x INT, y TEXT)");
    shell.run("INSERT INTO h VALUES (1, 'a'), (NULL, 'b'), (3, 'c')");
    assert_eq!(shell.run("DELETE FROM h WHERE x NOT IN (SELECT x FROM h) OR y = 'none'"), 0);
    assert_eq!(shell.rows("SELECT y FROM h WHERE (x IN (SELECT x FROM h)) IS NULL"), ["b"]);
    assert_eq!(shell.run("DELETE FROM h WHERE x NOT IN (SELECT x FROM h WHERE x IS NULL)"), 0);
    assert_eq!(shell.run("DELETE FROM h WHERE x IN (SELECT 1) OR y = 'c'"), 2);
}

#[test]
fn a_subquery_without_a_row_is_null() {
    let shell = Shell::with("CREATE TABLE n (id INT PRIMARY KEY, a INT)");
    shell.run("INSERT INTO n VALUES (1, 1)");
    assert_eq!(shell.rows("SELECT (SELECT id FROM n WHERE id = 99) IS NULL"), ["true"]);
    assert_eq!(shell.run("UPDATE n SET a = (SELECT id FROM n WHERE id = 99)"), 1);
    assert_eq!(shell.rows("SELECT count(*) FROM n WHERE a IS NULL"), ["1"]);
}
