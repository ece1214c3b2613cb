//! The same servers on a disk that loses power: data, log and homes on an ext4 of an emulated drive, which forgets what was not
//! flushed. After each cut the file system is checked and mounted, the service rebuilds, the server recovers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::DriveSettings;
use ishigaki_emulate::EmulatedDisk;
use ishigaki_testkit::chosen_seed;
use rustix::mount::{UnmountFlags, unmount};

use super::load::{self, Load};
use super::service::{self, Running, Service, until};
use super::{CLIENTS, Server, stage, user_of};

/// Power cuts of a server's disk.
const CUTS: u32 = 20;

/// Enough for a server, its log and its home.
const SIZE: ByteSize = ByteSize::gib(4);

/// A disk with a file system that is mounted.
struct Mounted {
    root: PathBuf,
    // Goes after the file system.
    disk: EmulatedDisk,
}

impl Mounted {
    fn new(place: &Path) -> Self {
        let (at, root) = (place.join("disk"), place.join("root"));
        for folder in [&at, &root] {
            fs::create_dir(folder).unwrap();
        }
        fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
        let disk = EmulatedDisk::new(DriveSettings::new("ssd".parse().unwrap(), SIZE), &at).unwrap();
        let mounted = Self { root, disk };
        assert!(mounted.done(Command::new("mkfs.ext4").arg("-q").arg("-F").arg(mounted.disk.device())));
        mounted.mount();
        mounted
    }

    fn done(&self, command: &mut Command) -> bool {
        let output = command.output().unwrap();
        if !output.status.success() {
            println!("{command:?} of {:?}: {}", self.disk, String::from_utf8_lossy(&output.stderr));
        }
        output.status.success()
    }

    fn mount(&self) {
        assert!(self.done(Command::new("mount").arg(self.disk.device()).arg(&self.root)));
    }

    /// Takes the file system away from a host whose programs are gone, brings the power back, and mounts it as a host does that
    /// starts.
    fn start_host_again(&self) {
        until("the file system does not go", &self.root, || unmount(&self.root, UnmountFlags::empty()).is_ok());
        self.disk.drive().restore_power();
        // Mended, and nothing to ask anybody about.
        let checked = Command::new("fsck.ext4").arg("-p").arg(self.disk.device()).output().unwrap();
        let said = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.code().is_some_and(|code| code <= 1), "{said}");
        self.mount();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.root, UnmountFlags::DETACH);
    }
}

fn cut_again_and_again<S: Server>(test: &str) {
    if !stage::can_mount(test) {
        return;
    }
    let Some(user) = user_of::<S>(test) else { return };
    let seed = chosen_seed().unwrap_or_else(Seed::from_entropy);
    println!("ISHIGAKI_SEED={seed} replays what the cuts leave");
    let place = tempfile::tempdir().unwrap();
    let mounted = Mounted::new(place.path());
    let root = mounted.root.as_path();
    let (data, log) = (service::folder(root, "data", user), service::folder(root, "log", user));
    let mut service = Service::start(root, S::PROFILE, user);
    S::make(&data, &log, user);
    // Who makes a database in a hurry does not sync it.
    assert!(mounted.done(Command::new("sync").arg("-f").arg(root)));
    let mut server = Running(S::start(&data, &log, user));
    load::run_when_up::<S>(&data, "create table told (client int not null, number int not null);");
    let (mut acknowledged, mut sectors) = (Vec::new(), 0);
    for cut in 0..CUTS {
        let load = Load::start::<S>(&data, cut, CLIENTS);
        std::thread::sleep(Duration::from_millis(400 + u64::from(cut * 37 % 700)));
        sectors += mounted.disk.drive().cut_power(seed.derive(cut.into()));
        server.kill();
        service.kill();
        service.unmount();
        acknowledged.extend(load.end());
        mounted.start_host_again();
        service.start_again();
        server = Running(S::start(&data, &log, user));
        let there = load::rows::<S>(&data);
        let lost: Vec<_> = acknowledged.iter().filter(|row| !there.contains(row)).collect();
        assert!(lost.is_empty(), "cut {cut} of {seed}: lost {lost:?} of {}", acknowledged.len());
    }
    println!("{}: {CUTS} cuts, {} rows acknowledged, all there; {sectors} sectors lost", S::NAME, acknowledged.len());
    assert!(acknowledged.len() > CUTS as usize, "there was a load");
    assert!(sectors > 0, "the cuts have lost what was not flushed");
    server.kill();
    service.end();
}

#[test]
#[ignore = "takes minutes"]
fn postgresql_has_every_acknowledged_row_after_power_cuts_of_its_disk() {
    cut_again_and_again::<super::postgresql::PostgreSql>(
        "postgresql_has_every_acknowledged_row_after_power_cuts_of_its_disk",
    );
}

#[test]
#[ignore = "takes minutes"]
fn mariadb_has_every_acknowledged_row_after_power_cuts_of_its_disk() {
    cut_again_and_again::<super::mariadb::MariaDb>("mariadb_has_every_acknowledged_row_after_power_cuts_of_its_disk");
}
