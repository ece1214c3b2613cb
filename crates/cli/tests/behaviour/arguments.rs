//! Values of arguments that can not be: an error of the command line, told before anything is made or opened.

use std::fs;

use crate::program::{Program, database};
use crate::sql::{sql, stones};

#[test]
fn a_value_that_can_not_be_is_an_error_of_the_command_line_and_names_the_limit() {
    let directory = database();
    let data = directory.path().join("data");
    for (arguments, words) in [
        (&["--threads", "100000"][..], "1 to 1024 threads, not 100000"),
        (&["--threads", "0"], "--threads"),
        (&["--segment", "3"], "16.0 KiB to 4 GiB in multiples of 4 KiB, not 3"),
        (&["--segment", "5GiB"], "16.0 KiB to 4 GiB"),
        (&["--streams", "0"], "1 to 255 streams"),
        (&["--streams", "70000"], "--streams"),
        (&["--memory", "much"], "--memory"),
        (&["--log", "round"], "--log"),
        (&["--log-at", ""], "a path is missing"),
    ] {
        let refused = sql(&data).args(arguments).args(["-c", "SELECT 1"]).fails_with(2);
        assert!(refused.stderr.contains(words), "{arguments:?}: {}", refused.stderr);
    }
    for arguments in [["--segment", "3"], ["--streams", "0"]] {
        for command in ["commit", "bank"] {
            Program::new().args(["bench", command, "--data"]).arg(&data).args(arguments).fails_with(2);
        }
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_log_apart_in_the_directory_of_the_tables_is_refused_as_that() {
    let (there, new) = (stones(), database());
    for data in [there.path(), new.path()] {
        for log in
            [data.display().to_string(), format!("{}/../{}", data.display(), data.file_name().unwrap().display())]
        {
            let refused = sql(data).args(["--log-at", &log, "-c", "SELECT 1"]).fails_with(2);
            assert!(refused.stderr.contains("is the directory of the tables itself"), "{}", refused.stderr);
            for command in ["verify", "backup", "salvage"] {
                let program = Program::new().arg(command).arg(data).args(["--log-at", &log]);
                let program =
                    if command == "verify" { program } else { program.arg("--to").arg(new.path().join("to")) };
                let refused = program.fails_with(2);
                assert!(refused.stderr.contains("is the directory of the tables itself"), "{}", refused.stderr);
            }
        }
    }
    assert_eq!(fs::read_dir(new.path()).unwrap().count(), 0, "nothing was made");
    sql(there.path()).args(["-c", "SELECT 1"]).succeeds();
}
