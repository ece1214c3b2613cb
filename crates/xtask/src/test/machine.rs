//! What the build and the tests need from the system, and getting it where that may be done.
//!
//! The tree itself is all Rust. A few dependencies bring C or assembly (zstd for Parquet, the stack switching under
//! `DataFusion`'s recursion guard), so there must be a C compiler with the C library's headers; the compiler also links.
//! Tests call programs of the system, and libfabric is loaded where there is one. rustfmt and clippy are components of the
//! toolchain.
//!
//! As root, missing packages are installed with apt-get; otherwise the exact command is shown. What only some tests want
//! stops nothing when it can not be had: those tests print `SKIPPED`. The list, [`NEEDS`], is complete: a test below reads
//! the sources for the programs and libraries that they name.

mod needs;

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use super::cargo::{self, Cargo};
use crate::Failure;
use needs::{NEEDS, Need, Without};

/// Makes sure that everything is there, or says what is not.
pub(crate) fn prepare(cargo: &Cargo) -> Result<(), Failure> {
    let missing_at_first = missing();
    let installed = if missing_at_first.is_empty() { Ok(()) } else { install(&missing_at_first) };
    let (vital, wanted): (Vec<_>, Vec<_>) = missing().into_iter().partition(|need| need.without == Without::Fails);
    if !vital.is_empty() {
        return Err(installed.err().unwrap_or_else(|| complaint(&vital)));
    }
    components(cargo)?;
    mount_table(Path::new("/etc/mtab"))?;
    for need in &wanted {
        println!("SKIPPED: {}: {} is missing (Debian: {})", need.why, need.what, need.packages.join(" "));
    }
    if wanted.is_empty() {
        println!("everything is there");
    }
    Ok(())
}

fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| need.installs && !need.is_there()).collect()
}

fn complaint(needs: &[&Need]) -> Failure {
    let lines: Vec<_> =
        needs.iter().map(|need| format!("  {} is missing; needed for {}", need.what, need.why)).collect();
    let packages = packages(needs).join(" ");
    format!("the system lacks something\n{}\n    remedy: as root, apt-get install {packages}", lines.join("\n"))
}

fn packages(needs: &[&Need]) -> Vec<&'static str> {
    needs.iter().flat_map(|need| need.packages).copied().collect()
}

/// Installs what is missing, where this user may.
fn install(needs: &[&Need]) -> Result<(), Failure> {
    if !is_root() || !in_path("apt-get") {
        return Err(complaint(needs));
    }
    let packages = packages(needs);
    println!("installing {}", packages.join(" "));
    for arguments in [&["update", "--quiet"][..], &["install", "--yes", "--quiet", "--no-install-recommends"][..]] {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        if arguments[0] == "install" {
            command.args(&packages);
        }
        let status = command.status().map_err(|error| format!("apt-get did not start: {error}"))?;
        if !status.success() {
            return Err(format!("apt-get {} failed ({status})\n{}", arguments[0], complaint(needs)));
        }
    }
    Ok(())
}

/// The name by which Ganesha finds the file systems of its exports. A system that was booted has it, and a bare image has not.
fn mount_table(name: &Path) -> Result<(), Failure> {
    if name.exists() || name.is_symlink() {
        return Ok(());
    }
    let link = "../proc/self/mounts";
    if !is_root() {
        println!(
            "there is no {0}, without which NFS-Ganesha exports nothing: as root, ln -s {link} {0}",
            name.display()
        );
        return Ok(());
    }
    println!("linking {} to {link}", name.display());
    symlink(link, name).map_err(|error| format!("{} could not be made: {error}", name.display()))
}

/// rustfmt and clippy, which a minimal toolchain does not bring.
fn components(cargo: &Cargo) -> Result<(), Failure> {
    let formats = || cargo.plain().args(["fmt", "--version"]).output().is_ok();
    let present = || cargo::clippy_driver().is_ok() && formats();
    if present() {
        return Ok(());
    }
    if in_path("rustup") {
        let mut command = Command::new("rustup");
        let added = command.current_dir(cargo.root()).args(["component", "add", "rustfmt", "clippy"]).status();
        if added.is_ok_and(|status| status.success()) && present() {
            return Ok(());
        }
    }
    Err("rustfmt or clippy is missing\n    remedy: rustup component add rustfmt clippy".into())
}

/// Tries the compiler on a program that needs a header, the library and the linker.
fn compiles_c() -> bool {
    compiles("CC", "cc", "c", "#include <stdlib.h>\nint main() { return abs(0); }\n")
}

/// The same in C++.
fn compiles_cxx() -> bool {
    compiles("CXX", "c++", "c++", "#include <string>\nint main() { return int(std::string().size()); }\n")
}

/// Tries the compiler that the variable names, or else the usual one.
fn compiles(variable: &str, usual: &str, language: &str, program: &str) -> bool {
    // The variable may hold arguments, too, as in `ccache gcc`.
    let compiler = std::env::var(variable).unwrap_or_else(|_| usual.into());
    let mut words = compiler.split_whitespace();
    let child = Command::new(words.next().unwrap_or(usual))
        .args(words)
        .args(["-x", language, "-", "-o", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let written = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(program.as_bytes()).is_ok());
    child.wait().is_ok_and(|status| status.success()) && written
}

/// Looks where root would, too: `losetup` lies in `/sbin`, which is not in everyone's path. A path stands for itself.
fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(["/sbin".into(), "/usr/sbin".into()]);
    folders.any(|folder| folder.join(program).is_file())
}

/// Whether this process may install packages: its effective user, as the kernel tells it.
fn is_root() -> bool {
    let status = std::fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

#[cfg(test)]
mod tests {
    use super::needs::Means;
    use super::*;

    #[test]
    fn a_complaint_names_what_is_missing_why_and_the_package() {
        let need = Need {
            what: "a thing",
            why: "a test",
            means: Means::Trial(|| false),
            packages: &["thing", "thing-dev"],
            without: Without::Fails,
            installs: true,
        };
        assert!(!need.is_there());
        let text = complaint(&[&need]);
        assert!(text.contains("a thing is missing; needed for a test"), "{text}");
        assert!(text.contains("apt-get install thing thing-dev"), "{text}");
    }

    #[test]
    fn a_compiler_that_is_not_there_compiles_nothing() {
        assert!(compiles_c() && compiles_cxx());
        assert!(!compiles("NO_SUCH_VARIABLE", "no-such-compiler", "c", ""));
    }

    #[test]
    fn the_table_of_mounts_gets_its_name_where_it_has_none() {
        let held = tempfile::tempdir().expect("a folder");
        let name = held.path().join("mtab");
        for _ in 0..2 {
            mount_table(&name).expect("root makes it, and others tell");
            assert_eq!(name.read_link().is_ok(), is_root());
        }
        let file = held.path().join("of-another-kind");
        std::fs::write(&file, b"what is there").expect("a file");
        mount_table(&file).expect("it stays");
        assert_eq!(std::fs::read(&file).expect("a file"), b"what is there");
    }

    #[test]
    fn a_program_that_is_not_there_is_not_found() {
        assert!(in_path("sh"));
        assert!(!in_path("no-such-program-anywhere"));
    }
}
