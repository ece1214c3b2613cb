//! How the steps call cargo, so that all of them share one set of build products.
//!
//! `cargo clippy` would check every dependency and then `cargo test` would compile each of them again. Instead, clippy's
//! driver, a compiler that also lints, stands in as the compiler of the workspace's own crates in every step that builds
//! (`RUSTC_WORKSPACE_WRAPPER`, the same way that cargo-clippy takes). Dependencies know nothing of it and are shared
//! with every other build of this profile. A warning is an error and so is never hidden by a cached result.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::MetadataCommand;

use crate::Failure;

/// What cargo-clippy puts between the arguments that it hands to its driver.
const SEPARATOR: &str = "__CLIPPY_HACKERY__";

/// How much of what a failed test said is said again at the end.
const LINES_OF_A_FAILURE: usize = 20;

/// Cargo in the root of the workspace.
pub(crate) struct Cargo {
    root: PathBuf,
}

impl Cargo {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo as anyone calls it.
    pub(crate) fn plain(&self) -> Call {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        // Cargo runs this very program with its package's variables set; they mean nothing to the calls from here.
        for (name, _) in std::env::vars_os() {
            let of_this_package = |name: &str| {
                ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"]
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
            };
            if name.to_str().is_some_and(of_this_package) {
                command.env_remove(&name);
            }
        }
        Call { command }
    }

    /// Cargo with clippy's driver as the compiler of the workspace's own crates, warnings denied.
    pub(crate) fn linted(&self) -> Result<Call, Failure> {
        let driver = clippy_driver()?;
        Ok(self.plain().env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", format!("-Dwarnings{SEPARATOR}")))
    }

    /// The folder of build products.
    pub(crate) fn target_directory(&self) -> Result<PathBuf, Failure> {
        let metadata = MetadataCommand::new().manifest_path(self.root.join("Cargo.toml")).no_deps().exec();
        metadata.map(|metadata| metadata.target_directory.into()).map_err(|error| format!("cargo metadata: {error}"))
    }
}

/// One call, while it is put together.
pub(crate) struct Call {
    command: Command,
}

impl Call {
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it with this terminal; an error unless it succeeds.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        let line = line_of(&self.command);
        println!("$ {line}");
        let status = self.command.status().map_err(|error| format!("`{line}` did not start: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("`{line}` failed ({status})")) }
    }

    /// Runs tests with it; an error with the tests that failed and what they said, unless it succeeds.
    pub(crate) fn run_tests(mut self) -> Result<(), Failure> {
        let line = line_of(&self.command);
        println!("$ {line}");
        let unstarted = |error: io::Error| format!("`{line}` did not start: {error}");
        let mut child = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(unstarted)?;
        let (printed, told) = (child.stdout.take(), child.stderr.take());
        let failures = std::thread::scope(|scope| {
            let printed = scope.spawn(|| pass_on(printed, &mut io::stdout(), Failures::of_the_harness()));
            let programs = pass_on(told, &mut io::stderr(), Failures::of_cargo());
            printed.join().unwrap_or_default() + &programs
        });
        let status = child.wait().map_err(|error| format!("`{line}`: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("`{line}` failed ({status}){failures}")) }
    }

    /// Runs it and returns what it printed; what it says on stderr is shown.
    pub(crate) fn output(mut self) -> Result<Vec<u8>, Failure> {
        let line = line_of(&self.command);
        let output = self
            .command
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("`{line}` did not start: {error}"))?;
        if output.status.success() { Ok(output.stdout) } else { Err(format!("`{line}` failed ({})", output.status)) }
    }
}

/// Shows what a process writes, line by line, and returns what of it is about failures.
fn pass_on(written: Option<impl Read>, shown: &mut dyn Write, mut failures: Failures) -> String {
    let Some(written) = written else { return String::new() };
    let (mut written, mut line) = (BufReader::new(written), Vec::new());
    // What can not be read or shown any more is no reason to end the tests.
    while written.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let _ = shown.write_all(&line);
        failures.hear(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    failures.told
}

/// What is said of failures, to be said again at the end.
struct Failures {
    /// The text, each line indented.
    told: String,
    /// Whether a line begins something that is about a failure.
    begins: fn(&str) -> bool,
    /// Whether it ends that.
    ends: fn(&str) -> bool,
    /// How many lines more are kept of what has begun.
    left: usize,
}

impl Failures {
    /// Of the test harness: what failed tests said, each under its name. A list of their names closes it, under the same word as it was opened.
    fn of_the_harness() -> Self {
        let begins = |line: &str| line.starts_with("---- ") && line.ends_with(" stdout ----");
        Self { told: String::new(), begins, ends: |line| line == "failures:", left: 0 }
    }

    /// Of cargo: what did not compile, and which programs failed. A program without the usual harness says nothing else that could be told apart.
    fn of_cargo() -> Self {
        let begins = |line: &str| line.starts_with("error:") || line.starts_with("error[");
        Self { told: String::new(), begins, ends: |line| line.trim_start().starts_with("Running"), left: 0 }
    }

    fn hear(&mut self, line: &str) {
        if (self.ends)(line) {
            self.left = 0;
        } else if (self.begins)(line) {
            self.left = LINES_OF_A_FAILURE;
        }
        if self.left > 0 && !line.is_empty() {
            self.left -= 1;
            self.told.push_str("\n    ");
            self.told.push_str(line);
        }
    }
}

/// The call as a person would type it.
fn line_of(command: &Command) -> String {
    let arguments = command.get_args().map(OsStr::to_string_lossy);
    std::iter::once("cargo".into()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Where the toolchain keeps clippy's driver.
pub(crate) fn clippy_driver() -> Result<PathBuf, Failure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "sysroot"])
        .output()
        .map_err(|error| format!("rustc did not start: {error}"))?;
    let sysroot = String::from_utf8_lossy(&output.stdout);
    let driver = Path::new(sysroot.trim()).join("bin/clippy-driver");
    if driver.exists() {
        Ok(driver)
    } else {
        Err(format!("{} is not there\n    remedy: rustup component add clippy", driver.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(failures: Failures, written: &str) -> String {
        let mut shown = Vec::new();
        let told = pass_on(Some(written.as_bytes()), &mut shown, failures);
        assert_eq!(shown, written.as_bytes(), "all is shown");
        told
    }

    #[test]
    fn what_failed_tests_said_is_known_at_the_end() {
        let printed = "running 2 tests\ntest a::b ... ok\ntest c::d ... FAILED\n\nfailures:\n\n---- c::d stdout ----\n\n\
                       thread 'c::d' panicked at c.rs:1:2:\nno\n\n\nfailures:\n    c::d\n\ntest result: FAILED\n";
        let expected = "\n    ---- c::d stdout ----\n    thread 'c::d' panicked at c.rs:1:2:\n    no";
        assert_eq!(heard(Failures::of_the_harness(), printed), expected);
    }

    #[test]
    fn programs_that_failed_without_the_usual_harness_are_known_too() {
        let told = "     Running tests/a.rs (a-1)\nError: no\nerror: test failed, to rerun pass `-p a --test a`\n\nCaused by:\n  \
                    process didn't exit\n     Running tests/b.rs (b-2)\nb's own words\n";
        let expected =
            "\n    error: test failed, to rerun pass `-p a --test a`\n    Caused by:\n      process didn't exit";
        assert_eq!(heard(Failures::of_cargo(), told), expected);
    }

    #[test]
    fn what_does_not_compile_is_known_at_the_end() {
        let told = "   Compiling a v0.1.0\nwarning: unused\nerror: this lint is denied\n --> a.rs:1:2\n\nerror[E0308]: mismatched types\n \
                    --> a.rs:3:4\nerror: could not compile `a` (lib test) due to 2 previous errors\n";
        let expected = "\n    error: this lint is denied\n     --> a.rs:1:2\n    error[E0308]: mismatched types\n     \
                        --> a.rs:3:4\n    error: could not compile `a` (lib test) due to 2 previous errors";
        assert_eq!(heard(Failures::of_cargo(), told), expected);
    }
}
