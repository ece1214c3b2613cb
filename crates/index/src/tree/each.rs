//! Several searches side by side: while the memory that one waits for is on its way, the others go on.
//!
//! All searches of a group go down level by level. At each level a search asks for what it will need next and does not wait:
//! for the header of a node, then for the slots that the header points to, in the end for the leaf. By the time when all the
//! others have done the same, it is there.

use sdd::Guard;

use super::Tree;
use super::descent::{Halt, Way};
use crate::probe::Probe;
use crate::version::Restart;

/// Searches under way at once: about as many lines as a core can wait for.
const GROUP: usize = 16;

/// How far a search is.
#[derive(Clone, Copy)]
enum Search<'t> {
    At(Halt<'t>),
    Between(Way<'t>),
    /// Something came in between.
    Failed,
}

impl Tree {
    /// Tells `found` the place of each key in `keys` and its payload, if it has one.
    pub(crate) fn get_each<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        guard: &Guard,
        mut found: impl FnMut(usize, Option<u64>),
    ) {
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let mut probes: [Probe<'_>; GROUP] =
                std::array::from_fn(|at| Probe::new(keys.get(at).map_or(&[], AsRef::as_ref)));
            let probes = &mut probes[..keys.len()];
            let mut searches = [self.start().map_or(Search::Failed, Search::Between); GROUP];
            let searches = &mut searches[..keys.len()];
            while self.all_go_on(probes, searches, guard) {}
            for (at, (search, probe)) in searches.iter().zip(probes).enumerate() {
                let payload = match search {
                    Search::Between(way) => self.get_there(*way, probe, guard),
                    Search::At(_) | Search::Failed => Err(Restart),
                };
                let payload = payload.unwrap_or_else(|Restart| self.get(probe.key, None, guard));
                found(group * GROUP + at, payload);
            }
        }
    }

    /// Each search goes one level down; false if none can, since all are at their leaves.
    fn all_go_on<'t>(&'t self, probes: &mut [Probe<'_>], searches: &mut [Search<'t>], guard: &Guard) -> bool {
        for (probe, search) in probes.iter_mut().zip(&mut *searches) {
            if let Search::Between(way) = search
                && !way.leads_to_leaf()
            {
                *search = self.enter(*way, probe, guard).map_or(Search::Failed, Search::At);
                if let Search::At(halt) = search {
                    halt.prefetch(probe);
                }
            }
        }
        let mut any = false;
        for (probe, search) in probes.iter().zip(searches) {
            if let Search::At(halt) = search {
                any = true;
                *search = halt.onward(probe, guard).map_or(Search::Failed, Search::Between);
            }
        }
        any
    }

    fn get_there(&self, way: Way<'_>, probe: &mut Probe<'_>, guard: &Guard) -> Result<Option<u64>, Restart> {
        let (leaf, stamp) = self.arrive(way, probe, guard)?;
        let found = leaf.find(probe, stamp, guard)?;
        leaf.check(stamp)?;
        Ok(found.payload)
    }
}
