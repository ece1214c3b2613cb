//! The list: every program and library of the system that the build, the tests and the benchmarks name.

use std::path::Path;

use super::{compiles_c, compiles_cxx, in_path};

/// Something of the system's that is named somewhere in the tree.
pub(super) struct Need {
    pub(super) what: &'static str,
    /// What asks for it.
    pub(super) why: &'static str,
    pub(super) means: Means,
    /// The Debian packages that bring it.
    pub(super) packages: &'static [&'static str],
    pub(super) without: Without,
    /// Whether the test command installs it. What it does not is for tests and measurements that are asked for by name.
    pub(super) installs: bool,
}

/// How it is told that it is there.
pub(super) enum Means {
    /// All these are in the path, or there as files.
    Programs(&'static [&'static str]),
    /// The dynamic linker knows these.
    Libraries(&'static [&'static str]),
    /// Something was tried.
    Trial(fn() -> bool),
}

/// What comes of it when it can not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Without {
    /// Nothing can be built or tested.
    Fails,
    /// What asks for it prints `SKIPPED`, and ends well.
    Skips,
}

/// What every Debian system has, the smallest image too: packages that are essential or required.
#[cfg(test)]
pub(super) const BASE: &[&str] = &[
    "apt-cache",
    "apt-get",
    "blkdiscard",
    "blockdev",
    "chown",
    "chrt",
    "cp",
    "dpkg-deb",
    "find",
    "ls",
    "mkfifo",
    "nsenter",
    "setpriv",
    "sh",
    "sync",
    "taskset",
    "unshare",
    "fstrim",
];

pub(super) const NEEDS: &[Need] = &[
    Need {
        what: "a C compiler and linker with the C library's headers",
        why: "dependencies in C and assembly (zstd, psm, stacker), and linking",
        means: Means::Trial(compiles_c),
        packages: &["gcc", "libc6-dev"],
        without: Without::Fails,
        installs: true,
    },
    Need {
        what: "a C++ compiler",
        why: "the fuzzer, which is in C++",
        means: Means::Trial(compiles_cxx),
        packages: &["g++"],
        without: Without::Fails,
        installs: true,
    },
    Need {
        what: "losetup, mount and umount",
        why: "the tests on block devices and mounts of their own",
        means: Means::Programs(&["losetup", "mount", "umount"]),
        packages: &["mount"],
        without: Without::Fails,
        installs: true,
    },
    Need {
        what: "script",
        why: "the tests of the interactive shell, which give it a terminal",
        means: Means::Programs(&["script"]),
        packages: &["bsdutils"],
        without: Without::Fails,
        installs: true,
    },
    Need {
        what: "mkfs.ext4, fsck.ext4, e2fsck, debugfs, chattr and filefrag",
        why: "the tests of what a file system sees on a disk",
        means: Means::Programs(&[
            "mkfs.ext4",
            "/sbin/mkfs.ext4",
            "fsck.ext4",
            "e2fsck",
            "/sbin/e2fsck",
            "debugfs",
            "chattr",
            "filefrag",
        ]),
        packages: &["e2fsprogs"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "getfattr",
        why: "the tests that nothing of a migration is left in its destination",
        means: Means::Programs(&["getfattr"]),
        packages: &["attr"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "setfacl and getfacl",
        why: "the tests of access lists through a migration's folder",
        means: Means::Programs(&["setfacl", "getfacl"]),
        packages: &["acl"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "nfs-ls, nfs-cat and nfs-cp, and their library",
        why: "the tests of a migration's folder that is exported by NFS",
        means: Means::Programs(&["nfs-ls", "/usr/bin/nfs-ls", "/usr/bin/nfs-cat", "/usr/bin/nfs-cp"]),
        packages: &["libnfs-utils"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "mkfs.xfs and mkfs.btrfs",
        why: "the tests of a migration's door on the file systems that a destination may lie on",
        means: Means::Programs(&["mkfs.xfs", "mkfs.btrfs"]),
        packages: &["xfsprogs", "btrfs-progs"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "libfabric",
        why: "the tests of transports other than TCP",
        means: Means::Libraries(&["libfabric.so.1"]),
        packages: &["libfabric1"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "ip and tc",
        why: "the tests and measurements of other hosts, which are network namespaces",
        means: Means::Programs(&["ip", "tc"]),
        packages: &["iproute2"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "python3",
        why: "the test of locks that processes take, and what makes and compares trees for migrations",
        means: Means::Programs(&["python3"]),
        packages: &["python3"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "PostgreSQL 15",
        why: "the comparison of SQL's answers with PostgreSQL's, and the tests of servers over a pool",
        means: Means::Programs(&["/usr/lib/postgresql/15/bin/postgres", "/usr/lib/postgresql/15/bin/psql", "psql"]),
        packages: &["postgresql-15"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "NFS-Ganesha, and the portmapper that it wants",
        why: "the tests of a migration from an NFS server, and of one that is exported by it",
        means: Means::Programs(&["ganesha.nfsd", "/usr/sbin/rpcbind", "/usr/sbin/rpcinfo"]),
        packages: &["nfs-ganesha", "nfs-ganesha-vfs", "rpcbind"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "Samba, its clients and its modules",
        why: "the tests of a migration from an SMB server, and of one that is exported by it",
        means: Means::Programs(&[
            "/usr/sbin/smbd",
            "smbpasswd",
            "smbclient",
            "smbcacls",
            "/usr/bin/smbpasswd",
            "/usr/bin/smbclient",
            "/usr/bin/smbcacls",
        ]),
        packages: &["samba", "samba-vfs-modules", "smbclient"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "rsync",
        why: "the comparison of a migration with it",
        means: Means::Programs(&["rsync"]),
        packages: &["rsync"],
        without: Without::Skips,
        installs: true,
    },
    Need {
        what: "rclone",
        why: "the comparison of a migration with it",
        means: Means::Programs(&["rclone", "/usr/bin/rclone"]),
        packages: &["rclone"],
        without: Without::Skips,
        installs: false,
    },
    Need {
        what: "fusermount3",
        why: "unmounting for users who are not root",
        means: Means::Programs(&["fusermount3"]),
        packages: &["fuse3"],
        without: Without::Skips,
        installs: false,
    },
    Need {
        what: "git",
        why: "the commit in the answer of --version",
        means: Means::Programs(&["git"]),
        packages: &["git"],
        without: Without::Skips,
        installs: false,
    },
    Need {
        what: "MariaDB",
        why: "the tests of servers over a pool",
        means: Means::Programs(&["mariadb", "mariadb-install-db"]),
        packages: &["mariadb-server"],
        without: Without::Skips,
        installs: false,
    },
    Need {
        what: "a virtual machine and what packs one",
        why: "the tests in guests",
        means: Means::Programs(&["qemu-system-x86_64", "strip", "cpio"]),
        packages: &["qemu-system-x86", "binutils", "cpio"],
        without: Without::Skips,
        installs: false,
    },
    Need {
        what: "rustup",
        why: "adding rustfmt and clippy to a toolchain that lacks them",
        means: Means::Programs(&["rustup"]),
        packages: &["rustup"],
        without: Without::Skips,
        installs: false,
    },
];

impl Need {
    pub(super) fn is_there(&self) -> bool {
        match self.means {
            Means::Programs(programs) => programs.iter().all(|program| in_path(program)),
            Means::Libraries(libraries) => libraries.iter().all(|library| is_linked(library)),
            Means::Trial(trial) => trial(),
        }
    }
}

/// Looks where the dynamic linker looks on Debian.
fn is_linked(library: &str) -> bool {
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders = ["/lib", "/usr/lib", "/usr/local/lib"].map(Path::new);
    folders.iter().any(|folder| folder.join(library).exists() || folder.join(&triple).join(library).exists())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// How the sources call programs: the standard library's way and the small helpers around it.
    const CALLS: &[&str] = &["Command::new(", "run(", "command(", "output("];

    /// The names of programs and libraries in a source, each a literal of its own.
    fn named(source: &str) -> Vec<String> {
        let mut names = Vec::new();
        for (at, _) in source.match_indices('"') {
            let Some(name) = source[at + 1..].split('"').next() else { continue };
            let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
            if name.is_empty() || !name.chars().all(plain) {
                continue;
            }
            let before = &source[..at];
            let called = before.ends_with("Command::new(");
            // A helper's first word may as well be a command of our own, so that only what is a program counts.
            let helped = CALLS.iter().any(|call| before.ends_with(call)) && in_path(name);
            let library = name.starts_with("lib") && name.contains(".so");
            if called || helped || library {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// Every source of the tree, but for this one.
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder of the tree").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() && !entry.ends_with("target") {
                sources(&entry, found);
            } else if entry.extension().is_some_and(|end| end == "rs") && !entry.ends_with("test/machine/needs.rs") {
                found.push(entry);
            }
        }
    }

    #[test]
    fn every_program_and_library_that_the_tree_names_is_in_the_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = Vec::new();
        for folder in ["crates", "fuzz"] {
            sources(&root.join(folder), &mut files);
        }
        let mut seen: BTreeMap<String, PathBuf> = BTreeMap::new();
        for file in files {
            for name in named(&fs::read_to_string(&file).expect("a source")) {
                seen.entry(name).or_insert_with(|| file.clone());
            }
        }
        assert!(seen.contains_key("losetup") && seen.contains_key("libfabric.so.1"), "the sources are read: {seen:?}");
        let declared = |name: &str| {
            let listed = NEEDS.iter().any(|need| match need.means {
                Means::Programs(names) | Means::Libraries(names) => names.contains(&name),
                Means::Trial(_) => false,
            });
            // Made up by the tests of this room.
            listed || BASE.contains(&name) || name.starts_with("no-such-")
        };
        let undeclared: Vec<_> = seen.iter().filter(|(name, _)| !declared(name)).collect();
        assert!(undeclared.is_empty(), "not in NEEDS, nor on every Debian system: {undeclared:?}");
    }

    #[test]
    fn a_name_is_seen_where_it_is_called_and_not_where_it_is_said() {
        let source = r#"Command::new("first"); run("sh", &[]); run("not-a-program"); say("sh"); load("libthing.so.2")"#;
        assert_eq!(named(source), ["first", "sh", "libthing.so.2"]);
    }

    #[test]
    fn what_the_base_system_has_is_there() {
        for program in BASE {
            assert!(in_path(program), "{program}");
        }
    }
}
