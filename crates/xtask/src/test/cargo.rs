//! How the steps call cargo, so that all of them share one set of build products.
//!
//! `cargo clippy` would check every dependency and then `cargo test` would compile each of them again. Instead, clippy's
//! driver, a compiler that also lints, stands in as the compiler of the workspace's own crates in every step that builds
//! (`RUSTC_WORKSPACE_WRAPPER`, the same way that cargo-clippy takes). Dependencies know nothing of it and are shared
//! with every other build of this profile. A warning is an error and so is never hidden by a cached result.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::MetadataCommand;

use crate::Failure;

/// What cargo-clippy puts between the arguments that it hands to its driver.
const SEPARATOR: &str = "__CLIPPY_HACKERY__";

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
