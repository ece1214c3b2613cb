//! Random operations through a door and on a bare directory, on every kind of file system that a destination may lie on.

mod stage;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ishigaki_testkit::seeded_runs;
use stage::steps::play;
use stage::{Disk, Stage, Stubs, can_open};

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
