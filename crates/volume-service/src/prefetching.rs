//! Brings what is hot to the fast device before it is asked for (paper 5, section 3.4): window after window, for a share of each.
//!
//! What is decided, and why, is in [`ishigaki_prefetch`]; here are the clock, the figures and the thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_device::Device;
use ishigaki_prefetch::{
    Candidate, Claim, Extent, File, Heat, Layout, Observation, Share, ShareSettings, Units, by_unit, choose, expected,
};
use ishigaki_tier::{Pool, Reads, Volume};
use parking_lot::{Condvar, Mutex};

use crate::bringing::{Bring, Bringing};
use crate::config::{Config, Prefetch};
use crate::status::{FileStatus, PrefetchStatus};

/// For how long a figure of an agent counts.
const FRESH: Duration = Duration::from_mins(1);

/// Reads that a chunk is to save the disk, within the windows for which [`Heat`] tells, for its coming.
const WORTH: f32 = 2.0;

/// What a write counts beside a read: blocks go home in the order of the disk, and once for all writes of a while.
const WRITE: f32 = 0.5;

/// How long a slow device may take to give some chunks before its volume is left alone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Chunks that come together: where they lie near each other, the disk takes them in one pass, and each would else wait behind all that guests ask for meanwhile.
const AT_A_TIME: usize = 4;

/// For which share of the time pinned volumes come at least.
const PINNED: f64 = 0.5;

/// Files that a status has of each volume.
const SHOWN: usize = 20;

/// What is known of a volume, by what agents have told.
#[derive(Default)]
struct Told {
    layout: Option<Layout>,
    /// Its units for so many chunks, as they were made last.
    units: Option<(u32, Arc<Units>)>,
    /// Work done a second, and when that was told.
    work: Option<(f64, Instant)>,
    reads: Heat,
    writes: Heat,
}

/// What is known between windows.
pub(crate) struct Prefetching {
    config: Config,
    told: Mutex<BTreeMap<String, Told>>,
    state: Mutex<State>,
    bringing: Bringing,
    bell: Mutex<Bell>,
    rung: Condvar,
}

/// What the thread is told.
#[derive(Debug, Default)]
struct Bell {
    is_over: bool,
    is_woken: bool,
}

struct State {
    share: Share,
    before: Reads,
    status: PrefetchStatus,
}

impl Prefetching {
    pub(crate) fn new(config: &Config) -> Self {
        let settings = match config.prefetch {
            Prefetch::None => ShareSettings { first: 0.0, least: 0.0, most: 0.0, ..ShareSettings::default() },
            Prefetch::Fixed(share) => {
                ShareSettings { first: share, least: share, most: share, ..ShareSettings::default() }
            }
            Prefetch::Adaptive => ShareSettings::default(),
        };
        let share = Share::new(settings);
        let status = PrefetchStatus { share: share.now(), ..PrefetchStatus::default() };
        Self {
            config: config.clone(),
            told: Mutex::default(),
            state: Mutex::new(State { share, before: Reads::default(), status }),
            bringing: Bringing::new(PATIENCE),
            bell: Mutex::default(),
            rung: Condvar::new(),
        }
    }

    pub(crate) fn status(&self) -> PrefetchStatus {
        self.state.lock().status.clone()
    }

    /// Takes where the files of a volume lie.
    pub(crate) fn set_layout(&self, volume: &str, layout: Layout) {
        let mut told = self.told.lock();
        let told = told.entry(volume.to_owned()).or_default();
        (told.layout, told.units) = (Some(layout), None);
    }

    /// Whether it is known where the files of a volume lie.
    pub(crate) fn has_layout(&self, volume: &str) -> bool {
        self.told.lock().get(volume).is_some_and(|told| told.layout.is_some())
    }

    /// Takes how much work a volume's application does a second.
    pub(crate) fn set_work(&self, volume: &str, work: f64) {
        self.told.lock().entry(volume.to_owned()).or_default().work = Some((work, Instant::now()));
    }

    /// Forgets what was told of a volume, which is no more.
    pub(crate) fn forget(&self, volume: &str) {
        self.told.lock().remove(volume);
        // Nothing of it is wanted.
        self.wake();
    }

    /// The largest files of a volume, and how much of them is on the fast device, where an agent has told of them.
    pub(crate) fn files(&self, volume: &Volume, chunk: u64) -> Vec<FileStatus> {
        let told = self.told.lock();
        let Some(layout) = told.get(volume.name()).and_then(|told| told.layout.as_ref()) else { return Vec::new() };
        let here = volume.here();
        let bytes = |file: &File| file.extents.iter().map(|extent| extent.length).sum::<u64>();
        let mut largest: Vec<_> = layout.files().iter().map(|file| (bytes(file), file)).collect();
        largest.sort_by(|(one, _), (other, _)| other.cmp(one));
        let status = |(bytes, file): (u64, &File)| FileStatus {
            name: file.name.clone(),
            bytes,
            fast_bytes: file.extents.iter().map(|extent| fast_of(extent, chunk, &here)).sum(),
        };
        largest.into_iter().take(SHOWN).map(status).collect()
    }

    /// Ends the thread, within a chunk.
    pub(crate) fn end(&self) {
        self.bell.lock().is_over = true;
        self.rung.notify_all();
    }

    /// The work of its thread.
    pub(crate) fn run(&self, pool: &Pool) {
        loop {
            let begun = Instant::now();
            let share = self.observe(pool);
            self.bring_pinned(pool, begun + self.config.window.mul_f64(share.max(PINNED)));
            if self.config.prefetch != Prefetch::None {
                self.bring(pool, begun + self.config.window.mul_f64(share));
            }
            self.state.lock().status.used = begun.elapsed().as_secs_f64() / self.config.window.as_secs_f64();
            if self.rests_until(begun + self.config.window) {
                return;
            }
        }
    }

    /// Has the next window begin now.
    pub(crate) fn wake(&self) {
        self.bell.lock().is_woken = true;
        self.rung.notify_all();
    }

    /// Brings what is missing of pinned volumes, until it is time.
    fn bring_pinned(&self, pool: &Pool, until: Instant) {
        for volume in pool.handles().into_iter().filter(Volume::is_pinned) {
            let length = volume.len();
            let places = (0..length).step_by(usize::try_from(pool.chunk()).unwrap_or(usize::MAX));
            let whole = |at: u64| pool.chunk().min(length - at);
            let missing = places.zip(volume.here()).filter(|&(at, here)| here < whole(at)).map(|(at, _)| at);
            for some in missing.collect::<Vec<_>>().chunks(AT_A_TIME) {
                if Instant::now() >= until || self.is_over() {
                    return;
                }
                let brought = self.bringing.together(some.iter().map(|&at| bring(&volume, at, whole(at))).collect());
                self.state.lock().status.brought_bytes += brought;
                if brought == 0 {
                    break;
                }
            }
        }
    }

    /// Waits. Whether it is over.
    fn rests_until(&self, until: Instant) -> bool {
        let mut told = self.bell.lock();
        while !told.is_over && !std::mem::take(&mut told.is_woken) {
            if self.rung.wait_until(&mut told, until).timed_out() {
                break;
            }
        }
        told.is_over
    }

    fn is_over(&self) -> bool {
        self.bell.lock().is_over
    }

    /// What the last window has shown, and the share of the next one.
    fn observe(&self, pool: &Pool) -> f64 {
        let now = pool.handles().iter().map(Volume::reads).fold(Reads::default(), Reads::and);
        let mut state = self.state.lock();
        // A volume that has gone takes its counts along.
        let seen = now.since(state.before);
        state.before = now;
        let seconds = self.config.window.as_secs_f64();
        let (hits, misses) = seen.requests;
        let all = hits + misses;
        let told = self.told.lock();
        let fresh = |told: &Told| told.work.filter(|(_, when)| when.elapsed() < FRESH).map(|(work, _)| work);
        let works: Vec<f64> = told.values().filter_map(fresh).filter(|work| work.is_finite()).collect();
        let work = if works.is_empty() { all as f64 / seconds } else { works.iter().sum() };
        let observation = Observation {
            hit_ratio: (all > 0).then(|| hits as f64 / all as f64),
            work,
            latency: (seen.waits > 0).then(|| seen.waited.as_secs_f64() / seen.waits as f64),
        };
        let share = state.share.observe(observation);
        state.status.share = share;
        state.status.windows += 1;
        state.status.hit_ratio = observation.hit_ratio;
        state.status.work = observation.work;
        share
    }

    /// Brings the hottest that are missing, until it is time. What is none of the hottest leaves for them, the coldest first.
    fn bring(&self, pool: &Pool, until: Instant) {
        let looks = self.looks(pool);
        let slots = pool.slots().saturating_sub(pool.spare());
        let claim = |(look, number): (&Look, u32)| self.claim(look, number, pool.chunk(), slots);
        let claims: Vec<_> = looks.iter().zip(0..).map(claim).collect();
        let chosen = choose(&claims, slots);
        let leaving = leaving(&looks, &chosen);
        pool.give_up(leaving.iter().map(|&(number, chunk)| (&looks[number].volume, chunk)));
        let comes = |chunk: &Candidate| chunk.is_missing && looks[chunk.volume as usize].is_worth_it(chunk.chunk);
        let coming = by_unit(chosen.into_iter().filter(comes).collect());
        let bytes = |chunks: usize| chunks as u64 * pool.chunk();
        self.state.lock().status.wanted_bytes = bytes(coming.len());
        for some in coming.chunks(AT_A_TIME) {
            if Instant::now() >= until || self.is_over() {
                return;
            }
            let chunk = pool.chunk();
            let of = |one: &Candidate| bring(&looks[one.volume as usize].volume, u64::from(one.chunk) * chunk, chunk);
            let brought = self.bringing.together(some.iter().map(of).collect());
            let status = &mut self.state.lock().status;
            status.brought_bytes += brought;
            status.wanted_bytes -= bytes(some.len());
        }
    }

    /// What is known of all volumes at this moment, when a window begins.
    fn looks(&self, pool: &Pool) -> Vec<Look> {
        let look = |volume: Volume| {
            let units = self.units(&volume, pool.chunk());
            let (reads, writes) = {
                let mut told = self.told.lock();
                let told = told.entry(volume.name().to_owned()).or_default();
                let requests = volume.requests();
                told.reads.observe(requests.iter().map(|requests| requests.reads));
                told.writes.observe(requests.iter().map(|requests| requests.writes));
                let writes: Vec<_> = told.writes.uses().map(|uses| uses * told.writes.pace()).collect();
                (to_be_read(&told.reads, &units), writes)
            };
            Look { here: volume.here(), reads, writes, units, volume }
        };
        pool.handles().into_iter().map(look).collect()
    }

    fn units(&self, volume: &Volume, chunk: u64) -> Arc<Units> {
        let chunks = volume.len().div_ceil(chunk) as u32;
        let mut told = self.told.lock();
        let told = told.entry(volume.name().to_owned()).or_default();
        if let Some((of, units)) = &told.units
            && *of == chunks
        {
            return units.clone();
        }
        let per_unit = self.config.unit;
        let units = Arc::new(match &told.layout {
            Some(layout) => Units::of_files(layout, chunks, chunk, per_unit),
            None => Units::of_disk(chunks, per_unit),
        });
        told.units = Some((chunks, units.clone()));
        units
    }

    /// A volume's chunks with their uses that are to be expected.
    fn claim(&self, look: &Look, volume: u32, chunk: u64, slots: usize) -> Claim {
        let length = look.volume.len();
        let whole = |at: u32| chunk.min(length - u64::from(at) * chunk);
        let chunks = look.units.all().zip(0..).flat_map(|(unit, number)| unit.iter().map(move |&at| (number, at)));
        let candidates = chunks.zip(0..).map(|((unit, chunk), place)| {
            let is_missing = look.here.get(chunk as usize).is_none_or(|&bytes| bytes < whole(chunk));
            Candidate { volume, unit, place, chunk, heat: look.heat(chunk), is_missing }
        });
        Claim::new(self.config.limits(look.volume.name(), chunk), candidates, slots)
    }
}

/// A volume, when a window begins.
struct Look {
    volume: Volume,
    units: Arc<Units>,
    /// Of each chunk: its bytes on the fast device, and how often it is going to be read, and written.
    here: Vec<u64>,
    reads: Vec<f32>,
    writes: Vec<f32>,
}

impl Look {
    /// What is written comes by itself, and saves the disk something while it stays.
    fn heat(&self, chunk: u32) -> f32 {
        let of = |uses: &[f32]| uses.get(chunk as usize).copied().unwrap_or(0.0);
        of(&self.reads) + WRITE * of(&self.writes)
    }

    /// Whether its reads are worth its coming.
    fn is_worth_it(&self, chunk: u32) -> bool {
        self.reads.get(chunk as usize).is_some_and(|&reads| reads >= WORTH)
    }
}

/// How often each chunk is going to be read: those of a unit are as much alike as few reads have told until now.
fn to_be_read(heat: &Heat, units: &Units) -> Vec<f32> {
    let mut reads: Vec<_> = heat.uses().collect();
    for unit in units.all() {
        let of = |&at: &u32| reads.get(at as usize).copied().unwrap_or(0.0);
        let mean = unit.iter().map(of).sum::<f32>() / unit.len().max(1) as f32;
        for &at in unit {
            if let Some(reads) = reads.get_mut(at as usize) {
                *reads = expected(*reads, mean) * heat.pace();
            }
        }
    }
    reads
}

/// Chunks that are on the fast device and not chosen, with their volume: the coldest first.
fn leaving(looks: &[Look], chosen: &[Candidate]) -> Vec<(usize, u32)> {
    let mut stays: Vec<_> = looks.iter().map(|look| vec![false; look.here.len()]).collect();
    for chunk in chosen {
        if let Some(stays) = stays[chunk.volume as usize].get_mut(chunk.chunk as usize) {
            *stays = true;
        }
    }
    let mut leaving = Vec::new();
    for (number, look) in looks.iter().enumerate() {
        for (&bytes, chunk) in look.here.iter().zip(0_u32..) {
            if bytes > 0 && !stays[number][chunk as usize] {
                leaving.push((look.heat(chunk), number, chunk));
            }
        }
    }
    leaving.sort_unstable_by(|one: &(f32, usize, u32), other| {
        one.0.total_cmp(&other.0).then_with(|| (one.1, one.2).cmp(&(other.1, other.2)))
    });
    leaving.into_iter().map(|(_, number, chunk)| (number, chunk)).collect()
}

/// What brings a part of a volume.
fn bring(volume: &Volume, at: u64, length: u64) -> (String, Bring) {
    let name = volume.name().to_owned();
    let volume = volume.clone();
    let work = move || {
        volume.promote(at, length).unwrap_or_else(|error| {
            // Requests meet the same, and tell it.
            tracing::debug!(volume = volume.name(), %error, "a chunk could not be brought");
            0
        })
    };
    (name, Box::new(work))
}

/// Bytes of an extent that are on the fast device, if a chunk's bytes there are spread over it evenly.
fn fast_of(extent: &Extent, chunk: u64, here: &[u64]) -> u64 {
    let there = |number: u64| here.get(number as usize).copied().unwrap_or(0);
    extent.parts(chunk).map(|(number, part)| part.length * there(number) / chunk).sum()
}
