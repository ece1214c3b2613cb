//! The account of requests that were taken and not yet answered, in memory that outlives this process.
//!
//! The hypervisor asks for the memory once, keeps it, and gives it to every process that serves the device. Its form is vhost-user's ("inflight I/O tracking" for split
//! virtqueues), so that another implementation may go on with it. For each queue, aligned to 64 bytes:
//!
//! ```text
//!   0  features: u64   8  version: u16   10  descriptors: u16   12  last: u16   14  used: u16
//!  16  for each descriptor: taken: u8, 5 bytes unused, next: u16, order: u64
//! ```
//!
//! `taken` is 1 from when a chain that begins with that descriptor is taken until it is answered; `order` says which was taken first. An answer is three steps: `last` names the
//! chain, the used ring in the guest's memory counts it, `taken` becomes 0 and `used` follows the ring. A process that dies between them leaves `used` behind
//! the ring; then the chain that `last` names has been answered.
//!
//! Behind the queues, and no part of that form, is the number of the device's [session](crate::Requests::session): u64.
//!
//! All of it is shared with the hypervisor, which is believed here as with the guest's memory; a value that makes no sense costs that guest requests, nothing more.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// What each queue's part begins at a multiple of.
const ALIGNED: usize = 64;
const VERSION: u16 = 1;
const HEAD: usize = 16;
const DESCRIPTOR: usize = 16;

const AT_VERSION: usize = 8;
const AT_DESCRIPTORS: usize = 10;
const AT_LAST: usize = 12;
const AT_USED: usize = 14;
const AT_ORDER: usize = 8;
/// Bytes behind the queues.
const TAIL: usize = 8;

/// The memory for the queues of a device.
#[derive(Debug)]
pub struct Inflight {
    region: Arc<MmapRegion>,
    queues: u16,
    size: u16,
    session: u64,
}

/// The account of one queue.
#[derive(Debug)]
pub struct Account {
    region: Arc<MmapRegion>,
    begin: usize,
    size: u16,
    /// The order of the next chain.
    next: u64,
}

fn part(size: u16) -> usize {
    (HEAD + usize::from(size) * DESCRIPTOR).next_multiple_of(ALIGNED)
}

impl Inflight {
    /// Makes the memory for so many queues of so many descriptors, in that session. Its file and its length are for the hypervisor.
    ///
    /// # Errors
    ///
    /// Of the system.
    pub fn new(queues: u16, size: u16, session: u64) -> io::Result<(Self, File, u64)> {
        let file = File::from(memfd_create("ishigaki-inflight", MemfdFlags::CLOEXEC)?);
        let begin = part(size) * usize::from(queues);
        let length = begin + TAIL;
        ftruncate(&file, length as u64)?;
        let mut made = Self::map(file.try_clone()?, 0, length as u64, queues, size)?;
        for queue in 0..queues {
            if let Some(account) = made.account(queue) {
                account.store(AT_DESCRIPTORS, size)?;
            }
        }
        made.region.as_volatile_slice().store(session, begin, Ordering::Release).map_err(io::Error::other)?;
        made.session = session;
        Ok((made, file, length as u64))
    }

    /// The memory that a process before this one has made.
    ///
    /// # Errors
    ///
    /// For a file that has not that much, or not for these queues.
    pub fn map(file: File, offset: u64, length: u64, queues: u16, size: u16) -> io::Result<Self> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        if length < part(size) * usize::from(queues) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no room for the queues"));
        }
        let region = MmapRegion::from_file(FileOffset::new(file, offset), length).map_err(io::Error::other)?;
        // Memory of another implementation ends with the queues.
        let session = region.as_volatile_slice().load(part(size) * usize::from(queues), Ordering::Acquire);
        Ok(Self { region: Arc::new(region), queues, size, session: session.unwrap_or(0) })
    }

    /// In which session it was made; 0 where that does not matter.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// That of one queue.
    pub fn account(&self, queue: u16) -> Option<Account> {
        (queue < self.queues).then(|| Account {
            region: self.region.clone(),
            begin: part(self.size) * usize::from(queue),
            size: self.size,
            next: 0,
        })
    }
}

impl Account {
    fn load<T: vm_memory::AtomicAccess>(&self, at: usize) -> io::Result<T> {
        self.region.as_volatile_slice().load(self.begin + at, Ordering::Acquire).map_err(io::Error::other)
    }

    fn store<T: vm_memory::AtomicAccess>(&self, at: usize, value: T) -> io::Result<()> {
        self.region.as_volatile_slice().store(value, self.begin + at, Ordering::Release).map_err(io::Error::other)
    }

    fn descriptor(head: u16) -> usize {
        HEAD + usize::from(head) * DESCRIPTOR
    }

    /// Begins with a queue whose used ring counts so many answers. The chains that were taken and not answered, oldest first.
    ///
    /// # Errors
    ///
    /// Where the memory is not as it should be.
    pub fn begin(&mut self, used: u16) -> io::Result<Vec<u16>> {
        if self.load::<u16>(AT_VERSION)? == 0 {
            self.store(AT_USED, used)?;
            self.store(AT_VERSION, VERSION)?;
            return Ok(Vec::new());
        }
        if self.load::<u16>(AT_USED)? != used {
            let last = self.load::<u16>(AT_LAST)?;
            if last < self.size {
                self.store(Self::descriptor(last), 0_u8)?;
            }
            self.store(AT_USED, used)?;
        }
        let mut taken = Vec::new();
        for head in 0..self.size {
            if self.load::<u8>(Self::descriptor(head))? != 0 {
                taken.push((self.load::<u64>(Self::descriptor(head) + AT_ORDER)?, head));
            }
        }
        taken.sort_unstable();
        self.next = taken.last().map_or(0, |(order, _)| order.wrapping_add(1));
        Ok(taken.into_iter().map(|(_, head)| head).collect())
    }

    /// A chain is taken.
    ///
    /// # Errors
    ///
    /// For one that is none of the queue's.
    pub fn take(&mut self, head: u16) -> io::Result<()> {
        self.check(head)?;
        self.store(Self::descriptor(head) + AT_ORDER, self.next)?;
        self.next = self.next.wrapping_add(1);
        self.store(Self::descriptor(head), 1_u8)
    }

    /// A chain is about to be answered.
    ///
    /// # Errors
    ///
    /// For one that is none of the queue's.
    pub fn answering(&self, head: u16) -> io::Result<()> {
        self.check(head)?;
        self.store(AT_LAST, head)
    }

    /// It is answered: the used ring counts so many answers.
    ///
    /// # Errors
    ///
    /// For one that is none of the queue's.
    pub fn answered(&self, head: u16, used: u16) -> io::Result<()> {
        self.check(head)?;
        self.store(Self::descriptor(head), 0_u8)?;
        self.store(AT_USED, used)
    }

    fn check(&self, head: u16) -> io::Result<()> {
        if head < self.size { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, "no such descriptor")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_and_not_answered_is_found_in_its_order() {
        let (first, file, length) = Inflight::new(2, 8, 7).unwrap();
        let mut account = first.account(1).unwrap();
        assert_eq!(account.begin(100).unwrap(), [0_u16; 0]);
        for head in [5, 2, 7] {
            account.take(head).unwrap();
        }
        account.answering(2).unwrap();
        account.answered(2, 101).unwrap();
        assert!(account.take(8).is_err());

        let second = Inflight::map(file, 0, length, 2, 8).unwrap();
        assert_eq!(second.session(), 7);
        let mut account = second.account(1).unwrap();
        assert_eq!(account.begin(101).unwrap(), [5, 7]);
        account.take(1).unwrap();
        assert_eq!(account.begin(101).unwrap(), [5, 7, 1], "it came after what is done again");
        assert_eq!(second.account(0).unwrap().begin(0).unwrap(), [0_u16; 0]);
        assert!(second.account(2).is_none());
    }

    #[test]
    fn an_answer_that_the_guest_has_seen_is_not_given_again() {
        let (memory, ..) = Inflight::new(1, 4, 0).unwrap();
        let mut account = memory.account(0).unwrap();
        account.begin(7).unwrap();
        account.take(3).unwrap();
        account.take(0).unwrap();
        account.answering(3).unwrap();
        // The process dies here, before or after the guest's memory counts the answer.
        assert_eq!(memory.account(0).unwrap().begin(7).unwrap(), [3, 0]);
        assert_eq!(memory.account(0).unwrap().begin(8).unwrap(), [0]);
    }
}
