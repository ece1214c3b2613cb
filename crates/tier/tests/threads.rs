//! Threads at the same blocks, each with sectors of its own, while blocks come and go home; then the power is cut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, Device, Directory, Fault, Promise, SECTOR, SimDirectory};
use ishigaki_testkit::seeded_runs;
use ishigaki_tier::{BLOCK, Mode, Pool, Settings, Volume};

const CHUNK: u64 = 256 << 10;
const CHUNKS: u64 = 3;
const THREADS: u64 = 3;
/// Sectors of a chunk that are used: those of two blocks.
const SECTORS: u64 = 16;

fn open(medium: &SimDirectory) -> ishigaki_tier::Result<Pool> {
    let directory: Arc<dyn Directory> = Arc::new(medium.clone());
    let settings = Settings {
        chunk: ByteSize(CHUNK),
        log: ByteSize::kib(256),
        segment: ByteSize::kib(16),
        background: false,
        ..Settings::default()
    };
    let fast = Arc::new(Slowed(directory.open("fast")?));
    Pool::open(directory.clone(), fast, directory, None, &settings)
}

/// A device that takes its time, so that threads meet within its operations.
#[derive(Debug)]
struct Slowed(Arc<dyn Device>);

impl Device for Slowed {
    fn promise(&self) -> Promise {
        self.0.promise()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> ishigaki_device::Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> ishigaki_device::Result<()> {
        thread::sleep(Duration::from_micros(20));
        self.0.write_at(offset, bytes)?;
        thread::sleep(Duration::from_micros(20));
        Ok(())
    }

    fn sync(&self) -> ishigaki_device::Result<()> {
        self.0.sync()?;
        thread::sleep(Duration::from_micros(400));
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> ishigaki_device::Result<()> {
        self.0.trim(offset, length)
    }
}

/// What one thread knows of its sectors, by their places.
struct Own {
    now: BTreeMap<u64, u64>,
    after: BTreeMap<u64, BTreeSet<u64>>,
}

fn value(volume: &Volume, place: u64) -> Option<u64> {
    let mut sector = AlignedBuffer::zeroed(SECTOR);
    volume.read_at(place, &mut sector).ok()?;
    let mut words = sector.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
    let first = words.next()?;
    assert!(words.all(|word| word == first), "a sector at {place} is torn");
    Some(first)
}

fn places(thread: u64) -> impl Iterator<Item = u64> {
    let sectors = (0..CHUNKS).flat_map(|chunk| (0..SECTORS).map(move |sector| chunk * CHUNK + sector * SECTOR as u64));
    sectors.filter(move |place| place / SECTOR as u64 % THREADS == thread).chain(blocks(thread))
}

/// The first sectors of the blocks that a thread has for itself: one in each chunk.
fn blocks(thread: u64) -> impl Iterator<Item = u64> {
    (0..CHUNKS).map(move |chunk| chunk * CHUNK + SECTORS * SECTOR as u64 + thread * BLOCK)
}

/// Works until the power is cut, or for so many steps.
fn work(pool: &Pool, volume: &Volume, thread: u64, mut random: fastrand::Rng) -> Own {
    let mine: Vec<_> = places(thread).collect();
    let mut own = Own {
        now: mine.iter().map(|&place| (place, 0)).collect(),
        after: mine.iter().map(|&place| (place, BTreeSet::from([0]))).collect(),
    };
    for step in 1..150_u64 {
        let place = mine[random.usize(0..mine.len())];
        let goes_on = match random.u8(0..20) {
            0..10 => {
                let written = step * THREADS + thread;
                let mut sector = AlignedBuffer::zeroed(SECTOR);
                sector.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&written.to_le_bytes()));
                own.after.entry(place).or_default().insert(written);
                let outcome = volume.write_at(place, &sector);
                if outcome.is_ok() {
                    own.now.insert(place, written);
                }
                outcome.is_ok()
            }
            10..12 => {
                let outcome = volume.sync();
                if outcome.is_ok() {
                    own.after = own.now.iter().map(|(&place, &now)| (place, BTreeSet::from([now]))).collect();
                }
                outcome.is_ok()
            }
            12..15 => volume.promote(place, 2 * 4096).is_ok(),
            15..17 => pool.clean().is_ok(),
            17..19 => {
                let block = blocks(thread).nth(random.usize(0..CHUNKS as usize)).expect("one in each chunk");
                own.after.entry(block).or_default().insert(0);
                let outcome = volume.zero(block, BLOCK);
                if outcome.is_ok() {
                    own.now.insert(block, 0);
                }
                outcome.is_ok()
            }
            _ => value(volume, place).is_none_or(|found| {
                assert_eq!(found, own.now[&place], "thread {thread} at {place} in step {step}");
                true
            }),
        };
        if !goes_on {
            break;
        }
    }
    own
}

fn run(seed: Seed, fault: Option<Fault>, mode: Mode) -> (SimDirectory, Vec<Own>) {
    let medium = SimDirectory::with_seed(seed);
    // Slots for all chunks but one.
    medium.create("fast", CHUNKS * CHUNK).expect("makes");
    medium.sync().expect("syncs");
    let pool = open(&medium).expect("opens");
    let volume = pool.create("volume", CHUNKS * CHUNK, mode).expect("makes");
    if let Some(fault) = fault {
        medium.inject(fault);
    }
    let owns = thread::scope(|scope| {
        let (pool, volume) = (&pool, &volume);
        let worker = |thread| scope.spawn(move || work(pool, volume, thread, seed.derive(thread).generator()));
        let workers: Vec<_> = (0..THREADS).map(worker).collect();
        workers.into_iter().map(|worker| worker.join().expect("ends well")).collect()
    });
    (medium, owns)
}

fn mode(seed: Seed) -> Mode {
    [Mode::WriteBack, Mode::WriteBack, Mode::WriteThrough, Mode::ReadOnly][(seed.derive(9).0 % 4) as usize]
}

#[test]
fn threads_at_the_same_blocks_lose_nothing_of_each_other() {
    seeded_runs("threads_at_the_same_blocks_lose_nothing_of_each_other", 60, |seed| {
        let (medium, owns) = run(seed, None, mode(seed));
        // The process dies, and what was synced is there, with all that is durable by now.
        judge(&SimDirectory::survivors(&medium, seed.derive(5)), &owns);
    });
}

#[test]
fn a_power_cut_under_threads_leaves_what_each_had_synced() {
    seeded_runs("a_power_cut_under_threads_leaves_what_each_had_synced", 300, |seed| {
        let operation = 20 + seed.derive(6).0 % 400;
        let (medium, owns) = run(seed, Some(Fault::PowerCut { operation }), mode(seed));
        judge(&medium.survivors(seed.derive(5)), &owns);
    });
}

/// Every sector is one of those that it may be, and stays it wherever it is moved.
fn judge(medium: &SimDirectory, owns: &[Own]) {
    let pool = open(medium).expect("opens");
    let volume = pool.volume("volume").expect("is there");
    let mut found = BTreeMap::new();
    for (place, may) in owns.iter().flat_map(|own| &own.after) {
        let is = value(&volume, *place).expect("reads");
        assert!(may.contains(&is), "the sector at {place} is {is}, may be {may:?}");
        found.insert(*place, is);
    }
    pool.clean().expect("goes home");
    for chunk in 0..CHUNKS {
        // All leave the fast device in turn.
        volume.promote(chunk * CHUNK, CHUNK).expect("comes");
        for (&place, &is) in &found {
            assert_eq!(value(&volume, place), Some(is), "the sector at {place} has changed");
        }
    }
}

#[test]
fn a_volume_is_removed_while_others_take_its_slots() {
    seeded_runs("a_volume_is_removed_while_others_take_its_slots", 20, |seed| {
        let medium = SimDirectory::with_seed(seed);
        medium.create("fast", CHUNKS * CHUNK).expect("makes");
        medium.sync().expect("syncs");
        let pool = open(&medium).expect("opens");
        let stays = pool.create("stays", CHUNKS * CHUNK, Mode::WriteBack).expect("makes");
        thread::scope(|scope| {
            let others = scope.spawn(|| {
                for round in 0..40 {
                    let goes = pool.create("goes", CHUNKS * CHUNK, Mode::WriteBack).expect("makes");
                    for chunk in 0..CHUNKS {
                        goes.write_at(chunk * CHUNK, &AlignedBuffer::zeroed(4096)).expect("writes");
                    }
                    goes.sync().expect("syncs");
                    if round % 2 == 0 {
                        pool.detach("goes").expect("detaches");
                        pool.attach("goes", Mode::WriteBack).expect("attaches");
                    }
                    pool.remove("goes").expect("removes");
                }
            });
            let mut own = Own { now: BTreeMap::new(), after: BTreeMap::new() };
            for round in 1_u64.. {
                let place = round % CHUNKS * CHUNK + round % SECTORS * SECTOR as u64;
                let mut sector = AlignedBuffer::zeroed(SECTOR);
                sector.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&round.to_le_bytes()));
                stays.write_at(place, &sector).expect("writes");
                own.now.insert(place, round);
                if round % 3 == 0 {
                    pool.clean().expect("goes home");
                }
                for (&place, &now) in &own.now {
                    assert_eq!(value(&stays, place), Some(now), "the sector at {place} in round {round}");
                }
                if others.is_finished() {
                    break;
                }
            }
        });
        stays.sync().expect("syncs");
        let figures = pool.figures();
        assert!(figures.used <= figures.slots, "{figures:?}");
        drop((stays, pool));
        open(&medium.survivors(seed.derive(1))).expect("the map is whole");
    });
}

#[test]
fn a_volume_is_detached_while_another_thread_brings_its_blocks_home() {
    const MANY: u64 = 32;
    seeded_runs("a_volume_is_detached_while_another_thread_brings_its_blocks_home", 100, |seed| {
        let medium = SimDirectory::with_seed(seed);
        medium.create("fast", (MANY + 1) * CHUNK).expect("makes");
        let pool = open(&medium).expect("opens");
        let volume = pool.create("volume", MANY * CHUNK, Mode::WriteBack).expect("makes");
        for chunk in 0..MANY {
            volume.write_at(chunk * CHUNK, &AlignedBuffer::zeroed(4096)).expect("writes");
        }
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                (0..seed.derive(1).0 % 2_000).for_each(|_| std::hint::spin_loop());
                pool.clean().expect("goes home");
            });
            start.wait();
            pool.detach("volume").expect("detaches");
        });
    });
}
