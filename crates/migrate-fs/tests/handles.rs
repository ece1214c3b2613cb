//! File handles, by which servers of NFS know objects, hold when the service was started anew.

mod stage;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ishigaki_migrate_fs::{AllHere, Door};
use stage::{Disk, can_open, folders};

/// Prints the handle of each path.
const TAKE: &str = "
import ctypes, sys
for path in sys.argv[1:]:
    handle = (ctypes.c_ubyte * 136)(128)
    mount = ctypes.c_int()
    if ctypes.CDLL(None).name_to_handle_at(-100, path.encode(), handle, ctypes.byref(mount), 0) < 0:
        sys.exit('no handle of ' + path)
    print(bytes(handle).hex())
";

/// Reads what each handle leads to.
const USE: &str = "
import ctypes, os, sys
library = ctypes.CDLL(None, use_errno=True)
mount = os.open(sys.argv[1], os.O_RDONLY)
for handle in sys.argv[2:]:
    bytes_ = (ctypes.c_ubyte * 136).from_buffer_copy(bytes.fromhex(handle))
    file = library.open_by_handle_at(mount, bytes_, os.O_RDONLY)
    try:
        print(os.read(file, 100).decode() if file >= 0 else os.strerror(ctypes.get_errno()))
    except IsADirectoryError as error:
        print(error.strerror)
";

fn python(script: &str, arguments: &[&str]) -> Vec<String> {
    let done = Command::new("python3").arg("-c").arg(script).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// A handle for the door, of the object that has that handle on ext4 below it.
const FORGE: &str = "
import struct, sys
size, kind, number, generation = struct.unpack_from('<iiII', bytes.fromhex(sys.argv[1]))
assert (size, kind) == (8, 1), 'not of ext4'
print(struct.pack('<iiIII', 12, 0x81, 0, number, generation).ljust(136, bytes(1)).hex())
";

/// With a destination that is the whole of a file system, and with one that is a part of it.
fn hold(test: &str, mkfs: &mut Command) {
    if !can_open(test) {
        return;
    }
    let Some(disk) = Disk::new(test, mkfs) else { return };
    let [part] = folders(&disk.folder, ["part"]);
    hold_of(&part);
    hold_of(&disk.folder);
}

fn hold_of(destination: &Path) {
    let place = tempfile::tempdir().unwrap();
    let [folder] = folders(place.path(), ["at"]);
    let open = || Door::open(destination, &folder, Arc::new(AllHere)).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let door = open();
    fs::create_dir_all(path("a/b")).unwrap();
    for name in ["a/b/kept", "moved", "removed"] {
        fs::write(path(name), name).unwrap();
    }
    let handles = python(TAKE, &[&path("a/b/kept"), &path("moved"), &path("removed")]);
    drop(door);

    // While no service is there, and so that numbers of inodes are given again.
    let below = |name: &str| destination.join(name);
    fs::remove_file(below("removed")).unwrap();
    fs::rename(below("moved"), below("a/elsewhere")).unwrap();
    for number in 0..20 {
        fs::write(below(&number.to_string()), "another").unwrap();
    }
    let _door = open();
    let at: &Path = &folder;
    let arguments: Vec<&str> =
        std::iter::once(at.to_str().unwrap()).chain(handles.iter().map(String::as_str)).collect();
    assert_eq!(python(USE, &arguments), ["a/b/kept", "moved", "Stale file handle"]);
}

#[test]
fn handles_hold_over_a_restart_on_ext4() {
    hold("handles_hold_over_a_restart_on_ext4", Command::new("mkfs.ext4").args(["-q", "-F"]));
}

#[test]
fn what_the_kernel_knows_beside_the_destination_is_not_reached_by_a_handle() {
    let name = "what_the_kernel_knows_beside_the_destination_is_not_reached_by_a_handle";
    if !can_open(name) {
        return;
    }
    let Some(disk) = Disk::new(name, Command::new("mkfs.ext4").args(["-q", "-F"])) else { return };
    let [destination, beside, within] = folders(&disk.folder, ["destination", "beside", "destination/within"]);
    let place = tempfile::tempdir().unwrap();
    let [folder] = folders(place.path(), ["at"]);
    let _door = Door::open(&destination, &folder, Arc::new(AllHere)).unwrap();
    let reached = |path: &Path| {
        let handle = python(TAKE, &[path.to_str().unwrap()]);
        let forged = python(FORGE, &[&handle[0]]);
        python(USE, &[folder.to_str().unwrap(), &forged[0]])[0].clone()
    };
    assert_eq!(reached(&within), "Is a directory", "the handle is one");
    assert_eq!(reached(&beside), "Stale file handle");

    for (directory, answer) in [(&within, "in it"), (&beside, "Stale file handle")] {
        let file = directory.join("file");
        fs::write(&file, "in it").unwrap();
        // While it is open, the kernel knows its name.
        let _open = fs::File::open(&file).unwrap();
        assert_eq!(reached(&file), answer, "{}", file.display());
    }
    // A name outside does not take a file from those that have another one inside.
    fs::write(beside.join("linked"), "linked").unwrap();
    fs::hard_link(beside.join("linked"), within.join("linked")).unwrap();
    let _open = fs::File::open(beside.join("linked")).unwrap();
    assert_eq!(reached(&beside.join("linked")), "linked");
}

#[test]
fn handles_hold_over_a_restart_on_xfs() {
    hold("handles_hold_over_a_restart_on_xfs", Command::new("mkfs.xfs").arg("-q"));
}

#[test]
fn handles_hold_over_a_restart_on_btrfs() {
    hold("handles_hold_over_a_restart_on_btrfs", Command::new("mkfs.btrfs").arg("-q"));
}
