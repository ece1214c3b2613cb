//! When members come back, and whether a write should wait for them (paper 4 tunes one delay by hand).
//!
//! A member that was answered stays away for a while, then commits again. How long is known from its last times ([`habit`]), and
//! so is by how much a write ends later that begins later ([`medium`]). A write that is about to begin could wait a time *w*.
//! Whoever comes by then, *k* of them, need not wait for the whole write that it would have missed, *S*. All of them, and those
//! who are there already, *q*, are answered later, by *l w*: where the medium loses nothing by a later begin, as a disk within a
//! turn, *l* is near 0; else it is 1. So waiting saves
//!
//! ```text
//!  k S - (q + k) l w        k: for each who is away, the share of its last times that end by w
//! ```
//!
//! and members who are in step stay in step: if it is sure that somebody comes by then, those who are there and those who come
//! are done in *w + S* the next time, too, and not in *2 S*, as if they took turns. That is counted once more. The best *w* is the
//! time of somebody's coming, or all the time that costs nothing. Nobody about to come: nothing is saved, no wait.
//!
//! The wait ends when as many are there as can be expected by then; the question is asked again with whoever is there. Who is
//! late is given a grace, small where waiting costs, since the last times are but a few.
//!
//! `simulation` holds this against every fixed delay, in virtual time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::MemberId;

mod habit;
mod medium;
#[cfg(test)]
mod simulation;

use habit::{Due, Habit};
use medium::Medium;

/// The share of a write's time for which who is late is waited for, where waiting costs all of its time, and by how much that
/// is more where it costs nothing.
const GRACE: (f64, f64) = (1.0 / 64.0, 1.0 / 16.0);

/// What a later begin loses at least: what is known of a medium is not exact.
const LEAST_LOSS: f64 = 1.0 / 16.0;

/// From this loss on nobody is waited for who comes at no time that could be foreseen.
const CHEAP: f64 = 0.5;

/// The share of a write's time for which a write is held back to see what that costs.
const TRIAL: f64 = 0.25;

/// Members' habits, and the medium's.
#[derive(Debug, Default)]
pub(super) struct Tempo {
    members: BTreeMap<MemberId, Habit>,
    medium: Medium,
}

impl Tempo {
    /// How long a write takes.
    pub(super) fn write_time(&self) -> Duration {
        Duration::from_secs_f64(self.medium.took())
    }

    /// A request has come.
    pub(super) fn arrives(&mut self, member: MemberId) {
        self.arrives_at(member, Instant::now());
    }

    fn arrives_at(&mut self, member: MemberId, now: Instant) {
        self.members.entry(member).or_default().arrives(now);
    }

    /// A write took that long and answered these requests.
    pub(super) fn wrote(&mut self, took: Duration, answered: impl IntoIterator<Item = MemberId>) {
        self.wrote_at(took, answered, Instant::now());
    }

    fn wrote_at(&mut self, took: Duration, answered: impl IntoIterator<Item = MemberId>, now: Instant) {
        self.medium.wrote(took, now);
        answered.into_iter().for_each(|member| self.answered_at(member, now));
    }

    /// A request was answered.
    pub(super) fn answered(&mut self, member: MemberId) {
        self.answered_at(member, Instant::now());
    }

    fn answered_at(&mut self, member: MemberId, now: Instant) {
        self.members.entry(member).or_default().answered(now);
    }

    /// For how many more requests to wait, and how long at most, with so many there already. `None` if that saves nothing.
    pub(super) fn worth_waiting(&self, present: usize) -> Option<(usize, Duration)> {
        self.worth_waiting_at(present, Instant::now())
    }

    fn worth_waiting_at(&self, present: usize, now: Instant) -> Option<(usize, Duration)> {
        let (write, loss, room) = (self.medium.write(), self.medium.loss().max(LEAST_LOSS), self.medium.room(now));
        let (gap, present) = (self.medium.gap(now), present as f64);
        let grace = write * (GRACE.0 + GRACE.1 * (1.0 - loss));
        let (mut due, mut rate) = (Vec::new(), 0.0);
        for habit in self.members.values() {
            rate += habit.due(now, grace, room, &mut due);
        }
        due.sort_by(|one, other| one.time.total_cmp(&other.time));
        let any_time = if loss < CHEAP { rate } else { 0.0 };
        let (mut foreseen, mut sure, mut best) = (0.0, 0.0, Wait::default());
        for Due { time, chance, is_last } in due.into_iter().chain([Due::nobody(room)]) {
            foreseen += chance;
            sure += if is_last { 1.0 } else { 0.0 };
            let come = foreseen + any_time * time;
            let mut saved = come * write - (present + come) * loss * time;
            if sure > 0.0 {
                saved += (present + sure) * (write - loss * (gap + time)).max(0.0);
            }
            if saved > best.saved {
                best = Wait { saved, come, time };
            }
        }
        let (might_come, trial) = (foreseen + rate * write, write * TRIAL - gap);
        if best.time < trial && might_come > TRIAL && self.medium.should_be_tried() {
            best = Wait { saved: write, come: might_come.ceil(), time: trial };
        }
        (best.saved > 0.0).then(|| ((best.come.round() as usize).max(1), Duration::from_secs_f64(best.time)))
    }
}

/// A wait that is thought of.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    /// Seconds, of all requests together.
    saved: f64,
    /// How many will have come.
    come: f64,
    /// Seconds.
    time: f64,
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
