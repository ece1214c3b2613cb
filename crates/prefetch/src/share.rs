//! For which share of the next window units may come (P5b.4): `r`, which follows what a window has shown beside those before it.
//!
//! The past of a figure is the mean of its windows, the one before counted whole, each earlier one half of the one after it. Then:
//!
//! - the hit ratio has fallen sharply: other things are used now, and `r` makes a leap;
//! - the hit ratio rises, or work done times what still misses does: bringing pays, and `r` rises;
//! - neither does: `r` falls, because bringing takes the slow device's time from requests.
//!
//! Work done is the guests' own figure where agents tell it (transactions a second), else the reads that were answered a second. Without an application's figure a
//! second one counts besides, which the paper has not: how long the guests' own reads of the slow device take. When that rises while the hit ratio does
//! not, `r` falls faster.

/// What a window has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observation {
    /// The share of reads that the fast device has answered, 0 to 1; none if there was no read.
    pub hit_ratio: Option<f64>,
    /// What guests have got done a second.
    pub work: f64,
    /// How long guests' reads of the slow device took, in seconds; none if there was none.
    pub latency: Option<f64>,
}

/// The rule's numbers. The default works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareSettings {
    /// The share that windows begin with.
    pub first: f64,
    /// The least: some time is always left to see what is used.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// How much it rises, and falls, at a step.
    pub step: f64,
    /// How much it rises when other things are used.
    pub leap: f64,
    /// A change of the hit ratio that counts as one.
    pub change: f64,
    /// A fall of the hit ratio after which other things are used.
    pub sharp: f64,
}

impl Default for ShareSettings {
    fn default() -> Self {
        Self { first: 0.8, least: 0.05, most: 0.95, step: 0.05, leap: 0.4, change: 0.01, sharp: 0.1 }
    }
}

/// The share, over windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    settings: ShareSettings,
    now: f64,
    hit_ratio: Past,
    product: Past,
    latency: Past,
}

/// The weighted past of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Past {
    sum: f64,
    weight: f64,
}

impl Past {
    fn mean(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }

    fn add(&mut self, value: f64) {
        self.sum = self.sum / 2.0 + value;
        self.weight = self.weight / 2.0 + 1.0;
    }
}

/// By how much a figure is above its past, as a part of that.
fn rise(now: f64, past: f64) -> f64 {
    (now - past) / past.abs().max(1e-9)
}

/// A rise of a product or a latency that counts as one.
const RISE: f64 = 0.05;
/// A rise of the latency after which the slow device is taken for loaded.
const LOADED: f64 = 0.3;

impl Share {
    /// One that begins.
    pub fn new(settings: ShareSettings) -> Self {
        let now = settings.first.clamp(settings.least, settings.most);
        Self { settings, now, hit_ratio: Past::default(), product: Past::default(), latency: Past::default() }
    }

    /// The share of the window that begins now, 0 to 1.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Takes what a window has shown, and gives the share of the next one. A window without reads says nothing, and changes nothing.
    pub fn observe(&mut self, seen: Observation) -> f64 {
        let Some(hit_ratio) = seen.hit_ratio.map(|ratio| ratio.clamp(0.0, 1.0)) else { return self.now };
        // An agent may tell anything.
        let work = if seen.work.is_finite() { seen.work.max(0.0) } else { 0.0 };
        let product = work * (1.0 - hit_ratio);
        if let (Some(past_ratio), Some(past_product)) = (self.hit_ratio.mean(), self.product.mean()) {
            let ShareSettings { step, leap, change, sharp, least, most, .. } = self.settings;
            let risen = hit_ratio - past_ratio;
            let loaded = seen.latency.zip(self.latency.mean()).is_some_and(|(now, past)| rise(now, past) > LOADED);
            let by = if risen < -sharp {
                leap
            } else if risen > change {
                step
            } else if loaded {
                -2.0 * step
            } else if rise(product, past_product) > RISE {
                step
            } else {
                -step
            };
            self.now = (self.now + by).clamp(least, most);
        }
        self.hit_ratio.add(hit_ratio);
        self.product.add(product);
        if let Some(latency) = seen.latency {
            self.latency.add(latency);
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(hit_ratio: f64, work: f64) -> Observation {
        Observation { hit_ratio: Some(hit_ratio), work, latency: None }
    }

    /// One that has fallen to its least.
    fn at_rest() -> Share {
        let mut share = Share::new(ShareSettings::default());
        for _ in 0..50 {
            share.observe(seen(0.8, 100.0));
        }
        share
    }

    #[test]
    fn it_falls_while_nothing_changes_and_stays_above_the_least() {
        let mut share = Share::new(ShareSettings::default());
        assert!((share.now() - 0.8).abs() < 1e-9);
        share.observe(seen(0.8, 100.0));
        assert!((share.now() - 0.8).abs() < 1e-9, "there is no past yet");
        let second = share.observe(seen(0.8, 100.0));
        assert!((second - 0.75).abs() < 1e-9);
        assert!((at_rest().now() - 0.05).abs() < 1e-9);
    }

    #[test]
    fn it_rises_while_hits_do_or_more_is_done_with_as_many() {
        let mut share = at_rest();
        assert!(share.observe(seen(0.85, 100.0)) > 0.05, "hits");
        let mut share = at_rest();
        assert!(share.observe(seen(0.8, 120.0)) > 0.05, "work");
        let mut share = at_rest();
        share.observe(seen(0.85, 0.0));
        assert!(share.observe(seen(0.85, 0.0)) > 0.1, "still above its past");
    }

    #[test]
    fn it_leaps_when_other_things_are_used() {
        let mut share = at_rest();
        assert!((share.observe(seen(0.5, 60.0)) - 0.45).abs() < 1e-9);
        assert!(share.observe(seen(0.5, 60.0)) > 0.8, "against the past it is still sharp");
        assert!(share.observe(seen(0.1, 60.0)) <= 0.95);
    }

    #[test]
    fn it_falls_faster_when_the_slow_device_is_loaded() {
        let slow = |latency| Observation { latency: Some(latency), ..seen(0.8, 100.0) };
        let [mut one, mut other] = [Share::new(ShareSettings::default()), Share::new(ShareSettings::default())];
        for share in [&mut one, &mut other] {
            share.observe(slow(0.01));
        }
        assert!(one.observe(slow(0.01)) > other.observe(slow(0.02)));
    }

    #[test]
    fn the_past_counts_half_of_what_is_after_it() {
        let mut past = Past::default();
        for value in [4.0, 8.0, 16.0] {
            past.add(value);
        }
        // (16 + 8/2 + 4/4) / (1 + 1/2 + 1/4)
        assert!((past.mean().unwrap() - 12.0).abs() < 1e-9);
    }

    #[test]
    fn a_window_without_reads_changes_nothing_and_no_figure_breaks_it() {
        let mut share = at_rest();
        let before = share.clone();
        share.observe(Observation { hit_ratio: None, work: f64::NAN, latency: None });
        assert_eq!(share, before);
        for work in [f64::INFINITY, f64::NAN, -1.0] {
            let now = share.observe(seen(0.8, work));
            assert!((0.05..=0.95).contains(&now));
        }
        for _ in 0..20 {
            share.observe(seen(0.8, 100.0));
        }
        assert!(share.observe(seen(0.8, 150.0)) > share.settings.least, "and it goes on");
    }
}
