//! What goes wrong, and when.

/// Something that goes wrong at a chosen moment. All indices count from 0 and over the whole directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power goes off at this operation (see [`crate::SimDirectory::operations`]), which itself happens in part.
    PowerCut {
        /// The operation's index.
        operation: u64,
    },
    /// This write, durable or not, fails with an I/O error after it reached some of its sectors.
    WriteError {
        /// The write's index among all writes.
        nth: u64,
    },
    /// This sync, of a device or of the directory, fails with an I/O error; what was in flight is lost.
    SyncError {
        /// The sync's index among all syncs.
        nth: u64,
    },
    /// This read fails with an I/O error.
    ReadError {
        /// The read's index among all reads.
        nth: u64,
    },
}

/// How much was done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// All that change something or make it durable.
    pub(super) operations: u64,
    /// Writes, durable ones included.
    pub(super) writes: u64,
    /// Syncs of devices and of the directory.
    pub(super) syncs: u64,
    /// Reads.
    pub(super) reads: u64,
}

/// The kind of an operation, as far as faults tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Write,
    Sync,
    Other,
}

/// How an operation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// As it should.
    Succeeds,
    /// With an I/O error.
    Fails,
    /// By a power cut on its way.
    Cut,
}

impl Counts {
    /// Counts one more operation and says how it ends.
    pub(super) fn operation(&mut self, class: Class, faults: &[Fault]) -> Fate {
        let operation = take(&mut self.operations);
        let fault = match class {
            Class::Write => Some(Fault::WriteError { nth: take(&mut self.writes) }),
            Class::Sync => Some(Fault::SyncError { nth: take(&mut self.syncs) }),
            Class::Other => None,
        };
        if faults.contains(&Fault::PowerCut { operation }) {
            Fate::Cut
        } else if fault.is_some_and(|fault| faults.contains(&fault)) {
            Fate::Fails
        } else {
            Fate::Succeeds
        }
    }

    /// Counts one more read and says whether it fails.
    pub(super) fn read_fails(&mut self, faults: &[Fault]) -> bool {
        faults.contains(&Fault::ReadError { nth: take(&mut self.reads) })
    }
}

/// The counter's value before it goes on by one.
fn take(counter: &mut u64) -> u64 {
    let index = *counter;
    *counter += 1;
    index
}
