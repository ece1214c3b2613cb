//! How large a pool may be: how long it takes to open, and what it takes of memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ishigaki_base::ByteSize;
use ishigaki_device::{AlignedBuffer, Device, Directory, FileDirectory};
use ishigaki_tier::{Figures, Memory, Mode, Pool, Settings};

const GIB: u64 = 1 << 30;

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let told = fs::read_to_string("/proc/self/statm").expect("Linux tells");
    told.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

fn open(map: &Path, slow: &Path, memory: &Memory) -> Pool {
    let directory = FileDirectory::open(map).expect("opens");
    let fast = directory.open("fast").expect("is there");
    let settings = Settings { log: ByteSize::mib(512), segment: ByteSize::mib(16), ..Settings::default() };
    let slow = FileDirectory::open(slow).expect("opens");
    Pool::open(Arc::new(directory), fast, Arc::new(slow), Some(memory), &settings).expect("opens")
}

#[test]
#[ignore = "long: a pool of 100 GiB, with a volume of 1 TiB, in sparse files"]
fn a_tebibyte_over_a_hundred_gibibytes_is_opened_soon_and_takes_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let (map, slow) = (folder.path().join("map"), folder.path().join("slow"));
    fs::create_dir_all(&map).expect("makes");
    fs::create_dir_all(&slow).expect("makes");
    for (path, length) in [(map.join("fast"), 100 * GIB), (slow.join("volume"), 1024 * GIB)] {
        fs::File::create(path).and_then(|file| file.set_len(length)).expect("a sparse file");
    }
    let remembered = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let memory = Memory::in_folder(remembered.path());
    let pool = open(&map, &slow, &memory);
    let volume = pool.attach("volume", Mode::WriteBack).expect("attaches");
    let slots = pool.figures().slots;
    let block = AlignedBuffer::zeroed(4096);
    for slot in 0..slots - 100 {
        // Every tenth chunk, dirty ones among clean ones.
        let offset = slot * 10 * (1 << 20);
        if slot % 2 == 0 {
            volume.write_at(offset, &block).expect("writes");
        } else {
            volume.promote(offset, 4096).expect("comes");
        }
    }
    volume.sync().expect("syncs");
    let held = pool.figures();
    drop((volume, pool));
    let (before, began) = (resident(), Instant::now());
    let pool = open(&map, &slow, &memory);
    let volume = pool.volume("volume").expect("is there");
    volume.read_at(0, &mut AlignedBuffer::zeroed(4096)).expect("reads");
    let took = began.elapsed();
    let memory = resident().saturating_sub(before);
    println!("opened in {took:?}; {} of memory; {held:?}", ByteSize(memory));
    let what_is_there = |figures: &Figures| (figures.used, figures.valid, figures.dirty);
    assert_eq!(what_is_there(&pool.figures()), what_is_there(&held));
    assert!(took.as_secs_f64() < 2.0, "opened in {took:?}");
    assert!(memory <= 1024 * GIB / 10_000 + (64 << 20), "{} of memory", ByteSize(memory));
}
