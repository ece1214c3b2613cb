//! The k-way merge: all streams' records in LSN order, up to the first that is missing (paper 1, section 4).
//!
//! The order is (generation, LSN). Within a generation everything behind the first gap is dropped, as the recovery that
//! began the next generation dropped it: the base of that next generation must be the gap. So a dropped record stays void
//! for ever without any list of dropped ones, and a contradiction shows that something durable is missing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ishigaki_base::{Generation, Lsn};

use super::reader::{Record, StreamReader};
use crate::format::{Control, Kind};
use crate::{Error, Result};

/// The result of a merge.
#[derive(Debug)]
pub(crate) struct Merged {
    /// The first LSN that is missing: the next to draw.
    pub(crate) next: Lsn,
    /// Payload records given out.
    pub(crate) records: u64,
    /// Records behind a gap.
    pub(crate) dropped: u64,
}

/// Gives out every surviving record in LSN order, in O(records · log streams).
pub(crate) fn merge(
    readers: &mut [StreamReader<'_>],
    control: &Control,
    mut give: impl FnMut(Lsn, Kind, &[u8]) -> Result<()>,
) -> Result<Merged> {
    let mut merged = Merged { next: Lsn::FIRST, records: 0, dropped: 0 };
    let mut generation = Generation::default();
    let mut checked = None;
    let mut gap = false;
    let mut heads = BinaryHeap::with_capacity(readers.len());
    for (place, reader) in readers.iter_mut().enumerate() {
        heads.extend(head(reader, place)?);
    }
    while let Some(Reverse((of, lsn, place, base, kind))) = heads.pop() {
        if of > generation {
            check_end(readers, checked, generation, merged.next)?;
            checked = Some(generation);
            check_base(of, base, merged.next)?;
            generation = of;
            gap = false;
        }
        gap |= lsn > merged.next;
        if gap {
            merged.dropped += 1;
        } else if lsn == merged.next {
            give(lsn, kind, readers[place].payload())?;
            merged.next = lsn.next();
            merged.records += u64::from(kind == Kind::Payload);
        } else {
            let stream = readers[place].stream();
            return Err(Error::corrupt(stream, format!("record {lsn} is there twice in generation {generation}")));
        }
        heads.extend(head(&mut readers[place], place)?);
    }
    check_end(readers, checked, control.generation, merged.next)?;
    if control.generation > generation {
        check_base(control.generation, control.base, merged.next)?;
    }
    match control.clean {
        Some(last) if last >= merged.next => Err(Error::Missing { first: merged.next, last }),
        _ => Ok(merged),
    }
}

/// What the heap orders: generation and LSN first. A stream has one head at a time, so the rest never decides.
type Head = Reverse<(Generation, Lsn, usize, Lsn, Kind)>;

fn head(reader: &mut StreamReader<'_>, place: usize) -> Result<Option<Head>> {
    let record = reader.advance()?;
    Ok(record.map(|Record { generation, base, lsn, kind }| Reverse((generation, lsn, place, base, kind))))
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
