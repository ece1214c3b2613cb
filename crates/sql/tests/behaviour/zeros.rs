//! The two zeros of floating-point numbers, and NaN, are equal to themselves wherever numbers are compared.

use crate::shell::Shell;

fn shell() -> Shell {
    Shell::with(
        "CREATE TABLE f (id INT PRIMARY KEY, x DOUBLE PRECISION, r REAL);
         INSERT INTO f VALUES (1, '-0', '-0'), (2, 0, 0), (3, 'NaN', 'NaN'), (4, 1, 1), (5, NULL, NULL), (6, 'NaN', 'NaN')",
    )
}

#[test]
fn both_zeros_are_found_in_lists_and_by_case() {
    let shell = shell();
    for list in ["0, 1, 2, 3, 4", "'-0'::DOUBLE PRECISION, 1, 2, 3, 4", "id + 10, 0, 7, 8, 9", "0"] {
        let found = shell.rows(&format!("SELECT id FROM f WHERE x IN ({list}) AND id < 4 ORDER BY id"));
        assert_eq!(found, ["1", "2"], "{list}");
    }
    assert_eq!(shell.rows("SELECT id FROM f WHERE x NOT IN (0, 2, 3, 4, 5) ORDER BY id"), ["3", "4", "6"]);
    assert_eq!(
        shell.rows("SELECT id FROM f WHERE r IN ('NaN'::REAL, '-0'::REAL, 8::REAL, 9::REAL) ORDER BY id"),
        ["1", "2", "3", "6"]
    );
    for zero in ["0", "'-0'::DOUBLE PRECISION", "0.0"] {
        let found = shell.rows(&format!(
            "SELECT id, CASE x WHEN {zero} THEN 'zero' WHEN 'NaN'::DOUBLE PRECISION THEN 'nan' END FROM f ORDER BY id"
        ));
        assert_eq!(found, ["1|zero", "2|zero", "3|nan", "4|NULL", "5|NULL", "6|nan"], "{zero}");
    }
    assert_eq!(
        shell.rows("SELECT CASE '-0'::DOUBLE PRECISION WHEN 0 THEN 1 ELSE 2 END, '-0'::REAL IN (0, 1, 2, 3, 4)"),
        ["1|true"]
    );
    assert_eq!(shell.rows("SELECT id FROM f WHERE CASE 0::REAL WHEN r THEN true END ORDER BY id"), ["1", "2"]);
}

#[test]
fn both_zeros_are_one_place_in_an_order_and_one_part() {
    let shell = shell();
    for (order, expected) in [
        ("x, id DESC", "2 1 4 6 3 5"),
        ("x DESC, id", "5 3 6 4 1 2"),
        ("r DESC NULLS LAST, id", "3 6 4 1 2 5"),
        ("abs(x), id LIMIT 3", "1 2 4"),
        ("-x, id LIMIT 3", "4 1 2"),
    ] {
        assert_eq!(shell.rows(&format!("SELECT id FROM f ORDER BY {order}")).join(" "), expected, "{order}");
    }
    let windows = "SELECT id, rank() OVER (ORDER BY x), count(*) OVER (PARTITION BY r), count(*) OVER (ORDER BY x DESC), \
                   count(*) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM f ORDER BY id";
    assert_eq!(shell.rows(windows), ["1|1|2|6|3", "2|1|2|6|3", "3|4|2|3|2", "4|3|1|4|3", "5|6|1|1|1", "6|4|2|3|2"]);
    assert_eq!(shell.rows("SELECT string_agg(id::TEXT, ',' ORDER BY x, id DESC) FROM f"), ["2,1,4,6,3,5"]);
}

#[test]
fn both_zeros_are_one_value_of_a_set() {
    let shell = shell();
    assert_eq!(
        shell.rows("SELECT count(DISTINCT x), count(DISTINCT r), sum(DISTINCT x + 1) FROM f WHERE id <> 3"),
        ["3|3|NaN"]
    );
    assert_eq!(shell.rows("SELECT count(*) FROM (SELECT DISTINCT x, r FROM f) AS d"), ["4"]);
    assert_eq!(shell.rows("SELECT count(*), count(x) FROM f GROUP BY x ORDER BY x"), ["2|2", "1|1", "2|2", "1|0"]);
    assert_eq!(
        shell.rows("SELECT count(*) FROM (SELECT x FROM f EXCEPT ALL SELECT '-0'::DOUBLE PRECISION) AS d"),
        ["5"]
    );
    assert_eq!(shell.rows("SELECT count(*) FROM (SELECT x FROM f INTERSECT ALL SELECT -x FROM f) AS d"), ["5"]);
    assert_eq!(shell.rows("SELECT count(*) FROM f a JOIN f b ON a.x = b.x"), ["9"]);
    assert_eq!(
        shell.rows("SELECT count(*) FROM f a WHERE EXISTS (SELECT 1 FROM f b WHERE b.r = a.x AND b.id <> a.id)"),
        ["4"]
    );
}
