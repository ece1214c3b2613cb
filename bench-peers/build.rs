//! Tells the binary which commit it was built from, and which versions of the rivals `Cargo.lock` has chosen.

use std::fs;
use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    println!("cargo::rustc-env=PEERS_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    // The log of HEAD grows with every commit and every change of branch.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| fs::exists(log).unwrap_or(false)) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = fs::read_to_string("Cargo.lock").expect("cargo has written Cargo.lock before it builds");
    for package in ["fjall", "heed", "librocksdb-sys", "redb"] {
        let version = version(&lock, package).unwrap_or("unknown");
        println!("cargo::rustc-env=PEERS_{}={version}", package.replace('-', "_").to_uppercase());
    }
}

/// What git says in this folder; nothing where there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The line after `name = "…"` is `version = "…"`.
fn version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let mut lines = lock.lines().skip_while(|line| line.strip_prefix("name = ") != Some(&format!("\"{package}\"")));
    lines.nth(1)?.strip_prefix("version = ").map(|version| version.trim_matches('"'))
}
