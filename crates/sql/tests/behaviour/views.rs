//! Views: queries behind names, and what may be done to what they read.

use ishigaki_base::ErrorKind;
use ishigaki_txn::ProtocolKind;

use crate::shell::{Shell, error, rows, run};

fn stones() -> Shell {
    Shell::with(
        "CREATE TABLE stones (id INTEGER PRIMARY KEY, kind TEXT, weight DECIMAL(8,2), quarry INTEGER);
         INSERT INTO stones VALUES (1, 'corner', 812.50, 1), (2, 'wedge', 3.75, 2), (3, 'facing', NULL, NULL), (4, 'wedge', 4.25, 1);
         CREATE TABLE quarries (id INTEGER PRIMARY KEY, name TEXT);
         INSERT INTO quarries VALUES (1, 'Oya'), (2, 'Aji');",
    )
}

#[test]
fn a_view_is_read_wherever_a_table_is() {
    let shell = stones();
    shell.run("CREATE VIEW wedges AS SELECT id, weight FROM stones WHERE kind = 'wedge'");
    shell.run(
        "CREATE VIEW named (stone, quarry) AS SELECT s.id, q.name FROM stones s JOIN quarries q ON q.id = s.quarry",
    );
    for (sql, expected) in [
        ("SELECT * FROM wedges ORDER BY id", &["2|3.75", "4|4.25"][..]),
        ("SELECT wedges.weight FROM wedges WHERE wedges.id = 4", &["4.25"]),
        ("SELECT w.id FROM public.wedges AS w ORDER BY 1", &["2", "4"]),
        ("SELECT x, y FROM wedges AS w (x, y) ORDER BY x", &["2|3.75", "4|4.25"]),
        ("SELECT id, quarry FROM wedges JOIN named ON stone = id ORDER BY id", &["2|Aji", "4|Oya"]),
        ("SELECT id FROM stones NATURAL JOIN wedges ORDER BY id", &["2", "4"]),
        ("SELECT id, name FROM wedges RIGHT JOIN quarries USING (id) ORDER BY id", &["1|Oya", "2|Aji"]),
        ("SELECT id FROM stones s WHERE EXISTS (SELECT 1 FROM wedges w WHERE w.id = s.id) ORDER BY id", &["2", "4"]),
        (
            "SELECT id, (SELECT count(*) FROM wedges w WHERE w.weight < s.weight) FROM stones s ORDER BY id",
            &["1|2", "2|0", "3|0", "4|1"],
        ),
        ("SELECT id FROM stones WHERE id IN (SELECT id FROM wedges) ORDER BY id", &["2", "4"]),
        (
            "SELECT q.id, n.c FROM quarries q, LATERAL (SELECT count(*) AS c FROM named WHERE quarry = q.name) n ORDER BY 1",
            &["1|2", "2|1"],
        ),
        ("SELECT count(*) FROM (SELECT * FROM wedges UNION ALL SELECT * FROM wedges) d", &["4"]),
        ("WITH wedges AS (SELECT 7 AS id) SELECT * FROM wedges", &["7"]),
        ("WITH stones AS (SELECT 7 AS id) SELECT id FROM wedges ORDER BY id", &["2", "4"]),
        ("WITH w AS (SELECT * FROM wedges) SELECT sum(weight) FROM w", &["8.00"]),
    ] {
        assert_eq!(shell.rows(sql), expected, "{sql}");
    }
    shell.run("CREATE TABLE kept AS SELECT * FROM wedges");
    assert_eq!(shell.run("INSERT INTO kept SELECT id + 10, weight FROM wedges"), 2);
    assert_eq!(shell.run("DELETE FROM stones WHERE id IN (SELECT id FROM wedges WHERE weight > 4)"), 1);
    assert_eq!(shell.run("UPDATE stones SET weight = (SELECT max(weight) FROM wedges) WHERE weight IS NULL"), 1);
    assert_eq!(shell.run("INSERT INTO stones SELECT id + 100, 'wedge', weight, NULL FROM wedges"), 1);
    let file = shell.file("wedges.csv");
    shell.run(&format!("COPY (SELECT * FROM wedges ORDER BY id) TO '{file}'"));
    assert_eq!(std::fs::read_to_string(file).expect("a file"), "id,weight\n2,3.75\n102,3.75\n");
    assert_eq!(shell.rows("SELECT id FROM kept ORDER BY 1"), ["2", "4", "12", "14"]);
}

#[test]
fn a_view_shows_what_its_tables_have_now_and_stays_when_the_database_is_opened_again() {
    let shell = stones();
    shell.run("CREATE VIEW heavy AS SELECT kind, count(*) AS n FROM stones WHERE weight > 4 GROUP BY kind");
    shell.run("CREATE VIEW many (n) AS WITH x AS (SELECT n FROM heavy) SELECT sum(n) FROM x");
    assert_eq!(shell.rows("SELECT * FROM many"), ["2"]);
    shell.run("INSERT INTO stones VALUES (5, 'wedge', 90, 1)");
    let shell = shell.reopen();
    assert_eq!(shell.rows("SELECT * FROM many"), ["3"]);
    assert_eq!(shell.rows("SELECT kind, n FROM heavy ORDER BY kind"), ["corner|1", "wedge|2"]);
    shell.run("CHECKPOINT; TRUNCATE stones");
    let shell = shell.reopen();
    assert_eq!(shell.rows("SELECT * FROM heavy"), [""; 0]);
}

#[test]
fn a_view_is_planned_as_its_query_is() {
    let shell = stones();
    shell.run("CREATE VIEW wedges AS SELECT id, weight, quarry FROM stones WHERE kind = 'wedge'");
    shell.run("CREATE VIEW light (stone, kilos) AS SELECT id, weight FROM wedges WHERE weight < 100");
    let inner = "(SELECT id, weight, quarry FROM stones WHERE kind = 'wedge') AS wedges";
    let view = shell.rows("EXPLAIN SELECT weight FROM wedges WHERE id = 4");
    assert_eq!(view, shell.rows(&format!("EXPLAIN SELECT weight FROM {inner} WHERE id = 4")));
    let scan = view.iter().find(|line| line.contains("IshigakiScan")).expect("a scan");
    assert!(scan.contains("id=4") || scan.contains("id = "), "the key reaches the scan: {scan}");
    let outer = format!("(SELECT id AS stone, weight AS kilos FROM {inner} WHERE weight < 100) AS light");
    assert_eq!(
        shell.plan("SELECT q.name FROM light JOIN quarries q ON q.id = stone WHERE kilos > 4"),
        shell.plan(&format!("SELECT q.name FROM {outer} JOIN quarries q ON q.id = stone WHERE kilos > 4"))
    );
    assert_eq!(shell.rows("EXPLAIN UPDATE stones SET weight = 1 WHERE id IN (SELECT stone FROM light)").len(), 2);
}

#[test]
fn columns_that_a_base_gets_later_are_not_seen() {
    let shell = stones();
    shell.run("CREATE VIEW base AS SELECT id, kind FROM stones");
    shell.run("CREATE VIEW all_of AS SELECT * FROM base");
    shell.run("CREATE VIEW inside AS SELECT d.kind FROM (SELECT * FROM base UNION SELECT id, name FROM quarries) d");
    shell.run("CREATE VIEW joined AS SELECT count(*) AS n FROM base NATURAL JOIN stones");
    shell.run(
        "CREATE VIEW outside AS SELECT s.id FROM stones s WHERE EXISTS (SELECT 1 FROM base b WHERE b.id = quarry)",
    );
    let before = |shell: &Shell| {
        ["all_of", "inside", "joined", "outside"].map(|view| {
            let mut rows = shell.rows(&format!("SELECT * FROM {view}"));
            rows.sort();
            rows
        })
    };
    let expected = before(&shell);
    // `quarry` is a name that `outside` takes from `stones`, and that the new column would hide.
    shell.run("CREATE OR REPLACE VIEW base AS SELECT id, kind, 77 AS weight, 4 AS quarry FROM stones");
    assert_eq!(before(&shell), expected);
    assert_eq!(shell.rows("SELECT * FROM base WHERE id = 1"), ["1|corner|77|4"]);
    let shell = shell.reopen();
    assert_eq!(before(&shell), expected);
    let query = shell.rows("SELECT view_definition FROM information_schema.views WHERE table_name = 'all_of'");
    assert_eq!(query, [r#"SELECT "base"."id", "base"."kind" FROM base"#]);
}

#[test]
fn or_replace_keeps_the_columns() {
    let shell = stones();
    shell.run("CREATE OR REPLACE VIEW v AS SELECT id, kind FROM stones");
    shell.run(
        "CREATE OR REPLACE VIEW v AS SELECT quarry AS id, upper(kind) AS kind, 1 AS more FROM stones WHERE id = 1",
    );
    assert_eq!(shell.rows("SELECT * FROM v"), ["1|CORNER|1"]);
    for (query, words) in [
        ("SELECT id, kind FROM stones", "column more would be gone"),
        ("SELECT id, kind AS other, 1 AS more FROM stones", "column kind would be called other"),
        ("SELECT kind AS id, kind, 1 AS more FROM stones", "column id would be TEXT instead of INTEGER"),
    ] {
        shell.refuses(&format!("CREATE OR REPLACE VIEW v AS {query}"), &["view v", words, "DROP VIEW first"]);
    }
    shell.run("CREATE VIEW w AS SELECT * FROM v; CREATE VIEW x AS SELECT * FROM w");
    shell.refuses("CREATE OR REPLACE VIEW v AS SELECT id, kind, more FROM x", &["view v", "it would read itself"]);
    shell.refuses("CREATE OR REPLACE VIEW v AS SELECT id, kind, more FROM v", &["view v", "it would read itself"]);
    shell.refuses("CREATE OR REPLACE VIEW stones AS SELECT 1 AS a", &["stones, which is a table"]);
    assert_eq!(shell.rows("SELECT * FROM x"), ["1|CORNER|1"]);
}

#[test]
fn what_a_view_reads_can_not_be_dropped_without_it() {
    let shell = stones();
    shell.run("CREATE VIEW v AS SELECT * FROM stones; CREATE VIEW w AS SELECT count(*) AS n FROM v, quarries");
    shell.refuses("DROP TABLE stones", &["views v, w read stones", "CASCADE"]);
    shell.refuses("DROP TABLE quarries RESTRICT", &["view w reads quarries", "CASCADE"]);
    shell.refuses("DROP VIEW v", &["view w reads v", "CASCADE"]);
    shell.refuses("DROP TABLE IF EXISTS nothing, stones", &["views v, w"]);
    assert_eq!(shell.rows("SELECT n FROM w"), ["8"]);
    // Together is no trouble, in any order.
    shell.run("DROP VIEW v, w");
    shell.run("CREATE VIEW v AS SELECT * FROM stones; CREATE VIEW w AS SELECT count(*) AS n FROM v, quarries");
    shell.run("DROP TABLE quarries CASCADE");
    shell.refuses("SELECT * FROM w", &["w"]);
    assert_eq!(shell.rows("SELECT count(*) FROM v"), ["4"]);
    shell.run("CREATE VIEW w AS SELECT * FROM v; CREATE VIEW x AS SELECT * FROM w; DROP VIEW v CASCADE");
    assert_eq!(shell.rows("SELECT count(*) FROM information_schema.views"), ["0"]);
    shell.run("DROP TABLE stones");
    // A table of the name of a CTE is no base.
    shell.run("CREATE TABLE a (x INT); CREATE VIEW v AS WITH a AS (SELECT 1 AS x) SELECT x FROM a; DROP TABLE a");
    assert_eq!(shell.rows("SELECT * FROM v"), ["1"]);
}

#[test]
fn a_name_is_a_tables_or_a_views() {
    let shell = stones();
    shell.run("CREATE VIEW v AS SELECT * FROM stones");
    for (sql, words) in [
        ("CREATE VIEW v AS SELECT 1 AS a", &["view v exists already"][..]),
        ("CREATE VIEW stones AS SELECT 1 AS a", &["table stones exists already"]),
        ("CREATE TABLE v (a INT)", &["view v exists already"]),
        ("CREATE TABLE v AS SELECT 1 AS a", &["view v exists already"]),
        ("DROP TABLE v", &["v, which is a view", "DROP VIEW v"]),
        ("DROP TABLE IF EXISTS v", &["v, which is a view", "DROP VIEW v"]),
        ("DROP VIEW stones", &["stones, which is a table", "DROP TABLE stones"]),
        ("DROP VIEW IF EXISTS stones", &["stones, which is a table"]),
        ("DROP VIEW nothing", &["no such view: nothing"]),
        ("INSERT INTO v VALUES (9, 'x', 1, 1)", &["INSERT", "v, which is a view", "the tables that it reads"]),
        ("UPDATE v SET kind = 'x'", &["UPDATE", "v, which is a view"]),
        ("DELETE FROM v", &["DELETE", "v, which is a view"]),
        ("TRUNCATE v", &["TRUNCATE", "v, which is a view"]),
        ("COPY v FROM '/nothing.csv'", &["COPY … FROM", "v, which is a view"]),
        ("COPY v TO '/nothing.csv'", &["COPY … TO", "COPY (SELECT * FROM v) TO"]),
    ] {
        shell.refuses(sql, words);
    }
    shell.run("DROP VIEW IF EXISTS nothing; CREATE TABLE IF NOT EXISTS v (a INT); DROP VIEW v; CREATE TABLE v (a INT)");
    assert_eq!(shell.rows("SELECT count(*) FROM v"), ["0"]);
    assert_eq!(shell.rows("SELECT count(*) FROM stones"), ["4"]);
}

#[test]
fn what_is_no_plain_view_is_refused_by_name() {
    let shell = stones();
    for (sql, words) in [
        ("CREATE TEMPORARY VIEW v AS SELECT 1 AS a", "CREATE TEMPORARY VIEW"),
        ("CREATE TEMP VIEW v AS SELECT 1 AS a", "CREATE TEMPORARY VIEW"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 AS a", "CREATE MATERIALIZED VIEW"),
        ("CREATE RECURSIVE VIEW v (n) AS SELECT 1", "CREATE RECURSIVE VIEW"),
        ("CREATE OR REPLACE RECURSIVE VIEW v (n) AS SELECT 1", "CREATE RECURSIVE VIEW"),
        ("CREATE VIEW v AS SELECT * FROM stones WITH CHECK OPTION", "WITH CHECK OPTION"),
        ("CREATE VIEW v AS SELECT * FROM stones WITH LOCAL CHECK OPTION;", "WITH CHECK OPTION"),
        ("CREATE VIEW v WITH (security_barrier = true) AS SELECT 1 AS a", "WITH (…) of a view"),
        ("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS a", "IF NOT EXISTS"),
        ("CREATE VIEW v AS SELECT id FROM stones WHERE id = $1", "a parameter in a view"),
        ("CREATE VIEW v AS SELECT id FROM stones FOR UPDATE", "FOR UPDATE"),
        ("DROP MATERIALIZED VIEW v", "DROP MATERIALIZED VIEW"),
        ("ALTER VIEW v RENAME TO w", "ALTER VIEW"),
    ] {
        shell.refuses(sql, &[words]);
    }
    for (sql, words) in [
        ("CREATE VIEW v AS SELECT id + 1 FROM stones", &["view v", "a column has no name", "AS name"][..]),
        ("CREATE VIEW v AS SELECT id, id FROM stones", &["view v", "column id is defined twice"]),
        ("CREATE VIEW v (a, a) AS SELECT 1, 2", &["view v", "column a is defined twice"]),
        ("CREATE VIEW v (a, b) AS SELECT id FROM stones", &["view v", "2 columns", "gives 1"]),
        ("CREATE VIEW v AS SELECT nope FROM stones", &["nope"]),
        ("CREATE VIEW v AS SELECT * FROM nope", &["nope"]),
        ("CREATE VIEW v AS SELECT * FROM __targets.stones", &["no such table"]),
        ("CREATE VIEW v AS SELECT 1 AS a; SELECT 1 WHERE a", &["a"]),
    ] {
        shell.refuses(sql, words);
    }
    shell.run("CREATE VIEW \"CHECK OPTION\" (a) AS SELECT 1");
    shell.run("DROP VIEW v; CREATE VIEW v (a) AS SELECT id, kind FROM stones");
    assert_eq!(shell.rows("SELECT a, kind FROM v WHERE a = 1"), ["1|corner"]);
}

#[test]
fn views_over_views_have_an_end() {
    let shell = Shell::with("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); CREATE VIEW v1 AS SELECT a FROM t");
    for number in 2..=64 {
        shell.run(&format!("CREATE VIEW v{number} AS SELECT a FROM v{}", number - 1));
    }
    assert_eq!(shell.rows("SELECT a FROM v64"), ["1"]);
    shell.run("CREATE VIEW v65 AS SELECT a FROM v64");
    shell.refuses("SELECT a FROM v65", &["view v1", "64 views"]);
    shell.run("CREATE VIEW w0 AS SELECT a FROM t");
    let mut last = String::new();
    for number in 1..30 {
        let sql = format!("CREATE VIEW w{number} AS SELECT x.a FROM w{0} x, w{0} y", number - 1);
        match shell.session.execute_blocking(&sql) {
            Ok(_) => {}
            Err(error) => {
                last = error.to_string();
                assert!(number > 8, "{number}: {last}");
                break;
            }
        }
    }
    assert!(last.contains("operators, in its views"), "{last}");
}

#[test]
fn a_view_belongs_to_its_transaction() {
    let shell = stones();
    let other = shell.other();
    shell.run("BEGIN; CREATE VIEW v AS SELECT id FROM stones");
    assert_eq!(shell.rows("SELECT count(*) FROM v"), ["4"]);
    assert!(error(&other, "SELECT * FROM v").to_string().contains('v'), "not yet");
    shell.run("ROLLBACK");
    shell.refuses("SELECT * FROM v", &["v"]);
    shell.run(
        "BEGIN; SAVEPOINT a; CREATE VIEW v AS SELECT id FROM stones; ROLLBACK TO a; CREATE TABLE v (b INT); COMMIT",
    );
    assert_eq!(rows(&other, "SELECT count(*) FROM v"), ["0"]);
    shell.run("DROP TABLE v; CREATE VIEW v AS SELECT id FROM stones");
    shell.run("BEGIN; CREATE OR REPLACE VIEW v AS SELECT id, kind FROM stones; DROP VIEW v");
    shell.refuses("SELECT * FROM v", &["v"]);
    shell.run("ROLLBACK");
    assert_eq!(rows(&other, "SELECT * FROM v WHERE id = 1"), ["1"]);
    // Within one transaction a view shows its tables as they are there.
    shell.run("BEGIN; TRUNCATE stones; INSERT INTO stones (id) VALUES (8)");
    assert_eq!(shell.rows("SELECT * FROM v"), ["8"]);
    shell.run("TRUNCATE stones");
    assert_eq!(shell.rows("SELECT * FROM v"), [""; 0]);
    shell.run("ROLLBACK");
}

#[test]
fn of_a_view_and_the_drop_of_its_table_at_one_time_one_fails() {
    for protocol in [ProtocolKind::Locking, ProtocolKind::TicToc] {
        let shell = Shell::under(protocol);
        shell.run("CREATE TABLE quarries (id INT); CREATE TABLE walls (id INT); INSERT INTO quarries VALUES (1), (2)");
        let other = shell.other();
        shell.run("BEGIN; CREATE VIEW v AS SELECT id FROM quarries");
        let (dropped, committed) = std::thread::scope(|scope| {
            let drop = scope.spawn(|| other.execute_blocking("DROP TABLE quarries").map(|_| ()));
            std::thread::sleep(std::time::Duration::from_millis(200));
            let committed = shell.session.execute_blocking("COMMIT").map(|_| ());
            (drop.join().expect("no panic"), committed)
        });
        // The one that comes first depends on how they are kept apart.
        match (dropped, committed) {
            (Err(error), Ok(())) => {
                assert!(error.to_string().contains("view v reads quarries"), "{protocol:?}: {error}");
                assert_eq!(shell.rows("SELECT count(*) FROM v"), ["2"]);
            }
            (Ok(()), Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{protocol:?}: {error}");
                assert_eq!(shell.rows("SELECT count(*) FROM information_schema.views"), ["0"]);
            }
            (dropped, committed) => panic!("{protocol:?}: {dropped:?} {committed:?}"),
        }
        // Tables that no view has to do with come and go meanwhile.
        shell.run("BEGIN; CREATE TABLE mine (a INT)");
        run(&other, "CREATE TABLE yours (a INT); DROP TABLE yours; DROP TABLE walls");
        shell.run("COMMIT");
    }
}

#[test]
fn views_are_described() {
    let shell = stones();
    shell.run(
        "CREATE VIEW zero AS SELECT id AS n, kind, weight FROM stones WHERE kind <> 'it''s';
               CREATE VIEW a_later (x) AS SELECT n FROM zero",
    );
    assert_eq!(
        shell.rows(
            "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
        ),
        ["a_later|VIEW", "quarries|BASE TABLE", "stones|BASE TABLE", "zero|VIEW"]
    );
    assert_eq!(
        shell.rows("SELECT table_name, view_definition, is_updatable FROM information_schema.views ORDER BY 1"),
        ["a_later|SELECT n FROM zero|NO", "zero|SELECT id AS n, kind, weight FROM stones WHERE kind <> 'it''s'|NO"]
    );
    assert_eq!(
        shell.rows(
            "SELECT column_name, ordinal_position FROM information_schema.columns WHERE table_name = 'zero' ORDER BY 2"
        ),
        ["n|1", "kind|2", "weight|3"]
    );
    assert_eq!(
        shell.rows("DESCRIBE zero"),
        ["n|INTEGER|true|NULL|NULL", "kind|TEXT|true|NULL|NULL", "weight|DECIMAL(8, 2)|true|NULL|NULL"]
    );
    assert_eq!(
        shell.rows("SHOW VIEWS"),
        ["zero|3|SELECT id AS n, kind, weight FROM stones WHERE kind <> 'it''s'", "a_later|1|SELECT n FROM zero"]
    );
    assert_eq!(shell.rows("SHOW TABLES"), ["quarries|2|id|NULL", "stones|4|id|NULL"]);
    shell.run("CREATE VIEW what AS SELECT table_name FROM information_schema.views");
    assert_eq!(shell.rows("SELECT * FROM what ORDER BY 1"), ["a_later", "what", "zero"]);
}

#[test]
fn queries_of_every_kind_read_back_as_they_were_written() {
    let shell = stones();
    for (number, query) in [
        "SELECT CASE WHEN id > 2 THEN 'x' ELSE E'a\\'b' END AS a FROM stones",
        "SELECT id IS DISTINCT FROM quarry AND id = 1 AS a FROM stones",
        "SELECT rank() OVER w AS a, sum(weight) OVER (w ROWS 1 PRECEDING) AS b FROM stones WINDOW w AS (PARTITION BY kind ORDER BY id)",
        "SELECT id = ANY (SELECT id FROM quarries) AS a, (id, quarry) IN ((1, 1), (2, 2)) AS b FROM stones",
        "SELECT kind LIKE 'w!%' ESCAPE '!' AS a, kind SIMILAR TO '(w|c)%' AS b FROM stones",
        "SELECT '\\x00ff'::BYTEA AS a, DATE '2024-02-29' + 1 AS b, EXTRACT(YEAR FROM DATE '2024-02-29') AS c",
        "SELECT a.id AS x, coalesce(b.name, '-') AS y FROM (stones a LEFT JOIN quarries b ON a.quarry = b.id) WHERE NOT (a.id = 3 AND b.id IS NULL)",
        "VALUES (1, 'a'), (2, NULL)",
        "(SELECT id FROM stones ORDER BY id DESC LIMIT 2) UNION ALL SELECT -id FROM quarries",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT * FROM r",
        "SELECT mode() WITHIN GROUP (ORDER BY kind) AS a, count(*) FILTER (WHERE id > 1) AS b, 1e2 AS c, 0.1 AS d FROM stones",
        "SELECT 10 - (4 - 3) - 2 AS a, -(-id) AS b, \"id\" AS \"Id x\" FROM stones FETCH FIRST 2 ROWS ONLY",
        "SELECT s.*, name FROM stones s FULL JOIN quarries q USING (id)",
        "SELECT DISTINCT ON (kind) kind, id FROM stones ORDER BY kind, id DESC",
    ]
    .into_iter()
    .enumerate()
    {
        let mut expected = shell.rows(query);
        shell.run(&format!("CREATE VIEW q{number} AS {query}"));
        let mut got = shell.rows(&format!("SELECT * FROM q{number}"));
        expected.sort();
        got.sort();
        assert_eq!(got, expected, "{query}");
    }
}

#[test]
fn names_of_with_that_name_one_another_twice_are_limited_as_views_are() {
    let doubled = (1..=14).map(|at| {
        let below = at - 1;
        format!(", c{at} AS (SELECT a.x FROM c{below} AS a JOIN c{below} AS b ON a.x = b.x)")
    });
    let with: String = doubled.collect();
    let shell = Shell::with("CREATE TABLE t (x INT)");
    let query = format!("WITH c0 AS (SELECT x FROM t){with} SELECT count(*) FROM c14");
    shell.refuses(&query, &["20000 operators, in its views and WITH"]);
}
