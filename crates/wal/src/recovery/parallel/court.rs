//! Judging records that do not come in LSN order.
//!
//! Of each generation that is being read the court knows which LSNs have been seen in any stream ([`Seen`]), how far
//! each stream has been read, and the largest watermark in a chunk header. From that follows, for either rule:
//!
//! - Everything before the first LSN that was not seen is there, and so is everything up to a watermark, or recovery
//!   fails in the end. It is kept: under the watermark's rule by definition, under dependencies because what a record
//!   names has a smaller LSN, is there as well, and so on down to the generation's base. (A record names others by the
//!   streams they are in.)
//! - If all streams have been read past an LSN that was not seen, it is *missing*: the gap is final. From there on the
//!   watermark's rule drops everything; under dependencies each record is judged in LSN order, as the merge does, as
//!   far as all streams have been read.
//!
//! Whatever is neither is left waiting. It is decided at the latest when every stream has been read past it.
//!
//! When all streams are through with a generation, the [`Chain`] checks it as it does for the merge: the court itself
//! takes headers at their word until then.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ishigaki_base::{Generation, Lsn, StreamId};

use super::batch::{Batch, Part, Section};
use super::seen::Seen;
use crate::format::Control;
use crate::recovery::judge::{Chain, Extent, Keeping, overlaps, twice};
use crate::recovery::records::Passage;
use crate::{CommitRule, Result, Start};

/// Judges all generations of all streams.
#[derive(Debug)]
pub(super) struct Court {
    start: Start,
    /// By stream.
    readings: Vec<Reading>,
    /// Generations that some stream is not through with.
    trials: BTreeMap<Generation, Trial>,
    chain: Chain,
    cut: Lsn,
    dropped: u64,
}

/// How far a stream has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reading {
    /// It is through with all generations before this one.
    generation: Generation,
    /// The last LSN of that one.
    lsn: Lsn,
}

/// A generation being judged.
#[derive(Debug)]
struct Trial {
    /// The first LSN that is judged.
    base: Lsn,
    rule: CommitRule,
    seen: Seen,
    last: Lsn,
    /// The largest watermark in a chunk.
    claim: Lsn,
    /// By stream; the last that was said of each.
    passages: BTreeMap<usize, Passage>,
    /// By stream: records that are not decided.
    waiting: Vec<VecDeque<Part>>,
    keeping: Keeping,
}

impl Court {
    /// Of the records from `start` on.
    pub(super) fn new(streams: usize, start: Start) -> Self {
        let reading = Reading { generation: Generation::default(), lsn: Lsn::ZERO };
        Self {
            start,
            readings: vec![reading; streams],
            trials: BTreeMap::new(),
            chain: Chain::new(start),
            cut: start.lsn.previous(),
            dropped: 0,
        }
    }

    /// The last LSN kept.
    pub(super) fn cut(&self) -> Lsn {
        self.cut
    }

    /// Records that are not kept.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How far the stream of that place has been read; ordered as the log is.
    pub(super) fn reading(&self, place: usize) -> Reading {
        self.readings[place]
    }

    /// How many parts of the stream's batches are waiting for a decision.
    pub(super) fn waiting(&self, place: usize) -> usize {
        self.trials.values().map(|trial| trial.waiting[place].len()).sum()
    }

    /// Every record below this has been kept or dropped for good, and no stream has such a one left.
    pub(super) fn settled(&self) -> Lsn {
        let mut trials = self.trials.iter().peekable();
        let is_read = |generation| self.readings.iter().all(|reading| reading.generation >= generation);
        let first = trials.next_if(|(generation, _)| is_read(**generation));
        let settled = first.map_or(self.chain.next(), |(_, trial)| trial.seen.gap());
        // Only in a damaged log does a generation begin before the end of an older one.
        trials.map(|(_, trial)| trial.base).fold(settled, Lsn::min)
    }

    /// The stream's next batch was read, perhaps its last one. Gives what is now known to be kept, of whatever stream.
    pub(super) fn hear(
        &mut self,
        place: usize,
        batch: &Arc<Batch>,
        is_over: bool,
        keep: &mut impl FnMut(Part),
    ) -> Result<()> {
        for section in &batch.sections {
            self.hear_section(place, batch, section)?;
        }
        if is_over {
            self.readings[place] = Reading { generation: Generation(u64::MAX), lsn: Lsn::MAX };
        }
        self.decide(keep)
    }

    /// When all streams have ended: the next LSN to draw.
    pub(super) fn finish(&self, control: &Control) -> Result<Lsn> {
        debug_assert!(self.trials.is_empty());
        self.chain.finish(control)
    }

    fn hear_section(&mut self, place: usize, batch: &Arc<Batch>, section: &Section) -> Result<()> {
        let (generation, streams) = (section.generation(), self.readings.len());
        if generation < self.start.generation {
            self.readings[place] =
                Reading { generation, lsn: section.passage.lsns.map_or(Lsn::ZERO, |(_, last)| last) };
            return Ok(());
        }
        let base = section.passage.first(self.start);
        if !self.trials.contains_key(&generation) && base < self.settled() {
            // The chain would say so in the end, but nobody is to get records from where all is settled.
            return Err(overlaps(generation, base));
        }
        let trial = self.trials.entry(generation).or_insert_with(|| Trial::new(&section.passage, base, streams));
        trial.claim = trial.claim.max(section.passage.watermark);
        trial.passages.insert(place, section.passage.clone());
        for lsn in batch.lsns(section.entries.clone()) {
            if !trial.seen.add(lsn) {
                return Err(twice(batch.stream, lsn, generation));
            }
        }
        trial.seen.settle();
        let mut lsn = trial.base.previous();
        if !section.entries.is_empty() {
            let part = Part { batch: batch.clone(), entries: section.entries.clone() };
            lsn = part.last();
            trial.last = trial.last.max(lsn);
            trial.waiting[place].push_back(part);
        } else if let Some((_, last)) = section.passage.lsns {
            lsn = last;
        }
        self.readings[place] = Reading { generation, lsn };
        Ok(())
    }

    fn decide(&mut self, keep: &mut impl FnMut(Part)) -> Result<()> {
        let least = self.readings.iter().map(|reading| reading.generation).min();
        let mut closed = Vec::new();
        for (&generation, trial) in &mut self.trials {
            // Up to here, every record of the generation that there is has been seen.
            let known = self.readings.iter().map(|reading| reading.of(generation, trial.base)).min();
            let known = known.unwrap_or(Lsn::MAX);
            trial.keep_what_is_certain(&mut |part: Part| {
                self.cut = self.cut.max(part.last());
                keep(part);
            });
            if trial.seen.gap() <= known {
                self.dropped += trial.judge_behind_the_gap(known, &mut |part: Part| {
                    self.cut = self.cut.max(part.last());
                    keep(part);
                });
            }
            if least.is_none_or(|least| generation < least) {
                closed.push(generation);
            }
        }
        for generation in closed {
            if let Some(trial) = self.trials.remove(&generation) {
                let extent = Extent { gap: trial.seen.gap(), last: trial.last };
                self.chain.add(extent, trial.passages.values())?;
            }
        }
        Ok(())
    }
}

impl Reading {
    /// The last LSN of that generation up to which the stream has been read.
    fn of(self, generation: Generation, base: Lsn) -> Lsn {
        match self.generation.cmp(&generation) {
            std::cmp::Ordering::Less => base.previous(),
            std::cmp::Ordering::Equal => self.lsn,
            std::cmp::Ordering::Greater => Lsn::MAX,
        }
    }
}

impl Trial {
    fn new(passage: &Passage, base: Lsn, streams: usize) -> Self {
        let rule = passage.rule;
        Self {
            base,
            rule,
            seen: Seen::new(base),
            last: base.previous(),
            claim: Lsn::ZERO,
            passages: BTreeMap::new(),
            waiting: vec![VecDeque::new(); streams],
            keeping: Keeping::new(base),
        }
    }

    /// Keeps everything before the first LSN that was not seen, and up to the largest watermark.
    fn keep_what_is_certain(&mut self, keep: &mut impl FnMut(Part)) {
        let certain = self.seen.gap().previous().max(self.claim);
        for waiting in &mut self.waiting {
            while let Some(part) = cut_off(waiting, certain) {
                self.keeping.note(part.batch.stream, part.last(), true);
                keep(part);
            }
        }
    }

    /// The gap is final: judges what is behind it, up to `known`. How many records were dropped.
    fn judge_behind_the_gap(&mut self, known: Lsn, keep: &mut impl FnMut(Part)) -> u64 {
        match self.rule {
            CommitRule::Watermark => {
                let dropped = self.waiting.iter_mut().flat_map(|waiting| waiting.drain(..));
                dropped.map(|part| part.entries.len() as u64).sum()
            }
            CommitRule::Dependencies => self.judge_in_order(known, keep),
        }
    }

    /// Judges record by record in LSN order.
    fn judge_in_order(&mut self, known: Lsn, keep: &mut impl FnMut(Part)) -> u64 {
        let mut dropped = 0;
        // Records that are kept and lie one after the other are given together.
        let mut kept: Option<Part> = None;
        loop {
            let heads = self.waiting.iter().enumerate();
            let heads = heads.filter_map(|(place, waiting)| Some((waiting.front()?.first(), place)));
            let Some((lsn, place)) = heads.min().filter(|&(lsn, _)| lsn <= known) else { break };
            let Some(part) = cut_off(&mut self.waiting[place], lsn) else { break };
            let (stream, entry): (StreamId, usize) = (part.batch.stream, part.entries.start);
            let keeps = part.batch.keeps(entry, |dependencies| self.keeping.has_kept(dependencies));
            self.keeping.note(stream, lsn, keeps);
            if !keeps {
                dropped += 1;
                continue;
            }
            match &mut kept {
                Some(kept) if Arc::ptr_eq(&kept.batch, &part.batch) && kept.entries.end == entry => {
                    kept.entries.end += 1;
                }
                _ => {
                    if let Some(kept) = kept.replace(part) {
                        keep(kept);
                    }
                }
            }
        }
        if let Some(kept) = kept {
            keep(kept);
        }
        dropped
    }
}

/// Takes the records up to `lsn` off the first part.
fn cut_off(waiting: &mut VecDeque<Part>, lsn: Lsn) -> Option<Part> {
    let front = waiting.front_mut()?;
    let count = front.batch.count_up_to(lsn, front.entries.clone());
    let part = front.take(count);
    if front.entries.is_empty() {
        waiting.pop_front();
    }
    part
}
