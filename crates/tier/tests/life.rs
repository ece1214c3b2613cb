//! Volumes come and go, are away, and fail alone.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ishigaki_base::ErrorKind;
use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, Device, Directory, Fault, MemoryDirectory, SimDirectory};
use ishigaki_tier::{Error, Mode, Pool, Settings, Volume};

const MIB: u64 = 1 << 20;

fn open(map: &Arc<dyn Directory>, fast: &str, slow: &Arc<dyn Directory>) -> ishigaki_tier::Result<Pool> {
    let settings = Settings { background: false, ..Settings::default() };
    Pool::open(map.clone(), map.open(fast)?, slow.clone(), None, &settings)
}

fn places() -> (Arc<dyn Directory>, Arc<dyn Directory>) {
    let map = MemoryDirectory::new();
    map.create("fast", 5 * MIB).expect("makes");
    (Arc::new(map), Arc::new(MemoryDirectory::new()))
}

fn write(volume: &Volume, offset: u64, value: u8) -> ishigaki_device::Result<()> {
    let mut block = AlignedBuffer::zeroed(4096);
    block.fill(value);
    volume.write_at(offset, &block)
}

fn read(device: &dyn Device, offset: u64) -> u8 {
    let mut block = AlignedBuffer::zeroed(4096);
    device.read_at(offset, &mut block).expect("reads");
    assert!(block.iter().all(|&byte| byte == block[0]));
    block[0]
}

#[test]
fn an_image_is_attached_in_place_and_detached_as_a_plain_device() {
    let (map, slow) = places();
    let image = slow.create("image", 4 * MIB).expect("makes");
    image.write_at(MIB, &AlignedBuffer::zeroed(4096)).expect("writes");
    let pool = open(&map, "fast", &slow).expect("opens");
    let volume = pool.attach("image", Mode::WriteBack).expect("attaches");
    for chunk in 0..4 {
        write(&volume, chunk * MIB + 8192, chunk as u8 + 1).expect("writes");
    }
    assert_eq!(read(&*image, 8192), 0, "it is on the fast device alone");
    assert_eq!(pool.figures().dirty, 4 * 4096);
    pool.detach("image").expect("detaches");
    for chunk in 0..4 {
        assert_eq!(read(&*image, chunk * MIB + 8192), chunk as u8 + 1);
    }
    let figures = pool.figures();
    assert_eq!((figures.used, figures.valid, figures.dirty), (0, 0, 0));
    assert!(matches!(pool.volume("image"), Err(Error::NotFound { .. })));
    assert!(write(&volume, 0, 1).is_err(), "a handle of a volume that is gone");
    drop(pool);
    let pool = open(&map, "fast", &slow).expect("opens");
    assert!(pool.volumes().is_empty());
    let volume = pool.attach("image", Mode::WriteThrough).expect("attaches again");
    assert_eq!(read(&volume, 3 * MIB + 8192), 4);
}

#[test]
fn a_volume_that_is_removed_leaves_room_for_others_and_a_new_one_of_its_name_is_zeros() {
    let (map, slow) = places();
    let pool = open(&map, "fast", &slow).expect("opens");
    for round in 1..4 {
        let volume = pool.create("scratch", 8 * MIB, Mode::WriteBack).expect("makes");
        for chunk in 0..8 {
            assert_eq!(read(&volume, chunk * MIB), 0);
            write(&volume, chunk * MIB, round).expect("writes");
        }
        volume.sync().expect("syncs");
        pool.remove("scratch").expect("removes");
        assert_eq!(pool.figures().used, 0);
        assert!(slow.list().expect("lists").is_empty());
    }
    assert!(pool.away().is_empty());
}

#[test]
fn a_volume_whose_slow_device_is_not_there_is_away_and_comes_back_with_what_it_had() {
    let (map, slow) = places();
    let pool = open(&map, "fast", &slow).expect("opens");
    let [one, other] = ["one", "other"].map(|name| pool.create(name, 2 * MIB, Mode::WriteBack).expect("makes"));
    write(&one, 0, 1).expect("writes");
    one.sync().expect("syncs");
    drop((one, other, pool));
    slow.rename("one", "elsewhere").expect("renames");
    let pool = open(&map, "fast", &slow).expect("opens");
    assert_eq!(pool.volumes(), ["other"]);
    assert_eq!(pool.away().into_iter().map(|away| away.name).collect::<Vec<_>>(), ["one"]);
    assert!(pool.volume("one").is_err() && pool.create("one", MIB, Mode::WriteBack).is_err());
    // The other one takes what slots there are, and none of those.
    let other = pool.volume("other").expect("is there");
    for chunk in 0..2 {
        write(&other, chunk * MIB, 2).expect("writes");
        other.sync().expect("syncs");
    }
    drop((other, pool));
    slow.rename("elsewhere", "one").expect("renames");
    let pool = open(&map, "fast", &slow).expect("opens");
    assert_eq!(read(&pool.volume("one").expect("is back"), 0), 1);
}

#[test]
fn another_pools_fast_device_is_refused_and_left_alone() {
    let (map, slow) = places();
    let pool = open(&map, "fast", &slow).expect("opens");
    let volume = pool.create("volume", MIB, Mode::WriteBack).expect("makes");
    write(&volume, 0, 7).expect("writes");
    volume.sync().expect("syncs");
    drop((volume, pool));
    map.create("blank", 5 * MIB).expect("makes");
    let error = open(&map, "blank", &slow).expect_err("has no header");
    assert!(matches!(error, Error::WrongFast { .. }) && error.kind() == ErrorKind::Corrupt, "{error}");
    // A new pool does not take what another one has.
    let (new_map, new_slow) = places();
    let settings = Settings::default();
    let fast = map.open("fast").expect("opens");
    let error = Pool::open(new_map.clone(), fast, new_slow, None, &settings).expect_err("is another pool's");
    assert!(matches!(error, Error::WrongFast { .. }), "{error}");
    let pool = open(&map, "fast", &slow).expect("opens");
    assert_eq!(read(&pool.volume("volume").expect("is there"), 0), 7);
    drop(pool);
    // Made smaller than what the map has there.
    map.create("short", 2 * MIB).expect("makes");
    assert!(open(&map, "short", &slow).is_err());
}

#[test]
fn what_can_not_be_is_refused_with_words() {
    let (map, slow) = places();
    let pool = open(&map, "fast", &slow).expect("opens");
    pool.create("volume", MIB, Mode::WriteBack).expect("makes");
    let refused = |made: ishigaki_tier::Result<Volume>, words: &str| {
        let error = made.expect_err("is refused");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    };
    refused(pool.create("volume", MIB, Mode::WriteBack), "already");
    refused(pool.create("other", 4097, Mode::WriteBack), "whole blocks");
    refused(pool.create("other", 0, Mode::WriteBack), "whole blocks");
    refused(pool.create("../other", MIB, Mode::WriteBack), "begin with a dot");
    refused(pool.attach("nothing", Mode::WriteBack), "no such device");
    assert!("write-around".parse::<Mode>().is_err());
    let settings = Settings { chunk: bytesize(3 * MIB), ..Settings::default() };
    assert!(Pool::open(places().0, map.open("fast").expect("opens"), slow.clone(), None, &settings).is_err());
    assert_eq!(slow.list().expect("lists"), ["volume"]);
}

fn bytesize(bytes: u64) -> ishigaki_base::ByteSize {
    ishigaki_base::ByteSize(bytes)
}

#[test]
fn a_failed_sync_of_the_fast_device_stops_those_whose_writes_it_may_have_lost_and_no_other() {
    let medium = SimDirectory::with_seed(Seed(1));
    medium.create("fast", 5 * MIB).expect("makes");
    medium.sync().expect("syncs");
    let directory: Arc<dyn Directory> = Arc::new(medium.clone());
    let pool = open(&directory, "fast", &directory).expect("opens");
    let [one, other, idle] =
        ["one", "other", "idle"].map(|name| pool.create(name, MIB, Mode::WriteBack).expect("makes"));
    write(&one, 0, 1).expect("writes");
    write(&other, 0, 2).expect("writes");
    medium.inject(Fault::SyncError { nth: medium.syncs() });
    one.sync().expect_err("the sync fails");
    let error = other.sync().expect_err("its write may be lost, whatever a later sync says");
    assert!(error.to_string().contains("has stopped"), "{error}");
    assert!(one.failure().is_some() && other.failure().is_some());
    write(&idle, 0, 3).expect("writes");
    idle.sync().expect("goes on");
    drop((one, other, idle, pool));
    let survivors: Arc<dyn Directory> = Arc::new(medium.survivors(Seed(2)));
    let pool = open(&survivors, "fast", &survivors).expect("opens");
    assert_eq!(read(&pool.volume("idle").expect("is there"), 0), 3);
    pool.volume("one").expect("is there again").sync().expect("goes on");
}

#[test]
fn the_log_of_the_map_stays_short() {
    let (map, slow) = places();
    let settings =
        Settings { log: bytesize(512 << 10), segment: bytesize(16 << 10), background: false, ..Settings::default() };
    let open = || Pool::open(map.clone(), map.open("fast").expect("opens"), slow.clone(), None, &settings);
    let pool = open().expect("opens");
    let volume = pool.create("volume", 16 * MIB, Mode::WriteBack).expect("makes");
    for round in 0..2000_u64 {
        write(&volume, round % 16 * MIB + round % 256 * 4096, round as u8).expect("writes");
        volume.sync().expect("syncs");
    }
    let taken: u64 = map.list().expect("lists").iter().map(|name| map.open(name).expect("opens").len()).sum();
    assert!(taken <= 5 * MIB + (600 << 10), "the map takes {taken} bytes with the fast device");
    drop((volume, pool));
    let volume = open().expect("opens").volume("volume").expect("is there");
    for round in 2000 - 16..2000_u64 {
        assert_eq!(read(&volume, round % 16 * MIB + round % 256 * 4096), round as u8);
    }
}

/// A device that fails from some moment on: at everything, or at one kind of operation.
#[derive(Debug)]
struct Failing {
    device: Arc<dyn Device>,
    fails: Arc<AtomicBool>,
    only: Option<&'static str>,
}

impl Failing {
    fn check(&self, operation: &'static str) -> ishigaki_device::Result<()> {
        if !self.fails.load(Ordering::Relaxed) || self.only.is_some_and(|only| only != operation) {
            return Ok(());
        }
        let source = io::Error::other("it was pulled out");
        Err(ishigaki_device::Error::Io { name: "fast".to_owned(), operation, source })
    }
}

impl Device for Failing {
    fn promise(&self) -> ishigaki_device::Promise {
        self.device.promise()
    }

    fn len(&self) -> u64 {
        self.device.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> ishigaki_device::Result<()> {
        self.check("read").and_then(|()| self.device.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> ishigaki_device::Result<()> {
        self.check("write").and_then(|()| self.device.write_at(offset, bytes))
    }

    fn sync(&self) -> ishigaki_device::Result<()> {
        self.check("sync").and_then(|()| self.device.sync())
    }

    fn trim(&self, offset: u64, length: u64) -> ishigaki_device::Result<()> {
        self.check("trim").and_then(|()| self.device.trim(offset, length))
    }
}

#[test]
fn without_the_fast_device_all_is_served_that_is_on_the_slow_one_too() {
    let (map, slow) = places();
    let fails = Arc::new(AtomicBool::new(false));
    let fast = Failing { device: map.open("fast").expect("opens"), fails: fails.clone(), only: None };
    let settings = Settings { background: false, ..Settings::default() };
    let pool = Pool::open(map.clone(), Arc::new(fast), slow.clone(), None, &settings).expect("opens");
    let [through, only, back] = [("through", Mode::WriteThrough), ("only", Mode::ReadOnly), ("back", Mode::WriteBack)]
        .map(|(name, mode)| pool.create(name, MIB, mode).expect("makes"));
    for volume in [&through, &only, &back] {
        (0..4).for_each(|block| write(volume, block * 4096, 1).expect("writes"));
        volume.promote(0, 4 * 4096).expect("comes");
        volume.sync().expect("syncs");
    }
    pool.clean().expect("goes home");
    write(&back, 8192, 2).expect("writes");
    write(&back, 12288, 2).expect("writes");
    back.sync().expect("syncs");
    write(&through, 0, 2).expect("writes");
    fails.store(true, Ordering::Relaxed);
    for volume in [&through, &only] {
        assert_eq!(read(volume, 4096), 1);
        write(volume, 4096, 3).expect("goes on");
        assert_eq!((read(volume, 4096), read(volume, 8192)), (3, 1));
        read(volume, 512 << 10);
        volume.sync().expect("the slow one has it");
        assert!(volume.dirty().is_empty() && volume.failure().is_none());
    }
    assert_eq!(read(&through, 0), 2);
    assert_eq!((read(&back, 0), read(&back, 4096)), (1, 1));
    let ranges: Vec<_> = back.dirty().iter().map(|range| (range.start, range.end)).collect();
    assert_eq!(ranges, [(8192, 16384)]);
    back.read_at(8192, &mut AlignedBuffer::zeroed(4096)).expect_err("it is nowhere else");
    write(&back, 0, 3).expect_err("it can not be told from what is there");
    drop((through, only, back, pool));
    // The device is there again, as it was.
    fails.store(false, Ordering::Relaxed);
    let pool = open(&map, "fast", &slow).expect("opens");
    let [through, only, back] = ["through", "only", "back"].map(|name| pool.volume(name).expect("is there"));
    assert_eq!((read(&through, 0), read(&through, 4096), read(&only, 4096)), (2, 3, 3));
    assert_eq!((read(&back, 0), read(&back, 8192), read(&back, 12288)), (1, 2, 2));
}

#[test]
fn what_a_failed_sync_may_have_lost_is_read_from_the_slow_device() {
    let (map, slow) = places();
    let fails = Arc::new(AtomicBool::new(false));
    let fast = Failing { device: map.open("fast").expect("opens"), fails: fails.clone(), only: Some("sync") };
    let settings = Settings { background: false, ..Settings::default() };
    let pool = Pool::open(map.clone(), Arc::new(fast), slow.clone(), None, &settings).expect("opens");
    let [one, other] = ["one", "other"].map(|name| pool.create(name, MIB, Mode::WriteThrough).expect("makes"));
    for volume in [&one, &other] {
        volume.promote(0, 8192).expect("comes");
        volume.sync().expect("syncs");
        write(volume, 0, 1).expect("writes");
        read(volume, 16384);
    }
    assert_eq!(pool.figures().valid, 2 * 12288);
    fails.store(true, Ordering::Relaxed);
    one.sync().expect("the slow one has it");
    assert_eq!(pool.figures().valid, 0, "of both");
    fails.store(false, Ordering::Relaxed);
    for volume in [&one, &other] {
        volume.sync().expect("syncs");
        let (_, misses) = volume.reads().blocks;
        assert_eq!((read(volume, 0), volume.reads().blocks.1), (1, misses + 1));
    }
}

#[test]
fn what_the_fast_device_did_not_take_is_not_read_there() {
    let (map, slow) = places();
    let fails = Arc::new(AtomicBool::new(false));
    let fast = Failing { device: map.open("fast").expect("opens"), fails: fails.clone(), only: Some("write") };
    let settings = Settings { background: false, ..Settings::default() };
    let pool = Pool::open(map.clone(), Arc::new(fast), slow.clone(), None, &settings).expect("opens");
    let volume = pool.create("volume", MIB, Mode::WriteThrough).expect("makes");
    volume.promote(0, 8192).expect("comes");
    fails.store(true, Ordering::Relaxed);
    write(&volume, 0, 1).expect("the slow one takes it");
    assert_eq!(read(&volume, 0), 1);
    assert_eq!(volume.promote(8192, 4096).expect("stays where it is"), 0);
    assert_eq!(pool.figures().valid, 4096);
}

#[test]
fn a_pinned_volume_stays_where_it_is_and_others_go_on() {
    let (map, slow) = places();
    let pool = open(&map, "fast", &slow).expect("opens");
    let pinned = pool.create("pinned", MIB, Mode::WriteBack).expect("makes");
    let other = pool.create("other", 16 * MIB, Mode::WriteBack).expect("makes");
    pool.pin("pinned", true).expect("there is room");
    let error = pool.pin("other", true).expect_err("there is none").to_string();
    assert!(error.contains("would be pinned"), "{error}");
    pinned.promote(0, MIB).expect("comes");
    let churn = |other: &Volume| {
        for chunk in 0..16 {
            other.write_at(chunk * MIB, &AlignedBuffer::zeroed(4096)).expect("writes");
        }
    };
    churn(&other);
    assert_eq!(pinned.figures().valid, MIB);
    assert_eq!(pinned.demote(&[0]).expect("is asked"), 0);
    pinned.sync().expect("syncs");
    drop((pinned, other, pool));

    let pool = open(&map, "fast", &slow).expect("opens");
    let (pinned, other) = (pool.volume("pinned").expect("is there"), pool.volume("other").expect("is there"));
    assert!(pinned.is_pinned() && !other.is_pinned());
    churn(&other);
    assert_eq!(pinned.figures().valid, MIB);
    assert!(pool.resize("pinned", 16 * MIB).expect_err("no room").to_string().contains("would be pinned"));
    pool.pin("pinned", false).expect("is done");
    churn(&other);
    churn(&other);
    assert_eq!(pinned.figures().valid, 0, "it left as others do");
}

#[test]
fn a_volume_that_was_away_comes_back_with_what_it_had() {
    let (map, slow) = places();
    let pool = open(&map, "fast", &slow).expect("opens");
    let mut page = AlignedBuffer::zeroed(4096);
    page.fill(7);
    for name in ["back", "gone", "kept"] {
        let volume = pool.create(name, MIB, Mode::WriteBack).expect("makes");
        volume.write_at(4096, &page).expect("writes");
        volume.sync().expect("syncs");
    }
    drop(pool);
    for name in ["back", "gone"] {
        slow.rename(name, &format!("{name}-hidden")).expect("is renamed");
    }
    let pool = open(&map, "fast", &slow).expect("opens");
    assert_eq!(pool.away().len(), 2);
    assert_eq!(pool.look_for_away(), [""; 0]);
    slow.rename("back-hidden", "back").expect("is renamed");
    assert_eq!(pool.look_for_away(), ["back"]);
    let volume = pool.volume("back").expect("is there");
    let mut found = AlignedBuffer::zeroed(4096);
    volume.read_at(4096, &mut found).expect("reads");
    assert_eq!(found[..], page[..]);
    // The other one is given up, and its slot is another's.
    let free = pool.free();
    pool.remove("gone").expect("is removed");
    assert_eq!((pool.away().len(), pool.free()), (0, free + 1));
    pool.detach("back").expect("goes home");
    drop((volume, pool));
    let pool = open(&map, "fast", &slow).expect("opens");
    assert_eq!((pool.volumes(), pool.away().len()), (vec!["kept".to_owned()], 0));
}
