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
    print(os.read(file, 100).decode() if file >= 0 else os.strerror(ctypes.get_errno()))
";

fn python(script: &str, arguments: &[&str]) -> Vec<String> {
    let done = Command::new("python3").arg("-c").arg(script).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn hold(test: &str, mkfs: &mut Command) {
    if !can_open(test) {
        return;
    }
    let Some(disk) = Disk::new(test, mkfs) else { return };
    let place = tempfile::tempdir().unwrap();
    let [folder] = folders(place.path(), ["at"]);
    let open = || Door::open(&disk.folder, &folder, Arc::new(AllHere)).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let door = open();
    fs::create_dir_all(path("a/b")).unwrap();
    for name in ["a/b/kept", "moved", "removed"] {
        fs::write(path(name), name).unwrap();
    }
    let handles = python(TAKE, &[&path("a/b/kept"), &path("moved"), &path("removed")]);
    drop(door);

    // While no service is there, and so that numbers of inodes are given again.
    let below = |name: &str| disk.folder.join(name);
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
fn handles_hold_over_a_restart_on_xfs() {
    hold("handles_hold_over_a_restart_on_xfs", Command::new("mkfs.xfs").arg("-q"));
}

#[test]
fn handles_hold_over_a_restart_on_btrfs() {
    hold("handles_hold_over_a_restart_on_btrfs", Command::new("mkfs.btrfs").arg("-q"));
}
