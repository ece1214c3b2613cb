//! One side in one round: its servers are made, do all loads, are killed, and must have everything when they are up again.

use ishigaki_servers::Running;

use super::load::{self, Done};
use super::{Settings, Side, Work};
use crate::Result;
use crate::one_log::{Counts, Data, Place, Pooled, Standing};

/// What came of a load, and what it took of disk and pool.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) done: Done,
    pub(super) disk: Option<Counts>,
    pub(super) pool: Option<Pooled>,
}

/// Does all loads on one side; `tell` hears of each before it begins.
pub(super) fn run(
    standing: &Standing<'_>,
    settings: &Settings,
    side: Side,
    works: &[Work],
    tell: &mut dyn FnMut(Work),
) -> Result<Vec<Outcome>> {
    let place = Place::new(standing, side, |_| (Data::Memory, &[]))?;
    let mut running = place.start()?;
    let (mut outcomes, mut acknowledged) = (Vec::new(), Vec::new());
    for (number, &work) in works.iter().enumerate() {
        tell(work);
        place.wait_until_up()?;
        standing.settle()?;
        let before = place.usage()?;
        let (done, load) = load::run(settings, &place.servers, work, number)?;
        let (disk, pool) = place.usage()?.since(before);
        acknowledged.push(load);
        outcomes.push(Outcome { done, disk, pool });
    }
    // Nothing in memory is of help to one that is killed: all it has is its log.
    running.iter_mut().try_for_each(Running::kill)?;
    drop(running);
    // They recover, and have everything that was acknowledged.
    let _again = place.start()?;
    acknowledged.iter().try_for_each(|&load| load::check(settings, &place.servers, load))?;
    Ok(outcomes)
}
