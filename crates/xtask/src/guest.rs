//! The image of a small virtual machine for tests: Debian's kernel, a few of its modules, `BusyBox`, and a script that does what
//! the kernel's command line asks for. Nothing of it is installed, and nothing of the host is changed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;

const HELP: &str = "\
Makes the image of a small virtual machine for tests, in `target/guest`: vmlinuz and initramfs.

Downloads Debian's kernel and BusyBox with apt-get (70 MB); installs nothing. Takes `dpkg-deb`, `cpio` and `gzip`.
The tests take QEMU besides: apt-get install qemu-system-x86 cpio

Usage: cargo xtask guest
";

/// Of the kernel, in the order in which they are loaded; what is built in is passed over.
const MODULES: &[&str] =
    &["virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "fuse", "virtiofs"];

/// What runs in the guest.
const INIT: &str = include_str!("guest/init.sh");

/// Makes the image.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    if let Some(argument) = arguments.first() {
        if argument == "--help" || argument == "-h" {
            print!("{HELP}");
            return Ok(());
        }
        return Err(format!("`{argument}` is not understood\n\n{HELP}"));
    }
    let place = place(root)?;
    let (work, image) = (place.join("work"), place.join("work/image"));
    let _ = fs::remove_dir_all(&work);
    make_folder(&image)?;
    let kernel = newest_kernel()?;
    for package in [kernel.as_str(), "busybox-static"] {
        println!("{package}");
        call(Command::new("apt-get").args(["download", "-q", package]).current_dir(&work))?;
    }
    let unpacked = work.join("unpacked");
    for file in files_of(&work)?.iter().filter(|file| file.extension().is_some_and(|end| end == "deb")) {
        call(Command::new("dpkg-deb").arg("-x").arg(file).arg(&unpacked))?;
    }
    fill(&unpacked, &image, kernel.trim_start_matches("linux-image-"))?;
    let (archive, packed) = (work.join("archive"), quoted(&place.join("initramfs.new")));
    let pack = format!(
        "find . > ../names; cpio -o -H newc --quiet < ../names > {0}; gzip -1 < {0} > {packed}",
        quoted(&archive)
    );
    call(Command::new("sh").args(["-e", "-c", &pack]).current_dir(&image))?;
    copy(&unpacked.join("boot").join(kernel.replacen("linux-image", "vmlinuz", 1)), &place.join("vmlinuz"))?;
    rename(&place.join("initramfs.new"), &place.join("initramfs"))?;
    let _ = fs::remove_dir_all(&work);
    println!("{}", place.display());
    Ok(())
}

/// Where the image is put: beside what is compiled.
fn place(root: &Path) -> Result<PathBuf, Failure> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = if target.is_absolute() { target } else { root.join(target) };
    let place = target.join("guest");
    make_folder(&place)?;
    Ok(place)
}

/// The package that Debian's `linux-image-amd64` stands for.
fn newest_kernel() -> Result<String, Failure> {
    let output = Command::new("apt-cache").args(["depends", "linux-image-amd64"]).output();
    let output = output.map_err(|error| format!("apt-cache did not start: {error}\n    remedy: this takes Debian"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text
        .split_whitespace()
        .find(|word| word.starts_with("linux-image-") && word.ends_with("-amd64") && *word != "linux-image-amd64");
    found.map(str::to_owned).ok_or_else(|| "apt knows no kernel\n    remedy: apt-get update".to_owned())
}

/// Puts together what the guest's memory holds when it starts.
fn fill(unpacked: &Path, image: &Path, version: &str) -> Result<(), Failure> {
    for folder in ["bin", "modules", "proc", "sys", "dev", "log"] {
        make_folder(&image.join(folder))?;
    }
    copy(&unpacked.join("bin/busybox"), &image.join("bin/busybox"))?;
    symlink("busybox", image.join("bin/sh")).map_err(|error| format!("bin/sh: {error}"))?;
    let init = image.join("init");
    let written = fs::write(&init, INIT).and_then(|()| fs::set_permissions(&init, fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("{}: {error}", init.display()))?;
    let all = unpacked.join("lib/modules").join(version);
    let mut order = String::new();
    for name in MODULES {
        if let Some(module) = find(&all, &format!("{name}.ko"))? {
            copy(&module, &image.join("modules").join(format!("{name}.ko")))?;
            order.push_str(name);
            order.push('\n');
        }
    }
    fs::write(image.join("modules/order"), order).map_err(|error| format!("modules/order: {error}"))
}

/// The file of that name somewhere below a folder.
fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>, Failure> {
    for path in files_of(folder)? {
        if path.is_dir() && !path.is_symlink() {
            if let Some(found) = find(&path, name)? {
                return Ok(Some(found));
            }
        } else if path.file_name().is_some_and(|file| file == name) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::read_dir(folder).map_err(said)?.map(|entry| Ok(entry.map_err(said)?.path())).collect()
}

fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to).map(drop).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

fn rename(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::rename(from, to).map_err(|error| format!("{}: {error}", to.display()))
}

/// For a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn call(command: &mut Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status();
    let status =
        status.map_err(|error| format!("{program} did not start: {error}\n    remedy: apt-get install {program}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} failed ({status})")) }
}
