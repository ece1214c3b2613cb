//! A scan of one part whose pages are fetched and pushed at the same time.
//!
//! ```text
//!   UnionExec
//!     PageScan ── each partition: unit after unit ──┐
//!     PushScan ── order after order ────────────────┴─ Run: the queue, and the Division of it
//! ```
//!
//! The two operators share a [`Divided`]. Each page is given to one of them and comes out once: a unit that is fetched stays
//! with who fetches it, and an order is whole at the node, or its pages are in the queue again. It is taken back only while
//! nothing of it has come, and whoever waits for its results is told at once. Who takes nothing now looks again when something
//! has ended, and after a moment anyway.
//!
//! Pages that are in memory here lie at the end of the queue that is fetched from.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::error::Result;
use datafusion::physical_plan::metrics::Count;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;

use super::exec::PageScan;
use super::push::Piece;
use super::units::Unit;
use crate::cost::{Estimate, Scan};
use crate::{Division, Turn};

/// Of fewer bytes it is not worth while to do a part in both ways.
pub(crate) const DIVISIBLE: u64 = 8 << 20;

/// After so long without news, who waits looks again.
const LOOK: Duration = Duration::from_millis(2);

/// What the two operators have in common.
#[derive(Debug)]
pub(crate) struct Divided {
    /// In the order of the queue.
    units: Vec<Unit>,
    /// What is believed of fetching and of pushing, in pages a second.
    paces: (f64, f64),
    /// Who fetch side by side.
    readers: u64,
    /// Whether results of an order come while it is being done.
    streams: bool,
    current: Mutex<Option<Current>>,
}

/// The run that is joined now, and who has.
#[derive(Debug)]
struct Current {
    run: Arc<Run>,
    takers: HashSet<Taker>,
}

/// Who takes from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Taker {
    /// A partition of what is fetched.
    Here(usize),
    There,
}

/// One execution of the scan.
pub(super) struct Run {
    /// When somebody first took something.
    begun: OnceLock<Instant>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    division: Division,
    queue: VecDeque<Unit>,
    /// That of which nothing has come yet.
    order: Option<Order>,
    /// Whether the node does one.
    busy: bool,
}

/// What the node does.
#[derive(Debug)]
struct Order {
    units: Vec<Unit>,
    /// Where its results go, once somebody has begun to ask for them, and his count of what is taken back.
    results: Option<(Sender<Result<Piece>>, Count)>,
}

/// What there is to do.
#[derive(Debug)]
pub(super) enum Next<T> {
    Now(T),
    /// Nothing now; see [`Run::changed`].
    Later,
    /// Nothing any more.
    Nothing,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Divided {
    /// The units of a scan of one part, which was estimated so in both placements; `streams` if what is pushed of it gives rows
    /// before its end.
    pub(crate) fn new(of: &PageScan, scan: &Scan, (fetch, push): (&Estimate, &Estimate), streams: bool) -> Self {
        let kept = |unit: &Unit| unit.pages.clone().all(|page| of.table.keeps(unit.part, page));
        let (kept, rest): (Vec<Unit>, Vec<Unit>) = of.units.runs.iter().cloned().partition(kept);
        let pace = |estimate: &Estimate| scan.pages as f64 / estimate.time.as_secs_f64();
        let units = rest.into_iter().chain(kept).collect();
        let (paces, readers) = ((pace(fetch), pace(push)), of.units.partitions as u64);
        Self { units, paces, readers, streams, current: Mutex::default() }
    }

    /// The run that this taker has not been in. Each execution of the operators is a run of its own.
    pub(super) fn join(&self, taker: Taker) -> Arc<Run> {
        let mut current = self.current.lock();
        let known = current.take().filter(|current| !current.takers.contains(&taker));
        let mut joined = known.unwrap_or_else(|| Current { run: Arc::new(Run::new(self)), takers: HashSet::new() });
        joined.takers.insert(taker);
        let run = Arc::clone(&joined.run);
        *current = Some(joined);
        run
    }

    /// The next execution is another run, whoever was in this one.
    pub(super) fn reset(&self) {
        *self.current.lock() = None;
    }
}

impl Run {
    fn new(of: &Divided) -> Self {
        let pages = of.units.iter().map(Unit::count).sum();
        let division = Division::new(pages, of.paces.0, of.paces.1).read_by(of.readers).streamed(of.streams);
        let state = State { division, queue: of.units.iter().cloned().collect(), order: None, busy: false };
        Self { begun: OnceLock::new(), state: Mutex::new(state), changed: Notify::new() }
    }

    fn now(&self) -> Duration {
        self.begun.get_or_init(Instant::now).elapsed()
    }

    /// The next unit to fetch.
    pub(super) fn fetch(&self) -> Next<Unit> {
        let now = self.now();
        let mut state = self.state.lock();
        loop {
            let pages = state.queue.back().map_or(0, Unit::count);
            match state.division.fetch(pages, now) {
                Turn::Take(pages) => return state.take_last(pages).map_or(Next::Nothing, Next::Now),
                Turn::TakeBack => {
                    // Who waits for results hears that there are none. If nobody has begun yet, he will find out.
                    if let Some((results, count)) = state.put_back() {
                        let _ = results.try_send(Ok(Piece::Nothing));
                        count.add(1);
                    }
                    self.changed.notify_waiters();
                }
                Turn::Wait => return Next::Later,
                Turn::End => return Next::Nothing,
            }
        }
    }

    /// A unit of so many pages is done.
    pub(super) fn fetched(&self, pages: u64) {
        let now = self.now();
        self.state.lock().division.fetched(pages, now);
        self.changed.notify_waiters();
    }

    /// What the node is to do next. Only to be asked when the results of the last order have come.
    pub(super) fn order(&self) -> Next<Vec<Unit>> {
        let now = self.now();
        let mut state = self.state.lock();
        match state.division.push(now) {
            Turn::Take(pages) => {
                let units = state.take_first(pages);
                state.order = Some(Order { units: units.clone(), results: None });
                state.busy = true;
                Next::Now(units)
            }
            Turn::Wait => Next::Later,
            Turn::TakeBack | Turn::End => Next::Nothing,
        }
    }

    /// Says where the results of the order go. False: it was taken back, and is not to be begun.
    pub(super) fn begins(&self, results: &Sender<Result<Piece>>, taken_back: &Count) -> bool {
        match &mut self.state.lock().order {
            Some(order) => order.results = Some((results.clone(), taken_back.clone())),
            None => return false,
        }
        true
    }

    /// The first results have come. False: the order was taken back before.
    pub(super) fn answered(&self) -> bool {
        let mut state = self.state.lock();
        state.division.answered();
        state.order.take().is_some()
    }

    /// The order of so many pages is done, if it was not taken back.
    pub(super) fn pushed(&self, pages: u64) {
        let now = self.now();
        let mut state = self.state.lock();
        if std::mem::take(&mut state.busy) {
            state.order = None;
            state.division.pushed(pages, now);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// The node does not do the order.
    pub(super) fn refused(&self) {
        let mut state = self.state.lock();
        state.division.refused();
        drop(state.put_back());
        drop(state);
        self.changed.notify_waiters();
    }

    /// When there is news, or it is time to look again.
    pub(super) async fn changed(&self) {
        // Either is a reason.
        let _ = tokio::time::timeout(LOOK, self.changed.notified()).await;
    }
}

impl State {
    /// So many pages, of which the last unit may be a part.
    fn take_first(&mut self, pages: u64) -> Vec<Unit> {
        let (mut units, mut left) = (Vec::new(), pages);
        while left > 0 {
            let Some(mut unit) = self.queue.pop_front() else { break };
            if unit.count() > left {
                let cut = unit.pages.start + left;
                self.queue.push_front(Unit { part: unit.part, pages: cut..unit.pages.end });
                unit.pages.end = cut;
            }
            left -= unit.count();
            units.push(unit);
        }
        units
    }

    /// So many pages of the last unit.
    fn take_last(&mut self, pages: u64) -> Option<Unit> {
        let mut unit = self.queue.pop_back()?;
        if unit.count() > pages {
            let cut = unit.pages.end - pages;
            self.queue.push_back(Unit { part: unit.part, pages: unit.pages.start..cut });
            unit.pages.start = cut;
        }
        Some(unit)
    }

    /// Puts the order's pages into the queue again, to be fetched next; where its results were to go.
    fn put_back(&mut self) -> Option<(Sender<Result<Piece>>, Count)> {
        self.busy = false;
        let order = self.order.take()?;
        self.queue.extend(order.units);
        order.results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(paces: (f64, f64)) -> Divided {
        let units = (0..100).map(|at| Unit { part: 0, pages: 8 * at..8 * at + 8 }).collect();
        Divided { units, paces, readers: 1, streams: false, current: Mutex::default() }
    }

    fn pages(units: &[Unit]) -> Vec<u64> {
        units.iter().flat_map(|unit| unit.pages.clone()).collect()
    }

    /// Fetches until there is nothing now.
    fn fetch_all(run: &Run, found: &mut Vec<u64>) {
        while let Next::Now(unit) = run.fetch() {
            found.extend(unit.pages.clone());
            run.fetched(unit.count());
        }
    }

    #[test]
    fn each_page_is_given_once_whichever_way_and_what_is_refused_is_given_again() {
        for refuses in [false, true] {
            let run = divided((1e4, 1e4)).join(Taker::There);
            let mut found = Vec::new();
            while let Next::Now(units) = run.order() {
                // A unit in between, whenever one may be taken.
                if let Next::Now(unit) = run.fetch() {
                    found.extend(unit.pages.clone());
                    run.fetched(unit.count());
                }
                if refuses && found.len() > 300 {
                    run.refused();
                } else {
                    assert!(run.answered());
                    found.extend(pages(&units));
                    run.pushed(units.iter().map(Unit::count).sum());
                }
            }
            fetch_all(&run, &mut found);
            found.sort_unstable();
            assert_eq!(found, (0..800).collect::<Vec<_>>(), "refuses: {refuses}");
        }
    }

    #[test]
    fn an_order_that_is_taken_back_has_no_results_and_who_waits_for_them_is_told() {
        let run = divided((1e6, 1e6)).join(Taker::There);
        let Next::Now(units) = run.order() else { panic!("the node may begin") };
        let (sender, mut results) = tokio::sync::mpsc::channel(1);
        let taken_back = Count::new();
        assert!(run.begins(&sender, &taken_back));
        let mut found = Vec::new();
        // It is expected within microseconds, and nothing comes.
        while found.len() < 800 {
            fetch_all(&run, &mut found);
            std::thread::sleep(Duration::from_millis(1));
        }
        found.sort_unstable();
        assert_eq!(found, (0..800).collect::<Vec<_>>(), "with those of the order: {units:?}");
        assert!(matches!(results.try_recv(), Ok(Ok(Piece::Nothing))));
        assert!(!run.answered() && !run.begins(&sender, &taken_back), "too late");
        assert_eq!(taken_back.value(), 1);
        assert!(matches!((run.order(), run.fetch()), (Next::Nothing, Next::Nothing)));
    }

    #[test]
    fn an_order_that_has_an_answer_stays_with_the_node() {
        let run = divided((1e6, 1e6)).join(Taker::There);
        let Next::Now(units) = run.order() else { panic!("the node may begin") };
        assert!(run.answered());
        let mut found = pages(&units);
        fetch_all(&run, &mut found);
        std::thread::sleep(Duration::from_millis(30));
        fetch_all(&run, &mut found);
        found.sort_unstable();
        assert_eq!(found, (0..800).collect::<Vec<_>>());
    }

    #[test]
    fn takers_of_one_execution_share_a_run_and_the_next_execution_has_its_own() {
        let divided = divided((1.0, 1.0));
        let first = [Taker::Here(0), Taker::There, Taker::Here(1)].map(|taker| divided.join(taker));
        assert!(first.iter().all(|run| Arc::ptr_eq(run, &first[0])));
        let second = [Taker::Here(1), Taker::Here(0), Taker::There].map(|taker| divided.join(taker));
        assert!(second.iter().all(|run| Arc::ptr_eq(run, &second[0])));
        assert!(!Arc::ptr_eq(&first[0], &second[0]));
        divided.reset();
        assert!(!Arc::ptr_eq(&divided.join(Taker::Here(5)), &second[0]));
    }
}
