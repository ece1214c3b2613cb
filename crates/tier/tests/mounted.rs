//! A file system on a tiered volume, by a block device of the host: what a program has synced is there after the power was cut, and the volume's slow
//! device is a plain one when it is detached.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_device::{Directory, Fault, FileDirectory, SimDirectory};
use ishigaki_emulate::BlockDevice;
use ishigaki_testkit::seeded_runs;
use ishigaki_tier::{Mode, Pool, Settings, Volume};

const MIB: u64 = 1 << 20;
const FAST: u64 = 12 * MIB;
const LENGTH: u64 = 64 * MIB;

/// Says why a test does nothing, or nothing if it can mount.
fn can_mount(test: &str) -> bool {
    let is_there = |path: &str| OpenOptions::new().read(true).write(true).open(path).is_ok();
    let reason = if !rustix::process::geteuid().is_root() {
        "it takes root".to_owned()
    } else if let Some(device) = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|device| !is_there(device)) {
        format!("{device} can not be opened")
    } else if let Some(program) = ["/sbin/mkfs.ext4", "/sbin/e2fsck"].into_iter().find(|path| !Path::new(path).exists())
    {
        format!("there is no {program}")
    } else {
        return true;
    };
    // Past the capture of a test's output.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    false
}

/// A folder to mount on; what is mounted there goes with it.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["disk", "root"] {
            fs::create_dir(folder.path().join(name)).expect("makes");
        }
        Self(folder)
    }

    fn disk(&self) -> PathBuf {
        self.0.path().join("disk")
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    fn mount(&self, device: &Path, options: &str) {
        run("mount", &["-o", options, path(device), path(&self.root())]);
    }

    fn unmount(&self) {
        run("umount", &[path(&self.root())]);
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.root()).output();
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a text")
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("runs");
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Checks a file system that is not mounted: its journal is replayed, and then nothing is wrong.
fn check(device: &Path) {
    // 1 is that something was done.
    let replayed = Command::new("e2fsck").args(["-p", path(device)]).output().expect("runs");
    assert!(matches!(replayed.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&replayed.stdout));
    run("e2fsck", &["-fn", path(device)]);
}

/// Files that a program makes, replaces and deletes.
struct Work {
    random: fastrand::Rng,
    /// By name: what was synced, or nothing once it is being deleted.
    synced: BTreeMap<u32, Option<Vec<u8>>>,
}

impl Work {
    fn new(seed: Seed) -> Self {
        Self { random: seed.generator(), synced: BTreeMap::new() }
    }

    /// One step. Whether the file system still answers.
    fn step(&mut self, root: &Path) -> bool {
        let name = self.random.u32(0..40);
        let file = root.join(name.to_string());
        if self.random.u8(0..5) == 0 {
            // Whether it is there after a crash is open from here on.
            self.synced.insert(name, None);
            return fs::remove_file(&file).is_ok() || file.try_exists().is_ok_and(|is_there| !is_there);
        }
        let mut bytes = vec![0; self.random.usize(1..400_000)];
        self.random.fill(&mut bytes);
        let beside = root.join(format!("{name}.new"));
        let write = || {
            let mut made = File::create(&beside)?;
            made.write_all(&bytes)?;
            made.sync_all()?;
            fs::rename(&beside, &file)?;
            File::open(root)?.sync_all()
        };
        // Until it is answered, the old one or the new one may be there.
        self.synced.insert(name, None);
        let is_written = write().is_ok();
        if is_written {
            self.synced.insert(name, Some(bytes));
        }
        is_written
    }

    fn check(&self, root: &Path, what: &str) {
        for (name, bytes) in &self.synced {
            if let Some(bytes) = bytes {
                let found = fs::read(root.join(name.to_string()));
                assert!(found.is_ok_and(|found| found == *bytes), "{what}: file {name} of {} bytes", bytes.len());
            }
        }
    }
}

fn settings() -> Settings {
    Settings { background: false, ..Settings::default() }
}

fn open(medium: &SimDirectory) -> Pool {
    let directory: Arc<dyn Directory> = Arc::new(medium.clone());
    Pool::open(directory.clone(), directory.open("fast").expect("is there"), directory, None, &settings())
        .expect("opens")
}

fn block_device(volume: Volume, root: &Root) -> BlockDevice {
    BlockDevice::new(Arc::new(volume), &root.disk()).expect("attaches")
}

fn cut(seed: Seed) {
    let mut medium = SimDirectory::with_seed(seed);
    medium.create("fast", FAST).expect("makes");
    medium.sync().expect("syncs");
    let mode = [Mode::WriteBack, Mode::WriteThrough, Mode::ReadOnly][(seed.0 % 3) as usize];
    let root = Root::new();
    {
        let pool = open(&medium);
        let volume = pool.create("volume", LENGTH, mode).expect("makes");
        let device = block_device(volume, &root);
        run("mkfs.ext4", &["-q", "-F", path(device.path())]);
    }
    let mut work = Work::new(seed);
    for power in 0..3 {
        let pool = open(&medium);
        let device = block_device(pool.volume("volume").expect("is there"), &root);
        check(device.path());
        root.mount(device.path(), "discard,errors=remount-ro");
        work.check(&root.root(), &format!("{mode} after cut {power}"));
        let operation = medium.operations() + work.random.u64(1..1500);
        medium.inject(Fault::PowerCut { operation });
        let mut steps = 0;
        while steps < 400 && work.step(&root.root()) {
            steps += 1;
        }
        medium = medium.survivors(seed.derive(power));
        // What the kernel still has of it goes nowhere.
        let _ = Command::new("umount").arg(root.root()).output();
        drop((device, pool));
    }
    let pool = open(&medium);
    let device = block_device(pool.volume("volume").expect("is there"), &root);
    check(device.path());
    root.mount(device.path(), "ro");
    work.check(&root.root(), &format!("{mode} at the end"));
    root.unmount();
}

#[test]
fn what_a_program_has_synced_is_there_after_power_cuts() {
    let name = "what_a_program_has_synced_is_there_after_power_cuts";
    if can_mount(name) {
        seeded_runs(name, 3, cut);
    }
}

#[test]
#[ignore = "long: a hundred times three power cuts"]
fn a_hundred_times_three_power_cuts_under_a_file_system() {
    let name = "a_hundred_times_three_power_cuts_under_a_file_system";
    if can_mount(name) {
        seeded_runs(name, 100, cut);
    }
}

#[test]
fn a_detached_volume_is_a_plain_image_with_the_same_files() {
    let name = "a_detached_volume_is_a_plain_image_with_the_same_files";
    if !can_mount(name) {
        return;
    }
    let (root, folder) = (Root::new(), tempfile::tempdir().expect("a folder"));
    let (map, slow) = (folder.path().join("map"), folder.path().join("slow"));
    fs::create_dir(&map).expect("makes");
    fs::create_dir(&slow).expect("makes");
    // There is an image already.
    File::create(slow.join("image")).and_then(|image| image.set_len(LENGTH)).expect("makes");
    run("mkfs.ext4", &["-q", "-F", path(&slow.join("image"))]);
    let directory = FileDirectory::open(&map).expect("opens");
    let fast = directory.create("fast", FAST).expect("makes");
    let slow_directory = FileDirectory::open(&slow).expect("opens");
    let pool =
        Pool::open(Arc::new(directory), fast, Arc::new(slow_directory), None, &Settings::default()).expect("opens");
    let volume = pool.attach("image", Mode::WriteBack).expect("attaches");
    let device = block_device(volume.clone(), &root);
    root.mount(device.path(), "discard");
    let mut work = Work::new(Seed(5));
    (0..200).for_each(|step| assert!(work.step(&root.root()), "step {step}"));
    run("fstrim", &[path(&root.root())]);
    work.check(&root.root(), "mounted");
    root.unmount();
    assert!(!volume.dirty().is_empty());
    drop((device, volume));
    pool.detach("image").expect("detaches");
    drop(pool);
    run("e2fsck", &["-fn", path(&slow.join("image"))]);
    root.mount(&slow.join("image"), "loop,ro");
    work.check(&root.root(), "as a plain image");
    root.unmount();
}
