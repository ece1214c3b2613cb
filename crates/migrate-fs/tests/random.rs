//! Random operations through a door and on a bare directory, on every kind of file system that a destination may lie on.

mod stage;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ishigaki_testkit::seeded_runs;
use rustix::mount::{UnmountFlags, unmount};
use stage::steps::play;
use stage::{Stage, Stubs, can_open, folders};

fn stage(stubs: bool, place: Option<&Path>) -> Stage {
    let place = match place {
        Some(path) => tempfile::tempdir_in(path).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let stubs: Arc<dyn ishigaki_migrate_fs::Arrivals> =
        if stubs { Arc::new(Stubs::default()) } else { Arc::new(ishigaki_migrate_fs::AllHere) };
    Stage::within(place, stubs)
}

fn run(name: &str, runs: u64, (stubs, successions): (bool, usize), place: Option<&Path>) {
    seeded_runs(name, runs, |seed| play(&mut stage(stubs, place), seed, successions));
}

#[test]
fn random_steps_on_files_that_are_passed_through() {
    let name = "random_steps_on_files_that_are_passed_through";
    if can_open(name) {
        run(name, 10, (false, 0), None);
    }
}

#[test]
fn random_steps_on_files_that_are_served() {
    let name = "random_steps_on_files_that_are_served";
    if can_open(name) {
        run(name, 10, (true, 0), None);
    }
}

#[test]
fn random_steps_while_services_follow_each_other() {
    let name = "random_steps_while_services_follow_each_other";
    if can_open(name) {
        run(name, 6, (false, 5), None);
    }
}

#[test]
fn random_steps_on_stubs_while_services_follow_each_other() {
    let name = "random_steps_on_stubs_while_services_follow_each_other";
    if can_open(name) {
        run(name, 6, (true, 5), None);
    }
}

/// A file system in a file, mounted for as long as a test runs.
struct Disk {
    folder: PathBuf,
    _place: tempfile::TempDir,
}

impl Disk {
    /// `None`, with the reason said, where it can not be had.
    fn new(test: &str, make: &mut Command) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let image = place.path().join("image");
        File::create(&image).unwrap().set_len(400 << 20).unwrap();
        let [folder] = folders(place.path(), ["disk"]);
        let is_made = make.arg(&image).output().is_ok_and(|done| done.status.success());
        let mounted = is_made
            && Command::new("mount")
                .args(["-o", "loop"])
                .args([&image, &folder])
                .status()
                .is_ok_and(|done| done.success());
        if !mounted {
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {make:?} or mounting it fails");
            return None;
        }
        Some(Self { folder, _place: place })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(&self.folder, UnmountFlags::DETACH);
    }
}

#[test]
fn random_steps_on_xfs() {
    let name = "random_steps_on_xfs";
    if can_open(name)
        && let Some(disk) = Disk::new(name, Command::new("mkfs.xfs").arg("-q"))
    {
        run(name, 3, (false, 5), Some(&disk.folder));
        run(name, 3, (true, 5), Some(&disk.folder));
    }
}

#[test]
fn random_steps_on_btrfs() {
    let name = "random_steps_on_btrfs";
    if can_open(name)
        && let Some(disk) = Disk::new(name, Command::new("mkfs.btrfs").arg("-q"))
    {
        run(name, 3, (false, 5), Some(&disk.folder));
        run(name, 3, (true, 5), Some(&disk.folder));
    }
}
