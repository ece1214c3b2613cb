//! The k-way merge: all streams' records in LSN order, kept by the rule that acknowledged them (paper 1, section 4).
//!
//! The order is (generation, LSN). Each generation says by which rule it was written, and keeps by that rule:
//!
//! - *watermark*: everything up to its first gap. The base of the next generation must be that gap.
//! - *dependencies*: every record all of whose dependencies are kept, whatever gaps there are. A dependency on a record of
//!   a stream is kept when nothing of that stream up to there was dropped. Since dependencies have smaller LSNs, the
//!   answer is known when the merge comes to it. The next generation begins behind the largest LSN that was seen.
//!
//! Dropping is decided by the bytes of the generation alone, so every later recovery drops the same; a dropped record stays
//! void for ever without any list of dropped ones. A base that contradicts shows that something durable is missing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ishigaki_base::{Generation, Lsn, Position, StreamId};

use super::reader::{Record, StreamReader};
use crate::format::{Control, Kind};
use crate::{CommitRule, Error, Result, Start};

/// The result of a merge.
#[derive(Debug)]
pub(crate) struct Merged {
    /// The next LSN to draw.
    pub(crate) next: Lsn,
    /// The last LSN kept.
    pub(crate) cut: Lsn,
    /// Payload records given out.
    pub(crate) records: u64,
    /// Records that are not kept.
    pub(crate) dropped: u64,
}

/// One generation's records, judged in LSN order.
#[derive(Debug)]
struct Judge {
    generation: Generation,
    base: Lsn,
    /// The first LSN that is missing so far.
    gap: Lsn,
    /// The last LSN seen.
    last: Lsn,
    /// By stream: the last LSN up to which nothing was missing or dropped, and whether it still grows.
    kept: Vec<(Lsn, bool)>,
}

impl Judge {
    /// Of a generation whose records from `base` on are there to be judged; those before were kept.
    fn new(generation: Generation, base: Lsn) -> Self {
        Self { generation, base, gap: base, last: base.previous(), kept: Vec::new() }
    }

    /// Whether the record is kept. Each LSN comes once, in order.
    fn keeps(&mut self, stream: StreamId, record: &Record) -> Result<bool> {
        if record.lsn <= self.last {
            let what = format!("record {} is there twice in generation {}", record.lsn, self.generation);
            return Err(Error::corrupt(stream, what));
        }
        self.last = record.lsn;
        if record.lsn == self.gap {
            self.gap = record.lsn.next();
        }
        let kept = match record.rule {
            CommitRule::Watermark => record.lsn < self.gap,
            CommitRule::Dependencies => record.dependencies.iter().all(|position| self.has_kept(position)),
        };
        let place = usize::from(stream.0);
        if self.kept.len() <= place {
            self.kept.resize(place + 1, (Lsn::ZERO, true));
        }
        let (last, grows) = &mut self.kept[place];
        *grows &= kept;
        if *grows {
            *last = record.lsn;
        }
        Ok(kept)
    }

    /// Whether nothing of that record's stream up to it was dropped, and it is there. What is older than the generation
    /// was kept or dropped before anybody could depend on it.
    fn has_kept(&self, position: Position) -> bool {
        let kept = self.kept.get(usize::from(position.stream().0)).map_or(Lsn::ZERO, |&(last, _)| last);
        position.lsn() < self.base || kept >= position.lsn()
    }

    /// The first LSN of the generation after this one.
    fn next(&self, rule: CommitRule) -> Lsn {
        match rule {
            CommitRule::Watermark => self.gap,
            CommitRule::Dependencies => self.last.next(),
        }
    }
}

/// Gives out every surviving record from `start` on in LSN order, in O(records · log streams). What lies before the start was
/// kept or dropped long ago; of its generation all was kept.
pub(crate) fn merge(
    readers: &mut [StreamReader<'_>],
    control: &Control,
    start: Start,
    mut give: impl FnMut(Position, Kind, &[u8]) -> Result<()>,
) -> Result<Merged> {
    let mut merged = Merged { next: start.lsn, cut: start.lsn.previous(), records: 0, dropped: 0 };
    let mut judge = Judge::new(start.generation, start.lsn);
    let mut rule = CommitRule::Watermark;
    let mut checked = None;
    let mut heads = BinaryHeap::with_capacity(readers.len());
    for (place, reader) in readers.iter_mut().enumerate() {
        heads.extend(Head::of(reader, place)?);
    }
    while let Some(Reverse(Head { place, record })) = heads.pop() {
        if record.generation > judge.generation {
            check_end(readers, checked, judge.generation, judge.gap)?;
            checked = Some(judge.generation);
            check_base(record.generation, record.base, judge.next(rule))?;
            judge = Judge::new(record.generation, record.base);
        } else if record.base > judge.base && judge.last < judge.base {
            // Nothing of its generation lies before the start.
            judge = Judge::new(record.generation, record.base);
        }
        rule = record.rule;
        let stream = readers[place].stream();
        if judge.keeps(stream, &record)? {
            give(Position::new(record.lsn, stream), record.kind, readers[place].payload())?;
            merged.cut = record.lsn;
            merged.records += u64::from(record.kind == Kind::Payload);
        } else {
            merged.dropped += 1;
        }
        heads.extend(Head::of(&mut readers[place], place)?);
    }
    check_end(readers, checked, judge.generation, judge.gap)?;
    merged.next = judge.next(rule);
    let mut gap = judge.gap;
    if control.generation > judge.generation {
        // The newest generations have no record.
        check_base(control.generation, control.base, merged.next)?;
        gap = merged.next;
        check_end(readers, Some(judge.generation), control.generation, gap)?;
    }
    match control.clean {
        Some(last) if last >= gap => Err(Error::Missing { first: gap, last }),
        _ => Ok(merged),
    }
}

/// The record a reader stands at; ordered by generation and LSN.
#[derive(Debug)]
struct Head {
    record: Record,
    place: usize,
}

impl Head {
    fn of(reader: &mut StreamReader<'_>, place: usize) -> Result<Option<Reverse<Self>>> {
        Ok(reader.advance()?.map(|record| Reverse(Self { record, place })))
    }

    fn key(&self) -> (Generation, Lsn, usize) {
        (self.record.generation, self.record.lsn, self.place)
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// A generation begins exactly where the one before was cut.
fn check_base(generation: Generation, base: Lsn, next: Lsn) -> Result<()> {
    if base > next {
        return Err(Error::Missing { first: next, last: base.previous() });
    }
    if base < next {
        let what = format!("generation {generation} begins at {base}, where there are records already");
        return Err(Error::Corrupt { stream: None, what });
    }
    Ok(())
}

/// Everything that a chunk of this generation, or of one since `after`, knew to be durable must be there.
fn check_end(readers: &[StreamReader<'_>], after: Option<Generation>, generation: Generation, next: Lsn) -> Result<()> {
    let claims = readers.iter().flat_map(|reader| {
        let passages = reader.chunks().generations.iter().rev().skip_while(|passage| passage.generation > generation);
        passages.take_while(|passage| Some(passage.generation) > after).map(|passage| passage.watermark)
    });
    match claims.max() {
        Some(last) if last >= next => Err(Error::Missing { first: next, last }),
        _ => Ok(()),
    }
}
