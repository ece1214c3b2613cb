//! What is kept: the rules by which a generation's records survive, and what one generation says about the one before.
//!
//! Each generation says by which rule it was written, and keeps by that rule:
//!
//! - *watermark*: everything up to its first gap. The base of the next generation must be that gap.
//! - *dependencies*: every record all of whose dependencies are kept, whatever gaps there are. A dependency on a record
//!   of a stream is kept when nothing of that stream up to there was dropped. Since dependencies have smaller LSNs, the
//!   answer is known to whoever judges in LSN order. The next generation begins behind the largest LSN that was seen.
//!
//! Dropping is decided by the bytes of the generation alone, so every later recovery drops the same; a dropped record
//! stays void for ever without any list of dropped ones. A base that contradicts shows that something durable is
//! missing.

use ishigaki_base::{Generation, Lsn, Position, StreamId};

use super::records::Passage;
use crate::format::Control;
use crate::{CommitRule, Dependencies, Error, Result, Start};

/// How far each stream was kept, in one generation.
#[derive(Debug)]
pub(crate) struct Keeping {
    base: Lsn,
    /// By stream: the last LSN up to which nothing was missing or dropped, and whether it still grows.
    kept: Vec<(Lsn, bool)>,
}

impl Keeping {
    pub(crate) fn new(base: Lsn) -> Self {
        Self { base, kept: Vec::new() }
    }

    /// The stream's records up to `lsn` are decided, the last ones of them so.
    pub(crate) fn note(&mut self, stream: StreamId, lsn: Lsn, kept: bool) {
        let place = usize::from(stream.0);
        if self.kept.len() <= place {
            self.kept.resize(place + 1, (Lsn::ZERO, true));
        }
        let (last, grows) = &mut self.kept[place];
        *grows &= kept;
        if *grows {
            *last = lsn;
        }
    }

    /// Whether everything is kept that is named, where all with smaller LSNs is decided.
    pub(crate) fn has_kept(&self, dependencies: &Dependencies) -> bool {
        dependencies.iter().all(|position| self.has_kept_one(position))
    }

    /// Whether nothing of that record's stream up to it was dropped, and it is there. What is older than the generation
    /// was kept or dropped before anybody could depend on it.
    pub(crate) fn has_kept_one(&self, position: Position) -> bool {
        let kept = self.kept.get(usize::from(position.stream().0)).map_or(Lsn::ZERO, |&(last, _)| last);
        position.lsn() < self.base || kept >= position.lsn()
    }
}

/// One generation's records, judged in LSN order.
#[derive(Debug)]
pub(crate) struct Judge {
    generation: Generation,
    rule: CommitRule,
    /// The first LSN that is missing so far.
    gap: Lsn,
    /// The last LSN seen.
    last: Lsn,
    keeping: Keeping,
}

impl Judge {
    /// For the generation of that passage, as far as it does not lie before the start.
    pub(crate) fn new(passage: &Passage, start: Start) -> Self {
        let (&Passage { generation, rule, .. }, base) = (passage, passage.first(start));
        Self { generation, rule, gap: base, last: base.previous(), keeping: Keeping::new(base) }
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether the record is kept. Each LSN comes once, in order.
    pub(crate) fn keeps(&mut self, stream: StreamId, lsn: Lsn, dependencies: &Dependencies) -> Result<bool> {
        if lsn <= self.last {
            return Err(twice(stream, lsn, self.generation));
        }
        self.last = lsn;
        if lsn == self.gap {
            self.gap = lsn.next();
        }
        let kept = match self.rule {
            CommitRule::Watermark => lsn < self.gap,
            CommitRule::Dependencies => self.keeping.has_kept(dependencies),
        };
        self.keeping.note(stream, lsn, kept);
        Ok(kept)
    }

    /// The first LSN that is missing, and the last one seen.
    pub(crate) fn extent(&self) -> Extent {
        Extent { gap: self.gap, last: self.last }
    }
}

/// A record that was found a second time, or before its generation's first LSN.
pub(crate) fn twice(stream: StreamId, lsn: Lsn, generation: Generation) -> Error {
    Error::corrupt(stream, format!("record {lsn} is there twice in generation {generation}"))
}

/// The LSNs of a generation's complete records, over all streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// The first one that is missing.
    pub(crate) gap: Lsn,
    /// The last one that is there.
    pub(crate) last: Lsn,
}

impl Extent {
    /// Of a generation without a complete record.
    pub(crate) fn empty(base: Lsn) -> Self {
        Self { gap: base, last: base.previous() }
    }
}

/// The generations that were read to their ends, one after the other: each begins exactly where the one before was cut.
///
/// The chain begins with the start's generation: what is older lies before the start, and was judged long ago.
#[derive(Debug)]
pub(crate) struct Chain {
    start: Start,
    newest: Generation,
    gap: Lsn,
    next: Lsn,
}

impl Chain {
    /// Before the first generation of which something is needed.
    pub(crate) fn new(start: Start) -> Self {
        Self { start, newest: start.generation, gap: start.lsn, next: start.lsn }
    }

    /// The first LSN of the generation after the newest so far.
    pub(crate) fn next(&self) -> Lsn {
        self.next
    }

    /// Adds the next generation of which there is a chunk, not older than the start, if it fits: all streams agree about it, it begins where the one
    /// before was cut, and what a chunk of it knew to be durable is there.
    pub(crate) fn add<'p>(&mut self, extent: Extent, passages: impl IntoIterator<Item = &'p Passage>) -> Result<()> {
        let mut passages = passages.into_iter();
        let Some(first) = passages.next() else { return Ok(()) };
        let Passage { generation, base, rule, mut watermark, .. } = *first;
        for other in passages {
            if (other.base, other.rule) != (base, rule) {
                let what = format!("its streams contradict each other about generation {generation}");
                return Err(Error::Corrupt { stream: None, what });
            }
            watermark = watermark.max(other.watermark);
        }
        if generation > self.start.generation {
            self.check_base(generation, base)?;
        } else if base > self.start.lsn {
            let what = format!("it is needed from {}, and that generation begins at {base}", self.start);
            return Err(Error::Corrupt { stream: None, what });
        }
        if watermark >= extent.gap {
            return Err(Error::Missing { first: extent.gap, last: watermark });
        }
        self.newest = generation;
        self.gap = extent.gap;
        self.next = match rule {
            CommitRule::Watermark => extent.gap,
            CommitRule::Dependencies => extent.last.next(),
        };
        Ok(())
    }

    /// Compares with what the control block says. Gives the next LSN to draw.
    pub(crate) fn finish(&self, control: &Control) -> Result<Lsn> {
        let mut gap = self.gap;
        if control.generation > self.newest {
            // The newest generations have no record.
            self.check_base(control.generation, control.base)?;
            gap = self.next;
        }
        match control.clean {
            Some(last) if last >= gap => Err(Error::Missing { first: gap, last }),
            _ => Ok(self.next),
        }
    }

    fn check_base(&self, generation: Generation, base: Lsn) -> Result<()> {
        let next = self.next;
        if base > next {
            return Err(Error::Missing { first: next, last: base.previous() });
        }
        if base < next { Err(overlaps(generation, base)) } else { Ok(()) }
    }
}

/// A generation that begins before the end of an older one.
pub(crate) fn overlaps(generation: Generation, base: Lsn) -> Error {
    let what = format!("generation {generation} begins at {base}, where there are records already");
    Error::Corrupt { stream: None, what }
}
