//! What comes to the fast device by itself, what goes past it, and what leaves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::{AlignedBuffer, Device, Directory, MemoryDirectory};
use ishigaki_tier::{Eviction, Mode, OnDemand, Pool, Settings, Volume};

const MIB: u64 = 1 << 20;

/// A pool with that many slots, and a volume of 64 MiB.
fn pool(slots: u64, settings: &Settings) -> (Pool, Volume) {
    let (map, slow) = (MemoryDirectory::new(), MemoryDirectory::new());
    let fast = map.create("fast", (slots + 1) * MIB).expect("makes");
    let pool = Pool::open(Arc::new(map), fast, Arc::new(slow), None, settings).expect("opens");
    let volume = pool.create("volume", 64 * MIB, Mode::WriteBack).expect("makes");
    (pool, volume)
}

fn alone() -> Settings {
    Settings { background: false, ..Settings::default() }
}

fn read(volume: &Volume, offset: u64, length: usize) {
    volume.read_at(offset, &mut AlignedBuffer::zeroed(length)).expect("reads");
}

fn write(volume: &Volume, offset: u64, length: usize) {
    volume.write_at(offset, &AlignedBuffer::zeroed(length)).expect("writes");
}

#[test]
fn blocks_come_when_they_are_read_and_only_these() {
    let (pool, volume) = pool(4, &alone());
    read(&volume, 4096, 8192);
    assert_eq!((volume.reads().blocks, pool.figures().valid, pool.figures().dirty), ((0, 2), 8192, 0));
    read(&volume, 0, 16384);
    assert_eq!(volume.reads().blocks, (2, 4), "two were there");
    read(&volume, 0, 16384);
    assert_eq!(volume.reads().blocks, (6, 4));
    volume.sync().expect("syncs");
    let (pool, volume) = self::pool(4, &Settings { on_demand: OnDemand::Never, ..alone() });
    read(&volume, 4096, 8192);
    assert_eq!((volume.reads().blocks, pool.figures().valid), ((0, 2), 0));
    assert_eq!(volume.promote(4096, 8192).expect("comes"), 8192);
    read(&volume, 4096, 8192);
    assert_eq!(volume.reads().blocks, (2, 2));
}

#[test]
fn a_part_of_a_block_has_all_of_it_come() {
    let (pool, volume) = pool(4, &alone());
    let mut block = AlignedBuffer::zeroed(8192);
    block.iter_mut().zip(0_u32..).for_each(|(byte, at)| *byte = (at / 512) as u8);
    volume.write_at(8192, &block).expect("writes");
    pool.clean().expect("goes home");
    pool.detach("volume").expect("detaches");
    let volume = pool.attach("volume", Mode::WriteBack).expect("attaches");
    let mut some = AlignedBuffer::zeroed(4096);
    volume.read_at(8192 + 2048, &mut some).expect("reads");
    assert!(some.iter().zip(2048_u32..).all(|(&byte, at)| byte == (at / 512) as u8));
    assert_eq!(pool.figures().valid, 8192);
    volume.read_at(8192 + 2048, &mut some).expect("reads");
    assert!(some.iter().zip(2048_u32..).all(|(&byte, at)| byte == (at / 512) as u8));
    assert_eq!(volume.reads().blocks, (2, 2));
}

#[test]
fn a_long_stream_goes_past() {
    let settings = Settings { bypass: ByteSize::mib(2), ..alone() };
    let (pool, volume) = pool(32, &settings);
    for piece in 0..16 {
        read(&volume, piece * MIB / 2, MIB as usize / 2);
    }
    assert_eq!(pool.figures().valid, 3 * MIB / 2, "until it was a stream");
    for piece in 0..16 {
        write(&volume, 32 * MIB + piece * MIB / 2, MIB as usize / 2);
    }
    assert_eq!(pool.figures().dirty, 2 * MIB, "its chunks are there, or are not");
    // What is on the fast device is written there, or it would be read in its old state.
    write(&volume, 0, 4096);
    read(&volume, 0, 4096);
    assert_eq!(pool.figures().dirty, 2 * MIB + 4096);
    let settings = Settings { bypass: ByteSize(0), ..alone() };
    let (pool, volume) = self::pool(32, &settings);
    for piece in 0..16 {
        read(&volume, piece * MIB / 2, MIB as usize / 2);
    }
    assert_eq!(pool.figures().valid, 8 * MIB);
}

#[test]
fn a_scan_leaves_what_is_used_often() {
    let share = |eviction| {
        let (_pool, volume) = pool(16, &Settings { eviction, bypass: ByteSize(0), ..alone() });
        for round in 0..20 {
            for _ in 0..2 {
                (0..8).for_each(|chunk| read(&volume, chunk * MIB, 4096));
            }
            (0..16).for_each(|chunk| read(&volume, (16 + (round * 16 + chunk) % 48) * MIB, 4096));
        }
        volume.reads().blocks.0
    };
    let (lru, s3) = (share(Eviction::Lru), share(Eviction::S3Fifo));
    println!("blocks that were there: {lru} with LRU, {s3} with S3-FIFO, of {}", 20 * 2 * 8);
    assert!(s3 > lru * 3 / 2, "{s3} with S3-FIFO, {lru} with LRU");
}

#[test]
fn a_thread_keeps_slots_free_and_ends_with_the_pool() {
    let (pool, volume) = pool(16, &Settings::default());
    for chunk in 0..64 {
        write(&volume, chunk * MIB, 4096);
        let until = Instant::now() + Duration::from_secs(20);
        while pool.figures().used == 16 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(pool.figures().used < 16, "a slot becomes free after chunk {chunk}");
    }
    drop(pool);
    // Requests do its work themselves now.
    (0..64).for_each(|chunk| write(&volume, chunk * MIB + 4096, 4096));
    (0..64).for_each(|chunk| read(&volume, chunk * MIB, 8192));
    volume.sync().expect("syncs");
}

#[test]
fn nothing_leaves_for_what_is_read_where_another_one_knows_what_is_hot() {
    let (pool, volume) = pool(32, &Settings { on_demand: OnDemand::WhereFree, ..alone() });
    (0..10).for_each(|chunk| read(&volume, chunk * MIB, 4096));
    assert_eq!(pool.figures().used, 10, "there are enough that are free");
    assert_eq!(volume.promote(0, 30 * MIB).expect("comes"), 30 * MIB - 10 * 4096);
    let before = pool.figures().valid;
    for chunk in (40..60).chain(40..60) {
        read(&volume, chunk * MIB, 4096);
    }
    assert_eq!((pool.figures().used, pool.figures().valid), (30, before), "two are spared");
    // A chunk that has a slot has its blocks come to it, and a write gets one whatever leaves for it.
    (60..64).for_each(|chunk| write(&volume, chunk * MIB, 4096));
    read(&volume, 63 * MIB, 8192);
    assert_eq!(volume.here()[60..], [4096, 4096, 4096, 8192]);
}

#[test]
fn what_is_told_leaves_first_and_is_taken_home_before() {
    let (pool, volume) = pool(16, &alone());
    write(&volume, 5 * MIB, 4096);
    assert_eq!(volume.promote(0, 16 * MIB).expect("comes"), 16 * MIB - 4096);
    let told = [5, 11, 2];
    // They are used, and leave all the same.
    for chunk in told {
        read(&volume, u64::from(chunk) * MIB, 4096);
    }
    pool.give_up(told.iter().map(|&chunk| (&volume, chunk)));
    (40..43).for_each(|chunk| write(&volume, chunk * MIB, 4096));
    let gone: Vec<_> = (0..16).filter(|&chunk| volume.here()[chunk] == 0).collect();
    assert_eq!(gone, [2, 5, 11]);
    // What was told before counts no more, and what was asked for stays.
    pool.give_up([(&volume, 3), (&volume, 4)].into_iter());
    pool.give_up([(&volume, 7), (&volume, 8)].into_iter());
    volume.promote(7 * MIB, MIB).expect("is there");
    write(&volume, 50 * MIB, 4096);
    let gone: Vec<_> = [3, 4, 7, 8].into_iter().filter(|&chunk| volume.here()[chunk] == 0).collect();
    assert_eq!(gone, [8]);
}

#[test]
fn what_needs_the_fast_device_alone_is_told() {
    let (pool, volume) = pool(4, &alone());
    assert!(!volume.is_near(0, 4096, false) && !volume.is_near(0, 4096, true));
    read(&volume, 4096, 8192);
    assert!(volume.is_near(4096, 8192, false) && volume.is_near(8192, 512, false));
    assert!(!volume.is_near(0, 8192, false), "a part of it is on the slow one");
    assert!(volume.is_near(0, 8192, true), "a whole block needs nothing of what was there");
    assert!(!volume.is_near(4096, 512, true) && !volume.is_near(64 * MIB - 4096, 8192, true));
    assert!(!volume.is_near(u64::MAX - 4095, 4096, false));
    // The map says that they are as on the slow device: it has to be told otherwise before they are written.
    volume.sync().expect("syncs");
    assert!(!volume.is_near(4096, 4096, true) && volume.is_near(4096, 4096, false));
    write(&volume, 4096, 4096);
    assert!(volume.is_near(4096, 4096, true));
    let through = pool.create("through", MIB, Mode::WriteThrough).expect("makes");
    read(&through, 0, 4096);
    assert!(through.is_near(0, 4096, false) && !through.is_near(0, 4096, true));
}

#[test]
fn uses_of_chunks_are_counted() {
    let (_pool, volume) = pool(4, &alone());
    read(&volume, MIB - 4096, 8192);
    write(&volume, 5 * MIB, 12288);
    let uses: Vec<_> = volume
        .uses()
        .into_iter()
        // A little of them is forgotten already.
        .map(|(chunk, uses)| {
            (chunk, [uses.reads, uses.read_kib, uses.writes, uses.written_kib].map(|uses| uses.ceil() as u32))
        })
        .collect();
    assert_eq!(uses, [(0, [1, 4, 0, 0]), (1, [1, 4, 0, 0]), (5, [0, 0, 1, 12])]);
}

#[test]
fn what_is_read_comes_no_more_once_enough_was_written_for_the_day() {
    let (pool, volume) = pool(4, &Settings { endurance: Some(ByteSize::kib(48)), ..alone() });
    // An hour's part of it is half a block.
    read(&volume, 0, 4096);
    assert_eq!(volume.figures().valid, 4096);
    assert!(!pool.figures().may_come);
    read(&volume, 8192, 4096);
    assert_eq!(volume.promote(0, 16 * 4096).expect("is asked for"), 0);
    assert_eq!(volume.figures().valid, 4096);
    // A write is done whatever it costs.
    write(&volume, 16384, 4096);
    assert_eq!((volume.figures().dirty, pool.figures().written), (4096, 8192));
}
