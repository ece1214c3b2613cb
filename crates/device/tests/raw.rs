//! Directories on one device: the power goes off at every operation, and a loop device stands for a disk.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_device::{
    AlignedBuffer, Device, Directory, Error, Fault, FileDevice, RawDirectory, Result, RingDevice, SECTOR, SimDirectory,
};

const LENGTH: u64 = 640 << 10;
const STEPS: usize = 60;
/// How many survivors of each cut are opened.
const SURVIVORS: u64 = 4;

/// Every name with the byte that fills its region, and the region's length.
type State = BTreeMap<String, (u8, u64)>;

/// What a run did before the power went off.
#[derive(Debug, Default)]
struct Past {
    /// As everyone saw it.
    visible: State,
    /// As the last sync that returned left it.
    synced: State,
    /// As a sync would have left it that did not return.
    syncing: Option<State>,
}

fn filled(byte: u8, length: u64) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(length as usize);
    buffer.fill(byte);
    buffer
}

fn chosen_seed() -> Option<Seed> {
    std::env::var("ISHIGAKI_SEED").ok().map(|seed| seed.parse().expect("ISHIGAKI_SEED is a number"))
}

/// Runs a check under several seeds, or the one that is asked for, and says which one failed.
fn seeded(runs: u64, check: impl Fn(Seed)) {
    let seeds = chosen_seed()
        .map_or_else(|| (0..runs).map(|run| Seed::from_entropy().derive(run)).collect(), |seed| vec![seed]);
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(seed))) {
            eprintln!("replay with ISHIGAKI_SEED={seed}");
            resume_unwind(panic);
        }
    }
}

/// Creates, renames, removes and syncs at random. A region is full of its byte, 0 or another, durably, before its name can
/// be durable.
fn work(directory: &RawDirectory, seed: Seed, past: &mut Past) -> Result<()> {
    let mut random = seed.generator();
    for step in 0..STEPS {
        let name = format!("n{}", random.u8(..6));
        match random.u8(..9) {
            0..3 => {
                let (byte, length) = (if random.bool() { step as u8 + 1 } else { 0 }, random.u64(1..24) * 1024);
                match directory.create(&name, length) {
                    Ok(device) => {
                        if byte > 0 {
                            device.write_durable(0, &filled(byte, length))?;
                        }
                        past.visible.insert(name, (byte, length));
                    }
                    Err(Error::AlreadyExists { .. } | Error::NoSpace { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            3 => {
                if past.visible.remove(&name).is_some() {
                    directory.remove(&name)?;
                }
            }
            4 | 5 => {
                if let Some(region) = past.visible.remove(&name) {
                    let to = format!("n{}", random.u8(..6));
                    directory.rename(&name, &to)?;
                    past.visible.insert(to, region);
                }
            }
            6 => {
                // Others' writes in flight are in nobody's way.
                if let Some(&(byte, length)) = past.visible.get(&name) {
                    directory.open(&name)?.write_at(0, &filled(byte, length))?;
                }
            }
            _ => {
                past.syncing = Some(past.visible.clone());
                directory.sync()?;
                past.synced = past.syncing.take().unwrap_or_default();
            }
        }
    }
    Ok(())
}

/// What a directory holds. Every region must be full of one byte.
fn state(directory: &RawDirectory) -> State {
    let names = directory.list().expect("listed");
    let region = |name: String| {
        let device = directory.open(&name).expect("a listed name");
        let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
        device.read_at(0, &mut bytes).expect("read");
        let first = bytes.first().copied().unwrap_or(0);
        assert!(bytes.iter().all(|byte| *byte == first), "{name} has foreign bytes");
        (name, (first, device.len()))
    };
    names.into_iter().map(region).collect()
}

#[test]
fn wherever_the_power_goes_off_the_last_sync_is_kept() {
    let torn = Cell::new(0);
    seeded(5, |seed| {
        let whole = SimDirectory::with_seed(seed);
        let directory = RawDirectory::format(whole.medium(LENGTH).expect("made")).expect("formatted");
        let first = whole.operations();
        work(&directory, seed, &mut Past::default()).expect("without a fault");
        for operation in first..whole.operations() {
            let sim = SimDirectory::with_seed(seed);
            let directory = RawDirectory::format(sim.medium(LENGTH).expect("made")).expect("formatted");
            sim.inject(Fault::PowerCut { operation });
            let mut past = Past::default();
            // The last operation may be a trim, which nobody waits for.
            let outcome = work(&directory, seed, &mut past);
            assert!(matches!(outcome, Ok(()) | Err(Error::PowerCut { .. })) && !sim.power_is_on(), "{operation}");
            for survival in 0..SURVIVORS {
                let survivors = sim.survivors(seed.derive(survival));
                let device = survivors.medium(LENGTH).expect("there");
                let directory = RawDirectory::open(Arc::clone(&device)).expect("one copy of the table is whole");
                let left = state(&directory);
                let kept = left == past.synced;
                torn.set(torn.get() + u32::from(!kept));
                assert!(kept || Some(&left) == past.syncing.as_ref(), "cut at {operation}: {left:?} of {past:?}");
                if survival % 2 == 0 {
                    goes_on(directory, device, left);
                } else {
                    drop((directory, device));
                    is_cut_again(&survivors, seed.derive(survival), &left);
                }
            }
        }
    });
    assert!(torn.get() > 0 || chosen_seed().is_some(), "no sync was cut after it had done its work");
}

/// The next sync is cut too, at its first or second operation.
fn is_cut_again(sim: &SimDirectory, seed: Seed, before: &State) {
    let directory = RawDirectory::open(sim.medium(LENGTH).expect("there")).expect("opened before");
    directory.create("another", 0).expect("created");
    let mut after = before.clone();
    after.insert("another".to_owned(), (0, 0));
    sim.inject(Fault::PowerCut { operation: sim.operations() + seed.0 % 2 });
    assert!(matches!(directory.sync(), Err(Error::PowerCut { .. })));
    for survival in 0..4 {
        let survivors = sim.survivors(seed.derive(survival));
        let directory = RawDirectory::open(survivors.medium(LENGTH).expect("there")).expect("one copy is whole");
        let left = state(&directory);
        assert!(left == *before || left == after, "{left:?} of {before:?}");
    }
}

/// What was found is used on: all free space is taken, and nobody loses anything.
fn goes_on(directory: RawDirectory, device: Arc<dyn Device>, mut expected: State) {
    for turn in 0..64 {
        let name = format!("more-{turn}");
        match directory.create(&name, 24 << 10) {
            Ok(device) => device.write_durable(0, &filled(200, 24 << 10)).expect("written"),
            Err(Error::NoSpace { .. }) => break,
            Err(error) => panic!("{error}"),
        }
        expected.insert(name, (200, 24 << 10));
    }
    directory.sync().expect("synced");
    assert_eq!(state(&directory), expected);
    drop(directory);
    assert_eq!(state(&RawDirectory::open(device).expect("opened")), expected);
}

#[test]
fn a_format_that_is_cut_leaves_a_directory_or_none() {
    seeded(2, |seed| {
        let prepare = || {
            let sim = SimDirectory::with_seed(seed);
            let directory = RawDirectory::format(sim.medium(LENGTH).expect("made")).expect("formatted");
            directory.create("old", 512).expect("created");
            directory.sync().expect("synced");
            sim
        };
        let whole = prepare();
        let first = whole.operations();
        RawDirectory::format_anyway(whole.medium(LENGTH).expect("there")).expect("without a fault");
        let mut none = 0;
        for operation in first..whole.operations() {
            let sim = prepare();
            sim.inject(Fault::PowerCut { operation });
            assert!(RawDirectory::format_anyway(sim.medium(LENGTH).expect("there")).is_err());
            for survival in 0..40 {
                let survivors = sim.survivors(seed.derive(survival));
                match RawDirectory::open(survivors.medium(LENGTH).expect("there")) {
                    Ok(directory) => {
                        let names = directory.list().expect("listed");
                        assert!(
                            names.is_empty() || (names == ["old"] && operation == first),
                            "{names:?} at {operation}"
                        );
                    }
                    Err(Error::Invalid { .. } | Error::Damaged { .. }) => none += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert!(none > 0);
    });
}

#[test]
fn threads_that_create_and_remove_beside_each_other_keep_their_regions() {
    let device = SimDirectory::with_seed(Seed(3)).medium(2 << 20).expect("made");
    let directory = RawDirectory::format(Arc::clone(&device)).expect("formatted");
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let directory = &directory;
            scope.spawn(move || {
                for turn in 0..20 {
                    let (name, byte) = (format!("t{thread}-{turn}"), thread * 20 + turn + 1);
                    directory
                        .create(&name, 8192)
                        .expect("created")
                        .write_durable(0, &filled(byte, 8192))
                        .expect("written");
                    if turn >= 3 {
                        directory.remove(&format!("t{thread}-{}", turn - 3)).expect("removed");
                    }
                    directory.sync().expect("synced");
                }
            });
        }
    });
    drop(directory);
    let left = state(&RawDirectory::open(device).expect("opened"));
    let bytes: Vec<u8> = left.values().map(|(byte, _)| *byte).collect();
    assert_eq!(bytes, [18, 19, 20, 38, 39, 40, 58, 59, 60, 78, 79, 80]);
}

/// Says that a test did not run. Past the test harness, which keeps to itself what passing tests print.
fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

/// A file as a block device, detached when dropped.
struct Loop {
    path: String,
    _file: tempfile::NamedTempFile,
}

impl Loop {
    fn attach(sector: usize) -> std::result::Result<Self, String> {
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        file.as_file().set_len(2 << 20).map_err(|error| error.to_string())?;
        let output = Command::new("losetup")
            .args(["--find", "--show", "--sector-size", &sector.to_string()])
            .arg(file.path())
            .output()
            .map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        Ok(Self { path: String::from_utf8_lossy(&output.stdout).trim().to_owned(), _file: file })
    }

    /// Opens the device in either way. A child that another test is starting may hold on to it for a moment.
    fn open(&self, by_ring: bool) -> Arc<dyn Device> {
        let open = || -> Result<Arc<dyn Device>> {
            if by_ring {
                return Ok(Arc::new(RingDevice::open_path(&self.path)?));
            }
            Ok(Arc::new(FileDevice::open_path(&self.path)?))
        };
        for _ in 0..1000 {
            match open() {
                Err(Error::Locked { .. }) => std::thread::sleep(std::time::Duration::from_millis(5)),
                Err(Error::NoRing { source, .. }) => {
                    skipped(&format!("no io_uring: {source}"));
                    return self.open(false);
                }
                opened => return opened.expect("opened"),
            }
        }
        panic!("{} stays locked", self.path);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

#[test]
fn a_block_device_keeps_a_directory() {
    for sector in [SECTOR, 4096] {
        let disk = match Loop::attach(sector) {
            Ok(disk) => disk,
            Err(reason) => {
                skipped(&format!("no loop device with sectors of {sector} bytes: {reason}"));
                continue;
            }
        };
        let directory = RawDirectory::format(disk.open(false)).expect("formatted");
        assert!(matches!(FileDevice::open_path(&disk.path), Err(Error::Locked { .. })), "it has one user");
        let large = directory.create("large", 1 << 20).expect("created");
        directory.create("small", 512).expect("created").write_durable(0, &filled(1, sector as u64)).expect("written");
        large.write_all_durable(&[(0, &filled(2, 1 << 19)), (1 << 19, &filled(2, 1 << 19))]).expect("written");
        directory.rename("small", "s").expect("renamed");
        directory.sync().expect("synced");
        directory.remove("large").expect("removed");
        drop((directory, large));
        let expected = State::from([("large".to_owned(), (2, 1 << 20)), ("s".to_owned(), (1, sector as u64))]);
        let directory = RawDirectory::open(disk.open(true)).expect("opened");
        assert_eq!(state(&directory), expected, "the removal was not synced");
        directory.remove("large").expect("removed");
        directory.sync().expect("synced");
        let again = directory.create("again", 1 << 20).expect("the space is free");
        let mut bytes = filled(9, 1 << 20);
        again.read_at(0, &mut bytes).expect("read");
        assert!(bytes.iter().all(|byte| *byte == 0), "what was there before is gone");
    }
}
