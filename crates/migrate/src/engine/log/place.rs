//! Where a directory was found.

use std::ffi::OsString;
use std::sync::Arc;

use crate::destination::NodeId;

/// A directory by its names from the root on, as they were when it was found.
pub(in super::super) struct Place {
    pub(in super::super) node: NodeId,
    pub(in super::super) name: OsString,
    pub(in super::super) above: Option<Arc<Place>>,
}

impl Place {
    /// The directory that all of its source lie below.
    pub(in super::super) fn top(&self) -> NodeId {
        let (mut top, mut above) = (self.node, self.above.as_deref());
        while let Some(place) = above {
            (top, above) = (place.node, place.above.as_deref());
        }
        top
    }
}

impl Drop for Place {
    /// One after the other: those above may be so many that the stack has no room for a call each.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut place) = above.and_then(Arc::into_inner) {
            above = place.above.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_lie_very_deep_take_no_stack() {
        let mut place = None;
        for number in 0..1_000_000 {
            place = Some(Arc::new(Place { node: NodeId(number), name: OsString::new(), above: place }));
        }
        drop(place);
    }
}
