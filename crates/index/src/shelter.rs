//! Under what a search looks at keys that lie outside of their nodes.

use sdd::Guard;

use crate::version::Restart;

/// A guard, or none.
pub(crate) trait Shelter {
    /// What protects keys outside of their nodes. Where there is none, a search that needs it ends.
    fn guard(&self) -> Result<&Guard, Restart>;
}

impl Shelter for Guard {
    #[inline]
    fn guard(&self) -> Result<&Guard, Restart> {
        Ok(self)
    }
}

/// No guard: nothing outside of a node may be looked at.
#[derive(Debug)]
pub(crate) struct Bare;

impl Shelter for Bare {
    #[inline]
    fn guard(&self) -> Result<&Guard, Restart> {
        Err(Restart)
    }
}
