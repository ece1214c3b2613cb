//! Many reads in flight for one thread.

use std::sync::Arc;

use ishigaki_device::{Error, Result};
use ishigaki_fabric::{Call, Pending, Region};

use super::cached::{copy, tell};
use super::copies::Noted;
use super::device::RemoteDevice;
use super::link::Live;
use crate::protocol::{MAX_READ, Opened, Request};

/// Reads of one thread on one device and one connection, begun in batches and answered in any order. Where the client
/// keeps copies, reads of which all pages are there need no request; of others, whole pages are kept.
///
/// ```no_run
/// # use std::sync::Arc;
/// # fn sum(device: &Arc<ishigaki_remote::RemoteDevice>) -> ishigaki_device::Result<u64> {
/// use ishigaki_remote::ReadQueue;
///
/// let (mut queue, mut sum) = (ReadQueue::new(device)?, 0);
/// for page in 0..64 {
///     queue.begin(page * 4096, 4096, page)?;
/// }
/// while queue.in_flight() > 0 {
///     queue.wait(|_page, bytes| {
///         sum += u64::from(bytes?[0]);
///         Ok(())
///     })?;
/// }
/// # Ok(sum)
/// # }
/// ```
#[derive(Debug)]
pub struct ReadQueue {
    device: Arc<RemoteDevice>,
    live: Arc<Live>,
    opened: Opened,
    /// The node sends zeros instead of reading.
    blank: bool,
    /// Begun and not sent.
    fresh: Vec<(Vec<u8>, usize)>,
    pending: Vec<Pending>,
    done: Vec<(u64, ishigaki_fabric::Answer)>,
    /// Found among the copies and not handed out.
    ready: Vec<(u64, Vec<u8>)>,
    /// By number.
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Flight {
    region: Region,
    length: usize,
    token: u64,
    /// What has come can be kept from this page on, if that is still right.
    keep: Option<(Noted, u64)>,
}

/// What there is of a read among the copies.
enum Found {
    /// All of it.
    All(Vec<u8>),
    /// Not all; from which page on it can be kept, if it can.
    NotAll(Option<(Noted, u64)>),
}

impl ReadQueue {
    /// For reads of this device. If its connection is lost, so is the queue.
    pub fn new(device: &Arc<RemoteDevice>) -> Result<Self> {
        Self::of(device, false)
    }

    /// For measuring the network alone: the node sends as many zeros as would have been read, without reading.
    pub fn of_network_alone(device: &Arc<RemoteDevice>) -> Result<Self> {
        Self::of(device, true)
    }

    fn of(device: &Arc<RemoteDevice>, blank: bool) -> Result<Self> {
        let (live, opened) = device.live("read")?;
        Ok(Self {
            device: Arc::clone(device),
            live,
            opened,
            blank,
            fresh: Vec::new(),
            pending: Vec::new(),
            done: Vec::new(),
            ready: Vec::new(),
            flights: Vec::new(),
            free: Vec::new(),
        })
    }

    /// How many reads have begun and were not handed out.
    pub fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len() + self.ready.len()
    }

    /// Begins a read of at most 1 MiB; it is sent with the next [`submit`](Self::submit) or [`wait`](Self::wait).
    pub fn begin(&mut self, offset: u64, length: usize, token: u64) -> Result<()> {
        if length > MAX_READ {
            let reason = format!("a read of {length} bytes; {MAX_READ} are the most");
            return Err(Error::Invalid { name: self.device.label.clone(), reason });
        }
        let keep = match self.look_up(offset, length) {
            Found::All(bytes) => {
                self.ready.push((token, bytes));
                return Ok(());
            }
            Found::NotAll(keep) => keep,
        };
        let (mut message, region) = self.device.read_call(&self.live, self.opened.handle, offset, length)?;
        if self.blank {
            message = Request::Blank { length: length as u32, target: region.target() }.encode();
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.flights[number] = Some(Flight { region, length, token, keep });
        self.fresh.push((message, number));
        Ok(())
    }

    /// Looks for a read's pages among the copies.
    fn look_up(&self, offset: u64, length: usize) -> Found {
        let Some(copies) = self.device.shared.copies.as_ref().filter(|_| !self.blank && length > 0) else {
            return Found::NotAll(None);
        };
        let (page, end) = (copies.page() as u64, offset.saturating_add(length as u64));
        if end > self.opened.length {
            // The node says what is wrong with it.
            return Found::NotAll(None);
        }
        tell(copies, &self.live, &self.opened);
        let pages = offset / page..end.div_ceil(page);
        let first = pages.start;
        if let Some(found) = copies.get_all(self.opened.file, pages) {
            let mut bytes = vec![0; length];
            for (number, page_bytes) in (first..).zip(found) {
                copy(number * page, &page_bytes, offset, &mut bytes);
            }
            return Found::All(bytes);
        }
        let whole = offset.is_multiple_of(page) && (end.is_multiple_of(page) || end == self.opened.length);
        let noted = if whole && length <= copies.longest_run() { copies.note(self.opened.file) } else { None };
        Found::NotAll(noted.map(|noted| (noted, first)))
    }

    /// Sends what was begun.
    pub fn submit(&mut self) -> Result<()> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let calls: Vec<_> = self
            .fresh
            .iter()
            .map(|(message, number)| Call {
                region: self.flights[*number].as_ref().map(|flight| flight.region.clone()),
                token: *number as u64,
                ..Call::message(message)
            })
            .collect();
        let sent = self.live.caller.submit(&calls).map_err(|error| self.device.failed(error, "read"))?;
        self.pending.extend(sent);
        self.fresh.clear();
        Ok(())
    }

    /// Sends what was begun, waits for at least one answer if any read is in flight, and hands out all that have come.
    pub fn wait(&mut self, mut each: impl FnMut(u64, Result<&[u8]>) -> Result<()>) -> Result<()> {
        self.submit()?;
        if !self.ready.is_empty() {
            let mut outcome = Ok(());
            for (token, bytes) in std::mem::take(&mut self.ready) {
                let handed = each(token, Ok(&bytes));
                outcome = outcome.and(handed);
            }
            return outcome;
        }
        let waited = self.live.caller.wait_any(&mut self.pending, &mut self.done);
        waited.map_err(|error| self.device.failed(error, "read"))?;
        let mut done = std::mem::take(&mut self.done);
        let mut outcome = Ok(());
        for (number, answer) in done.drain(..) {
            let Some(Flight { region, length, token, keep }) =
                self.flights.get_mut(number as usize).and_then(Option::take)
            else {
                continue;
            };
            self.free.push(number as usize);
            let judged = self.device.read_answer(&answer, length);
            let memory = region.memory();
            let handed = match (judged, memory.as_ref().and_then(|memory| memory.get(..length))) {
                (Ok(()), Some(bytes)) => {
                    if let (Some(copies), Some((noted, first))) = (&self.device.shared.copies, keep) {
                        copies.keep(Some(noted), first, bytes);
                    }
                    each(token, Ok(bytes))
                }
                (Err(error), _) => each(token, Err(error)),
                (Ok(()), None) => Ok(()),
            };
            drop(memory);
            self.live.regions.put(region);
            outcome = outcome.and(handed);
        }
        self.done = done;
        outcome
    }
}
