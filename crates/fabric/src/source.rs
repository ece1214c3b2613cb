//! Where the bytes of a stream come from: a socket, with or without TLS, or what a peer has written by libfabric.

use std::io::IoSliceMut;
use std::time::Instant;

/// Why bytes did not get through.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The deadline has passed.
    Late,
    /// The connection is gone.
    Broken(String),
    /// The peer says what it may not say.
    Refused(String),
}

/// How long a transfer may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Block {
    /// Not at all.
    No,
    /// Until then, about.
    Until(Instant),
}

/// A stream of bytes that comes in. One thread at a time receives.
pub(crate) trait Source {
    /// Receives at least a byte into the slices, filled from the first on. 0: nothing is there, and waiting was not wanted.
    fn receive(&self, slices: &mut [IoSliceMut<'_>], block: Block) -> Result<usize, Fault>;

    /// Bytes can be put straight where they belong, and a source that gave less than there was room for is empty.
    fn is_plain(&self) -> bool;

    /// What is not taken from the source makes its descriptor readable, so it need not be emptied at once.
    fn keeps_rest_readable(&self) -> bool {
        false
    }
}
