//! What the medium makes of a write that begins later.
//!
//! ```text
//!  the write before ends      the next one begins                ends
//!  │◀──────── gap ───────────▶│◀───────────── took ─────────────▶│
//!
//!  a solid-state drive: took is always the same, so a later begin is a later end          loss 1
//!  a disk that turns:   the end is when the place has come round, whenever it began       loss 0, within the turn
//! ```
//!
//! Both are learned from writes that followed the one before at once and from those that did not. Where there are none of the
//! latter, one write in many is held back for a moment, if anybody might come meanwhile.

use std::time::{Duration, Instant};

/// Share of the newest observation in an average, once there are as many as that.
const WEIGHT: f64 = 0.1;

/// The share of a write's time up to which a gap is none.
const NONE: f64 = 1.0 / 8.0;

/// The share of a write's time up to which a later begin may be no later end.
const ROOM: f64 = 7.0 / 8.0;

/// So many writes without a gap are enough to make one: before it is known what that costs, and when it is.
const TRIED_AFTER: [u32; 2] = [64, 1024];

/// An average in which the newest weigh most.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    value: f64,
    count: u32,
}

impl Average {
    fn add(&mut self, value: f64) {
        self.count = self.count.saturating_add(1);
        self.value += (value - self.value) * WEIGHT.max(1.0 / f64::from(self.count));
    }
}

/// Its habits.
#[derive(Debug, Default)]
pub(super) struct Medium {
    /// When a write ended last.
    ended: Option<Instant>,
    /// Seconds of a write.
    took: Average,
    /// Seconds of a write that begins when the one before has ended.
    after_another: Average,
    /// The share of a gap by which the write ends later.
    loss: Average,
    /// Writes since a gap has told something.
    untold: u32,
}

impl Medium {
    pub(super) fn wrote(&mut self, took: Duration, now: Instant) {
        let took = took.as_secs_f64();
        self.took.add(took);
        self.untold = self.untold.saturating_add(1);
        let Some(ended) = self.ended.replace(now) else { return };
        let between = now.saturating_duration_since(ended).as_secs_f64();
        let (gap, write) = (between - took, self.write());
        if gap <= write * NONE {
            self.after_another.add(between);
        } else if gap <= write && self.after_another.count > 0 {
            self.loss.add(((between - write) / gap).clamp(0.0, 1.0));
            self.untold = 0;
        }
    }

    /// Seconds of a write, whenever it began.
    pub(super) fn took(&self) -> f64 {
        self.took.value
    }

    /// Seconds of a write that begins when the one before has ended.
    pub(super) fn write(&self) -> f64 {
        if self.after_another.count > 0 { self.after_another.value } else { self.took.value }
    }

    /// By how much later a write ends that begins a second later.
    pub(super) fn loss(&self) -> f64 {
        if self.loss.count > 0 { self.loss.value } else { 1.0 }
    }

    /// Seconds since a write has ended.
    pub(super) fn gap(&self, now: Instant) -> f64 {
        self.ended.map_or(0.0, |ended| now.saturating_duration_since(ended).as_secs_f64())
    }

    /// Whether it is time for a gap, to see what it costs.
    pub(super) fn should_be_tried(&self) -> bool {
        self.untold >= TRIED_AFTER[usize::from(self.loss.count > 0)]
    }

    /// For how many seconds from now a write can be held back at that rate.
    pub(super) fn room(&self, now: Instant) -> f64 {
        if self.loss() > 0.5 { self.write() } else { (self.write() * ROOM - self.gap(now)).max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes with these gaps, each of which ends as told by the gap.
    fn learned(gaps: &[f64], took: impl Fn(f64) -> f64) -> Medium {
        let (mut medium, mut now) = (Medium::default(), Instant::now());
        for gap in gaps.iter().cycle().take(40) {
            now += Duration::from_secs_f64(gap + took(*gap));
            medium.wrote(Duration::from_secs_f64(took(*gap)), now);
        }
        medium
    }

    #[test]
    fn a_later_begin_is_a_later_end_on_a_drive_and_none_on_a_disk_that_turns() {
        let drive = learned(&[0.0, 0.3], |_| 1.0);
        assert!((drive.loss() - 1.0).abs() < 1e-6 && (drive.write() - 1.0).abs() < 1e-6, "{drive:?}");
        let disk = learned(&[0.0, 0.3], |gap| 1.0 - gap);
        assert!(disk.loss() < 1e-6 && (disk.write() - 1.0).abs() < 1e-6, "{disk:?}");
        let ended = disk.ended.unwrap();
        assert!((disk.room(ended + Duration::from_millis(500)) - 0.375).abs() < 1e-6);
        assert!(disk.room(ended + Duration::from_secs(3)) == 0.0);
    }

    #[test]
    fn a_medium_without_gaps_is_tried_and_then_known() {
        let mut medium = learned(&[0.0], |_| 1.0);
        assert!(!medium.should_be_tried());
        for _ in 0..TRIED_AFTER[0] {
            let now = medium.ended.unwrap() + Duration::from_secs(1);
            medium.wrote(Duration::from_secs(1), now);
        }
        assert!(medium.should_be_tried() && (medium.loss() - 1.0).abs() < 1e-6);
        let now = medium.ended.unwrap() + Duration::from_secs(1);
        medium.wrote(Duration::from_millis(750), now);
        assert!(!medium.should_be_tried() && medium.loss() < 1e-6);
    }
}
