//! Runs every example program of the house.
//!
//! The step `lint` has compiled them beside the tests. They are taken from there rather than by `cargo run --example`,
//! which would choose the features of one crate's dependencies alone and compile `DataFusion` anew for them. Each runs in an
//! empty folder of its own, which is removed afterwards.

use std::fs;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::Command;

use cargo_metadata::{Message, TargetKind};

use super::cargo::Cargo;
use super::options::Options;
use crate::Failure;

/// Runs them all; an error if one fails, or if there are none.
pub(crate) fn run(cargo: &Cargo, _: &Options) -> Result<(), Failure> {
    let examples = built(cargo)?;
    if examples.is_empty() {
        return Err("there is no example program\n    remedy: see `examples/` of the crates".into());
    }
    let place = cargo.target_directory()?.join("examples-run");
    let mut failed = Vec::new();
    for (name, program) in &examples {
        println!("$ {name}");
        let folder = place.join(name);
        // Left over only if an earlier run was killed.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let status = Command::new(program).current_dir(&folder).status();
        let status = status.map_err(|error| format!("{}: {error}", program.display()))?;
        let _ = fs::remove_dir_all(&folder);
        if !status.success() {
            failed.push(format!("{name} ({status})"));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// Names and programs, as cargo tells them after a build that has nothing left to do.
fn built(cargo: &Cargo) -> Result<Vec<(String, PathBuf)>, Failure> {
    let build = ["test", "--workspace", "--no-run", "--quiet", "--message-format=json-render-diagnostics"];
    let output = cargo.linted()?.args(build).output()?;
    let mut examples = Vec::new();
    for message in Message::parse_stream(Cursor::new(output)) {
        match message.map_err(|error| format!("cargo's messages: {error}"))? {
            Message::CompilerArtifact(artifact) if artifact.target.kind.contains(&TargetKind::Example) => {
                examples.extend(artifact.executable.map(|program| (artifact.target.name, program.into())));
            }
            _ => {}
        }
    }
    examples.sort();
    Ok(examples)
}
