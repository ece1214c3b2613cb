//! `cargo xtask test`: the one command that says whether the tree is good.
//!
//! The steps run one after the other, each under a heading and timed; a summary closes the run. A step that fails does not
//! hide what the later ones would say, except where they stand on it. Nothing else is needed on a fresh Debian machine
//! with Rust: the first step ([`machine`]) sees to what the build and the tests want from the system.
//!
//! The dependencies, `DataFusion` above all, are compiled once for what everybody builds. All steps share one profile and one set
//! of features, and clippy does not check beside the build but compiles in its stead ([`cargo`]). Only the last step, of queries
//! over many nodes, has other features and compiles `DataFusion` again: with them everywhere, the tests would be of another
//! program than people get.

mod cargo;
mod examples;
mod fuzz;
mod machine;
mod options;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Failure, tidy};
use cargo::Cargo;
use options::{Options, Request};

/// One thing that must hold.
struct Step {
    name: &'static str,
    about: &'static str,
    /// A step without which this one can not be run.
    needs: Option<&'static str>,
    run: fn(&Cargo, &Options) -> Result<(), Failure>,
}

const STEPS: &[Step] = &[
    Step { name: "machine", about: "what the build needs from the system is there", needs: None, run: machine },
    Step { name: "format", about: "the sources are formatted", needs: Some("machine"), run: format },
    Step { name: "tidy", about: "layering, file lengths, links and promises in documents", needs: None, run: tidy_up },
    Step { name: "lint", about: "everything compiles, clippy's warnings denied", needs: Some("machine"), run: lint },
    Step { name: "test", about: "unit and integration tests", needs: Some("lint"), run: test },
    Step { name: "doc", about: "examples in the documentation", needs: Some("lint"), run: doc },
    Step { name: "examples", about: "the example programs run", needs: Some("lint"), run: examples::run },
    Step {
        name: "loom",
        about: "the models of the watermark, the consolidation array, the index, a record and the optimistic protocol",
        needs: Some("machine"),
        run: loom,
    },
    Step { name: "fuzz", about: "nothing on the medium makes a reader fail", needs: Some("machine"), run: fuzz::run },
    Step { name: "cluster", about: "queries over many nodes, linted and tested", needs: Some("lint"), run: cluster },
];

/// How a step ended.
enum Outcome {
    Passed(Duration),
    Failed(Duration, Failure),
    Skipped,
}

/// Runs the steps that the arguments ask for.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    let names: Vec<_> = STEPS.iter().map(|step| (step.name, step.about)).collect();
    let options = match options::parse(arguments, &names)? {
        Request::Print(text) => {
            print!("{text}");
            return Ok(());
        }
        Request::Run(options) => options,
    };
    let cargo = Cargo::new(root);
    let start = Instant::now();
    let mut outcomes: Vec<(&str, Outcome)> = Vec::new();
    for step in STEPS.iter().filter(|step| options.wants(step.name)) {
        let blocked =
            outcomes.iter().any(|(name, outcome)| Some(*name) == step.needs && !matches!(outcome, Outcome::Passed(_)));
        outcomes.push((step.name, if blocked { Outcome::Skipped } else { take(step, &cargo, &options) }));
    }
    summary(&outcomes, start.elapsed())
}

fn take(step: &Step, cargo: &Cargo, options: &Options) -> Outcome {
    println!("\n=== {}: {}", step.name, step.about);
    let start = Instant::now();
    match (step.run)(cargo, options) {
        Ok(()) => Outcome::Passed(start.elapsed()),
        Err(message) => {
            println!("{}: {message}", step.name);
            Outcome::Failed(start.elapsed(), message)
        }
    }
}

fn summary(outcomes: &[(&str, Outcome)], total: Duration) -> Result<(), Failure> {
    println!("\n=== summary");
    for (name, outcome) in outcomes {
        match outcome {
            Outcome::Passed(time) => println!("{name:<10} ok       {:>8.1} s", time.as_secs_f64()),
            Outcome::Failed(time, _) => println!("{name:<10} FAILED   {:>8.1} s", time.as_secs_f64()),
            Outcome::Skipped => println!("{name:<10} skipped"),
        }
    }
    println!("{:<10}          {:>8.1} s", "total", total.as_secs_f64());
    let mut bad = Vec::new();
    for (name, outcome) in outcomes {
        if let Outcome::Failed(_, message) = outcome {
            // Once more: what was said above may be thousands of lines away.
            println!("{name}: {message}");
            bad.push(*name);
        }
    }
    if bad.is_empty() { Ok(()) } else { Err(format!("failed: {}", bad.join(", "))) }
}

fn machine(cargo: &Cargo, _: &Options) -> Result<(), Failure> {
    machine::prepare(cargo)
}

fn format(cargo: &Cargo, _: &Options) -> Result<(), Failure> {
    cargo
        .plain()
        .args(["fmt", "--all", "--check"])
        .run()
        .map_err(|error| format!("{error}\n    remedy: cargo fmt --all"))
}

fn tidy_up(cargo: &Cargo, _: &Options) -> Result<(), Failure> {
    tidy::run(cargo.root(), &[])
}

fn lint(cargo: &Cargo, _: &Options) -> Result<(), Failure> {
    cargo.linted()?.args(["test", "--workspace", "--no-run"]).run()
}

fn test(cargo: &Cargo, options: &Options) -> Result<(), Failure> {
    cargo.linted()?.args(["test", "--workspace", "--tests", "--no-fail-fast"]).args(&options.for_tests).run_tests()
}

fn doc(cargo: &Cargo, _: &Options) -> Result<(), Failure> {
    cargo.linted()?.args(["test", "--workspace", "--doc", "--no-fail-fast"]).run_tests()
}

/// What is behind the feature `cluster`: lints, unit tests, and the tests of the binary that has it. All else was tested without.
fn cluster(cargo: &Cargo, _: &Options) -> Result<(), Failure> {
    let test = || {
        let packages = ["test", "--package", "ishigaki-cluster", "--package", "ishigaki-cli"];
        Ok::<_, Failure>(cargo.linted()?.args(packages).args(["--features", "ishigaki-cli/cluster", "--no-fail-fast"]))
    };
    test()?.arg("--lib").run_tests()?;
    test()?.args(["--test", "behaviour", "--", "cluster::"]).run_tests()
}

/// The model checker's own atomics come in by a flag for the whole compilation, so this step has a folder of its own, and
/// only a few crates of the lower floors are compiled into it; optimised, because the model runs a hundred thousand times.
fn loom(cargo: &Cargo, _: &Options) -> Result<(), Failure> {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let target = cargo.target_directory()?.join("loom");
    cargo
        .plain()
        .env("RUSTFLAGS", format!("{flags} --cfg loom").trim())
        .args([
            "test",
            "--package",
            "ishigaki-wal",
            "--package",
            "ishigaki-index",
            "--package",
            "ishigaki-txn",
            "--release",
            "--test",
            "loom",
            "--test",
            "loom_serial",
            "--target-dir",
        ])
        .arg(target)
        .run_tests()
}
