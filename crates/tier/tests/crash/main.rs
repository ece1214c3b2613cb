//! Volumes on the simulated medium, beside a model of their sectors: power cuts and deaths of the process at every operation, failing writes and
//! syncs.

mod model;
mod mortal;
mod work;

use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, Device, Directory, Fault, SimDirectory, SimSettings};
use ishigaki_testkit::{seeded, seeded_runs};
use ishigaki_tier::{Memory, Mode, Pool, Settings};

use crate::mortal::{Life, MortalDirectory};
use crate::work::Work;

const CHUNK: u64 = 256 << 10;
/// Bytes of the fast device: its header, and three slots.
const FAST: u64 = 4 * CHUNK;
/// Chunks of a volume; the last one is cut short.
const CHUNKS: u64 = 5;
const LENGTH: u64 = CHUNKS * CHUNK - 8192;
/// Where requests go: some blocks of each chunk, so that they meet.
const USED: u64 = 6 * 4096;
const STEPS: usize = 60;

fn settings() -> Settings {
    Settings {
        chunk: ByteSize(CHUNK),
        log: ByteSize::kib(256),
        segment: ByteSize::kib(16),
        background: false,
        ..Settings::default()
    }
}

/// The three places of a pool, on one medium that loses its power as a whole, and memory that does too.
#[derive(Clone)]
struct Places {
    medium: SimDirectory,
    memory: Memory,
}

const FAST_NAME: &str = "fast";

impl Places {
    fn new(seed: Seed, block_size: usize) -> Self {
        let medium = SimDirectory::new(SimSettings { seed, block_size, ..SimSettings::default() });
        medium.create(FAST_NAME, FAST).expect("makes");
        medium.sync().expect("syncs");
        Self { medium, memory: Memory::simulated() }
    }

    fn open(&self) -> ishigaki_tier::Result<Pool> {
        self.open_for(&self.endless())
    }

    fn endless(&self) -> Life {
        Life::endless(&self.memory)
    }

    /// Opens it for a process that lives so long.
    fn open_for(&self, life: &Life) -> ishigaki_tier::Result<Pool> {
        let directory: Arc<dyn Directory> = Arc::new(MortalDirectory::new(self.medium.clone(), life.clone()));
        let fast = directory.open(FAST_NAME)?;
        Pool::open(directory.clone(), fast, directory, Some(&self.memory), &settings())
    }

    /// As the power has left them.
    fn survivors(&self, seed: Seed) -> Self {
        Self { medium: self.medium.survivors(seed), memory: Memory::simulated() }
    }

    /// As the next process finds them.
    fn next_process(&self) -> Self {
        Self { medium: self.medium.process_crash(), memory: self.memory.clone() }
    }
}

fn block_size(seed: Seed) -> usize {
    if seed.derive(7).0.is_multiple_of(2) { 512 } else { 4096 }
}

/// Does the work until `fault` comes; gives the medium and what is known.
fn until(seed: Seed, fault: Option<Fault>) -> (Places, Work) {
    let places = Places::new(seed, block_size(seed));
    let mut work = Work::new(seed);
    if let Some(fault) = fault {
        places.medium.inject(fault);
    }
    if let Ok(pool) = places.open()
        && work.make(&pool).is_ok()
    {
        work.run(&pool, &places.endless(), STEPS);
    }
    (places, work)
}

#[test]
fn volumes_are_as_their_model_says() {
    seeded_runs("volumes_are_as_their_model_says", 30, |seed| {
        let places = Places::new(seed, block_size(seed));
        let pool = places.open().expect("opens");
        let mut work = Work::new(seed);
        work.make(&pool).expect("makes");
        assert!(work.run(&pool, &places.endless(), 500), "nothing fails");
    });
}

fn power_cut(seed: Seed) {
    let (whole, _) = until(seed, None);
    let operation = seed.derive(1).generator().u64(0..whole.medium.operations());
    let (places, mut work) = until(seed, Some(Fault::PowerCut { operation }));
    let survivors = places.survivors(seed.derive(2));
    let what = format!("cut at {operation}");
    // The next process is cut in its recovery, or soon after.
    let soon = seed.derive(3).generator().u64(0..40);
    survivors.medium.inject(Fault::PowerCut { operation: soon });
    let pool = survivors.open();
    if let Ok(pool) = &pool
        && work.make_rest(pool).is_ok()
        && survivors.medium.power_is_on()
        && work.take(pool, &what)
    {
        work.run(pool, &survivors.endless(), 10);
    }
    drop(pool);
    let survivors = survivors.survivors(seed.derive(4));
    let pool = survivors.open().unwrap_or_else(|error| panic!("{what}, again: {error}"));
    work.make_rest(&pool).expect("makes");
    work.judge(&pool, &format!("{what}, and again at {soon}"));
}

#[test]
fn a_power_cut_leaves_what_was_synced_and_nothing_that_was_not_written() {
    seeded_runs("a_power_cut_leaves_what_was_synced_and_nothing_that_was_not_written", 300, power_cut);
}

#[test]
#[ignore = "long: thousands of seeds"]
fn ten_thousand_power_cuts() {
    seeded_runs("ten_thousand_power_cuts", 10_000, power_cut);
}

#[test]
fn every_operation_may_be_the_last() {
    seeded("every_operation_may_be_the_last", |seed| {
        let (whole, _) = until(seed, None);
        for operation in 0..whole.medium.operations() {
            let (places, mut work) = until(seed, Some(Fault::PowerCut { operation }));
            let survivors = places.survivors(seed.derive(operation));
            let pool = survivors.open().unwrap_or_else(|error| panic!("cut at {operation}: {error}"));
            work.make_rest(&pool).expect("makes");
            work.judge(&pool, &format!("cut at {operation}"));
        }
    });
}

#[test]
fn what_the_next_process_reads_stays_though_the_power_is_cut_under_it() {
    let name = "what_the_next_process_reads_stays_though_the_power_is_cut_under_it";
    seeded_runs(name, 100, |seed| {
        let places = Places::new(seed, block_size(seed));
        let mut work = Work::new(seed);
        let pool = places.open().expect("opens");
        work.make(&pool).expect("makes");
        work.run(&pool, &places.endless(), STEPS);
        let next = places.next_process();
        let next =
            if seed.derive(1).0.is_multiple_of(2) { next } else { Places { memory: Memory::simulated(), ..next } };
        let pool = next.open().expect("opens");
        work.take(&pool, "after the process");
        let survivors = next.survivors(seed.derive(2));
        work.judge(&survivors.open().expect("opens"), "after the power");
    });
}

#[test]
fn a_failed_operation_stops_its_volume_and_what_was_synced_is_safe() {
    let name = "a_failed_operation_stops_its_volume_and_what_was_synced_is_safe";
    seeded_runs(name, 200, |seed| {
        let (whole, _) = until(seed, None);
        let mut random = seed.derive(1).generator();
        let fault = if random.bool() {
            Fault::WriteError { nth: random.u64(0..whole.medium.writes()) }
        } else {
            Fault::SyncError { nth: random.u64(0..whole.medium.syncs()) }
        };
        let what = format!("{fault:?}");
        let (places, mut work) = until(seed, Some(fault));
        let survivors = places.survivors(seed.derive(2));
        let pool = survivors.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        work.make_rest(&pool).expect("makes");
        work.judge(&pool, &what);
    });
}

/// A process dies at an operation, the next one in its recovery or soon after, and then the power may fail. What was answered is there.
fn deaths(seed: Seed) {
    let (whole, _) = until(seed, None);
    let mut random = seed.derive(1).generator();
    let mut places = Places::new(seed, block_size(seed));
    let mut work = Work::new(seed);
    let first = random.u64(0..whole.medium.operations());
    let lives = [first, random.u64(0..40), random.u64(0..200)];
    for (number, operations) in lives.into_iter().enumerate() {
        let life = Life::of(&places.memory, operations, random.bool());
        let what = format!("after {number} deaths at {lives:?}");
        let mut process = || -> ishigaki_tier::Result<()> {
            let pool = places.open_for(&life)?;
            work.make_rest(&pool)?;
            if work.take(&pool, &what) {
                work.run(&pool, &life, STEPS);
            }
            Ok(())
        };
        let outcome = process();
        assert!(outcome.is_ok() || life.is_over(), "{what}: {outcome:?}");
        work.models.iter_mut().for_each(model::Model::outlived);
        places = Places { memory: life.end(), ..places.next_process() };
    }
    let pool = places.open().expect("opens");
    work.make_rest(&pool).expect("makes");
    assert!(work.take(&pool, &format!("after deaths at {lives:?}")), "it is read");
    if random.bool() {
        work.judge(&pool, &format!("after deaths at {lives:?}"));
    } else {
        // What the last process has seen stays.
        let survivors = places.survivors(seed.derive(2));
        work.judge(&survivors.open().expect("opens"), &format!("after deaths at {lives:?} and the power"));
    }
}

#[test]
fn a_process_that_dies_loses_nothing_that_was_written() {
    seeded_runs("a_process_that_dies_loses_nothing_that_was_written", 300, deaths);
}

#[test]
#[ignore = "long: thousands of seeds"]
fn ten_thousand_deaths() {
    seeded_runs("ten_thousand_deaths", 10_000, deaths);
}

#[test]
fn memory_of_before_is_not_believed_when_a_process_has_gone_on_without() {
    let places = Places::new(Seed(5), 4096);
    let pool = places.open().expect("opens");
    let volume = pool.create("back", LENGTH, Mode::WriteBack).expect("makes");
    let mut page = AlignedBuffer::zeroed(4096);
    model::fill(&mut page, 1);
    volume.write_at(0, &page).expect("writes");
    let session = pool.session().expect("there is memory");
    drop((volume, pool));

    let without = Places { memory: Memory::simulated(), ..places.next_process() };
    let pool = without.open().expect("opens");
    assert_ne!(pool.session(), Some(session));
    let volume = pool.volume("back").expect("is there");
    assert_eq!(model::try_read(&volume, 0, 1), Some(vec![Some(0)]), "it was not synced");
    model::fill(&mut page, 2);
    volume.write_at(0, &page).expect("writes");
    volume.sync().expect("syncs");
    drop((volume, pool));

    let with = Places { memory: places.memory, ..without.next_process() };
    let pool = with.open().expect("opens");
    assert_ne!(pool.session(), Some(session));
    let volume = pool.volume("back").expect("is there");
    assert_eq!(model::try_read(&volume, 0, 1), Some(vec![Some(2)]));
}

#[test]
fn what_a_failed_sync_may_have_lost_is_not_believed() {
    let places = Places::new(Seed(5), 4096);
    let pool = places.open().expect("opens");
    let volume = pool.create("back", LENGTH, Mode::WriteBack).expect("makes");
    let mut page = AlignedBuffer::zeroed(4096);
    model::fill(&mut page, 1);
    volume.write_at(0, &page).expect("writes");
    places.medium.inject(Fault::SyncError { nth: places.medium.syncs() });
    volume.sync().expect_err("fails");
    assert_eq!(pool.session(), None);
    drop((volume, pool));
    let next = places.next_process();
    let pool = next.open().expect("opens");
    let volume = pool.volume("back").expect("is there");
    assert_eq!(model::try_read(&volume, 0, 1), Some(vec![Some(0)]));
}
