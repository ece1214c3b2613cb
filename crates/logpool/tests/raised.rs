//! Limits that change while a pool is open, and space that is taken before it is needed.

mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{
    Device, Directory, DirectoryLock, Error as DeviceError, Fault, FileDirectory, MemoryDirectory, MemorySettings,
    SimDirectory,
};
use ishigaki_logpool::{Durability, Error, Pool, Profile, Quota, Settings, verify};

use stage::{Apart, member, memory, quota, small};

/// A pool with a small log, whose space and whose homes' is taken at once.
fn reserving() -> Settings {
    Settings { reserve: true, ..small(false) }
}

#[test]
fn a_member_that_was_refused_goes_on_when_its_limits_are_raised_and_keeps_them() {
    for reserve in [false, true] {
        let directory = memory();
        let settings = Settings { reserve, ..small(false) };
        let pool = Pool::open_together(directory.clone(), settings.clone()).unwrap();
        let a = pool.add("a", member(Profile::GENERIC)).unwrap();
        let file = a.create("f").unwrap();
        file.write(0, &vec![7; 1 << 20], Durability::Now).unwrap();
        assert!(matches!(file.write(1 << 20, b"x", Durability::Now), Err(Error::Full { .. })));
        (0..7).for_each(|number| drop(a.create(&number.to_string()).unwrap()));
        assert!(matches!(a.create("eight"), Err(Error::Full { .. })));

        // So many that the ledgers have to grow, too.
        let more = Quota { share: ByteSize::kib(256), home: ByteSize::mib(64), files: 5000 };
        assert_eq!(pool.set_quota("a", more).unwrap(), quota());
        assert_eq!(a.quota(), more);
        file.write(1 << 20, &vec![8; 30 << 20], Durability::Now).unwrap();
        (8..900).for_each(|number| drop(a.create(&format!("{number}{}", "-".repeat(200))).unwrap()));
        pool.bring_home().unwrap();
        drop(file);
        pool.close().unwrap();
        let homes = Apart::of(vec![("a", directory.clone())]);
        assert_eq!(verify(directory.as_ref(), homes.as_ref()).unwrap().problems, [""; 0]);
        let pool = Pool::open_together(directory, settings).unwrap();
        let a = pool.member("a").unwrap();
        assert_eq!((a.quota(), a.statistics().files), (more, 900));
        assert_eq!(a.open("f").unwrap().length().unwrap(), 31 << 20);
    }
}

#[test]
fn limits_are_lowered_to_what_is_there_and_not_below() {
    let directory = memory();
    let pool = Pool::open_together(directory.clone(), small(false)).unwrap();
    let (a, _b) = (pool.add("a", member(Profile::GENERIC)).unwrap(), pool.add("b", member(Profile::GENERIC)).unwrap());
    let file = a.create("f").unwrap();
    file.write(0, &vec![7; 300_000], Durability::Later).unwrap();
    for (wanted, words) in [
        (Quota { home: ByteSize::kib(256), ..quota() }, "files of 320.0 KiB"),
        (Quota { share: ByteSize::mib(2), ..quota() }, "more than a quarter of the log"),
        (Quota { share: ByteSize::kib(4), ..quota() }, "a member's share is"),
        (Quota { files: 0, ..quota() }, "1 to 65536 files"),
    ] {
        let error = pool.set_quota("a", wanted).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(words), "{error}");
        assert_eq!(a.quota(), quota(), "as before");
    }
    assert!(matches!(pool.set_quota("c", quota()), Err(Error::NotFound { .. })));
    let less = Quota { share: ByteSize::kib(64), home: ByteSize::kib(320), files: 1 };
    pool.set_quota("a", less).unwrap();
    assert!(matches!(file.write(327_680, b"x", Durability::Now), Err(Error::Full { .. })));
    assert!(matches!(a.create("g"), Err(Error::Full { .. })));
    file.write(0, &vec![9; 300_000], Durability::Now).unwrap();
    drop((file, a));
    pool.close().unwrap();
    assert_eq!(Pool::open_together(directory, small(false)).unwrap().member("a").unwrap().quota(), less);
}

/// Lowers the limits of a member, after what makes room for that and is not durable yet, and raises them. Gives whether both
/// were answered for.
fn lower_and_raise(medium: &SimDirectory, cut: Option<u64>) -> bool {
    let pool = Pool::open_together(Arc::new(medium.clone()), reserving()).unwrap();
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    let (big, little) = (a.create("big").unwrap(), a.create("little").unwrap());
    big.write(0, &vec![7; 900_000], Durability::Now).unwrap();
    little.write(0, &vec![8; 70_000], Durability::Now).unwrap();
    pool.bring_home().unwrap();
    drop(big);
    a.remove("big").unwrap();
    if let Some(cut) = cut {
        medium.inject(Fault::PowerCut { operation: medium.operations() + cut });
    }
    pool.set_quota("a", less()).and_then(|_| pool.set_quota("a", more())).is_ok()
}

fn less() -> Quota {
    Quota { home: ByteSize::kib(128), files: 2, ..quota() }
}

fn more() -> Quota {
    Quota { home: ByteSize::mib(8), files: 4000, ..quota() }
}

#[test]
fn limits_that_change_while_the_power_goes_are_the_old_ones_or_the_new_ones_and_what_is_there_fits() {
    let name = "limits_that_change_while_the_power_goes_are_the_old_ones_or_the_new_ones_and_what_is_there_fits";
    ishigaki_testkit::seeded_runs(name, 2, |seed| {
        for cut in 0.. {
            let medium = SimDirectory::with_seed(seed);
            let is_done = lower_and_raise(&medium, Some(cut));
            assert!(cut > 20 || !is_done, "{cut} operations");
            for survivor in 0..3 {
                let survivors = medium.survivors(seed.derive(cut << 2 | survivor));
                let pool = Pool::open_together(Arc::new(survivors), reserving()).unwrap();
                let a = pool.member("a").unwrap();
                let found = a.quota();
                assert!([quota(), less(), more()].contains(&found), "cut {cut}: {found:?}");
                assert!(!is_done || found == more(), "cut {cut}: {found:?}");
                assert_eq!(a.open("little").unwrap().length().unwrap(), 70_000);
                let more_files = (0..4).try_for_each(|number| a.create(&number.to_string()).map(drop));
                assert_eq!(more_files.is_ok(), found != less(), "cut {cut}");
            }
            if is_done {
                break;
            }
        }
    });
}

/// A medium that says how little room it has, and counts what is made there all the same.
#[derive(Debug)]
struct Narrow {
    inner: MemoryDirectory,
    room: u64,
    made: AtomicU64,
}

impl Directory for Narrow {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>, DeviceError> {
        self.inner.create(name, length)
    }

    fn reserve(&self, name: &str, length: u64) -> Result<Arc<dyn Device>, DeviceError> {
        self.made.fetch_add(1, Ordering::Relaxed);
        self.inner.reserve(name, length)
    }

    fn room(&self) -> Result<Option<u64>, DeviceError> {
        Ok(Some(self.room))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>, DeviceError> {
        self.inner.open(name)
    }

    fn list(&self) -> Result<Vec<String>, DeviceError> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DeviceError> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), DeviceError> {
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.inner.sync()
    }

    fn lock(&self) -> Result<DirectoryLock, DeviceError> {
        self.inner.lock()
    }
}

#[test]
fn more_than_the_medium_has_room_for_is_refused_before_anything_of_it_is_made() {
    let narrow = |room: ByteSize| {
        let (inner, made) = (MemoryDirectory::new(), AtomicU64::new(0));
        Arc::new(Narrow { inner, room: room.0, made })
    };
    let directory = narrow(ByteSize::mib(1));
    let refused = Pool::open_together(directory.clone(), reserving());
    assert!(matches!(refused, Err(Error::NoRoom { .. })), "{refused:?}");
    assert_eq!(directory.made.load(Ordering::Relaxed), 0, "the log");

    let directory = narrow(ByteSize::mib(3));
    let pool = Pool::open_together(directory.clone(), reserving()).unwrap();
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    let before = directory.made.load(Ordering::Relaxed);
    let refused = pool.set_quota("a", Quota { home: ByteSize::gib(1), ..quota() });
    assert!(matches!(&refused, Err(Error::Full { .. })), "{refused:?}");
    assert_eq!((a.quota(), directory.made.load(Ordering::Relaxed)), (quota(), before), "the home");
}

#[test]
fn space_that_was_reserved_is_there_however_full_the_medium_gets() {
    let narrow = MemorySettings { capacity: Some(ByteSize::mib(6)), ..MemorySettings::default() };
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::with(narrow));
    let pool = Pool::open_together(directory.clone(), reserving()).unwrap();
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    // One that does not fit leaves nothing behind, and the others as they are.
    let wide = Quota { home: ByteSize::mib(8), ..quota() };
    for refused in [
        pool.add("b", ishigaki_logpool::MemberSettings { profile: Profile::GENERIC, quota: wide }).map(drop),
        pool.set_quota("a", wide).map(drop),
    ] {
        assert!(matches!(&refused, Err(Error::Full { .. })), "{refused:?}");
    }
    assert_eq!(a.quota(), quota());
    // A neighbour takes all the rest.
    let mut neighbours = 0;
    while directory.create(&format!("neighbour-{neighbours}"), 4096).is_ok() {
        neighbours += 1;
    }
    assert!(neighbours > 10, "{neighbours}");
    let file = a.create("f").unwrap();
    for turn in 0..40_u8 {
        let mut bytes = vec![0; 1 << 20];
        Seed(turn.into()).generator().fill(&mut bytes);
        file.write(0, &bytes, Durability::Now).unwrap();
    }
    pool.bring_home().unwrap();
    drop((file, a));
    pool.close().unwrap();
    let pool = Pool::open_together(directory, reserving()).unwrap();
    assert_eq!(pool.member("a").unwrap().open("f").unwrap().length().unwrap(), 1 << 20);
}

#[test]
fn a_new_pool_without_room_for_its_log_is_refused_and_one_that_is_there_opens() {
    let narrow = MemorySettings { capacity: Some(ByteSize::mib(1)), ..MemorySettings::default() };
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::with(narrow));
    let error = Pool::open_together(directory.clone(), reserving()).unwrap_err();
    assert!(error.kind() == ErrorKind::Exhausted && error.to_string().contains("the log may take 2.0 MiB"), "{error}");
    Pool::open_together(directory.clone(), small(false)).unwrap().close().unwrap();
    // It was made without, and goes on so.
    Pool::open_together(directory, reserving()).unwrap().close().unwrap();
}

#[test]
fn what_is_reserved_is_taken_on_a_disk_and_reads_as_zeros() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let directory = FileDirectory::open(folder.path()).unwrap();
    let device = directory.reserve("wide", 8 << 20).unwrap();
    let metadata = std::fs::metadata(folder.path().join("wide")).unwrap();
    assert_eq!((device.len(), metadata.len()), (8 << 20, 8 << 20));
    assert!(metadata.blocks() * 512 >= 8 << 20, "{} blocks", metadata.blocks());
    let mut bytes = ishigaki_device::AlignedBuffer::zeroed(8 << 20);
    bytes.fill(1);
    device.read_at(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0));
    assert!(directory.reserve("wide", 4096).is_err(), "the name is taken");
}
