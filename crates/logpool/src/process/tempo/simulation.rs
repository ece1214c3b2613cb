//! Commits against a modelled medium in virtual time: every way of waiting under the same loads, without noise.
//!
//! Members commit, are answered, stay away for a time, and commit again. A medium says when a write that begins ends. The way
//! of waiting is a fixed delay, as the log process' own thread has it, or [`Tempo`] by the very calls that the process makes.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::Tempo;
use crate::MemberId;

/// When a write ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Medium {
    /// The place comes round once in a turn.
    Turns(f64),
    /// Each write takes so long.
    Flat(f64),
}

impl Medium {
    /// A hard disk of 7200 turns in a minute.
    pub(super) const HDD: Self = Self::Turns(60.0 / 7200.0);
    pub(super) const SSD: Self = Self::Flat(170e-6);
    pub(super) const FAST: Self = Self::Flat(5e-6);

    /// What a write takes that begins at once.
    pub(super) fn time(self) -> f64 {
        match self {
            Self::Turns(time) | Self::Flat(time) => time,
        }
    }

    fn end(self, begin: f64) -> f64 {
        match self {
            // A write that begins when the place has just gone by waits for the next turn.
            Self::Turns(turn) => ((begin + turn / 100.0) / turn).ceil() * turn,
            Self::Flat(time) => begin + time,
        }
    }
}

/// How long members stay away: shares of what a write takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Away {
    /// Always as long, and up to so much longer.
    Even(f64, f64),
    /// Exponentially distributed.
    Random(f64),
    /// A few times as long, then much longer: times of a burst, within it, and the mean between.
    Bursts(u32, f64, f64),
    /// Half of the members so, the others so.
    Mixed(f64, f64),
    /// So long on average; after so many commits all members but the first have gone.
    Leaving(f64, u32),
    /// As the first, but one time in so many it is that much longer.
    Hiccups(f64, u32, f64),
}

/// Writes of a run.
const WRITES: u32 = 300;

/// How the log process waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Delay(f64),
    Auto,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) medium: Medium,
    pub(super) members: u16,
    pub(super) away: Away,
}

/// What came of it: commits in a second, and the mean time until one was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) throughput: f64,
    pub(super) latency: f64,
}

struct Run {
    load: Load,
    random: Rng,
    /// When each member comes next, if it is away.
    comes: Vec<Option<f64>>,
    /// When each came that waits.
    came: Vec<f64>,
    /// Commits of each.
    done: Vec<u32>,
}

impl Run {
    fn away(&mut self, member: usize) -> f64 {
        self.done[member] += 1;
        let unit = self.load.medium.time();
        let drawn = self.random.f64();
        unit * match self.load.away {
            Away::Even(least, more) => least + more * drawn,
            Away::Leaving(mean, _) => mean * (0.9 + 0.2 * drawn),
            Away::Random(mean) => -mean * (1.0 - drawn).ln(),
            Away::Mixed(some, others) => (if member.is_multiple_of(2) { some } else { others }) * (0.9 + 0.2 * drawn),
            Away::Hiccups(usual, times, longer) => {
                if self.random.u32(..times) == 0 {
                    longer
                } else {
                    usual * (0.8 + 0.4 * drawn)
                }
            }
            Away::Bursts(times, within, between) => {
                if (self.done[member] + member as u32).is_multiple_of(times) {
                    between * 2.0 * drawn
                } else {
                    within * (0.8 + 0.4 * drawn)
                }
            }
        }
    }

    /// The next one who comes, and when.
    fn next(&self) -> Option<(usize, f64)> {
        let due = self.comes.iter().enumerate().filter_map(|(member, at)| Some((member, (*at)?)));
        due.min_by(|one, other| one.1.total_cmp(&other.1))
    }
}

/// So many writes of a load.
pub(super) fn run(load: Load, way: Way, writes: u32, seed: u64) -> Outcome {
    let members = usize::from(load.members);
    let random = Rng::with_seed(seed);
    let mut run = Run { load, random, comes: vec![None; members], came: vec![0.0; members], done: vec![0; members] };
    run.comes = (0..members).map(|member| Some(run.away(member))).collect();
    let (mut tempo, zero) = (Tempo::default(), Instant::now());
    let at = |seconds: f64| zero + Duration::from_secs_f64(seconds);
    let (mut now, mut queued, mut commits, mut waited) = (0.0, Vec::new(), 0_u64, 0.0);
    let mut counted_from = 0.0;
    for number in 0..writes {
        // What it takes to learn is not what is asked here.
        if number == writes / 10 {
            (counted_from, commits, waited) = (now, 0, 0.0);
        }
        let arrive = |run: &mut Run, queued: &mut Vec<usize>, tempo: &mut Tempo| {
            let (member, time) = run.next()?;
            run.comes[member] = None;
            run.came[member] = time;
            queued.push(member);
            tempo.arrives_at(MemberId(member as u16), at(time));
            Some(time)
        };
        // Whoever came during the write before is there.
        while run.next().is_some_and(|(_, time)| time <= now) {
            arrive(&mut run, &mut queued, &mut tempo);
        }
        if queued.is_empty() {
            now = arrive(&mut run, &mut queued, &mut tempo).expect("whoever is not queued is away");
        }
        match way {
            Way::Delay(delay) => now += delay,
            Way::Auto => {
                while let Some((more, time)) = tempo.worth_waiting_at(queued.len(), at(now)) {
                    let (until, enough) = (now + time.as_secs_f64(), queued.len() + more);
                    while queued.len() < enough && run.next().is_some_and(|(_, time)| time <= until) {
                        now = arrive(&mut run, &mut queued, &mut tempo).unwrap_or(now);
                    }
                    if queued.len() < enough {
                        now = until;
                        break;
                    }
                }
            }
        }
        while run.next().is_some_and(|(_, time)| time <= now) {
            arrive(&mut run, &mut queued, &mut tempo);
        }
        let written = std::mem::take(&mut queued);
        let end = load.medium.end(now);
        while run.next().is_some_and(|(_, time)| time <= end) {
            arrive(&mut run, &mut queued, &mut tempo);
        }
        let answered = written.iter().map(|member| MemberId(*member as u16));
        tempo.wrote_at(Duration::from_secs_f64(end - now), answered, at(end));
        now = end;
        for member in written {
            commits += 1;
            waited += now - run.came[member];
            let has_gone = matches!(load.away, Away::Leaving(_, most) if member > 0 && run.done[member] > most);
            run.comes[member] = if has_gone { None } else { Some(now + run.away(member)) };
        }
    }
    Outcome { throughput: commits as f64 / (now - counted_from), latency: waited / commits as f64 }
}

/// Fixed delays, in shares of what a write takes: somebody who tries for long finds the best of them.
const DELAYS: [f64; 12] = [0.0, 1.0 / 64.0, 1.0 / 32.0, 1.0 / 16.0, 0.12, 0.25, 0.5, 0.75, 0.9, 1.0, 1.5, 2.0];

/// What `auto` commits, as a share of what the best fixed delay does, which is given as well.
fn beside_the_best(load: Load, writes: u32) -> (f64, f64) {
    let fixed = |delay: f64| run(load, Way::Delay(delay * load.medium.time()), writes, 1).throughput;
    let best = DELAYS.into_iter().map(|delay| (delay, fixed(delay))).max_by(|one, other| one.1.total_cmp(&other.1));
    let (delay, best) = best.expect("there are some");
    (run(load, Way::Auto, writes, 1).throughput / best, delay)
}

/// Loads with each of these numbers of members and means of the time that they stay away.
fn loads(media: &[Medium], members: &[u16], means: &[f64]) -> Vec<Load> {
    let of = |mean: f64| {
        let evens = [0.0, 0.2, 1.0].map(|more| Away::Even(mean, more * mean));
        let bursts = Away::Bursts(5, mean, 5.0 + mean);
        evens.into_iter().chain([
            Away::Random(mean),
            bursts,
            Away::Mixed(mean, 3.0 * mean),
            Away::Hiccups(mean, 50, 5.0),
        ])
    };
    let mut loads = Vec::new();
    for &medium in media {
        for &members in members {
            let aways = means.iter().flat_map(|&mean| of(mean));
            loads.extend(aways.map(|away| Load { medium, members, away }));
        }
    }
    loads
}

/// Every load has at least so much of the best.
fn hold_up(loads: &[Load], least: f64) {
    let beside = loads.iter().map(|&load| (load, beside_the_best(load, WRITES)));
    let behind: Vec<_> = beside.filter(|(_, (share, _))| *share < least).collect();
    assert!(behind.is_empty(), "of {} loads, with the share of the best and its delay:\n{behind:#?}", loads.len());
}

#[test]
fn no_fixed_delay_commits_much_more_than_auto_however_long_members_stay_away() {
    hold_up(&loads(&[Medium::HDD, Medium::SSD], &[2, 4, 8], &[0.02, 0.3, 0.6, 1.5]), 0.95);
}

/// Takes minutes where nothing is optimized.
#[test]
#[ignore = "takes minutes"]
fn no_fixed_delay_commits_much_more_than_auto_with_any_load() {
    let (members, means) = ([1, 2, 3, 4, 8, 16], [0.001, 0.02, 0.1, 0.3, 0.6, 0.9, 1.5, 3.0]);
    hold_up(&loads(&[Medium::HDD, Medium::SSD, Medium::FAST], &members, &means), 0.93);
}

#[test]
fn a_member_that_is_alone_or_left_alone_is_answered_as_soon_as_if_nobody_waited() {
    for medium in [Medium::HDD, Medium::SSD, Medium::FAST] {
        for mean in [0.02, 0.3, 1.5] {
            for (members, away) in [(1, Away::Even(mean, mean)), (1, Away::Random(mean)), (4, Away::Leaving(mean, 40))]
            {
                let load = Load { medium, members, away };
                let [auto, sleep] = [Way::Auto, Way::Delay(0.0)].map(|way| run(load, way, 2000, 1).latency);
                assert!(auto <= sleep * 1.002, "{load:?}: {auto} and {sleep}");
            }
        }
    }
}
