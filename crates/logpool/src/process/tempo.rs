//! When members come back, and whether a write should wait for them (paper 4 tunes one delay by hand).
//!
//! A member that was answered stays away for a while, then commits again. How long, and how much that varies, is known from
//! its last times. A write that is about to begin could wait a time *w* for those of whom it is known that they are about
//! to come: each that comes in time, *k* of them, need not wait for the whole write that it would otherwise have missed,
//! *S*; each request waits *w* longer that is there already, *q* of them, and so do the *k*. So waiting saves
//! *k S - (q + k) w*. The best *w* is the time of one of their arrivals. Nobody about to come: nothing is saved, no wait.
//!
//! The wait ends when those *k* are there. Who is late is given a grace of a small share of *S*, since to miss them costs
//! all of *S*: on a disk a thread that wakes up late is still in time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::MemberId;

/// Share of the newest observation in an average.
const WEIGHT: f64 = 0.2;

/// Who stays away so many times longer than usual has gone.
const PATIENCE: f64 = 4.0;

/// The share of a write's time for which it is worth waiting for who is late.
const GRACE: f64 = 1.0 / 4.0;

/// Members' habits.
#[derive(Debug, Default)]
pub(super) struct Tempo {
    members: BTreeMap<MemberId, Habit>,
    /// Seconds of a write, on average.
    write: f64,
}

/// A member's.
#[derive(Debug, Default)]
struct Habit {
    /// Requests that wait.
    waiting: u32,
    /// When it was answered last.
    answered: Option<Instant>,
    /// Seconds that it stays away, on average, and how far from that it is.
    away: Option<(f64, f64)>,
}

impl Tempo {
    /// How long a write takes.
    pub(super) fn write_time(&self) -> Duration {
        Duration::from_secs_f64(self.write)
    }

    /// A request has come.
    pub(super) fn arrives(&mut self, member: MemberId) {
        self.arrives_at(member, Instant::now());
    }

    fn arrives_at(&mut self, member: MemberId, now: Instant) {
        let habit = self.members.entry(member).or_default();
        habit.waiting += 1;
        if let Some(answered) = habit.answered.take() {
            let away = now.saturating_duration_since(answered).as_secs_f64();
            habit.away = Some(match habit.away {
                None => (away, away),
                Some((mean, spread)) => {
                    // Once it was held up by something else is not a habit yet.
                    let away = away.min(mean * PATIENCE);
                    (mean + (away - mean) * WEIGHT, spread + ((away - mean).abs() - spread) * WEIGHT)
                }
            });
        }
    }

    /// A write took that long and answered these requests.
    pub(super) fn wrote(&mut self, took: Duration, answered: impl IntoIterator<Item = MemberId>) {
        self.wrote_at(took, answered, Instant::now());
    }

    fn wrote_at(&mut self, took: Duration, answered: impl IntoIterator<Item = MemberId>, now: Instant) {
        let took = took.as_secs_f64();
        self.write = if self.write == 0.0 { took } else { self.write + (took - self.write) * WEIGHT };
        answered.into_iter().for_each(|member| self.answered_at(member, now));
    }

    /// A request was answered.
    pub(super) fn answered(&mut self, member: MemberId) {
        self.answered_at(member, Instant::now());
    }

    fn answered_at(&mut self, member: MemberId, now: Instant) {
        let habit = self.members.entry(member).or_default();
        habit.waiting = habit.waiting.saturating_sub(1);
        habit.answered = Some(now);
    }

    /// For how many more requests to wait, and how long at most, with so many there already. `None` if that saves nothing.
    pub(super) fn worth_waiting(&self, present: usize) -> Option<(usize, Duration)> {
        self.worth_waiting_at(present, Instant::now())
    }

    fn worth_waiting_at(&self, present: usize, now: Instant) -> Option<(usize, Duration)> {
        let expected = |habit: &Habit| {
            let (mean, spread) = habit.away?;
            let away = now.saturating_duration_since(habit.answered?).as_secs_f64();
            let is_near = habit.waiting == 0 && away < (mean * PATIENCE).max(self.write * GRACE);
            is_near.then_some((mean + 2.0 * spread - away).max(0.0))
        };
        let mut times: Vec<f64> = self.members.values().filter_map(expected).collect();
        times.sort_by(f64::total_cmp);
        let saved = |(index, time): (usize, &f64)| {
            let more = (index + 1) as f64;
            (more * self.write - (present as f64 + more) * time, index + 1, *time)
        };
        let (saved, more, time) = times.iter().enumerate().map(saved).max_by(|a, b| a.0.total_cmp(&b.0))?;
        (saved > 0.0).then(|| (more, Duration::from_secs_f64(time.max(self.write * GRACE))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Duration = Duration::from_millis(8);
    const AWAY: Duration = Duration::from_micros(200);

    /// Members that were answered together again and again and came back after [`AWAY`]; all are away now.
    fn tempo(members: u16) -> (Tempo, Instant) {
        let (mut tempo, mut now) = (Tempo::default(), Instant::now());
        let mut away_since = now;
        let members: Vec<_> = (0..members).map(MemberId).collect();
        for _ in 0..40 {
            for &member in &members {
                tempo.arrives_at(member, now);
            }
            now += WRITE;
            tempo.wrote_at(WRITE, members.iter().copied(), now);
            away_since = now;
            now += AWAY;
        }
        (tempo, away_since)
    }

    #[test]
    fn a_lone_commit_waits_for_nobody() {
        let (mut tempo, now) = tempo(1);
        tempo.arrives_at(MemberId(0), now + AWAY);
        assert_eq!(tempo.worth_waiting_at(1, now + AWAY), None);
    }

    #[test]
    fn the_first_to_come_back_waits_for_the_others_and_no_longer() {
        let (mut tempo, now) = tempo(4);
        let early = now + AWAY / 2;
        tempo.arrives_at(MemberId(0), early);
        let (more, time) = tempo.worth_waiting_at(1, early).expect("three are about to come");
        assert_eq!(more, 3);
        assert!(time >= AWAY / 2 && time <= WRITE / 4, "{time:?}");
    }

    #[test]
    fn who_has_gone_is_not_waited_for() {
        let (mut tempo, now) = tempo(4);
        let late = now + AWAY * 20;
        tempo.arrives_at(MemberId(0), late);
        assert_eq!(tempo.worth_waiting_at(1, late), None);
    }

    #[test]
    fn who_stays_away_for_longer_than_a_write_takes_is_not_waited_for() {
        let (mut tempo, mut now) = (Tempo::default(), Instant::now());
        for _ in 0..40 {
            for member in [MemberId(0), MemberId(1)] {
                tempo.arrives_at(member, now);
                now += WRITE;
                tempo.wrote_at(WRITE, [member], now);
            }
            now += WRITE * 3;
        }
        tempo.arrives_at(MemberId(0), now);
        assert_eq!(tempo.worth_waiting_at(1, now), None);
    }
}
