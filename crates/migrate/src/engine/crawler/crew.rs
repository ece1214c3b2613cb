//! The crawler's threads, and what each does next.
//!
//! *Workers* do anything; there are as many as [`Crawl::threads`] says. Where a source is far away they would mostly wait, so *listers* join them, which
//! do nothing but list: each waits for an answer, makes the children, and ends when there is nothing to list. A near source gets none.
//!
//! A thread may wait for a source that is away, for as long as that is. Of such a source nothing more is begun while others have work (it is *parked*), and
//! *substitutes* take the places of workers that wait for it.

use std::sync::Arc;
use std::thread::{Builder, Scope};
use std::time::Duration;

use super::lot::Task;
use super::{Depth, Error, Passes, Run, State};
use crate::destination::Destination;
use crate::engine::log::Place;

/// The most listers.
const MOST_LISTERS: usize = 512;
/// An idle thread looks again after so long.
const LOOK: Duration = Duration::from_millis(20);
/// How often it is looked at how many workers wait for sources that are away.
const WATCH: Duration = Duration::from_millis(100);

/// What a thread may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Worker,
    Lister,
    Substitute,
}

pub(super) enum Next<D: Destination> {
    List(Arc<Place>),
    /// Directories of one source.
    Copy(Vec<Arc<Place>>),
    Task(Task<D>),
}

impl<D: Destination> Run<'_, D> {
    pub(super) fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, role: Role) {
        while let Some(next) = self.next(role) {
            self.call_lister(scope);
            let done = self.perform(next).and_then(|()| self.settle_in_time());
            let mut state = self.state.lock();
            state.active -= 1;
            if let Err(error) = done {
                state.failed.get_or_insert(error);
            }
            drop(state);
            self.wake.notify_all();
        }
    }

    /// What to do next; `None` when nothing is left, or something failed.
    fn next(&self, role: Role) -> Option<Next<D>> {
        let mut state = self.state.lock();
        loop {
            if self.cancel.is_cancelled() {
                state.failed.get_or_insert(Error::Cancelled);
            }
            let has_enough = self.is_too_many(&state, role);
            let next = if has_enough { None } else { self.choose(&mut state, role) };
            if let Some(next) = next {
                state.active += 1;
                if let Next::Copy(places) = &next {
                    state.open.extend(places.iter().map(|place| (place.node, place.clone())));
                }
                return Some(next);
            }
            // A lister has not looked at everything.
            let is_all = role != Role::Lister && !has_enough;
            let is_left = state.active > 0 || !state.tasks.is_empty() || self.engine.queue.is_parked();
            if state.failed.is_some() || (is_all && !is_left) {
                state.is_over = true;
                self.wake.notify_all();
            }
            if state.is_over || role == Role::Lister || has_enough {
                match role {
                    Role::Worker => {}
                    Role::Lister => state.listers -= 1,
                    Role::Substitute => state.substitutes -= 1,
                }
                return None;
            }
            self.wake.wait_for(&mut state, LOOK);
        }
    }

    fn is_too_many(&self, state: &State<D>, role: Role) -> bool {
        state.failed.is_some()
            || match role {
                Role::Worker => false,
                Role::Lister => state.listers > self.listers(),
                Role::Substitute => state.substitutes > self.engine.waiting_for_away(),
            }
    }

    fn choose(&self, state: &mut State<D>, role: Role) -> Option<Next<D>> {
        let queue = &self.engine.queue;
        let away = self.engine.away();
        if away.is_empty() {
            queue.unpark();
        }
        let is_away = |source: u32| away.contains(&source);
        let last = self.how.depth == Depth::DepthFirst;
        let listing = |is_first: bool| {
            let next = || if is_first { queue.next_first(true) } else { queue.to_list(last) };
            self.unless_away(&away, true, || next().into_iter().collect()).pop().map(Next::List)
        };
        if role == Role::Lister {
            return listing(true).or_else(|| listing(false));
        }
        let copying = |is_first: bool| {
            let next = || queue.lot_to_copy(last, is_first, self.how.threads, self.lot);
            let lot = self.unless_away(&away, false, next);
            (!lot.is_empty()).then_some(Next::Copy(lot))
        };
        let task = |state: &mut State<D>, is_first: bool| {
            let fits = |task: &Task<D>| !is_away(task.source()) && (!is_first || task.is_first());
            let most = if is_first && away.is_empty() { 1 } else { state.tasks.len() };
            let at = state.tasks.iter().take(most).position(fits)?;
            state.tasks.remove(at).map(Next::Task)
        };
        let first = listing(true).or_else(|| task(state, true)).or_else(|| copying(true));
        first.or_else(|| match self.how.passes {
            Passes::MetadataFirst => listing(false).or_else(|| task(state, false)).or_else(|| copying(false)),
            Passes::Bulk => task(state, false).or_else(|| copying(false)).or_else(|| listing(false)),
        })
    }

    /// What `next` gives; what is of sources that are away is parked.
    fn unless_away(&self, away: &[u32], to_list: bool, next: impl Fn() -> Vec<Arc<Place>>) -> Vec<Arc<Place>> {
        loop {
            let places = next();
            let is_away = |place: &Arc<Place>| !away.is_empty() && away.contains(&self.engine.source_of(place));
            if !places.first().is_some_and(is_away) {
                return places;
            }
            self.engine.queue.park(places, to_list);
        }
    }

    /// How many listers there may be.
    fn listers(&self) -> usize {
        let threads = self.how.threads.max(1);
        let is_behind = self.how.passes == Passes::Bulk && self.engine.queue.to_copy_count() >= threads * self.lot;
        let many = threads * (self.engine.distances.listings() - 1);
        if is_behind { 0 } else { many.min(MOST_LISTERS) }
    }

    /// One more lister, if there is work for it. It calls the next one.
    fn call_lister<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let most = self.listers();
        if most == 0 || !self.engine.queue.is_listing_left() {
            return;
        }
        {
            let mut state = self.state.lock();
            if state.listers >= most {
                return;
            }
            state.listers += 1;
        }
        if Builder::new().spawn_scoped(scope, move || self.work(scope, Role::Lister)).is_err() {
            self.state.lock().listers -= 1;
        }
    }

    /// Puts substitutes in the places of workers that wait for a source that is away.
    pub(super) fn watch<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let most = self.how.threads.max(1) * (self.engine.origins.len() - 1);
        let mut state = self.state.lock();
        while !state.is_over {
            while state.substitutes < self.engine.waiting_for_away().min(most) {
                if Builder::new().spawn_scoped(scope, move || self.work(scope, Role::Substitute)).is_err() {
                    break;
                }
                state.substitutes += 1;
            }
            self.wake.wait_for(&mut state, WATCH);
        }
    }
}
