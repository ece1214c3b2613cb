//! What the experiments of paper 4 compare, and where.

use ishigaki_servers::Kind;

use crate::Result;
use crate::one_log::{Disk, Host};

/// Experiments of some scale with servers that have logs of their own, and one.
#[derive(Clone, Debug)]
pub struct Compared<S> {
    /// How much of it.
    pub scale: S,
    /// Where logs are.
    pub disks: Vec<Disk>,
    /// Which servers.
    pub kinds: Vec<Kind>,
    /// Where it is done.
    pub host: Host,
}

impl<S> Compared<S> {
    /// Before anything takes its time: whether there are such servers, and sides of these names.
    pub(super) fn check(&self, sides: Option<&[String]>) -> Result<()> {
        self.kinds.iter().try_for_each(|kind| kind.user().map(drop))?;
        self.disks.iter().try_for_each(|disk| disk.named(sides).map(drop))
    }
}
