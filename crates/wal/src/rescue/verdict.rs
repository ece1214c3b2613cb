//! Which records of a damaged log are kept, and which are lost.
//!
//! The rules are those of recovery ([`judge`](crate::recovery)), with one addition: a record that may lie in a hole is taken
//! for one that was there and kept. Without it a damage of one stream would take with it what others depend on. Where the
//! log knows that a record was durable (a watermark, a clean close), it is taken for kept as well. In the newest generation
//! of a damaged log everything that is there is kept: nothing has been done since that could contradict it.

use ishigaki_base::{Generation, Lsn, Position};

use super::records::StreamRecords;
use super::{LogEnd, Rescued, Survey, Traits};
use crate::recovery::Keeping;
use crate::{CommitRule, Start};

/// Judges records in the order of generation and LSN.
pub(super) struct Verdict<'a> {
    survey: &'a Survey,
    from: Start,
    /// Recovery accepts the log: its rules hold as they are.
    is_sound: bool,
    generation: Option<Generation>,
    keeping: Keeping,
    /// The first LSN of the generation that no record has had so far; no gap in it yet.
    gap: Lsn,
    /// The last LSN of it that was seen.
    last: Lsn,
}

impl<'a> Verdict<'a> {
    pub(super) fn new(survey: &'a Survey, from: Start) -> Self {
        let keeping = Keeping::new(Lsn::FIRST);
        let is_sound = survey.refusal.is_none();
        Self { survey, from, is_sound, generation: None, keeping, gap: Lsn::FIRST, last: Lsn::ZERO }
    }

    /// Whether the record is kept that the reader of that place stands at; it is the smallest of all.
    pub(super) fn next(&mut self, readers: &[StreamRecords<'_>], place: usize, rescued: &mut Rescued) -> bool {
        let reader = &readers[place];
        let Some(record) = reader.head() else { return false };
        let (generation, lsn) = (record.generation, record.lsn);
        if (Start { generation, lsn }) < self.from {
            return false;
        }
        if self.generation != Some(generation) {
            if self.generation.is_some() || generation > self.from.generation {
                self.end_generation(rescued);
            }
            self.begin_generation(generation);
        }
        if lsn <= self.last {
            // Two streams claim it: damage that no checksum shows. The first one counts.
            return false;
        }
        self.note_missing(readers, generation, lsn, rescued);
        self.last = lsn;
        rescued.end = lsn;
        if lsn == self.gap {
            self.gap = lsn.next();
        }
        let kept = self.keeps(readers, generation, lsn, record.dependencies.iter());
        self.keeping.note(reader.stream(), lsn, kept);
        rescued.dropped += u64::from(!kept);
        kept
    }

    /// All records were seen.
    pub(super) fn finish(&mut self, readers: &[StreamRecords<'_>], rescued: &mut Rescued) {
        rescued.end = rescued.end.max(self.from.lsn.previous());
        self.end_generation(rescued);
        self.end_unseen(rescued);
        let lacks_end = match self.survey.end() {
            LogEnd::Closed(_) => false,
            LogEnd::Open => !self.is_sound && readers.iter().any(StreamRecords::lacks_end),
            LogEnd::Unknown(_) => true,
        };
        if lacks_end {
            let read = readers.iter().map(|reader| reader.last().1).max().unwrap_or_default();
            let missing = rescued.lost.last().map_or(Lsn::ZERO, |(_, last)| *last);
            rescued.lost_behind = Some(read.max(missing).max(self.from.lsn.previous()));
        }
    }

    /// What the newest generation has written, if nothing of it is there.
    fn end_unseen(&self, rescued: &mut Rescued) {
        let Some(control) = self.survey.control.filter(|_| !self.is_sound) else { return };
        let seen = self.generation.unwrap_or(self.from.generation);
        if let Some(end) = control.clean.filter(|end| seen < control.generation && control.base <= *end) {
            push(&mut rescued.lost, control.base, end);
        }
    }

    fn begin_generation(&mut self, generation: Generation) {
        let base = self.traits(generation).map_or(Lsn::FIRST, |traits| traits.base);
        let first = if generation == self.from.generation { base.max(self.from.lsn) } else { base };
        self.generation = Some(generation);
        self.keeping = Keeping::new(first);
        (self.gap, self.last) = (first, first.previous());
    }

    fn keeps(
        &self,
        readers: &[StreamRecords<'_>],
        generation: Generation,
        lsn: Lsn,
        mut dependencies: impl Iterator<Item = Position>,
    ) -> bool {
        let Some(Traits { rule, watermark, .. }) = self.traits(generation) else { return true };
        let next = self.survey.base_after(generation);
        if next.is_none() && !self.is_sound {
            return true;
        }
        match rule {
            CommitRule::Watermark => next.map_or(lsn < self.gap, |next| lsn < next),
            CommitRule::Dependencies => dependencies.all(|position| {
                let stream = readers.iter().find(|reader| reader.stream() == position.stream());
                self.keeping.has_kept_one(position)
                    || !self.is_sound
                        && (position.lsn() <= watermark
                            || stream
                                .map_or(self.survey.is_vague, |stream| stream.may_lack(generation, position.lsn())))
            }),
        }
    }

    /// Notes the LSNs between the last record seen and `lsn` that a damage may have taken.
    fn note_missing(&self, readers: &[StreamRecords<'_>], generation: Generation, lsn: Lsn, rescued: &mut Rescued) {
        let (first, last) = (self.last.next(), lsn.previous());
        if self.is_sound || first > last {
            return;
        }
        let is_hole =
            |reader: &StreamRecords<'_>| reader.may_lack(generation, last) || reader.may_lack(generation, first);
        let was_durable = self.traits(generation).is_some_and(|traits| first <= traits.watermark);
        if was_durable || readers.iter().any(is_hole) {
            push(&mut rescued.lost, first, last);
        }
    }

    /// What the end of the generation says of records that are not there.
    fn end_generation(&mut self, rescued: &mut Rescued) {
        if self.is_sound {
            return;
        }
        // Before the first record: the generation that the log is needed from may have lost all of its own.
        let generation = self.generation.unwrap_or(self.from.generation);
        let last = if self.generation.is_some() { self.last } else { self.from.lsn.previous() };
        let watermark = self.traits(generation).map_or(Lsn::ZERO, |traits| traits.watermark);
        let end = match self.survey.base_after(generation) {
            Some(next) => next.previous(),
            None => watermark.max(self.survey.clean().unwrap_or_default()),
        };
        if last < end {
            push(&mut rescued.lost, last.next(), end);
            self.last = end;
        }
    }

    fn traits(&self, generation: Generation) -> Option<Traits> {
        self.survey.generations.get(&generation).copied()
    }
}

/// Adds a run of LSNs behind the others.
fn push(runs: &mut Vec<(Lsn, Lsn)>, first: Lsn, last: Lsn) {
    match runs.last_mut() {
        Some((_, end)) if end.next() >= first => *end = last.max(*end),
        _ => runs.push((first, last)),
    }
}
