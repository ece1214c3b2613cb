//! Waking who sleeps: a descriptor beside the provider's own.
//!
//! A thread that sends lets the provider work, too, and may find what another one is asleep to wait for. The provider's
//! descriptor does not show that any more; so it rings.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};

use crate::source::Fault;

/// A descriptor that is readable while it is rung.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new() -> Result<Self, Fault> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(broken)?;
        Ok(Self(bell))
    }

    /// An error would mean that it is rung more often than can be counted.
    pub(super) fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// An error means that it was not rung.
    pub(super) fn still(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// One descriptor for several, readable when any of them is.
pub(super) fn together(descriptors: &[BorrowedFd<'_>]) -> Result<OwnedFd, Fault> {
    let all = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(broken)?;
    for descriptor in descriptors {
        epoll::add(&all, descriptor, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(broken)?;
    }
    Ok(all)
}

/// Sleeps until one of them is readable, or for so long.
pub(super) fn sleep(descriptors: &[BorrowedFd<'_>], most: Duration) {
    let mut all: smallvec::SmallVec<[PollFd<'_>; 4]> =
        descriptors.iter().map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN)).collect();
    // A signal ends it early, which does no harm: whoever sleeps looks again.
    let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    let _ = poll(&mut all, Some(&most));
}

fn broken(error: rustix::io::Errno) -> Fault {
    Fault::Broken(error.to_string())
}
