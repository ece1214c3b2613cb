//! Debian's packages, downloaded and unpacked into a folder. Nothing is installed.

use std::path::Path;
use std::process::Command;

use super::{call, files_of};
use crate::Failure;

/// Libraries that nothing of ours loads, though some package may want them.
const UNUSED: &[&str] = &["perl", "elogind", "debian-installer", "newt", "slang", "pam", "python", "llvm", "libz3"];

/// What `apt-cache` is not to follow.
const PASSED_OVER: &[&str] = &["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"];

/// These packages, and the libraries that they take.
pub(super) fn with_libraries(packages: &[&str]) -> Result<Vec<String>, Failure> {
    let mut command = Command::new("apt-cache");
    command.args(["depends", "--recurse"]).args(PASSED_OVER.iter().map(|kind| format!("--no-{kind}"))).args(packages);
    let text = output(&mut command)?;
    let is_library = |name: &&str| name.starts_with("lib") && UNUSED.iter().all(|unused| !name.contains(unused));
    let libraries = text.lines().filter(|line| !line.starts_with([' ', '<', '|'])).filter(is_library);
    let mut all: Vec<String> = packages.iter().copied().chain(libraries).map(str::to_owned).collect();
    all.sort();
    all.dedup();
    Ok(all)
}

/// The package that Debian's `linux-image-amd64` stands for.
pub(super) fn newest_kernel() -> Result<String, Failure> {
    let text = output(Command::new("apt-cache").args(["depends", "linux-image-amd64"]))?;
    let found = text
        .split_whitespace()
        .find(|word| word.starts_with("linux-image-") && word.ends_with("-amd64") && *word != "linux-image-amd64");
    found.map(str::to_owned).ok_or_else(|| "apt knows no kernel\n    remedy: apt-get update".to_owned())
}

/// Downloads packages into a folder, and unpacks them into another.
pub(super) fn unpack(packages: &[String], downloads: &Path, to: &Path) -> Result<(), Failure> {
    println!("{}", packages.join(" "));
    call(Command::new("apt-get").args(["download", "-qq"]).args(packages).current_dir(downloads))?;
    for file in files_of(downloads)?.iter().filter(|file| file.extension().is_some_and(|end| end == "deb")) {
        call(Command::new("dpkg-deb").arg("-x").arg(file).arg(to))?;
    }
    Ok(())
}

fn output(command: &mut Command) -> Result<String, Failure> {
    let output = command.output();
    let output = output.map_err(|error| format!("apt-cache did not start: {error}\n    remedy: this takes Debian"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("apt-cache failed: {said}\n    remedy: apt-get update"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
