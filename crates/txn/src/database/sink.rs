//! What the log asks of whoever takes its records at recovery.

use std::error::Error;

use ishigaki_base::{Lsn, Position};

/// Takes the records that survived, from several threads at once and in any order; each record once.
pub(crate) trait Sink: Sync {
    /// Takes one record. An error ends the recovery.
    fn take(&self, position: Position, payload: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// Every record with an LSN below this has been given, and its `take` has returned: nothing older comes any more.
    fn passed(&self, below: Lsn);
}
