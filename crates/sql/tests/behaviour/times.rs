//! Times, their parts and their differences are those of `PostgreSQL`.

use crate::shell::Shell;

fn times() -> Shell {
    Shell::with(
        "CREATE TABLE w (id INT PRIMARY KEY, d DATE, t TIMESTAMP);
         INSERT INTO w VALUES (1, '2024-02-29', '2024-02-29 12:34:56.789012'), (2, '3000-01-01', '3000-01-01 00:00:00.000001'),
                              (3, '0001-01-01', '0001-01-01 00:00:00'), (4, NULL, NULL)",
    )
}

#[test]
fn times_far_from_now_compare_as_near_ones_do() {
    let shell = times();
    for (condition, expected) in [
        ("t > d", &["1", "2"][..]),
        ("d < t", &["1", "2"]),
        ("t = d", &["3"]),
        ("t >= DATE '3000-01-01'", &["2"]),
        ("t < '2024-02-29 12:34:56.789013'", &["1", "3"]),
        ("t > '2900-12-31'", &["2"]),
        ("d < TIMESTAMP '1000-01-01 00:00:00'", &["3"]),
        ("t BETWEEN d AND '3000-01-01 00:00:00.000001'", &["1", "2", "3"]),
        ("t IN ('0001-01-01', DATE '3000-01-01')", &["3"]),
        ("t IS DISTINCT FROM d", &["1", "2"]),
        ("d > DATE '3000-01-01' - INTERVAL '4 minutes'", &["2"]),
        ("d >= DATE '3000-01-01' + INTERVAL '1 day'", &[]),
        ("t = (SELECT max(t) FROM w)", &["2"]),
    ] {
        assert_eq!(shell.rows(&format!("SELECT id FROM w WHERE {condition} ORDER BY id")), expected, "{condition}");
    }
    assert_eq!(
        shell.rows("SELECT DATE '2024-03-01' - INTERVAL '4 minutes' = TIMESTAMP '2024-02-29 23:56:00'"),
        ["true"]
    );
    assert_eq!(shell.rows("SELECT d - INTERVAL '4 minutes' = '2999-12-31 23:56:00' FROM w WHERE id = 2"), ["true"]);
    assert_eq!(shell.rows("SELECT a.id FROM w AS a JOIN w AS b ON a.t = b.d"), ["3"]);
}

#[test]
fn parts_of_times_are_exact_numbers() {
    let shell = times();
    for (expression, expected) in [
        ("EXTRACT(YEAR FROM t)", "2024"),
        ("EXTRACT(YEAR FROM d) / 10", "202.40000000000000000000"),
        ("EXTRACT(month FROM d) * 2", "4"),
        ("EXTRACT(SECOND FROM t)", "56.789012"),
        ("EXTRACT(MILLISECONDS FROM t)", "56789.012"),
        ("EXTRACT(MICROSECONDS FROM t)", "56789012"),
        ("EXTRACT(DOW FROM d)", "4"),
        ("EXTRACT(EPOCH FROM t)", "1709210096.789012"),
        ("EXTRACT(EPOCH FROM d)", "1709164800"),
        ("EXTRACT(EPOCH FROM INTERVAL '1 year 2 months 3 days 4.5 seconds')", "37000804.500000"),
        ("EXTRACT(SECOND FROM INTERVAL '2 days -10 minutes -4.5 seconds')", "-4.500000"),
        ("EXTRACT(MICROSECONDS FROM INTERVAL '70.5 seconds')", "10500000"),
        ("EXTRACT(SECOND FROM TIMESTAMP '1969-12-31 23:59:58.5')", "58.500000"),
        ("CAST(EXTRACT(YEAR FROM d) AS INTEGER) / 10", "202"),
        ("date_part('year', d) / 10", "202.4"),
        ("date_part('second', t)", "56.789012"),
    ] {
        assert_eq!(shell.rows(&format!("SELECT {expression} FROM w WHERE id = 1")), [expected], "{expression}");
    }
    assert_eq!(
        shell.rows("SELECT EXTRACT(EPOCH FROM t), EXTRACT(YEAR FROM d) FROM w WHERE id > 1 ORDER BY id"),
        ["32503680000.000001|3000", "-62135596800.000000|1", "NULL|NULL"]
    );
    assert_eq!(
        shell.rows("SELECT EXTRACT(YEAR FROM d), count(*) FROM w GROUP BY EXTRACT(YEAR FROM d) ORDER BY 1 LIMIT 2"),
        ["1|1", "2024|1"]
    );
    assert_eq!(shell.rows("SELECT id FROM w WHERE EXTRACT(YEAR FROM d) = 2024"), ["1"]);
}

#[test]
fn a_time_that_date_bin_can_not_reach_is_an_error() {
    let shell = times();
    let bin = "date_bin(INTERVAL '1 hour', t, TIMESTAMP '2000-01-01 00:00:00')";
    assert_eq!(shell.rows(&format!("SELECT {bin} = '2024-02-29 12:00:00' FROM w WHERE id = 1")), ["true"]);
    assert_eq!(shell.rows(&format!("SELECT {bin} FROM w WHERE id = 4")), ["NULL"]);
    for bin in [bin, "date_bin(INTERVAL '1 hour', t, t)", "date_bin(INTERVAL '1 hour', t)"] {
        let error = shell.error(&format!("SELECT {bin} FROM w WHERE id = 2")).to_string();
        assert!(error.contains("range") && !error.contains("Internal"), "{bin}: {error}");
    }
    assert_eq!(shell.rows("SELECT date_bin(NULL, t, t) FROM w WHERE id = 1"), ["NULL"]);
}

#[test]
fn intervals_are_compared_with_months_of_30_days() {
    let shell = Shell::new();
    for (query, expected) in [
        (
            "SELECT INTERVAL '30 days' = INTERVAL '1 month', INTERVAL '24 hours' = INTERVAL '1 day', INTERVAL '31 days' > INTERVAL '1 month',
                    INTERVAL '1 month' BETWEEN INTERVAL '29 days' AND INTERVAL '30 days', INTERVAL '1 month' IN (INTERVAL '30 days'),
                    INTERVAL '1 month' IS DISTINCT FROM INTERVAL '30 days', NULL::INTERVAL = INTERVAL '1 day'",
            "true|true|true|true|true|false|NULL",
        ),
        (
            "SELECT x::TEXT FROM (VALUES (INTERVAL '1 month'), (INTERVAL '29 days'), (INTERVAL '31 days')) AS v (x) ORDER BY x",
            "29 days, 1 mon, 31 days",
        ),
        (
            "SELECT x::TEXT, count(*) OVER (PARTITION BY x)
             FROM (VALUES (INTERVAL '1 month'), (INTERVAL '30 days'), (INTERVAL '2 days')) AS v (x) ORDER BY 1",
            "1 mon|2, 2 days|1, 30 days|2",
        ),
        (
            "SELECT count(*) FROM (VALUES (INTERVAL '1 month')) AS v (x) JOIN (VALUES (INTERVAL '30 days')) AS w (y) ON x <= y AND x >= y",
            "1",
        ),
        (
            "SELECT count(*) FROM (VALUES (INTERVAL '1 month'), (INTERVAL '30 days'), (NULL)) AS v (x)
             LEFT JOIN (VALUES (INTERVAL '30 days')) AS w (x) USING (x) WHERE w.x IS NOT NULL",
            "2",
        ),
        ("SELECT age(TIMESTAMP '2024-03-01', TIMESTAMP '2024-01-31') < INTERVAL '31 days'", "false"),
        ("SELECT TIMESTAMP '2024-03-01' - TIMESTAMP '2024-02-28' = INTERVAL '48 hours'", "true"),
        ("SELECT (TIMESTAMP '2024-03-01 10:00' - TIMESTAMP '2024-02-28')::TEXT", "2 days 10:00:00"),
        ("SELECT 'in ' || INTERVAL '-1 month 3 days 1.5 seconds'", "in -1 mons +3 days 00:00:01.5"),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
    let values = "(VALUES (INTERVAL '1 month'), (INTERVAL '30 days')) AS v (x)";
    for query in [
        format!("SELECT DISTINCT x FROM {values}"),
        format!("SELECT count(*) FROM {values} GROUP BY x"),
        format!("SELECT min(x) FROM {values}"),
        format!("SELECT max(x) OVER () FROM {values}"),
        format!("SELECT count(DISTINCT x) FROM {values}"),
        format!("SELECT x FROM {values} UNION SELECT x FROM {values}"),
        format!("SELECT x FROM {values} EXCEPT ALL SELECT x FROM {values}"),
        format!("SELECT x FROM {values} WHERE x IN (SELECT INTERVAL '30 days')"),
        format!("SELECT greatest(x, INTERVAL '1 day') FROM {values}"),
        format!("SELECT CASE x WHEN INTERVAL '30 days' THEN 1 END FROM {values}"),
    ] {
        shell.refuses(&query, &["interval", "EXTRACT(EPOCH FROM x)"]);
    }
}

#[test]
fn times_and_days_become_texts_as_postgresql_writes_them() {
    let shell = Shell::new();
    for (query, expected) in [
        ("SELECT CAST(TIMESTAMP '2024-01-01 10:00:00.5' AS TEXT)", "2024-01-01 10:00:00.5"),
        ("SELECT 'at ' || TIMESTAMP '2024-01-01 10:00:00'", "at 2024-01-01 10:00:00"),
        ("SELECT (DATE '0001-01-01' - 1)::TEXT, (DATE '2024-02-28' + 1)::TEXT", "0001-12-31 BC|2024-02-29"),
        ("SELECT (TIMESTAMP '0001-01-01' - INTERVAL '1 second')::TEXT", "0001-12-31 23:59:59 BC"),
        ("SELECT NULL::TIMESTAMP::TEXT", "NULL"),
        (
            "SELECT max(CAST(at AS TEXT)) FROM (VALUES (TIMESTAMP '2024-01-01'), (NULL)) AS v (at)",
            "2024-01-01 00:00:00",
        ),
    ] {
        assert_eq!(shell.rows(query).join(", "), expected, "{query}");
    }
}

#[test]
fn texts_are_read_as_times_without_their_zone_and_rounded_at_the_sixth_digit() {
    let shell = Shell::with("CREATE TABLE x (id INT PRIMARY KEY, s TEXT, t TIMESTAMP, d DATE)");
    for (id, (text, time, day)) in [
        ("2024-01-01 12:00:00+02", "2024-01-01 12:00:00", "2024-01-01"),
        ("2024-01-01 23:30:00-05:00", "2024-01-01 23:30:00", "2024-01-01"),
        ("2024-01-01T12:00:00Z", "2024-01-01 12:00:00", "2024-01-01"),
        ("2024-01-01 12:00:00.9999999", "2024-01-01 12:00:01", "2024-01-01"),
        ("2024-01-01 00:00:00.1234567", "2024-01-01 00:00:00.123457", "2024-01-01"),
        ("2024-01-01 10:00", "2024-01-01 10:00:00", "2024-01-01"),
        ("2024-01-01 12:00:00 Asia/Tokyo", "2024-01-01 12:00:00", "2024-01-01"),
        ("2024-12-31 23:59:59.9999999", "2025-01-01 00:00:00", "2024-12-31"),
    ]
    .into_iter()
    .enumerate()
    {
        shell.run(&format!("INSERT INTO x VALUES ({id}, '{text}', '{text}', '{text}')"));
        let casts = format!("'{text}'::timestamp::text || ' ' || '{text}'::date::text");
        assert_eq!(shell.rows(&format!("SELECT {casts}")), [format!("{time} {day}")], "{text}");
        let stored = format!("SELECT t::text || ' ' || d::text FROM x WHERE id = {id}");
        assert_eq!(shell.rows(&stored), [format!("{time} {day}")], "{text}");
        for same in ["s::timestamp = t", "s::date = d", "t = TIMESTAMP '{}'", "t = '{}'", "t IN ('{}')"] {
            let condition = same.replace("{}", text);
            assert_eq!(shell.rows(&format!("SELECT {condition} FROM x WHERE id = {id}")), ["true"], "{condition}");
        }
    }
    for text in ["2024-01-01 12:00 Mars/Olympus", "2024-01-01 12:00:00+2x", "2024-01-01 1:2:3:4"] {
        let error = shell.error(&format!("SELECT '{text}'::timestamp")).to_string();
        assert!(error.contains("parsing timestamp") || error.contains("Invalid timezone"), "{text}: {error}");
    }
}

#[test]
fn time_zones_are_refused_wherever_they_stand() {
    let shell = times();
    for expression in [
        "TIMESTAMPTZ '2024-01-01 00:00:00+05'",
        "TIMESTAMP WITH TIME ZONE '2024-01-01 00:00:00+05'",
        "'2024-01-01 00:00:00+05'::timestamptz = '2023-12-31 19:00:00+00'::timestamptz",
        "CAST(x AS TIMESTAMP WITH TIME ZONE)",
        "EXTRACT(epoch FROM TIMESTAMPTZ '2024-01-01 00:00:00+05')",
        "x AT TIME ZONE 'Europe/Berlin'",
        "TIME WITH TIME ZONE '10:00+01'",
        "ARRAY['2024-01-01']::TIMESTAMPTZ[]",
    ] {
        let query = format!("SELECT {expression} FROM (SELECT TIMESTAMP '2024-01-01' AS x) AS t");
        shell.refuses(&query, &["TIME ZONE", "UTC"]);
        shell.refuses(&format!("CREATE TABLE zoned AS {query}"), &["TIME ZONE", "UTC"]);
    }
}

#[test]
fn a_day_beyond_those_that_there_are_is_an_error() {
    let shell = Shell::with("CREATE TABLE d (d DATE); INSERT INTO d VALUES ('2024-01-01')");
    assert_eq!(shell.rows("SELECT d - 2460310 + 0 = DATE '2024-01-01' - 2460310 FROM d"), ["true"]);
    for expression in ["d - 3000000", "d + 2147483647", "3000000000 + d", "d - 2147483647"] {
        shell.refuses(&format!("SELECT {expression} FROM d"), &["out of range"]);
    }
}
