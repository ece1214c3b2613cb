//! The destination on an emulated drive whose power is cut: what was not flushed may be gone. After each cut the file system is checked and mounted, as a
//! host does that starts, and the service goes on.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::ops::Not;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{DriveSettings, Medium, SsdSettings};
use ishigaki_emulate::EmulatedDisk;
use ishigaki_testkit::seeded;
use rustix::fs::OFlags;
use rustix::mount::{UnmountFlags, unmount};

use super::client::Keeps;
use super::journal::Journal;
use super::place::{Place, skip};
use super::service::Service;
use super::{CLIENTS, End, again_and_again, work};

/// Enough for each kind of file system, and for what clients make.
const SIZE: ByteSize = ByteSize::mib(640);
/// Longer than servers of other tests run.
const PATIENCE: Duration = Duration::from_mins(10);
const MANY: u32 = 20;
/// Bytes of the file that is written and not synced.
const CARELESS: usize = 64 << 10;
const PAGE: usize = 4096;

/// Makes a file system, and checks one: the program with its words.
struct Kind {
    make: &'static [&'static str],
    check: Option<&'static [&'static str]>,
    keeps: Keeps,
}

const EXT4: Kind = Kind {
    make: &["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    check: Some(&["fsck.ext4", "-p"]),
    keeps: Keeps::Synced,
};
const XFS: Kind = Kind { make: &["mkfs.xfs", "-q"], check: None, keeps: Keeps::Synced };
const BTRFS: Kind = Kind { make: &["mkfs.btrfs", "-q"], check: None, keeps: Keeps::SyncedAndOldNames };

/// A drive with a file system that is mounted.
struct Disk {
    root: PathBuf,
    kind: Kind,
    emulated: EmulatedDisk,
}

impl Disk {
    fn new(place: &Path, kind: Kind) -> Result<Self, String> {
        let (at, root) = (place.join("disk"), place.join("root"));
        for folder in [&at, &root] {
            fs::create_dir(folder).unwrap();
        }
        // It takes hardly any time: this is not about time.
        let instant = Duration::from_micros(1);
        let ssd = SsdSettings { program: instant, read: instant, sync: instant, ..SsdSettings::default() };
        let settings = DriveSettings::new(Medium::Ssd(ssd), SIZE);
        let emulated = EmulatedDisk::new(settings, &at).map_err(|error| error.to_string())?;
        let disk = Self { root, kind, emulated };
        disk.run(disk.kind.make, 0)?;
        disk.mount()?;
        File::create(disk.careless()).unwrap().write_all(&vec![0; CARELESS]).unwrap();
        File::open(disk.careless()).unwrap().sync_all().unwrap();
        Ok(disk)
    }

    /// A file beside the migration, which a program writes and does not sync.
    fn careless(&self) -> PathBuf {
        self.root.join("careless")
    }

    /// Cuts the power while a program overwrites a file without syncing it, so that the drive has always something to lose; how many
    /// sectors have lost what was written last.
    fn cut_power(&self, moment: Seed) -> u64 {
        let file =
            OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(self.careless());
        let (file, written) = (file.unwrap(), AtomicU8::new(0));
        // Past the page cache, which takes a buffer that begins at a page.
        let mut room = vec![0; CARELESS + PAGE];
        let begin = room.as_ptr().align_offset(PAGE);
        let bytes = &mut room[begin..begin + CARELESS];
        std::thread::scope(|scope| {
            let program = scope.spawn(|| {
                for byte in (1..=u8::MAX).cycle() {
                    bytes.fill(byte);
                    if file.write_all_at(bytes, 0).is_err() {
                        return;
                    }
                    written.store(byte, Ordering::Release);
                }
            });
            while written.load(Ordering::Acquire) == 0 {
                assert!(!program.is_finished(), "it writes until the power is cut");
                std::thread::sleep(Duration::from_millis(1));
            }
            self.emulated.drive().cut_power(moment)
        })
    }

    /// Runs a program on the drive, whose exit code is that at most; what it says.
    fn run(&self, words: &[&str], most: i32) -> Result<String, String> {
        let mut command = Command::new(words[0]);
        let done = command.args(&words[1..]).arg(self.emulated.device()).output();
        let done = done.map_err(|error| format!("{}: {error}", words[0]))?;
        let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        let is_done = done.status.code().is_some_and(|code| code <= most);
        if is_done { Ok(said) } else { Err(format!("{words:?}: {said}")) }
    }

    fn mount(&self) -> Result<(), String> {
        let done =
            Command::new("mount").arg(self.emulated.device()).arg(&self.root).output().map_err(|it| it.to_string())?;
        if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
    }

    /// Takes the file system away from a host whose programs are gone, brings the power back, and mounts it as a host does that starts.
    fn start_host_again(&self) {
        let began = Instant::now();
        while let Err(error) = unmount(&self.root, UnmountFlags::empty()) {
            assert!(began.elapsed() < PATIENCE, "{}: {error}", self.root.display());
            std::thread::sleep(Duration::from_millis(10));
        }
        // A program that has begun a mount namespace of its own meanwhile, as servers of other tests do, has the file system in it, too: what is mounted
        // then would be that of before the cut.
        while self.emulated.is_in_use() {
            assert!(began.elapsed() < PATIENCE, "{} is still mounted elsewhere", self.emulated.device().display());
            std::thread::sleep(Duration::from_millis(10));
        }
        // A program that looks through all block devices, as `mkfs.btrfs` does, keeps what the kernel remembers of this one while it has it open. A
        // host that starts remembers nothing. Without power there is nothing that could be written before it is forgotten.
        let _ = self.run(&["blockdev", "--flushbufs"], 0);
        self.emulated.drive().restore_power();
        if let Some(words) = self.kind.check {
            self.check(words);
        }
        self.mount().unwrap();
    }

    /// Has an ext4 checked as a host does that starts, or as a person does where the host asks for one and must.
    fn check(&self, words: &[&str]) {
        // 1: the checker has mended something.
        let said = match self.run(words, 1) {
            Ok(said) if !said.contains("corrupt") => return,
            Ok(said) | Err(said) => said,
        };
        assert!(Journal::of(self.emulated.device()).explains(&said), "{said}");
        println!("a torn commit block: {said}");
        self.run(&["fsck.ext4", "-f", "-y"], 1).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(&self.root, UnmountFlags::DETACH);
    }
}

/// Clients on the file system itself, without a migration: what they count on is what it keeps.
fn cut_bare(name: &str, ends: u32, kind: Kind) {
    seeded(name, |seed| {
        let Some(mut place) = Place::without_destination(name) else { return };
        let disk = match Disk::new(place.held.path(), kind) {
            Ok(disk) => disk,
            Err(reason) => return skip(name, &reason),
        };
        let mut random = seed.generator();
        place.fill(CLIENTS, &mut random);
        place.at = disk.root.join("bare");
        let copied = Command::new("cp").arg("-a").args([&place.old, &place.at]).status().unwrap();
        assert!(copied.success());
        rustix::fs::syncfs(File::open(&disk.root).unwrap()).unwrap();
        let mut clients = place.clients(CLIENTS, disk.kind.keeps, &mut random);
        for round in 1..=ends {
            work(&place, &mut clients, &mut random, Some(disk.emulated.drive()), || {
                disk.cut_power(seed.derive(round.into()));
            });
            disk.start_host_again();
            for client in &mut clients {
                client.look(&place.at, round == ends);
            }
        }
    });
}

fn cut(name: &str, ends: u32, kind: Kind) {
    seeded(name, |seed| {
        let Some(mut place) = Place::without_destination(name) else { return };
        // In the order in which they go.
        let disk = match Disk::new(place.held.path(), kind) {
            Ok(disk) => disk,
            Err(reason) => return skip(name, &reason),
        };
        place.new = disk.root.join("new");
        fs::create_dir(&place.new).unwrap();
        File::open(&disk.root).unwrap().sync_all().unwrap();
        if !place.is_fit(name) {
            return;
        }
        let (mut losses, at) = (Vec::new(), place.at.clone());
        let mut cut = |service: &mut Service, moment| {
            losses.push(disk.cut_power(moment));
            service.kill();
            // Clients get errors, and nothing below the folder holds the file system.
            let _ = unmount(&at, UnmountFlags::DETACH);
            // By some seeds a drive keeps everything, and a client may have synced just before.
            losses.ends_with(&[0]).not()
        };
        let mut how = End {
            ends: &mut cut,
            prepare: &|| disk.start_host_again(),
            drive: Some(disk.emulated.drive()),
            keeps: disk.kind.keeps,
        };
        again_and_again(name, ends, &mut place, seed, &mut how);
        println!("{name}: sectors that lost what was written last: {losses:?}");
    });
}

#[test]
fn a_power_cut_loses_nothing_that_was_synced() {
    cut("a_power_cut_loses_nothing_that_was_synced", 2, EXT4);
}

#[test]
#[ignore = "takes minutes"]
fn power_cuts_of_ext4_lose_nothing_that_was_synced() {
    cut("power_cuts_of_ext4_lose_nothing_that_was_synced", MANY, EXT4);
}

#[test]
#[ignore = "takes minutes"]
fn power_cuts_of_xfs_lose_nothing_that_was_synced() {
    cut("power_cuts_of_xfs_lose_nothing_that_was_synced", MANY, XFS);
}

#[test]
#[ignore = "takes minutes"]
fn power_cuts_of_btrfs_lose_nothing_that_was_synced() {
    cut("power_cuts_of_btrfs_lose_nothing_that_was_synced", MANY, BTRFS);
}

#[test]
#[ignore = "takes minutes"]
fn power_cuts_of_ext4_itself_lose_nothing_that_was_synced() {
    cut_bare("power_cuts_of_ext4_itself_lose_nothing_that_was_synced", MANY, EXT4);
}

#[test]
#[ignore = "takes minutes"]
fn power_cuts_of_xfs_itself_lose_nothing_that_was_synced() {
    cut_bare("power_cuts_of_xfs_itself_lose_nothing_that_was_synced", MANY, XFS);
}

#[test]
#[ignore = "takes minutes"]
fn power_cuts_of_btrfs_itself_lose_nothing_that_was_synced() {
    cut_bare("power_cuts_of_btrfs_itself_lose_nothing_that_was_synced", MANY, BTRFS);
}
