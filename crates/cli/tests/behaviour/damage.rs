//! `ishigaki verify`, `salvage` and `backup`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{Answer, Program, database};
use crate::sql::{sql, stones};

const COUNT: &str = "SELECT count(*) AS n, sum(id) AS sum FROM stones";

fn ishigaki(command: &str, data: &Path) -> Program {
    Program::new().arg(command).arg(data)
}

fn to(command: &str, data: &Path, to: &Path) -> Program {
    ishigaki(command, data).arg("--to").arg(to)
}

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.stdout).expect("one JSON object")
}

/// A database with a checkpoint of some pages, and a log behind it.
fn quarry() -> tempfile::TempDir {
    let directory = stones();
    sql(directory.path())
        .args(["-c", "INSERT INTO stones SELECT value, 'stone ' || value, 1 FROM generate_series(10, 20000)"])
        .args(["-c", "CHECKPOINT"])
        .args(["-c", "INSERT INTO stones VALUES (-1, 'behind the checkpoint', 1)"])
        .succeeds();
    directory
}

/// Flips a bit in the middle of the first part of the current checkpoint.
fn damage(directory: &Path) -> PathBuf {
    let mut parts: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    parts.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("checkpoint-")));
    parts.sort();
    let part = parts.pop().expect("a checkpoint has parts");
    let mut bytes = fs::read(&part).unwrap();
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(&part, &bytes).unwrap();
    part
}

#[test]
fn a_sound_database_is_verified() {
    let directory = quarry();
    let answer = ishigaki("verify", directory.path()).succeeds();
    for words in ["checkpoint  1, 20,001 rows", "table       stones: 19,995 read, sound", "log         1 record"] {
        assert!(answer.stdout.contains(words), "no `{words}` in\n{}", answer.stdout);
    }
    let found = json(&ishigaki("verify", directory.path()).arg("--json").succeeds());
    assert_eq!((&found["sound"], &found["damages"]), (&Value::Bool(true), &Value::Array(Vec::new())), "{found}");
}

#[test]
fn a_damaged_database_names_the_commands_and_they_help() {
    let (directory, saved) = (quarry(), database());
    let part = damage(directory.path());
    let name = part.file_name().unwrap().to_string_lossy().into_owned();

    let refused = sql(directory.path()).args(["-c", COUNT]).fails_with(4);
    for command in ["`ishigaki verify DIR`", "`ishigaki salvage DIR --to DIR2`", "`ishigaki backup`"] {
        assert!(refused.stderr.contains(command), "no {command} in {}", refused.stderr);
    }
    let found = ishigaki("verify", directory.path()).fails_with(4);
    assert!(found.stdout.contains(&format!("damaged  {name}, byte ")), "{}", found.stdout);
    assert!(found.stderr.contains("ishigaki salvage DIR"), "{}", found.stderr);

    let answer = to("salvage", directory.path(), saved.path()).arg("--json").fails_with(4);
    let report = json(&answer);
    assert_eq!(report["complete"], Value::Bool(false));
    let missing = report["missing"][0].as_str().expect("what is missing");
    assert!(missing.starts_with("rows of table stones behind (") && missing.contains("and before ("), "{missing}");
    let rows = report["tables"][0]["rows"].as_u64().expect("a number");
    let count = sql(saved.path()).args(["--format", "csv", "-c", COUNT]).succeeds().stdout;
    assert!(count.contains(&format!("\n{rows},")), "{count} and {rows}");
    // A page of 64 KiB holds about 1,100 of them.
    assert!(rows < 19_994 && rows > 17_500, "{rows}");
    let behind = sql(saved.path()).args(["--format", "csv", "-c", "SELECT name FROM stones WHERE id = -1"]).succeeds();
    assert_eq!(behind.stdout, "name\nbehind the checkpoint\n");
    assert!(ishigaki("verify", saved.path()).succeeds().stderr.is_empty());
}

#[test]
fn of_a_page_file_that_was_cut_short_the_whole_pages_are_saved_and_the_others_named() {
    const SELECT: &str = "SELECT count(*) AS n, sum(n) AS sum FROM paged WHERE n > 0";
    let (directory, beside) = (stones(), tempfile::tempdir().unwrap());
    let place = beside.path().display();
    let create =
        format!("CREATE TABLE paged (n BIGINT) WITH (storage = 'paged', location = '{place}', page_size = '64KiB')");
    sql(directory.path())
        .args(["-c", &create])
        .args(["-c", "INSERT INTO paged SELECT value * 7919 % 1000003 FROM generate_series(1, 120000)"])
        .succeeds();
    let segment = beside.path().join("paged-0000000001.pages");
    let sound = fs::read(&segment).unwrap();
    let pages = json(&ishigaki("verify", directory.path()).arg("--json").succeeds());
    let tables = pages["tables"].as_array().expect("a list");
    let pages = tables.iter().find(|table| table["name"] == "paged").and_then(|table| table["pages"].as_u64());
    let (pages, page) = (pages.expect("a number") as usize, 64 << 10);
    let mut saved_before = 0;
    for (length, whole) in [
        (pages / 2 * page, pages / 2),
        (pages * page - 100, pages - 1),
        (pages * page, pages),
        (sound.len() + 100, pages),
    ] {
        let mut bytes = sound.clone();
        bytes.resize(length, 0);
        fs::write(&segment, &bytes).unwrap();
        let verified = ishigaki("verify", directory.path()).fails_with(4);
        assert!(verified.stdout.contains(&format!(" rows in {whole} page")), "{length}: {}", verified.stdout);
        let saved = database();
        let answer = to("salvage", directory.path(), saved.path()).arg("--json").fails_with(4);
        let report = json(&answer);
        assert_eq!(report["complete"], Value::Bool(false), "{length}");
        let count = sql(saved.path()).args(["--format", "csv", "-c", SELECT]).succeeds().stdout;
        let rows: u64 = count.lines().nth(1).and_then(|line| line.split(',').next()?.parse().ok()).expect("a number");
        if whole == pages {
            assert_eq!(count, format!("n,sum\n{}\n", paged_sum()), "{length}: {}", answer.stdout);
        } else {
            let words = format!("[{whole},{}]", pages - 1);
            assert!(report.to_string().contains(&words), "{length}: no {words} in {report}");
            let told = to("salvage", directory.path(), database().path()).fails_with(4).stdout;
            let words = if whole + 1 == pages { format!("page {whole}: ") } else { format!("pages {whole} to ") };
            let words = format!("paged-0000000001.pages, byte {}: {words}", whole * page);
            assert!(told.contains(&words), "{length}: no {words} in {told}");
            assert!(rows < 120_000, "{length}: {rows}");
        }
        assert!(rows > saved_before || rows == 120_000, "{length}: {rows} rows of {whole} pages");
        saved_before = rows;
        let refused = sql(directory.path()).args(["-c", SELECT]).fails_with(4);
        assert!(refused.stderr.contains("`ishigaki salvage DIR --to DIR2`"), "{length}: {}", refused.stderr);
        sql(directory.path()).args(["-c", COUNT]).succeeds();
    }
}

/// How many rows the paged table has, and their sum.
fn paged_sum() -> String {
    format!("120000,{}", (1..=120_000_u64).map(|value| value * 7919 % 1_000_003).sum::<u64>())
}

/// Removes the files of the log for which that holds.
fn remove_log(directory: &Path, goes: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("wal-") && goes(&name) {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn a_log_that_does_not_say_where_it_ended_is_told_of_and_ends_with_4() {
    for all in [false, true] {
        let directory = quarry();
        let found = json(&ishigaki("verify", directory.path()).arg("--json").succeeds());
        assert_eq!(found["log_end"], "closed", "{found}");
        // With the segments goes the commit behind the checkpoint.
        remove_log(directory.path(), |name| all || name == "wal-control");
        let (verified, saved) = (ishigaki("verify", directory.path()).fails_with(4), database());
        assert!(
            verified.stdout.contains("unknown     where the log ended; commits behind LSN "),
            "{}",
            verified.stdout
        );
        let found = json(&ishigaki("verify", directory.path()).arg("--json").fails_with(4));
        assert_eq!((&found["sound"], &found["log_end"]), (&Value::Bool(false), &Value::from("unknown")), "{found}");
        let answer = to("salvage", directory.path(), saved.path()).fails_with(4);
        assert!(answer.stdout.contains("missing  commits behind LSN "), "{}", answer.stdout);
        assert!(answer.stdout.contains("nothing says where the log ended ("), "{}", answer.stdout);
        let count = sql(saved.path()).args(["--format", "csv", "-c", COUNT]).succeeds().stdout;
        assert_eq!(count.contains("\n19995,"), !all, "{count}");
        let report = json(&to("salvage", directory.path(), database().path()).arg("--json").fails_with(4));
        assert_eq!(
            (&report["complete"], &report["log_end"]),
            (&Value::Bool(false), &Value::from("unknown")),
            "{report}"
        );
        assert!(report["lost_behind"].is_u64(), "{report}");
    }
}

#[test]
fn a_log_that_was_not_closed_is_noted_and_is_no_damage() {
    let (directory, saved) = (quarry(), database());
    let mut running = sql(directory.path()).args(["--format", "csv", "-"]).start();
    running.say("INSERT INTO stones VALUES (-2, 'before it was killed', 1);\nSELECT count(*) AS n FROM stones;\n");
    assert_eq!((running.hear(), running.hear()), ("n".to_owned(), "19996".to_owned()));
    running.kill();
    let verified = ishigaki("verify", directory.path()).succeeds();
    assert!(
        verified.stdout.contains("it was not closed, and the loss of its very end would not show"),
        "{}",
        verified.stdout
    );
    let answer = to("salvage", directory.path(), saved.path()).succeeds();
    assert!(answer.stdout.contains("note     the log was not closed; it was read up to LSN "), "{}", answer.stdout);
    let report = json(&to("salvage", directory.path(), database().path()).arg("--json").succeeds());
    assert_eq!((&report["complete"], &report["log_end"]), (&Value::Bool(true), &Value::from("open")), "{report}");
}

#[test]
fn a_file_of_a_wrong_length_is_harmless_or_damage_with_its_exit_code() {
    let directory = stones();
    sql(directory.path())
        .args([
            "--segment",
            "64KiB",
            "-c",
            "INSERT INTO stones SELECT value, 'stone ' || value, 1 FROM generate_series(10, 900)",
        ])
        .args(["-c", "CHECKPOINT", "-c", "INSERT INTO stones VALUES (-1, 'behind the checkpoint', 1)"])
        .succeeds();
    let count = |data: &Path| sql(data).args(["--format", "csv", "-c", COUNT]);
    let expected = count(directory.path()).succeeds().stdout;
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let mut damaged = 0;
    for name in names.iter().filter(|name| *name != "LOCK") {
        for change in [i64::MIN, -1, -512, 100, 4096] {
            let copy = database();
            for other in &names {
                fs::copy(directory.path().join(other), copy.path().join(other)).unwrap();
            }
            let file = fs::File::options().write(true).open(copy.path().join(name)).unwrap();
            let length = file.metadata().unwrap().len();
            file.set_len(length.saturating_add_signed(change)).unwrap();
            drop(file);
            let verified = ishigaki("verify", copy.path()).start().ends();
            let answer = count(copy.path()).start().ends();
            let context = format!("{} by {change}: {}{}", name.display(), answer.stdout, answer.stderr);
            match answer.code {
                Some(0) => assert_eq!(answer.stdout, expected, "{context}"),
                Some(4) => {
                    damaged += 1;
                    assert!(answer.stderr.contains("`ishigaki salvage DIR --to DIR2`"), "{context}");
                    assert_eq!(verified.code, Some(4), "{context}: {}", verified.stdout);
                }
                _ => panic!("{context}"),
            }
        }
    }
    assert!(damaged > 10, "{damaged}");
}

#[test]
fn a_damaged_checkpoint_costs_nothing_while_the_one_before_is_kept() {
    let directory = quarry();
    sql(directory.path())
        .args(["-c", "CHECKPOINT"])
        .args(["-c", "INSERT INTO stones VALUES (-2, 'behind the second', 1)"])
        .succeeds();
    let count = || sql(directory.path()).args(["--format", "csv", "-c", COUNT]).succeeds().stdout;
    let expected = count();
    let found = json(&ishigaki("verify", directory.path()).arg("--json").succeeds());
    assert_eq!((&found["checkpoint"], &found["previous"]), (&Value::from(2), &Value::from(1)), "{found}");
    damage(directory.path());
    ishigaki("verify", directory.path()).fails_with(4);
    assert_eq!(count(), expected);
    // And there is a whole checkpoint again.
    let found = json(&ishigaki("verify", directory.path()).arg("--json").succeeds());
    assert_eq!((&found["sound"], &found["checkpoint"]), (&Value::Bool(true), &Value::from(3)), "{found}");
}

#[test]
fn a_backup_is_made_beside_the_process_that_uses_the_database_and_inside_it() {
    let (directory, copy, inside, restored) = (quarry(), database(), database(), database());
    let mut running = sql(directory.path()).args(["--format", "csv", "-"]).start();
    running.say("INSERT INTO stones VALUES (-2, 'while it is used', 1);\nSELECT count(*) AS n FROM stones;\n");
    assert_eq!((running.hear(), running.hear()), ("n".to_owned(), "19996".to_owned()));
    let busy = ishigaki("verify", directory.path()).fails_with(3);
    assert!(busy.stderr.contains("another process has the database open"), "{}", busy.stderr);
    let answer = to("backup", directory.path(), copy.path()).succeeds();
    assert!(answer.stdout.contains("while it was in use"), "{}", answer.stdout);
    running.say(&format!(".backup {}\n", inside.path().display()));
    assert!(running.hear().contains("while it was in use"));
    assert_eq!(running.ends().code, Some(0));

    let restore = to("backup", copy.path(), restored.path()).arg("--json").succeeds();
    assert_eq!(json(&restore)["in_use"], Value::Bool(false));
    let expected = sql(directory.path()).args(["--format", "csv", "-c", COUNT]).succeeds().stdout;
    for other in [copy, inside, restored] {
        assert_eq!(sql(other.path()).args(["--format", "csv", "-c", COUNT]).succeeds().stdout, expected);
    }
}

#[test]
fn a_damaged_database_is_not_backed_up_and_what_was_begun_is_no_database() {
    let (directory, copy) = (quarry(), database());
    damage(directory.path());
    let refused = to("backup", directory.path(), copy.path()).fails_with(4);
    assert!(refused.stderr.contains("ishigaki salvage DIR --to DIR2"), "{}", refused.stderr);
    let unfinished = sql(copy.path()).args(["-c", COUNT]).fails_with(1);
    assert!(unfinished.stderr.contains("backup or salvage into it was cut off"), "{}", unfinished.stderr);
    let again = to("backup", copy.path(), database().path()).fails_with(1);
    assert!(again.stderr.contains("was cut off"), "{}", again.stderr);
}

#[test]
fn a_directory_without_a_database_is_left_as_it_is() {
    let (directory, copy) = (database(), database());
    for program in [ishigaki("verify", directory.path()), to("salvage", directory.path(), copy.path())] {
        assert!(program.fails_with(1).stderr.contains("there is no database"));
    }
    let missing = ishigaki("verify", &directory.path().join("missing")).fails_with(1);
    assert!(missing.stderr.contains("there is no such directory"), "{}", missing.stderr);
}
