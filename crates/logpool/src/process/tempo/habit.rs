//! A member's habit: how long it stayed away the last times.

use std::time::Instant;

/// So many times are remembered.
const TIMES: usize = 8;

/// A member's.
#[derive(Debug, Default)]
pub(super) struct Habit {
    /// Requests that wait.
    waiting: u32,
    /// When it was answered last.
    answered: Option<Instant>,
    /// Seconds that it stayed away, the newest over the oldest.
    away: [f64; TIMES],
    /// How many of them there are.
    known: usize,
    /// Which is the oldest, once all are there.
    next: usize,
}

impl Habit {
    pub(super) fn arrives(&mut self, now: Instant) {
        self.waiting += 1;
        if let Some(answered) = self.answered.take() {
            self.away[self.next] = now.saturating_duration_since(answered).as_secs_f64();
            self.next = (self.next + 1) % TIMES;
            self.known = (self.known + 1).min(TIMES);
        }
    }

    pub(super) fn answered(&mut self, now: Instant) {
        self.waiting = self.waiting.saturating_sub(1);
        self.answered = Some(now);
    }

    /// When it may come within the next `room` seconds: seconds from now, and how likely each of them is. Who has stayed away
    /// for longer than ever, by more than the grace, is not expected any more.
    ///
    /// If it is not expected, gives how often in a second it comes, as it were at random.
    pub(super) fn due(&self, now: Instant, grace: f64, room: f64, due: &mut Vec<Due>) -> f64 {
        let Some(answered) = self.answered.filter(|_| self.waiting == 0) else { return 0.0 };
        let since = now.saturating_duration_since(answered).as_secs_f64();
        let away = &self.away[..self.known];
        let left = || away.iter().map(|away| away + grace - since).filter(|left| *left > 0.0);
        let chance = 1.0 / left().count() as f64;
        let before = due.len();
        due.extend(left().filter(|left| *left <= room).map(|time| Due { time, chance, is_last: false }));
        let mine = &mut due[before..];
        if mine.is_empty() {
            let mean = away.iter().sum::<f64>() / away.len() as f64;
            return if away.is_empty() { 0.0 } else { 1.0 / mean.max(since) };
        }
        if mine.len() == left().count()
            && let Some(last) = mine.iter_mut().max_by(|one, other| one.time.total_cmp(&other.time))
        {
            last.is_last = true;
        }
        0.0
    }
}

/// A time at which a member may come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// Seconds from now.
    pub(super) time: f64,
    /// How likely it comes just then.
    pub(super) chance: f64,
    /// It will have come by then.
    pub(super) is_last: bool,
}

impl Due {
    /// At a time that is nobody's.
    pub(super) fn nobody(time: f64) -> Self {
        Self { time, chance: 0.0, is_last: false }
    }
}
