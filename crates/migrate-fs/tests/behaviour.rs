//! Each operation through a door, and the same on a bare directory: what comes of it must be the same.

mod stage;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, StatxFlags, Timespec, Timestamps, XattrFlags,
    copy_file_range, fallocate, fsync, getxattr, linkat, listxattr, mknodat, openat, renameat_with, seek, setxattr,
    statvfs, statx, utimensat,
};
use rustix::io::Errno;
use stage::{Stage, Stubs, can_open};

/// Does the same through a door in which files are passed through, through one in which they are served, and without a door.
fn everywhere<T: PartialEq + std::fmt::Debug>(test: &str, act: impl Fn(&Path) -> T) {
    if !can_open(test) {
        return;
    }
    let stage = Stage::new();
    let bare = act(&stage.bare);
    assert_eq!(act(&stage.folder), bare, "passed through");
    let stage = Stage::with(Arc::new(Stubs::default()));
    assert_eq!(act(&stage.folder), bare, "served");
}

fn errno<T>(outcome: io::Result<T>) -> Option<i32> {
    outcome.err().and_then(|error| error.raw_os_error())
}

#[test]
fn files_are_made_written_read_and_cut() {
    everywhere("files_are_made_written_read_and_cut", |folder| {
        let path = folder.join("file");
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o640).open(&path).unwrap();
        let again = errno(OpenOptions::new().write(true).create_new(true).open(&path));
        file.write_all(b"some bytes, and more").unwrap();
        file.set_len(10).unwrap();
        file.set_len(5000).unwrap();
        let mut whole = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut whole).unwrap();
        let mut appended = OpenOptions::new().append(true).open(&path).unwrap();
        appended.write_all(b"end").unwrap();
        file.sync_all().unwrap();
        file.sync_data().unwrap();
        let metadata = fs::metadata(&path).unwrap();
        drop(OpenOptions::new().write(true).truncate(true).open(&path).unwrap());
        (again, whole, metadata.len(), metadata.mode(), fs::read(&path).unwrap())
    });
}

#[test]
fn direct_and_synchronous_files_hold_what_is_written() {
    everywhere("direct_and_synchronous_files_hold_what_is_written", |folder| {
        let path = folder.join("file");
        let flags = [OFlags::SYNC, OFlags::DSYNC, OFlags::APPEND, OFlags::DIRECT];
        for (round, flag) in flags.into_iter().enumerate() {
            let flags = flag | OFlags::CREATE | OFlags::RDWR;
            let file = File::from(openat(CWD, &path, flags, Mode::from_raw_mode(0o600)).unwrap());
            let page = page_of(round as u8);
            file.write_all_at(&page, 4096 * round as u64).unwrap();
        }
        fs::read(path).unwrap()
    });
}

/// A page at an address that direct I/O takes.
fn page_of(byte: u8) -> AlignedPage {
    AlignedPage([byte; 4096])
}

#[repr(align(4096))]
struct AlignedPage([u8; 4096]);

impl std::ops::Deref for AlignedPage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[test]
fn names_of_every_kind_are_made_moved_and_removed() {
    everywhere("names_of_every_kind_are_made_moved_and_removed", |folder| {
        let path = |name: &str| folder.join(name);
        let odd = folder.join(OsStr::from_bytes(b"\xff\xfe not UTF-8 \n"));
        fs::write(&odd, b"odd").unwrap();
        let long = path(&"n".repeat(255));
        fs::write(&long, b"long").unwrap();
        let too_long = errno(fs::write(path(&"n".repeat(256)), b""));
        fs::create_dir(path("directory")).unwrap();
        symlink("a target that is not there", path("link")).unwrap();
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let device = rustix::fs::makedev(259, 70_000);
        mknodat(CWD, path("device"), FileType::CharacterDevice, Mode::from_raw_mode(0o600), device).unwrap();
        fs::hard_link(&odd, path("other name")).unwrap();
        let links = fs::metadata(&odd).unwrap().nlink();
        let rename = |from: &str, to: &str, flags| renameat_with(CWD, path(from), CWD, path(to), flags).err();
        let outcomes = [
            rename("other name", "directory/moved", RenameFlags::empty()),
            rename("directory/moved", "link", RenameFlags::NOREPLACE),
            rename("directory/moved", "link", RenameFlags::EXCHANGE),
            rename("directory", "link", RenameFlags::empty()),
            rename("pipe", "directory/moved", RenameFlags::empty()),
            rename("nothing", "something", RenameFlags::empty()),
            rename("link", "directory/moved", RenameFlags::empty()),
            rename("directory", "directory/moved/below", RenameFlags::empty()),
        ];
        let removals = [
            errno(fs::remove_dir(path("directory"))),
            errno(fs::remove_file(path("directory"))),
            errno(fs::remove_dir(path("device"))),
            errno(fs::remove_file(path("nothing"))),
        ];
        let device = fs::symlink_metadata(path("device")).unwrap().rdev();
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        (too_long, links, outcomes, removals, device, names, fs::read(path("directory/moved")).unwrap())
    });
}

#[test]
fn attributes_are_changed_one_by_one() {
    everywhere("attributes_are_changed_one_by_one", |folder| {
        let path = folder.join("file");
        fs::write(&path, b"bytes").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o4751)).unwrap();
        std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
        let after_chown = fs::metadata(&path).unwrap().mode();
        std::os::unix::fs::chown(&path, None, Some(567)).unwrap();
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let times = Timestamps { last_access: time(-5, 7), last_modification: time(1_000_000_000, 999_999_999) };
        utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        symlink("nowhere", folder.join("link")).unwrap();
        std::os::unix::fs::lchown(folder.join("link"), Some(9), Some(8)).unwrap();
        let link = fs::symlink_metadata(folder.join("link")).unwrap();
        let born = statx(CWD, &path, AtFlags::empty(), StatxFlags::ALL).unwrap();
        let is_born = born.stx_mask & StatxFlags::BTIME.bits() != 0 && born.stx_btime.tv_sec > 1_600_000_000;
        let metadata = fs::metadata(&path).unwrap();
        (
            after_chown,
            (metadata.uid(), metadata.gid(), metadata.mode()),
            (metadata.atime(), metadata.atime_nsec(), metadata.mtime(), metadata.mtime_nsec()),
            (link.uid(), link.gid(), link.len(), is_born),
        )
    });
}

#[test]
fn inode_numbers_and_sizes_are_the_destinations() {
    if !can_open("inode_numbers_and_sizes_are_the_destinations") {
        return;
    }
    let stage = Stage::new();
    fs::create_dir(stage.folder.join("directory")).unwrap();
    fs::write(stage.folder.join("directory/file"), vec![1; 100_000]).unwrap();
    for name in ["", "directory", "directory/file"] {
        let [door, bare] = [&stage.folder, &stage.destination].map(|folder| fs::metadata(folder.join(name)).unwrap());
        assert_eq!((door.ino(), door.len(), door.nlink()), (bare.ino(), bare.len(), bare.nlink()), "{name}");
        assert_eq!((door.mode(), door.blksize()), (bare.mode(), bare.blksize()), "{name}");
    }
    let [door, bare] = [&stage.folder, &stage.destination].map(|folder| statvfs(folder).unwrap());
    assert_eq!((door.f_blocks, door.f_files, door.f_namemax), (bare.f_blocks, bare.f_files, bare.f_namemax));
}

#[test]
fn holes_are_made_found_and_kept() {
    everywhere("holes_are_made_found_and_kept", |folder| {
        let path = folder.join("file");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.write_all_at(&vec![1; 1 << 20], 0).unwrap();
        file.set_len(4 << 20).unwrap();
        let keep = FallocateFlags::KEEP_SIZE;
        let outcomes = [
            fallocate(&file, FallocateFlags::PUNCH_HOLE | keep, 64 << 10, 128 << 10).err(),
            fallocate(&file, FallocateFlags::ZERO_RANGE, 512 << 10, 5000).err(),
            fallocate(&file, keep, 8 << 20, 4096).err(),
            fallocate(&file, FallocateFlags::empty(), 5 << 20, 4096).err(),
        ];
        let size = file.metadata().unwrap().len();
        let past_the_end = seek(&file, rustix::fs::SeekFrom::Data(100 << 20)).err();
        let bytes = fs::read(&path).unwrap();
        (outcomes, size, past_the_end, bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>(), bytes[64 << 10])
    });
    if !can_open("holes_are_made_found_and_kept") {
        return;
    }
    let stage = Stage::new();
    let found = |folder: &Path| {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(folder.join("sparse"));
        let file = file.unwrap();
        file.write_all_at(&vec![1; 65536], 1 << 20).unwrap();
        fsync(&file).unwrap();
        [
            seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap(),
            seek(&file, rustix::fs::SeekFrom::Hole(1 << 20)).unwrap(),
            seek(&file, rustix::fs::SeekFrom::Hole(0)).unwrap(),
        ]
    };
    assert_eq!(found(&stage.folder), found(&stage.bare));
}

#[test]
fn bytes_are_copied_between_files() {
    everywhere("bytes_are_copied_between_files", |folder| {
        let open = |name: &str| {
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(folder.join(name)).unwrap()
        };
        let (from, to) = (open("from"), open("to"));
        from.write_all_at(&(0..100_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>(), 0).unwrap();
        let (mut at, mut to_at) = (1000, 7);
        let copied = copy_file_range(&from, Some(&mut at), &to, Some(&mut to_at), 300_000).unwrap();
        let past = copy_file_range(&from, Some(&mut 1_000_000), &to, Some(&mut 0), 10).unwrap();
        (copied, past, fs::read(folder.join("to")).unwrap())
    });
}

#[test]
fn files_without_names_get_one() {
    everywhere("files_without_names_get_one", |folder| {
        let directory = File::open(folder).unwrap();
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let mut file = File::from(openat(&directory, c".", flags, Mode::from_raw_mode(0o640)).unwrap());
        file.write_all(b"made without a name").unwrap();
        let before = file.metadata().unwrap().nlink();
        linkat(&file, c"", &directory, c"named", AtFlags::EMPTY_PATH).unwrap();
        let kept = openat(&directory, c".", flags | OFlags::EXCL, Mode::from_raw_mode(0o640)).unwrap();
        let refused = linkat(&kept, c"", &directory, c"refused", AtFlags::EMPTY_PATH).err();
        let metadata = fs::metadata(folder.join("named")).unwrap();
        (before, refused, metadata.nlink(), metadata.mode(), fs::read(folder.join("named")).unwrap())
    });
}

#[test]
fn extended_attributes_and_access_control_lists_are_kept() {
    everywhere("extended_attributes_and_access_control_lists_are_kept", |folder| {
        let path = folder.join("file");
        fs::write(&path, b"").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let large = vec![3; 2000];
        setxattr(&path, "user.small", b"value", XattrFlags::empty()).unwrap();
        setxattr(&path, "user.large", &large, XattrFlags::CREATE).unwrap();
        setxattr(&path, "trusted.own", b"root's", XattrFlags::empty()).unwrap();
        let twice = setxattr(&path, "user.large", b"", XattrFlags::CREATE).err();
        // user::rw-, user:33:rw-, group::r--, mask::rw-, other::---
        let entries: [(u16, u16, u32); 5] =
            [(1, 6, u32::MAX), (2, 6, 33), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)];
        let mut acl = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            acl.extend(tag.to_le_bytes());
            acl.extend(permissions.to_le_bytes());
            acl.extend(id.to_le_bytes());
        }
        setxattr(&path, "system.posix_acl_access", &acl, XattrFlags::empty()).unwrap();
        setxattr(folder, "system.posix_acl_default", &acl, XattrFlags::empty()).unwrap();
        fs::write(folder.join("heir"), b"").unwrap();
        let read = |path: &Path, name: &str| {
            let mut value = Vec::with_capacity(4096);
            getxattr(path, name, rustix::buffer::spare_capacity(&mut value)).map(|_| value)
        };
        let mut names = Vec::with_capacity(4096);
        listxattr(&path, rustix::buffer::spare_capacity(&mut names)).unwrap();
        let mut names: Vec<_> = names.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
        names.sort();
        let metadata = |name: &str| fs::metadata(folder.join(name)).unwrap().mode();
        let nothing = read(&path, "user.nothing").err();
        let heir = read(&folder.join("heir"), "system.posix_acl_access");
        (twice, nothing, names, metadata("file"), metadata("heir"), read(&path, "user.large"), heir)
    });
}

#[test]
fn an_attribute_that_is_hidden_is_not_there() {
    if !can_open("an_attribute_that_is_hidden_is_not_there") {
        return;
    }
    let stage = Stage::with(Arc::new(Stubs::default()));
    fs::write(stage.destination.join("file"), b"").unwrap();
    setxattr(stage.destination.join("file"), "trusted.hidden", b"state", XattrFlags::empty()).unwrap();
    let path = stage.folder.join("file");
    let mut list = Vec::with_capacity(100);
    assert_eq!(listxattr(&path, rustix::buffer::spare_capacity(&mut list)), Ok(0));
    let mut value = Vec::with_capacity(100);
    assert_eq!(getxattr(&path, "trusted.hidden", rustix::buffer::spare_capacity(&mut value)), Err(Errno::NODATA));
    assert_eq!(setxattr(&path, "trusted.hidden", b"", XattrFlags::empty()), Err(Errno::PERM));
    assert_eq!(rustix::fs::removexattr(&path, "trusted.hidden"), Err(Errno::NODATA));
}

/// Runs a line as another user, whose second group is 4242.
fn as_user(folder: &Path, line: &str) -> String {
    let done = Command::new("setpriv")
        .args(["--reuid", "4001", "--regid", "4001", "--groups", "4242", "sh", "-c", line])
        .current_dir(folder)
        .output()
        .unwrap();
    format!("{}{}", done.status, String::from_utf8_lossy(&done.stdout))
}

#[test]
fn a_user_may_do_what_modes_groups_and_lists_say_and_owns_what_it_makes() {
    everywhere("a_user_may_do_what_modes_groups_and_lists_say_and_owns_what_it_makes", |folder| {
        // Up to the folder itself any user may go.
        let mut above = folder.parent();
        while let Some(path) =
            above.filter(|path| path.starts_with(std::env::temp_dir()) && *path != std::env::temp_dir())
        {
            fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
            above = path.parent();
        }
        fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
        let make = |name: &str, mode: u32, user, group| {
            let path = folder.join(name);
            if mode & 0o1_000_000 == 0 {
                fs::write(&path, b"bytes").unwrap();
            } else {
                fs::create_dir(&path).unwrap();
            }
            std::os::unix::fs::chown(&path, Some(user), Some(group)).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(mode & 0o7777)).unwrap();
        };
        make("private", 0o600, 0, 0);
        make("by-group", 0o660, 0, 4242);
        make("set-id", 0o6777, 0, 0);
        for (name, group) in [("given", 4242), ("given-too", 4243)] {
            make(name, 0o2644, 4001, group);
            make(&format!("{name}-run"), 0o6755, 4001, group);
        }
        make("open", 0o1_000_777, 0, 0);
        make("of-group", 0o1_002_770, 0, 4242);
        make("sticky", 0o1_001_777, 0, 0);
        fs::write(folder.join("sticky/root's"), b"").unwrap();
        let lines = [
            "cat private",
            "cat by-group && echo more >> by-group",
            "echo x >> set-id; stat -c %a set-id",
            "umask 027; echo x > open/file; mkdir open/d; mkfifo open/p; ln -s t open/l; stat -c '%a %u %g' open/*",
            "echo x > of-group/file; stat -c '%a %u %g' of-group/file; mkdir of-group/d; stat -c '%a %u %g' of-group/d",
            "touch denied",
            "rm -f \"sticky/root's\"",
            "chmod 600 by-group",
            "chown 4001 by-group",
            "chgrp 4242 open/file && stat -c %g open/file",
            "ln by-group open/linked && rm open/linked",
            "chgrp 4001 given*; stat -c '%a %g' given*",
        ];
        lines.map(|line| as_user(folder, line))
    });
}

#[test]
fn a_write_takes_set_ids_from_those_whose_capabilities_do_not_keep_them() {
    everywhere("a_write_takes_set_ids_from_those_whose_capabilities_do_not_keep_them", |folder| {
        let path = |name: &str| folder.join(name);
        let left = |name: &str| fs::metadata(path(name)).unwrap().mode() & 0o7777;
        let open = |name: &str| OpenOptions::new().read(true).write(true).open(path(name)).unwrap();
        let made = OpenOptions::new().write(true).create_new(true).mode(0o4755).open(path("made")).unwrap();
        made.write_all_at(b"bytes", 0).unwrap();
        fs::write(path("from"), [1; 5000]).unwrap();
        let mut after = vec![left("made")];
        for bits in [0o4755, 0o2755, 0o6777, 0o2644] {
            fs::write(path("file"), [2; 5000]).unwrap();
            // A program may have it open for reading, and it may have been passed through before.
            let reader = File::open(path("file")).unwrap();
            let mut set = |act: &dyn Fn()| {
                fs::set_permissions(path("file"), PermissionsExt::from_mode(bits)).unwrap();
                act();
                after.push(left("file"));
            };
            set(&|| OpenOptions::new().append(true).open(path("file")).unwrap().write_all(b"more").unwrap());
            set(&|| open("file").write_all_at(b"bytes", 7).unwrap());
            set(&|| open("file").set_len(6000).unwrap());
            set(&|| fallocate(open("file"), FallocateFlags::empty(), 0, 9000).unwrap());
            set(&|| {
                copy_file_range(open("from"), None, open("file"), None, 5000).unwrap();
            });
            set(&|| drop(OpenOptions::new().write(true).truncate(true).open(path("file")).unwrap()));
            // Root without the one right that keeps them.
            set(&|| {
                let line = "echo more >> file && truncate -s 3 file";
                let done = Command::new("setpriv")
                    .args(["--bounding-set", "-fsetid", "sh", "-c", line])
                    .current_dir(folder)
                    .status()
                    .unwrap();
                assert!(done.success());
            });
            let mut bytes = [0; 3];
            reader.read_exact_at(&mut bytes, 0).unwrap();
        }
        after
    });
}

#[test]
fn set_user_id_programs_and_devices_work_only_if_they_are_allowed() {
    if !can_open("set_user_id_programs_and_devices_work_only_if_they_are_allowed") {
        return;
    }
    let mut stage = Stage::new();
    for path in [stage.folder.parent().unwrap(), &stage.folder] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    // By a process of its own: one that another test starts at this moment would hold a file of ours open, and no program runs that is written.
    assert!(Command::new("cp").arg("/usr/bin/id").arg(stage.folder.join("id")).status().unwrap().success());
    fs::set_permissions(stage.folder.join("id"), PermissionsExt::from_mode(0o4755)).unwrap();
    let null = rustix::fs::makedev(1, 3);
    mknodat(CWD, stage.folder.join("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o666), null).unwrap();
    let lines = |folder: &Path| ["./id -u", "cat null"].map(|line| as_user(folder, line));
    assert_eq!(lines(&stage.folder), ["exit status: 04001\n", "exit status: 1"]);
    stage.door().allow_set_ids_and_devices().unwrap();
    assert_eq!(lines(&stage.folder), ["exit status: 00\n", "exit status: 0"]);
    stage.succeed();
    assert_eq!(lines(&stage.folder), ["exit status: 00\n", "exit status: 0"]);
}

#[test]
fn what_is_open_stays_when_its_name_goes() {
    everywhere("what_is_open_stays_when_its_name_goes", |folder| {
        let path = |name: &str| folder.join(name);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path("file")).unwrap();
        file.write_all(b"bytes").unwrap();
        fs::create_dir(path("directory")).unwrap();
        let directory = File::open(path("directory")).unwrap();
        fs::remove_file(path("file")).unwrap();
        fs::remove_dir(path("directory")).unwrap();
        fs::write(path("file"), b"others").unwrap();
        file.write_all(b" and more").unwrap();
        file.set_permissions(PermissionsExt::from_mode(0o604)).unwrap();
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        let within = openat(&directory, c"new", OFlags::CREATE | OFlags::RDWR, Mode::from_raw_mode(0o600)).err();
        let metadata = file.metadata().unwrap();
        (text, within, metadata.nlink(), metadata.mode(), directory.metadata().unwrap().is_dir())
    });
}

#[test]
fn paths_may_be_deeper_than_the_longest_path() {
    everywhere("paths_may_be_deeper_than_the_longest_path", |folder| {
        let name = "d".repeat(200);
        let mut at: std::os::fd::OwnedFd = File::open(folder).unwrap().into();
        for _ in 0..40 {
            rustix::fs::mkdirat(&at, &name, Mode::from_raw_mode(0o755)).unwrap();
            at = openat(&at, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        let file = openat(&at, c"file", OFlags::CREATE | OFlags::RDWR, Mode::from_raw_mode(0o600)).unwrap();
        let done = rustix::io::write(&file, b"deep").unwrap();
        let above = openat(&at, c"../../..", OFlags::DIRECTORY, Mode::empty()).unwrap();
        let names = rustix::fs::Dir::read_from(&above).unwrap().count();
        // What removes it later knows long paths no better than others.
        Command::new("sh").args(["-c", "rm -rf d*"]).current_dir(folder).status().unwrap();
        (done, names, fs::read_dir(folder).unwrap().count())
    });
}
