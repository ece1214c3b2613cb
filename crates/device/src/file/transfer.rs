//! The two ways in which bytes get into a file and out of it: by system calls, or by a ring of `crate::ring`.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, IoSlice, ReadWriteFlags};

/// One write, wherever it is in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    /// Where it begins.
    pub(crate) offset: u64,
    /// What is written.
    pub(crate) bytes: &'a [u8],
    /// How.
    pub(crate) flags: ReadWriteFlags,
}

/// A way of transferring. Ranges and alignment have been checked.
pub(crate) trait Transfer: fmt::Debug + Send + Sync {
    /// Writes all of all runs, in any order, however many requests that takes. After an error any part of them is there.
    fn write(&self, file: &OwnedFd, runs: &[Run]) -> rustix::io::Result<()>;

    /// Fills the buffer. [`Errno::NODATA`] if the file ends too early.
    fn read(&self, file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> rustix::io::Result<()>;
}

/// `pwritev2` and `pread`, one after the other, in the caller's thread.
#[derive(Debug)]
pub(crate) struct Calls;

impl Transfer for Calls {
    fn write(&self, file: &OwnedFd, runs: &[Run]) -> rustix::io::Result<()> {
        for &Run { mut offset, mut bytes, flags } in runs {
            while !bytes.is_empty() {
                let written = match rustix::io::pwritev2(file, &[IoSlice::new(bytes)], offset, flags) {
                    // The medium takes nothing and does not say why.
                    Ok(0) => return Err(Errno::IO),
                    Ok(written) => written,
                    Err(Errno::INTR) => continue,
                    Err(errno) => return Err(errno),
                };
                bytes = &bytes[written..];
                offset += written as u64;
            }
        }
        Ok(())
    }

    fn read(&self, file: &OwnedFd, mut offset: u64, buffer: &mut [u8]) -> rustix::io::Result<()> {
        let mut rest = buffer;
        while !rest.is_empty() {
            let read = match rustix::io::pread(file.as_fd(), &mut *rest, offset) {
                Ok(0) => return Err(Errno::NODATA),
                Ok(read) => read,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            rest = &mut rest[read..];
            offset += read as u64;
        }
        Ok(())
    }
}
