//! The image of a small virtual machine for tests: Debian's kernel, a few of its modules, `BusyBox`, and a script that does what
//! the kernel's command line asks for; and additions to it, for tests that take more. A machine's memory begins with the image and
//! the additions that its test names. Nothing of it is installed, and nothing of the host is changed.
//!
//! Parts: [`packages`] gets what there is from Debian, [`modules`] are the kernel's.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;
use modules::Modules;

mod modules;
mod packages;

const HELP: &str = "\
Makes the image of a small virtual machine for tests, in `target/guest`: vmlinuz, initramfs, and additions to the latter:
rdma (libfabric over RDMA in software, and what programs take), agent (what these take, and ports to the host), mariadb (a server, and what its disk takes), postgresql
(a server).

Downloads packages of Debian's with apt-get (160 MB); installs nothing. Takes `dpkg-deb` and `cpio`.
The tests take QEMU besides: apt-get install qemu-system-x86 cpio e2fsprogs

Usage: cargo xtask guest
";

/// Something that a machine's memory may begin with.
struct Part {
    name: &'static str,
    packages: &'static [&'static str],
    /// Modules, besides those that they take.
    modules: &'static [&'static str],
    /// What of the packages goes into it, besides libraries.
    files: &'static [&'static str],
    /// Scripts: what the kernel's command line can ask for.
    tasks: &'static [(&'static str, &'static str)],
}

/// The image.
const IMAGE: Part = Part {
    name: "initramfs",
    packages: &["busybox-static"],
    modules: &["virtio_pci", "virtiofs", "virtio_blk", "crc32c_generic", "ext4"],
    files: &["bin/busybox"],
    tasks: &[
        ("records", include_str!("guest/records.sh")),
        ("names", include_str!("guest/names.sh")),
        ("disk", include_str!("guest/disk.sh")),
    ],
};

/// Additions, each with its libraries.
const ADDITIONS: &[Part] = &[
    Part {
        name: "rdma",
        packages: &["libfabric1", "ibverbs-providers", "iproute2"],
        modules: &["virtio_net", "crc32_generic", "rdma_ucm", "ib_uverbs", "rdma_rxe"],
        files: &["usr/bin/rdma", "etc/libibverbs.d", "usr/lib/libpsm1"],
        tasks: &[("rdma", include_str!("guest/rdma.sh"))],
    },
    Part {
        name: "agent",
        packages: &["libgcc-s1"],
        modules: &["virtio_console"],
        files: &[],
        tasks: &[("agent", include_str!("guest/agent.sh"))],
    },
    Part {
        name: "mariadb",
        packages: &["mariadb-server-core", "mariadb-client-core", "zlib1g"],
        modules: &[],
        files: &["usr/sbin/mariadbd", "usr/bin/mariadb", "usr/share/mysql/english", "usr/share/mysql/charsets"],
        tasks: &[("mariadb", include_str!("guest/mariadb.sh"))],
    },
    Part {
        name: "postgresql",
        packages: &["postgresql-15", "postgresql-client-15", "libpam0g", "zlib1g"],
        modules: &[],
        files: &[
            "usr/lib/postgresql/15/bin/postgres",
            "usr/lib/postgresql/15/bin/psql",
            "usr/share/postgresql/15/timezonesets",
        ],
        tasks: &[("postgresql", include_str!("guest/postgresql.sh"))],
    },
];

/// The first process of a guest.
const INIT: &str = include_str!("guest/init.sh");

/// Where libraries are.
const LIBRARIES: &[&str] = &["lib64", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];

/// Below those, what nothing takes: tables of characters, and code for debugging.
const UNUSED: &[&str] = &["gconv", "audit", "perl-base"];

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
    let work = place.join("work");
    let _ = fs::remove_dir_all(&work);
    let kernel = packages::newest_kernel()?;
    let unpacked = unpack("kernel", std::slice::from_ref(&kernel), &work)?;
    let modules = Modules::of(&unpacked.join("lib/modules"))?;
    copy(&unpacked.join("boot").join(kernel.replacen("linux-image", "vmlinuz", 1)), &place.join("vmlinuz"))?;
    for part in std::iter::once(&IMAGE).chain(ADDITIONS) {
        part.make(&modules, &work, &place)?;
    }
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

/// Gets packages. Gives where they are unpacked.
fn unpack(name: &str, packages: &[String], work: &Path) -> Result<PathBuf, Failure> {
    let (downloads, unpacked) = (work.join(name).join("downloads"), work.join(name).join("unpacked"));
    make_folder(&downloads)?;
    packages::unpack(packages, &downloads, &unpacked)?;
    Ok(unpacked)
}

impl Part {
    /// Makes its archive.
    fn make(&self, modules: &Modules, work: &Path, place: &Path) -> Result<(), Failure> {
        let is_image = self.name == IMAGE.name;
        let packages = if is_image {
            self.packages.iter().map(|&name| name.to_owned()).collect()
        } else {
            packages::with_libraries(self.packages)?
        };
        let (unpacked, image) = (unpack(self.name, &packages, work)?, work.join(self.name).join("image"));
        for folder in ["modules", "tasks"] {
            make_folder(&image.join(folder))?;
        }
        if is_image {
            for folder in ["proc", "sys", "dev", "log", "tmp"] {
                make_folder(&image.join(folder))?;
            }
            write(&image.join("init"), INIT, 0o755)?;
        } else {
            put_libraries(&unpacked, &image)?;
        }
        for file in self.files {
            put(&unpacked, file, &image)?;
        }
        if is_image {
            symlink("busybox", image.join("bin/sh")).map_err(|error| format!("bin/sh: {error}"))?;
        }
        modules.put(self.modules, &image, &format!("{}.order", self.name))?;
        for (name, script) in self.tasks {
            write(&image.join("tasks").join(name), script, 0o644)?;
        }
        pack(&image, &place.join(self.name))
    }
}

/// Puts the libraries of unpacked packages into an image.
fn put_libraries(unpacked: &Path, image: &Path) -> Result<(), Failure> {
    for folder in LIBRARIES.iter().filter(|folder| unpacked.join(folder).exists()) {
        put(unpacked, folder, image)?;
        for unused in UNUSED {
            let _ = fs::remove_dir_all(image.join(folder).join(unused));
        }
    }
    Ok(())
}

/// Puts a file or a folder into an image, with its links as they are.
fn put(unpacked: &Path, file: &str, image: &Path) -> Result<(), Failure> {
    let to = image.join(file);
    let parent = to.parent().unwrap_or(image);
    make_folder(parent)?;
    call(Command::new("cp").arg("-a").arg(unpacked.join(file)).arg(parent))
}

/// Makes an archive of an image, in place of one that is there. It is not compressed: an emulated processor would spend a third of its
/// start on that.
fn pack(image: &Path, to: &Path) -> Result<(), Failure> {
    let new = to.with_extension("new");
    let pack = format!("find . > ../names; cpio -o -H newc --quiet < ../names > {}", quoted(&new));
    call(Command::new("sh").args(["-e", "-c", &pack]).current_dir(image))?;
    rename(&new, to)
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::read_dir(folder).map_err(said)?.map(|entry| Ok(entry.map_err(said)?.path())).collect()
}

fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let written = fs::write(path, text).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)));
    written.map_err(|error| format!("{}: {error}", path.display()))
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
