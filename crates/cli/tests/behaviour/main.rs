//! Drives the real binary as people and scripts do.

mod arguments;
mod bench;
#[cfg(feature = "cluster")]
mod cluster;
mod damage;
mod emulate;
mod log;
mod media;
mod migrate;
mod node;
mod pool;
mod program;
mod read_only;
mod served;
mod sql;
mod terminal;
mod tpch;
mod volume;

use program::Program;

#[test]
fn help_shows_examples_and_exit_codes() {
    for command in [
        &["sql"][..],
        &["verify"],
        &["salvage"],
        &["backup"],
        &["log", "inspect"],
        &["log", "serve"],
        &["log", "status"],
        &["log", "add"],
        &["log", "rebuild"],
        &["log", "verify"],
        &["migrate", "seed"],
        &["migrate", "serve"],
        &["migrate", "status"],
        &["migrate", "verify"],
        &["migrate", "finish"],
        &["volume"],
        &["volume", "pool", "create"],
        &["volume", "serve"],
        &["volume", "create"],
        &["volume", "agent"],
        &["bench", "commit"],
        &["bench", "bank"],
        &["bench", "tpcc"],
        &["bench", "ycsb"],
        &["bench", "remote"],
        &["media", "emulate"],
        &["bench", "tpch"],
        &["bench", "figures", "p3"],
        &["node"],
        &["completions"],
        &[],
    ] {
        let answer = Program::new().args(command).arg("--help").succeeds();
        assert!(answer.stdout.contains("Examples:"), "{command:?}: {}", answer.stdout);
    }
    #[cfg(feature = "cluster")]
    assert!(Program::new().args(["cluster", "--help"]).succeeds().stdout.contains("Examples:"));
    let answer = Program::new().args(["sql", "--help"]).succeeds();
    assert!(answer.stdout.contains("Exit codes:"), "{}", answer.stdout);
}

#[test]
fn completions_are_printed_for_a_shell() {
    let answer = Program::new().args(["completions", "bash"]).succeeds();
    assert!(answer.stdout.contains("_ishigaki()"), "{}", answer.stdout);
}
