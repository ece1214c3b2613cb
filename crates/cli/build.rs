//! Tells the binary which commit it was built from, for the origin of its figures.

use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    println!("cargo::rustc-env=ISHIGAKI_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    // The log of HEAD grows with every commit and every change of branch.
    match git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        Some(log) if std::path::Path::new(&log).exists() => println!("cargo::rerun-if-changed={log}"),
        _ => println!("cargo::rerun-if-changed=build.rs"),
    }
}

/// What git says in this folder; nothing where there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
