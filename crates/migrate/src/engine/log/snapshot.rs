//! Says what the log says in as few events as it takes.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::event::Event;
use super::{Place, Queue, State};

impl State {
    /// Events that come to this state. Directories above those that are left are named, too, and are copied.
    pub(super) fn snapshot(&self) -> Vec<u8> {
        let mut events = Vec::new();
        let mut named = HashSet::new();
        let mut above = Vec::new();
        for place in self.places.values() {
            let mut chain: Vec<&Arc<Place>> = Vec::new();
            let mut at = Some(place);
            while let Some(place) = at
                && named.insert(place.node)
            {
                chain.push(place);
                at = place.above.as_ref();
            }
            for place in chain.into_iter().rev() {
                let parent = place.above.as_ref().map(|above| above.node);
                Event::Found { node: place.node, above: parent, name: place.name.as_os_str().into() }
                    .write(&mut events);
                if !self.places.contains_key(&place.node) {
                    above.push(place.node);
                }
            }
        }
        for place in self.to_copy.iter().filter(|place| !self.listed.contains_key(&place.node)) {
            Event::Listed { node: place.node, files: 0, bytes: 0 }.write(&mut events);
        }
        for (&node, &(files, bytes)) in &self.listed {
            Event::Listed { node, files, bytes }.write(&mut events);
        }
        for node in above {
            Event::Copied { node }.write(&mut events);
        }
        for ((source, _), problem) in &self.problems {
            Event::Problem { source: *source, problem: Cow::Borrowed(problem) }.write(&mut events);
        }
        if self.moved {
            Event::Moved.write(&mut events);
        }
        Event::Totals(self.totals).write(&mut events);
        events
    }
}

impl Queue {
    /// All that the log must say. The events that are not written are in it.
    pub(in super::super) fn snapshot(&self) -> Vec<u8> {
        let state = &mut *self.state.lock();
        state.events.clear();
        state.snapshot()
    }
}
