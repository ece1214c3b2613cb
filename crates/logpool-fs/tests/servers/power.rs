//! The same servers on a disk that loses power: data, log and homes on an ext4 of an emulated drive, which forgets what was not
//! flushed. After each cut the file system is checked and mounted, the service rebuilds, the server recovers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::DriveSettings;
use ishigaki_emulate::EmulatedDisk;
use ishigaki_servers::{Ext4, Kind};
use ishigaki_testkit::chosen_seed;

use super::load::{self, Load};
use super::service::Service;
use super::{CLIENTS, server_in, user_of};

/// Power cuts of a server's disk.
const CUTS: u32 = 20;

/// Enough for a server, its log and its home.
const SIZE: ByteSize = ByteSize::gib(4);

/// A disk with a file system that is mounted.
struct Mounted {
    // In the order in which they go.
    ext4: Ext4,
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
        Self { ext4: Ext4::new(disk.device(), &root).unwrap(), disk }
    }

    /// Takes the file system away from a host whose programs are gone, brings the power back, and mounts it as a host does that
    /// starts.
    fn start_host_again(&self) {
        self.ext4.unmount().unwrap();
        self.disk.drive().restore_power();
        self.ext4.mend().unwrap();
        self.ext4.mount().unwrap();
    }
}

fn cut_again_and_again(kind: Kind, test: &str) {
    let Some(user) = user_of(kind, test) else { return };
    let seed = chosen_seed().unwrap_or_else(Seed::from_entropy);
    println!("ISHIGAKI_SEED={seed} replays what the cuts leave");
    let place = tempfile::tempdir().unwrap();
    let mounted = Mounted::new(place.path());
    let root = mounted.ext4.root();
    let server = server_in(root, kind, user);
    let mut service = Service::start(root, kind, user);
    server.make().unwrap();
    // Who makes a database in a hurry does not sync it.
    mounted.ext4.sync().unwrap();
    let mut running = server.start().unwrap();
    server.run_when_up(load::TABLE, &|| false).unwrap();
    let (mut acknowledged, mut sectors) = (Vec::new(), 0);
    for cut in 0..CUTS {
        let load = Load::start(&server, cut, CLIENTS);
        std::thread::sleep(Duration::from_millis(400 + u64::from(cut * 37 % 700)));
        sectors += mounted.disk.drive().cut_power(seed.derive(cut.into()));
        running.kill().unwrap();
        service.kill();
        service.unmount();
        acknowledged.extend(load.end());
        mounted.start_host_again();
        service.start_again();
        running = server.start().unwrap();
        let there = load::rows(&server);
        let lost: Vec<_> = acknowledged.iter().filter(|row| !there.contains(row)).collect();
        assert!(lost.is_empty(), "cut {cut} of {seed}: lost {lost:?} of {}", acknowledged.len());
    }
    println!("{kind}: {CUTS} cuts, {} rows acknowledged, all there; {sectors} sectors lost", acknowledged.len());
    assert!(acknowledged.len() > CUTS as usize, "there was a load");
    assert!(sectors > 0, "the cuts have lost what was not flushed");
    running.kill().unwrap();
    service.end();
}

#[test]
#[ignore = "takes minutes"]
fn postgresql_has_every_acknowledged_row_after_power_cuts_of_its_disk() {
    cut_again_and_again(Kind::PostgreSql, "postgresql_has_every_acknowledged_row_after_power_cuts_of_its_disk");
}

#[test]
#[ignore = "takes minutes"]
fn mariadb_has_every_acknowledged_row_after_power_cuts_of_its_disk() {
    cut_again_and_again(Kind::MariaDb, "mariadb_has_every_acknowledged_row_after_power_cuts_of_its_disk");
}
