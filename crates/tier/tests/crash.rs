//! Volumes on the simulated medium, beside a model of their sectors: power cuts and deaths of the process at every operation, failing writes and
//! syncs.

use std::collections::BTreeSet;
use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, Device, Directory, Fault, SECTOR, SimDirectory, SimSettings};
use ishigaki_testkit::{seeded, seeded_runs};
use ishigaki_tier::{Error, Mode, Pool, Settings, Volume};

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

/// The three places of a pool, on one medium that loses its power as a whole.
#[derive(Clone)]
struct Places(SimDirectory);

const FAST_NAME: &str = "fast";

impl Places {
    fn new(seed: Seed, block_size: usize) -> Self {
        let medium = SimDirectory::new(SimSettings { seed, block_size, ..SimSettings::default() });
        medium.create(FAST_NAME, FAST).expect("makes");
        medium.sync().expect("syncs");
        Self(medium)
    }

    fn open(&self) -> ishigaki_tier::Result<Pool> {
        let directory: Arc<dyn Directory> = Arc::new(self.0.clone());
        let fast = directory.open(FAST_NAME)?;
        Pool::open(directory.clone(), fast, directory, &settings())
    }
}

/// What a sector may be.
#[derive(Clone, Debug)]
struct Sector {
    /// As a reader sees it; anything where it is `None`.
    now: Option<u64>,
    /// What a power cut may leave; anything where it holds `None`.
    after: BTreeSet<Option<u64>>,
}

/// The sectors of a volume.
struct Model {
    name: &'static str,
    mode: Mode,
    sectors: Vec<Sector>,
}

impl Model {
    fn new(name: &'static str, mode: Mode) -> Self {
        let zero = Sector { now: Some(0), after: BTreeSet::from([Some(0)]) };
        Self { name, mode, sectors: vec![zero; (LENGTH / SECTOR as u64) as usize] }
    }

    fn change(&mut self, offset: u64, count: usize, value: Option<u64>) {
        for sector in &mut self.sectors[offset as usize / SECTOR..][..count] {
            sector.now = value;
            sector.after.insert(value);
        }
    }

    /// A change that was not answered.
    fn may_change(&mut self, offset: u64, count: usize, value: Option<u64>) {
        for sector in &mut self.sectors[offset as usize / SECTOR..][..count] {
            sector.after.insert(value);
        }
    }

    fn synced(&mut self) {
        for sector in &mut self.sectors {
            sector.after = BTreeSet::from([sector.now]);
        }
    }

    /// Takes what is there now for what was there before, if it may be. Whether the medium still answers.
    fn take(&mut self, volume: &Volume, what: &str) -> bool {
        for (place, sector) in self.sectors.iter_mut().enumerate() {
            // Only these were ever written.
            if (place * SECTOR) as u64 % CHUNK >= USED {
                continue;
            }
            let Some(found) = try_read(volume, (place * SECTOR) as u64, 1) else { return false };
            let found = found[0];
            let is_anything = sector.after.contains(&None);
            assert!(
                is_anything || sector.after.contains(&found),
                "{what}: sector {place} of {} is {found:?}, may be {:?}",
                self.name,
                sector.after
            );
            *sector = Sector { now: found, after: BTreeSet::from([found]) };
        }
        true
    }

    /// Whether the medium still answers.
    fn check(&self, volume: &Volume, what: &str) -> bool {
        for chunk in 0..CHUNKS {
            let (first, count) = (chunk * CHUNK, (USED as usize) / SECTOR);
            let Some(found) = try_read(volume, first, count) else { return false };
            for (place, found) in found.into_iter().enumerate() {
                let place = first as usize / SECTOR + place;
                let sector = &self.sectors[place];
                assert!(
                    sector.now.is_none() || sector.now == found,
                    "{what}: sector {place} of {} is {found:?}, was {:?}",
                    self.name,
                    sector.now
                );
            }
        }
        true
    }
}

/// A sector of a value: each eight bytes say it, with their place.
fn fill(bytes: &mut [u8], value: u64) {
    for sector in bytes.chunks_exact_mut(SECTOR) {
        for word in sector.chunks_exact_mut(8) {
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// The values of sectors, `None` for what no write has made; nothing where the medium does not answer.
fn try_read(volume: &Volume, offset: u64, count: usize) -> Option<Vec<Option<u64>>> {
    let block = volume.promise().block_size as u64;
    let start = offset / block * block;
    let end = (offset + (count * SECTOR) as u64).next_multiple_of(block);
    let mut buffer = AlignedBuffer::zeroed((end - start) as usize);
    volume.read_at(start, &mut buffer).ok()?;
    let part = &buffer[(offset - start) as usize..][..count * SECTOR];
    let sectors = part
        .chunks_exact(SECTOR)
        .map(|sector| {
            let mut words = sector.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
            let first = words.next().expect("a sector has words");
            words.all(|word| word == first).then_some(first)
        })
        .collect();
    Some(sectors)
}

/// What is done to a pool.
struct Work {
    random: fastrand::Rng,
    value: u64,
    models: Vec<Model>,
}

impl Work {
    fn new(seed: Seed) -> Self {
        let models = vec![
            Model::new("back", Mode::WriteBack),
            Model::new("through", Mode::WriteThrough),
            Model::new("read", Mode::ReadOnly),
        ];
        Self { random: seed.generator(), value: 0, models }
    }

    /// Makes the volumes.
    fn make(&self, pool: &Pool) -> ishigaki_tier::Result<()> {
        self.models.iter().try_for_each(|model| pool.create(model.name, LENGTH, model.mode).map(drop))
    }

    /// Makes those that are not there after a crash, which may have come between a device and the map.
    fn make_rest(&self, pool: &Pool) -> ishigaki_tier::Result<()> {
        for model in &self.models {
            if matches!(pool.volume(model.name), Err(Error::NotFound { .. })) {
                let made = pool.create(model.name, LENGTH, model.mode);
                made.or_else(|_| pool.attach(model.name, model.mode))?;
            }
        }
        Ok(())
    }

    /// One step. Whether the medium still answers.
    fn step(&mut self, pool: &Pool) -> bool {
        let Self { random, value, models } = self;
        // Most of it to the first one, whose way is the longest.
        let which = if random.u8(0..10) < 6 { 0 } else { random.usize(1..models.len()) };
        let model = &mut models[which];
        let Ok(volume) = pool.volume(model.name) else { return false };
        let block = volume.promise().block_size;
        let most = USED as usize / block;
        let first = random.usize(0..most);
        let longest = if random.bool() { 3 } else { most };
        let count = random.usize(1..=longest.min(most - first));
        let offset = random.u64(0..CHUNKS) * CHUNK + (first * block) as u64;
        let sectors = count * block / SECTOR;
        match random.u8(0..23) {
            0..10 => {
                *value += 1;
                let mut buffer = AlignedBuffer::zeroed(count * block);
                fill(&mut buffer, *value);
                if volume.write_at(offset, &buffer).is_err() {
                    model.may_change(offset, sectors, Some(*value));
                    return false;
                }
                model.change(offset, sectors, Some(*value));
            }
            10..13 => {
                if volume.sync().is_err() {
                    return false;
                }
                model.synced();
            }
            13..16 => {
                if volume.promote(offset, (count * block) as u64).is_err() {
                    return false;
                }
            }
            16 => {
                // Only whole blocks are forgotten.
                let (first, end) = (offset.next_multiple_of(4096), (offset + (count * block) as u64) / 4096 * 4096);
                let forgotten = if first < end { (end - first) as usize / SECTOR } else { 0 };
                if volume.trim(offset, (count * block) as u64).is_err() {
                    model.may_change(first, forgotten, None);
                    return false;
                }
                model.change(first, forgotten, None);
            }
            17..19 => {
                if volume.zero(offset, (count * block) as u64).is_err() {
                    model.may_change(offset, sectors, Some(0));
                    return false;
                }
                model.change(offset, sectors, Some(0));
            }
            19..21 => {
                if pool.clean().is_err() {
                    return false;
                }
            }
            21 => {
                let length = volume.len();
                let longer = length + random.u64(0..3) * 32 * 4096;
                if pool.resize(model.name, longer).is_err() {
                    return false;
                }
                model.synced();
                let Ok(after) = pool.volume(model.name) else { return false };
                assert_eq!(after.len(), longer);
                let added = try_read(&after, length, (longer - length) as usize / SECTOR);
                let Some(added) = added else { return false };
                assert!(added.iter().all(|value| *value == Some(0)), "what was added is zeros");
            }
            _ => {
                if volume.read_at(offset, &mut AlignedBuffer::zeroed(count * block)).is_err() {
                    return false;
                }
            }
        }
        true
    }

    /// All steps, or as many as the medium lets be done. Whether all were.
    fn run(&mut self, pool: &Pool, steps: usize) -> bool {
        for step in 0..steps {
            if !self.step(pool) {
                return false;
            }
            if self.random.u8(0..8) == 0 {
                for model in &self.models {
                    let Ok(volume) = pool.volume(model.name) else { return false };
                    if !model.check(&volume, &format!("after step {step}")) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// What a crash has left may be there, and stays what it is, wherever it is moved.
    fn judge(&mut self, pool: &Pool, what: &str) {
        for model in &mut self.models {
            let volume = pool.volume(model.name).expect("is there");
            assert!(model.take(&volume, what), "it is read");
        }
        pool.clean().expect("goes home");
        for chunk in 0..CHUNKS {
            // There are fewer slots than chunks: all leave.
            for model in &self.models {
                let volume = pool.volume(model.name).expect("is there");
                volume.promote(chunk * CHUNK, CHUNK).expect("comes");
                assert!(model.check(&volume, &format!("{what}, moved")), "it is read");
            }
        }
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
        places.0.inject(fault);
    }
    if let Ok(pool) = places.open()
        && work.make(&pool).is_ok()
    {
        work.run(&pool, STEPS);
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
        assert!(work.run(&pool, 500), "nothing fails");
    });
}

fn power_cut(seed: Seed) {
    let (whole, _) = until(seed, None);
    let operation = seed.derive(1).generator().u64(0..whole.0.operations());
    let (places, mut work) = until(seed, Some(Fault::PowerCut { operation }));
    let survivors = Places(places.0.survivors(seed.derive(2)));
    let what = format!("cut at {operation}");
    // The next process is cut in its recovery, or soon after.
    let soon = seed.derive(3).generator().u64(0..40);
    survivors.0.inject(Fault::PowerCut { operation: soon });
    let pool = survivors.open();
    if let Ok(pool) = &pool
        && work.make_rest(pool).is_ok()
        && survivors.0.power_is_on()
    {
        let mut taken = work.models.iter_mut().map(|model| {
            let volume = pool.volume(model.name).expect("is there");
            model.take(&volume, &what)
        });
        if taken.all(|taken| taken) {
            work.run(pool, 10);
        }
    }
    drop(pool);
    let survivors = Places(survivors.0.survivors(seed.derive(4)));
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
        for operation in 0..whole.0.operations() {
            let (places, mut work) = until(seed, Some(Fault::PowerCut { operation }));
            let survivors = Places(places.0.survivors(seed.derive(operation)));
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
        work.run(&pool, STEPS);
        let next = Places(places.0.process_crash());
        let pool = next.open().expect("opens");
        for model in &mut work.models {
            let volume = pool.volume(model.name).expect("is there");
            model.take(&volume, "after the process");
        }
        let survivors = Places(next.0.survivors(seed.derive(2)));
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
            Fault::WriteError { nth: random.u64(0..whole.0.writes()) }
        } else {
            Fault::SyncError { nth: random.u64(0..whole.0.syncs()) }
        };
        let what = format!("{fault:?}");
        let (places, mut work) = until(seed, Some(fault));
        let survivors = Places(places.0.survivors(seed.derive(2)));
        let pool = survivors.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        work.make_rest(&pool).expect("makes");
        work.judge(&pool, &what);
    });
}
