//! Steering one scan: which placement for the next pages, and when to change it.
//!
//! A scan goes on in stretches of pages. Before each the pilot estimates what is left in both placements; after each
//! it is told what that took, and corrects that placement's estimates by as much as the last ones were wrong. Each
//! placement has a correction of its own: why it was slower than thought is not guessed. What is known otherwise, the
//! load that the node reports and the link as it is measured, goes into the model at once.
//!
//! What is never tried is never corrected. So both placements are tried at the beginning, the better one first, with a
//! few pages each, and the other one again from time to time, unless it is hopeless. The pilot changes its mind only
//! for a clear gain, since the figures are noisy and a change is not free.

use std::time::Duration;

use ishigaki_base::ByteSize;

use crate::cost::{Estimate, Link, Scan, Surroundings, estimate};
use crate::{Placement, Wish};

/// A change must save this part of what is left.
const CLEAR_GAIN: f64 = 0.1;
/// How much an observation counts against those before it.
const WEIGHT: f64 = 0.5;
/// How far one observation may move a figure.
const LARGEST_STEP: f64 = 16.0;
/// Into how many stretches a scan is cut, about.
const STRETCHES: u64 = 64;
/// Which part of the scan is enough to try a placement.
const TRIAL: u64 = 512;
/// Scans of fewer pages have nothing to gain from trials.
const WORTH_TRIALS: u64 = 256;
/// After how many stretches the other placement is tried again.
const AGAIN: u32 = 16;
/// How many times slower than the better placement one must seem to be called hopeless: before it was tried, and after.
const HOPELESS_UNSEEN: f64 = 16.0;
const HOPELESS_SEEN: f64 = 3.0;

/// What a stretch of pages took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// How many pages it had; at least one.
    pub pages: u64,
    /// How long it took while nothing else was done for this scan.
    pub time: Duration,
    /// Threads of others that are running or ready to run on the node, as it says itself, if it has.
    pub others_on_node: Option<f64>,
    /// The same on this machine.
    pub others_here: Option<f64>,
    /// The link as it is measured now, if it is measured elsewhere, too.
    pub link: Option<Link>,
}

/// Decides where each stretch of one scan is worked on.
#[derive(Clone, Debug)]
pub struct Pilot {
    wish: Wish,
    scan: Scan,
    left: u64,
    around: Surroundings,
    /// Where the scan is worked on, apart from trials.
    chosen: Placement,
    /// The next stretch only tries the other placement.
    on_trial: bool,
    fetch: Tried,
    push: Tried,
    changes: u32,
}

/// By how much estimates of each placement are to be multiplied. Worth keeping for the next scan of the same data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corrections {
    /// Of fetching.
    pub fetch: f64,
    /// Of pushing.
    pub push: f64,
}

impl Default for Corrections {
    /// None: the model is right.
    fn default() -> Self {
        Self { fetch: 1.0, push: 1.0 }
    }
}

/// What is known of a placement by having tried it.
#[derive(Clone, Copy, Debug)]
struct Tried {
    /// What estimates are to be multiplied by.
    correction: f64,
    times: u32,
    /// Stretches since it was tried last.
    ago: u32,
}

impl Pilot {
    /// For a scan of pages that are not on this machine, with what earlier scans of them have shown.
    pub fn new(wish: Wish, scan: Scan, around: Surroundings, corrections: Corrections) -> Self {
        let tried = |correction| Tried { correction, times: 0, ago: 0 };
        let (fetch, push) = (tried(corrections.fetch), tried(corrections.push));
        let chosen = Placement::Push;
        let mut pilot = Self { wish, scan, left: scan.pages, around, chosen, on_trial: false, fetch, push, changes: 0 };
        let fetch_is_faster = pilot.time(Placement::Fetch) < pilot.time(Placement::Push);
        pilot.chosen = wish.settled(false).unwrap_or(if fetch_is_faster { Placement::Fetch } else { Placement::Push });
        pilot
    }

    /// Where the next stretch is worked on.
    pub fn placement(&self) -> Placement {
        if self.on_trial { other(self.chosen) } else { self.chosen }
    }

    /// How many pages the next stretch should have; 0 when all are done. Stretches are short, that the pilot may
    /// change its mind soon, and those of trials very short.
    pub fn stretch(&self) -> u64 {
        let first = self.wish == Wish::Auto && self.fetch.times + self.push.times == 0;
        let is_trial = (self.on_trial || first) && self.scan.pages >= WORTH_TRIALS;
        self.left.min(self.scan.pages.div_ceil(if is_trial { TRIAL } else { STRETCHES }))
    }

    /// What the pages that are left are estimated to take, where they are worked on but for trials.
    pub fn estimate(&self) -> Estimate {
        let estimate = estimate(self.chosen, &part(&self.scan, self.left), &self.around);
        let time = Duration::try_from_secs_f64(self.time(self.chosen)).unwrap_or(Duration::MAX);
        Estimate { time, ..estimate }
    }

    /// How often it changed its mind; trials do not count.
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// What is known by now, for the next scan.
    pub fn corrections(&self) -> Corrections {
        Corrections { fetch: self.fetch.correction, push: self.push.correction }
    }

    /// Takes in what a stretch took, or as much of it as is done, and decides about the next one.
    pub fn observe(&mut self, observation: &Observation) {
        let done = part(&self.scan, observation.pages);
        if let Some(others) = observation.others_on_node {
            self.around.node.others = others;
        }
        if let Some(others) = observation.others_here {
            self.around.client.others = others;
        }
        if let Some(link) = observation.link {
            self.around.link = link;
        }
        let placement = self.placement();
        self.learn(placement, &done, observation.time);
        self.tried(other(placement)).ago += 1;
        self.tried(placement).times += 1;
        self.tried(placement).ago = 0;
        self.left = self.left.saturating_sub(observation.pages);
        self.on_trial = false;
        if self.wish == Wish::Auto && self.left > 0 {
            self.think_again();
        }
    }

    fn tried(&mut self, placement: Placement) -> &mut Tried {
        if placement == Placement::Push { &mut self.push } else { &mut self.fetch }
    }

    /// What the rest of the scan takes in a placement, corrected, in seconds.
    fn time(&self, placement: Placement) -> f64 {
        let tried = if placement == Placement::Push { self.push } else { self.fetch };
        estimate(placement, &part(&self.scan, self.left), &self.around).time.as_secs_f64() * tried.correction
    }

    /// Corrects a placement's estimates by what a stretch took.
    fn learn(&mut self, placement: Placement, done: &Scan, seen: Duration) {
        let thought = estimate(placement, done, &self.around).time;
        if thought == Duration::MAX || thought.is_zero() || seen.is_zero() {
            return;
        }
        let ratio = seen.as_secs_f64() / thought.as_secs_f64();
        let tried = self.tried(placement);
        // The first one counts alone; then half of the way, in equal steps up and down.
        let weight = if tried.times == 0 { 1.0 } else { WEIGHT };
        let step = (ratio / tried.correction).clamp(1.0 / LARGEST_STEP, LARGEST_STEP).powf(weight);
        tried.correction *= step;
    }

    fn think_again(&mut self) {
        let (current, alternative) = (self.time(self.chosen), self.time(other(self.chosen)));
        let tried = *self.tried(other(self.chosen));
        let few_pages = self.scan.pages < WORTH_TRIALS;
        // Without trials the estimate must do.
        if (tried.times > 0 || few_pages) && current - alternative > CLEAR_GAIN * current {
            self.chosen = other(self.chosen);
            self.changes += 1;
        } else if !few_pages {
            let hopeless = if tried.times == 0 { HOPELESS_UNSEEN } else { HOPELESS_SEEN };
            let due = tried.times == 0 || tried.ago >= AGAIN;
            self.on_trial = due && alternative < hopeless * current;
        }
    }
}

/// The other one of the two that can be chosen.
fn other(placement: Placement) -> Placement {
    if placement == Placement::Push { Placement::Fetch } else { Placement::Push }
}

/// The same scan of fewer pages.
fn part(scan: &Scan, pages: u64) -> Scan {
    let share = if scan.pages == 0 { 0.0 } else { pages as f64 / scan.pages as f64 };
    Scan {
        pages,
        work: scan.work.mul_f64(share),
        results: ByteSize((scan.results.as_u64() as f64 * share) as u64),
        results_work: scan.results_work.mul_f64(share),
        ..*scan
    }
}
