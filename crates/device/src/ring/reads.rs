//! Many reads in flight for one thread, on files of any number.
//!
//! The other user of rings, [`write_all_durable`](crate::Device::write_all_durable), lends the kernel memory for the time of
//! one call. Here a read outlives the call that began it, so the memory belongs to [`Reads`] until the read has landed.

#![allow(unsafe_code, reason = "the kernel writes to the addresses it is given")]

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{self, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;

use super::remedy;
use crate::{AlignedBuffer, Error, FileDevice, Result};

/// Numbers from here on are no reads: the watched descriptor is readable. Each that was ever watched has its own.
const WATCH: u64 = 1 << 63;

/// Nobody waits for the answer.
const NOTHING: u64 = u64::MAX;

/// Reads that one thread has begun and not seen the end of, each with something of the caller's own.
///
/// ```
/// # let place = tempfile::tempdir().expect("a place");
/// use std::sync::Arc;
/// use ishigaki_device::{AlignedBuffer, Device, Directory, Error, FileDevice, FileDirectory, Reads};
///
/// FileDirectory::open(place.path())?.create("pages", 1 << 20)?;
/// let device = Arc::new(FileDevice::open_path(place.path().join("pages"))?);
/// let mut reads = match Reads::new(8) {
///     Err(Error::NoRing { .. }) => return Ok(()), // the kernel has none or does not let us
///     reads => reads?,
/// };
/// for page in 0..8 {
///     reads.begin(&device, page * 4096, AlignedBuffer::zeroed(4096), 4096, page)?;
/// }
/// let mut landed = Vec::new();
/// while reads.in_flight() > 0 {
///     reads.wait(&mut landed, None)?;
/// }
/// assert!(landed.iter().all(|read| read.outcome.is_ok() && read.buffer[..] == [0; 4096]));
/// # Ok::<(), Error>(())
/// ```
pub struct Reads<T> {
    ring: IoUring,
    /// By number; nothing where none is under way.
    flights: Vec<Option<Flight<T>>>,
    free: Vec<usize>,
    watched: Option<OwnedFd>,
    /// By what number the kernel tells when the watched descriptor is readable.
    watch: u64,
    /// The kernel was asked to tell, and will go on telling.
    watching: bool,
    /// So many requests fail before they reach the queue.
    #[cfg(test)]
    refusals: u32,
    /// A ring is its thread's own.
    _of_one_thread: PhantomData<*const ()>,
}

/// A read under way. Nobody looks at the memory before it has landed.
struct Flight<T> {
    device: Arc<FileDevice>,
    offset: u64,
    buffer: AlignedBuffer,
    length: usize,
    /// How many bytes are there.
    done: usize,
    token: T,
}

/// A read that has ended.
#[derive(Debug)]
pub struct Landed<T> {
    /// What the caller gave with it.
    pub token: T,
    /// The memory.
    pub buffer: AlignedBuffer,
    /// How it went. After an error the memory holds anything.
    pub outcome: Result<()>,
}

impl<T> Reads<T> {
    /// For about `depth` reads at a time; more are taken, but not all at once by the kernel.
    ///
    /// # Errors
    ///
    /// [`Error::NoRing`] where the kernel has no `io_uring` or does not let this process use it.
    pub fn new(depth: u32) -> Result<Self> {
        let no_ring = |errno: Errno| Error::NoRing {
            name: "reads".to_owned(),
            source: io::Error::from(errno),
            remedy: remedy(errno),
        };
        let depth = depth.clamp(1, 4096).next_power_of_two();
        // Completions are then made in the waiting thread, without waking it for each (Linux 6.1); where that is not
        // known, a plain ring serves.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(depth)
            .or_else(|_| IoUring::new(depth))
            .map_err(|error| no_ring(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        Ok(Self {
            ring,
            flights: Vec::new(),
            free: Vec::new(),
            watched: None,
            watch: WATCH,
            watching: false,
            #[cfg(test)]
            refusals: 0,
            _of_one_thread: PhantomData,
        })
    }

    /// How many have begun and not landed.
    pub fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Begins to fill the first `length` bytes of `buffer` from `offset`. What is wrong with the request is told at once, as
    /// [`Device::read_at`](crate::Device::read_at) does. The kernel hears of it with the next [`submit`](Self::submit) or [`wait`](Self::wait).
    pub fn begin(
        &mut self,
        device: &Arc<FileDevice>,
        offset: u64,
        buffer: AlignedBuffer,
        length: usize,
        token: T,
    ) -> Result<()> {
        let Some(part) = buffer.get(..length) else {
            let reason = format!("a read of {length} bytes into {} bytes of memory", buffer.len());
            return Err(Error::Invalid { name: device.name().to_owned(), reason });
        };
        device.check_transfer(offset, part)?;
        let flight = Flight { device: Arc::clone(device), offset, buffer, length, done: 0, token };
        let number = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.flights[number] = Some(flight);
        // What the queue does not have never lands: nothing is under way then.
        self.push(number).inspect_err(|_| {
            self.withdraw(number);
        })
    }

    /// Also wakes [`wait`](Self::wait) when this descriptor becomes readable: a socket, for instance. In place of one that
    /// was given before.
    pub fn watch(&mut self, descriptor: BorrowedFd<'_>) -> Result<()> {
        let own = descriptor.try_clone_to_owned().map_err(|source| failed("watch", source))?;
        if self.watching {
            // What the kernel still says of the one before is passed over: it has another number.
            self.queue(&opcode::PollRemove::new(self.watch).build().user_data(NOTHING))?;
            self.watch += 1;
            self.watching = false;
        }
        self.watched = Some(own);
        Ok(())
    }

    /// Hands what was begun to the kernel.
    pub fn submit(&mut self) -> Result<()> {
        self.enter(0, None)
    }

    /// Waits until a read has landed, the watched descriptor is readable, or `timeout` has passed (none: for ever, if there
    /// is anything to wait for). Appends all that have landed. True: the descriptor is readable, or was a moment ago.
    pub fn wait(&mut self, landed: &mut Vec<Landed<T>>, timeout: Option<Duration>) -> Result<bool> {
        self.wait_for(1, landed, timeout)
    }

    /// The same, but waits until `wanted` reads have landed. The descriptor counts as one; so this can take the whole
    /// `timeout`, and is for those who have many reads in flight and would rather see few of them late than be woken often.
    pub fn wait_for(&mut self, wanted: usize, landed: &mut Vec<Landed<T>>, timeout: Option<Duration>) -> Result<bool> {
        self.arm()?;
        let before = landed.len();
        let mut readable = self.reap(landed);
        let here = landed.len() - before + usize::from(readable);
        if here < wanted && (self.in_flight() > 0 || self.watching || timeout.is_some()) {
            self.enter(wanted - here, timeout)?;
            readable |= self.reap(landed);
        } else if !self.ring.submission().is_empty() {
            self.enter(0, None)?;
        }
        Ok(readable)
    }

    /// Looks whether anything has happened for which [`wait`](Self::wait) would wait, and does not wait. For who looks again and again:
    /// while nothing has, the kernel is not even asked.
    pub fn look(&mut self, landed: &mut Vec<Landed<T>>) -> Result<bool> {
        self.arm()?;
        let submission = self.ring.submission();
        let (begun, there) = (!submission.is_empty(), submission.taskrun());
        drop(submission);
        if begun || there {
            self.enter(0, None)?;
        }
        Ok(self.reap(landed))
    }

    /// Asks the kernel to watch, if it does not.
    fn arm(&mut self) -> Result<()> {
        let Some(watched) = self.watched.as_ref().filter(|_| !self.watching) else { return Ok(()) };
        let flags = (rustix::event::PollFlags::IN | rustix::event::PollFlags::RDHUP).bits();
        let entry = opcode::PollAdd::new(types::Fd(watched.as_raw_fd()), u32::from(flags)).multi(true).build();
        self.queue(&entry.user_data(self.watch))?;
        self.watching = true;
        Ok(())
    }

    /// Puts what is missing of a read into the queue.
    fn push(&mut self, number: usize) -> Result<()> {
        let Some(flight) = &mut self.flights[number] else { return Ok(()) };
        let file = types::Fd(flight.device.as_fd().as_raw_fd());
        let rest = &mut flight.buffer[flight.done..flight.length];
        let entry = opcode::Read::new(file, rest.as_mut_ptr(), rest.len().min(LARGEST) as u32)
            .offset(flight.offset + flight.done as u64)
            .build()
            .user_data(number as u64);
        self.queue(&entry)
    }

    /// After an error the kernel has not seen the entry and never will.
    fn queue(&mut self, entry: &squeue::Entry) -> Result<()> {
        #[cfg(test)]
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err(failed("submit", io::Error::other("refused by the test")));
        }
        if self.ring.submission().is_full() {
            self.enter(0, None)?;
        }
        // SAFETY: an entry names a descriptor and, if it reads, memory. Both belong to `self.flights` or `self.watched`. A
        // flight is taken out of its place only when the kernel has answered for it (`reap`) or its entry did not get into
        // the queue (`push` has failed, and the answer to the entry before it was taken), and `drop` waits for all
        // answers or forgets the flights, memory and descriptors with them. The memory is on the heap and does not move when
        // the flight does; nobody else has a reference to it, and nobody looks at it before the answer. `watched` is
        // replaced only by another descriptor; the kernel keeps the file of one that it watches by itself.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(|_| failed("submit", io::Error::other("the kernel takes no more requests")))
    }

    fn enter(&mut self, wanted: usize, timeout: Option<Duration>) -> Result<()> {
        let outcome = match timeout {
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                self.ring.submitter().submit_with_args(wanted, &SubmitArgs::new().timespec(&timeout))
            }
            None => self.ring.submit_and_wait(wanted),
        };
        match outcome {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                // The time has passed, a signal came, or the kernel wants its answers to be taken first.
                Some(Errno::TIME | Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(()),
                _ => Err(failed("wait", error)),
            },
        }
    }

    /// Takes the answers that are there. A read of which something is missing goes on; where it can not, it has landed
    /// with the error.
    fn reap(&mut self, landed: &mut Vec<Landed<T>>) -> bool {
        let (mut readable, mut again) = (false, Vec::new());
        for answer in self.ring.completion() {
            if answer.user_data() >= WATCH {
                if answer.user_data() == self.watch {
                    readable = true;
                    self.watching = io_uring::cqueue::more(answer.flags());
                }
                continue;
            }
            let number = answer.user_data() as usize;
            let Some(place) = self.flights.get_mut(number) else { continue };
            let Some(flight) = place else { continue };
            let outcome = match u32::try_from(answer.result()) {
                // Somebody has cut the file short.
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    flight.done += bytes as usize;
                    Ok(())
                }
                Err(_) => match Errno::from_raw_os_error(-answer.result()) {
                    Errno::INTR | Errno::AGAIN => Ok(()),
                    errno => Err(io::Error::from(errno)),
                },
            };
            if outcome.is_ok() && flight.done < flight.length {
                again.push(number);
                continue;
            }
            if let Some(Flight { device, buffer, token, .. }) = place.take() {
                self.free.push(number);
                let name = || device.name().to_owned();
                let outcome = outcome.map_err(|source| Error::Io { name: name(), operation: "read", source });
                landed.push(Landed { token, buffer, outcome });
            }
        }
        for number in again {
            if let Err(error) = self.push(number)
                && let Some(Flight { buffer, token, .. }) = self.withdraw(number)
            {
                landed.push(Landed { token, buffer, outcome: Err(error) });
            }
        }
        readable
    }

    /// Takes a flight out of its place: the kernel has nothing of it.
    fn withdraw(&mut self, number: usize) -> Option<Flight<T>> {
        let flight = self.flights[number].take()?;
        self.free.push(number);
        Some(flight)
    }
}

/// No request may ask for more, because its answer has only 31 bits.
const LARGEST: usize = 1 << 30;

fn failed(operation: &'static str, source: io::Error) -> Error {
    Error::Io { name: "io_uring".to_owned(), operation, source }
}

impl<T> Drop for Reads<T> {
    fn drop(&mut self) {
        let mut landed = Vec::new();
        while self.in_flight() > 0 {
            if self.enter(1, None).is_err() {
                // The kernel may still write there: nobody else may ever get this memory.
                std::mem::forget(std::mem::take(&mut self.flights));
                return;
            }
            self.reap(&mut landed);
            landed.clear();
        }
    }
}

impl<T> fmt::Debug for Reads<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reads({} in flight)", self.in_flight())
    }
}

#[cfg(test)]
mod tests;
