//! The arm and the rotation: when the head has passed over a run of bytes.

use std::time::Duration;

use super::super::HddSettings;

/// A wait for nearly a whole turn is a rounding error: the head stands where it should.
const WHOLE_TURN: f64 = 0.9999;

/// Where the head stands, and the geometry it moves in. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct Mechanics {
    /// One revolution.
    turn: f64,
    /// Bytes of each track.
    pub(super) track: u64,
    /// All tracks but the first one: the longest way of the arm.
    stroke: f64,
    /// The seek to the next track, and what the longest seek takes beyond it.
    seek: (f64, f64),
    write_settle: f64,
    /// The track under the head.
    head: u64,
}

/// What the head is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Reading,
    Writing,
}

impl Mechanics {
    pub(super) fn new(settings: &HddSettings) -> Self {
        let nanos = |time: Duration| time.as_nanos() as f64;
        let turn = 60e9 / f64::from(settings.rpm.max(1));
        let (next, average) = (nanos(settings.seek_track), nanos(settings.seek_average));
        // Whoever reads on sees a turn and a change of track for each track.
        let track = (settings.sustained.as_u64() as f64 * (turn + next) / 1e9).max(1.0) as u64;
        Self {
            turn,
            track,
            stroke: (settings.capacity.as_u64() / track).max(1) as f64,
            // The mean of sqrt(d) over two places drawn evenly is 8/15.
            seek: (next, (average - next).max(0.0) * 15.0 / 8.0),
            write_settle: nanos(settings.write_settle),
            head: 0,
        }
    }

    /// Moves the head over that run, beginning at `start`; returns when it is through.
    pub(super) fn pass(&mut self, start: Duration, position: u64, length: u64, usage: Use) -> Duration {
        let (first, last) = (position / self.track, (position + length.max(1) - 1) / self.track);
        let mut at = start.as_nanos() as f64 + self.seek_time(first, usage);
        // Each track begins a track change later than the one before, so that reading on loses no turn.
        let skew = first as f64 * self.seek.0 / self.turn;
        let wanted = (position % self.track) as f64 / self.track as f64 + skew;
        let wait = (wanted - at / self.turn).rem_euclid(1.0);
        if wait < WHOLE_TURN {
            at += wait * self.turn;
        }
        at += self.streaming(length, last - first);
        self.head = last;
        Duration::from_nanos(at.round() as u64)
    }

    fn seek_time(&self, track: u64, usage: Use) -> f64 {
        let distance = track.abs_diff(self.head);
        if distance == 0 {
            return 0.0;
        }
        let share = ((distance - 1) as f64 / self.stroke).min(1.0);
        let settle = if usage == Use::Writing { self.write_settle } else { 0.0 };
        self.seek.0 + self.seek.1 * share.sqrt() + settle
    }

    fn streaming(&self, length: u64, crossings: u64) -> f64 {
        length as f64 / self.track as f64 * self.turn + crossings as f64 * self.seek.0
    }

    /// The time that the head needs from one place to a later one when it goes on without a pause.
    pub(super) fn reading_on(&self, from: u64, to: u64) -> Duration {
        let crossings = (to.max(1) - 1) / self.track - (from.max(1) - 1) / self.track;
        Duration::from_nanos(self.streaming(to - from, crossings) as u64)
    }

    /// Where the head is after it went on from that place for that time, about.
    pub(super) fn reached(&self, from: u64, time: Duration) -> u64 {
        from + (time.as_nanos() as f64 / (self.turn + self.seek.0) * self.track as f64) as u64
    }

    /// The head has gone on to that place.
    pub(super) fn stand_at(&mut self, position: u64) {
        self.head = position / self.track;
    }
}
