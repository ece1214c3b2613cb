//! A file of a node's as a device.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ishigaki_base::ByteSize;
use ishigaki_device::{Device, DirectoryLock, Error, Promise, Result, check_transfer};
use ishigaki_fabric::{Call, Caller, Pending, Region};

use super::Shared;
use super::directory::RemoteLock;
use super::link::Live;
use super::unsynced::Unsynced;
use crate::protocol::{Answer, MAX_READ, MAX_WRITTEN, Opened, Request};

/// Pieces of one read or write that are under way at a time.
const PIECES: usize = 8;

/// A file of a storage node's. Safe to share between threads: each may have requests in flight.
///
/// When the connection is lost, what was in flight fails; later requests open the file again at a new one, and fail if it is
/// another file now. A [`sync`](Device::sync) fails if the node has been started again since a write that it should cover,
/// and from then on always.
pub struct RemoteDevice {
    pub(super) shared: Arc<Shared>,
    directory: String,
    file: String,
    /// For messages: `node://host:port/dir/file`.
    pub(super) label: String,
    /// Tells our devices apart.
    number: u64,
    opened: Opened,
    unsynced: Unsynced,
}

impl RemoteDevice {
    /// A file that `live` has just opened.
    pub(super) fn new(
        shared: &Arc<Shared>,
        live: &Live,
        directory: &str,
        file: &str,
        label: String,
        opened: Opened,
    ) -> Self {
        let number = shared.next_device.fetch_add(1, Ordering::Relaxed);
        live.handles.lock().insert(number, opened);
        let (shared, directory, file) = (Arc::clone(shared), directory.to_owned(), file.to_owned());
        Self { shared, directory, file, label, number, opened, unsynced: Unsynced::default() }
    }

    /// Its name, as in `node://host:port/dir/file`.
    pub fn name(&self) -> &str {
        &self.label
    }

    /// A connection that works, and what the file is called there.
    pub(super) fn live(&self, operation: &'static str) -> Result<(Arc<Live>, Opened)> {
        let failed = |error: crate::Error| error.of_device(&self.label, operation);
        let live = self.shared.live().map_err(failed)?;
        if let Some(opened) = live.handles.lock().get(&self.number) {
            let opened = *opened;
            return Ok((Arc::clone(&live), opened));
        }
        let request = Request::Open { directory: &self.directory, name: &self.file };
        let opened = match live.ask(&request) {
            Ok(Answer::Opened(opened)) => opened,
            Ok(_) => return Err(failed(self.shared.nonsense())),
            Err(crate::Error::Device(error)) => return Err(renamed(&error, &self.label)),
            Err(error) => return Err(failed(error)),
        };
        let (known, now) = (&self.opened, &opened);
        if now.length != known.length || now.identity != known.identity || now.promise != known.promise {
            let reason = "after the connection was lost there is another file of this name; open it again".to_owned();
            return Err(Error::Invalid { name: self.label.clone(), reason });
        }
        // Two threads may have opened it at once; the second handle is closed with the connection.
        let opened = *live.handles.lock().entry(self.number).or_insert(opened);
        Ok((live, opened))
    }

    pub(super) fn check(&self, offset: u64, memory: &[u8]) -> Result<()> {
        check_transfer(&self.label, self.opened.promise.block_size, self.opened.length, offset, memory)
    }

    pub(super) fn failed(&self, error: ishigaki_fabric::Error, operation: &'static str) -> Error {
        crate::Error::from(error).of_device(&self.label, operation)
    }

    /// A read's message and the memory for its answer.
    pub(super) fn read_call(&self, live: &Live, handle: u32, offset: u64, length: usize) -> Result<(Vec<u8>, Region)> {
        let region = live.regions.take(&live.caller, length).map_err(|error| error.of_device(&self.label, "read"))?;
        let target = region.target();
        Ok((Request::Read { handle, offset, length: length as u32, target }.encode(), region))
    }

    /// Judges the answer to a read of so many bytes.
    pub(super) fn read_answer(&self, answer: &ishigaki_fabric::Answer, length: usize) -> Result<()> {
        match answer {
            ishigaki_fabric::Answer::Written(written) if *written as usize == length => Ok(()),
            ishigaki_fabric::Answer::Written(_) => Err(self.shared.nonsense().of_device(&self.label, "read")),
            ishigaki_fabric::Answer::Message(message) => Err(self.shared.failed(message, &self.label, "read")),
        }
    }

    pub(super) fn read_pieces(&self, live: &Live, handle: u32, mut offset: u64, buffer: &mut [u8]) -> Result<()> {
        for group in buffer.chunks_mut(PIECES * MAX_READ) {
            let mut calls = Vec::with_capacity(1);
            for piece in group.chunks_mut(MAX_READ) {
                calls.push(self.read_call(live, handle, offset, piece.len())?);
                offset += piece.len() as u64;
            }
            let pending = submit(
                &live.caller,
                calls.iter().map(|(message, region)| Call { region: Some(region.clone()), ..Call::message(message) }),
            )
            .map_err(|error| self.failed(error, "read"))?;
            for ((piece, pending), (_, region)) in group.chunks_mut(MAX_READ).zip(pending).zip(calls) {
                let answer = pending.wait().map_err(|error| self.failed(error, "read"))?;
                self.read_answer(&answer, piece.len())?;
                if let Some(memory) = region.memory() {
                    piece.copy_from_slice(&memory[..piece.len()]);
                }
                live.regions.put(region);
            }
        }
        Ok(())
    }

    /// Writes runs, durably or until the next sync; returns which run of the node took them.
    fn write_pieces(&self, writes: &[(u64, &[u8])], durable: bool) -> Result<u64> {
        let (live, opened) = self.live("write")?;
        self.changing(opened.file, writes, || self.write_to(&live, opened.handle, writes, durable))?;
        Ok(live.instance)
    }

    /// Has copies of these runs dropped, and none made while they are being changed.
    fn changing(&self, file: u64, writes: &[(u64, &[u8])], change: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some(copies) = &self.shared.copies else { return change() };
        for (offset, bytes) in writes {
            copies.begin_own(file, *offset, bytes.len() as u64);
        }
        let outcome = change();
        for _ in writes {
            copies.end_own(file, outcome.is_ok());
        }
        outcome
    }

    fn write_to(&self, live: &Live, handle: u32, writes: &[(u64, &[u8])], durable: bool) -> Result<()> {
        let pieces: Vec<(u64, &[u8])> = writes
            .iter()
            .flat_map(|(offset, bytes)| (*offset..).step_by(MAX_WRITTEN).zip(bytes.chunks(MAX_WRITTEN)))
            .collect();
        let mut rest = &pieces[..];
        while !rest.is_empty() {
            let failed = |error: crate::Error| match error {
                crate::Error::Device(error) => renamed(&error, &self.label),
                other => other.of_device(&self.label, "write"),
            };
            let slots = live.staging.take(live, rest.len().min(PIECES)).map_err(failed)?;
            let (now, later) = rest.split_at(slots.numbers.len().min(rest.len()));
            let mut messages = Vec::with_capacity(now.len());
            for ((offset, bytes), &slot) in now.iter().zip(&slots.numbers) {
                let length = bytes.len() as u32;
                let message = Request::Write { handle, offset: *offset, length, slot, durable }.encode();
                messages.push((message, live.staging.target(slot).map_err(failed)?));
            }
            let calls = messages.iter().zip(now).map(|((message, target), (_, bytes))| Call {
                before: Some((*target, bytes)),
                ..Call::message(message)
            });
            let outcome = submit(&live.caller, calls)
                .and_then(|pending| pending.into_iter().map(Pending::wait).collect::<Result<Vec<_>, _>>());
            let answers = outcome.map_err(|error| self.failed(error, "write"))?;
            for answer in answers {
                self.expect_done(&answer, "write")?;
            }
            rest = later;
        }
        Ok(())
    }

    fn expect_done(&self, answer: &ishigaki_fabric::Answer, operation: &'static str) -> Result<()> {
        match answer {
            ishigaki_fabric::Answer::Message(message) if Answer::decode(message) == Some(Answer::Done) => Ok(()),
            ishigaki_fabric::Answer::Message(message) => Err(self.shared.failed(message, &self.label, operation)),
            ishigaki_fabric::Answer::Written(_) => Err(self.shared.nonsense().of_device(&self.label, operation)),
        }
    }

    /// Asks for something that is answered by `Done`; returns which run of the node did it.
    fn ask(&self, operation: &'static str, request: impl FnOnce(u32) -> Request<'static>) -> Result<u64> {
        let (live, opened) = self.live(operation)?;
        let message = request(opened.handle).encode();
        let answer = live.caller.call(&Call::message(&message)).map_err(|error| self.failed(error, operation))?;
        self.expect_done(&answer, operation)?;
        Ok(live.instance)
    }
}

/// Sends calls in one batch.
fn submit<'a>(
    caller: &Arc<Caller>,
    calls: impl Iterator<Item = Call<'a>>,
) -> Result<Vec<Pending>, ishigaki_fabric::Error> {
    caller.submit(&calls.collect::<Vec<_>>())
}

/// The node's error about a file, with our name of it.
pub(super) fn renamed(error: &Error, label: &str) -> Error {
    crate::protocol::Failure::of(error).into_error(label)
}

impl Device for RemoteDevice {
    fn promise(&self) -> Promise {
        self.opened.promise
    }

    fn writes_through(&self) -> Option<bool> {
        self.opened.writes_through
    }

    fn len(&self) -> u64 {
        self.opened.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(offset, buffer)?;
        if buffer.is_empty() {
            return Ok(());
        }
        let (live, opened) = self.live("read")?;
        match &self.shared.copies {
            Some(copies) => self.read_through(copies, &live, &opened, offset, buffer),
            None => self.read_pieces(&live, opened.handle, offset, buffer),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.unsynced.written(self.write_pieces(&[(offset, bytes)], false)?);
        Ok(())
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_all_durable(&[(offset, bytes)])
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        writes.iter().try_for_each(|(offset, bytes)| self.check(*offset, bytes))?;
        let pieces: usize = writes.iter().map(|(_, bytes)| bytes.len().div_ceil(MAX_WRITTEN)).sum();
        if pieces == 0 {
            return Ok(());
        }
        // Where a durable write costs a flush of the drive's cache, one for all is less than one for each.
        if pieces == 1 || self.opened.writes_through == Some(true) {
            return self.write_pieces(writes, true).map(drop);
        }
        self.unsynced.written(self.write_pieces(writes, false)?);
        self.sync()
    }

    fn sync(&self) -> Result<()> {
        let covered = self.unsynced.begin();
        let instance = self.ask("sync", |handle| Request::Sync { handle })?;
        if self.unsynced.synced(instance, &covered) {
            return Ok(());
        }
        let source = std::io::Error::other(
            "the node was started again after writes that were not synced; they may be lost: open the file again and \
             recover",
        );
        Err(Error::Io { name: self.label.clone(), operation: "sync", source })
    }

    fn lock(&self) -> Result<DirectoryLock> {
        let take = |live: &Live| {
            let handle = live.handles.lock().get(&self.number).map_or(0, |opened| opened.handle);
            live.ask(&Request::LockFile { handle })
        };
        // Sees that the first connection has opened the file, too.
        RemoteLock::take(&self.shared, &self.label, || self.live("lock").map(drop), take)
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        let end = offset.checked_add(length).filter(|&end| end <= self.opened.length);
        let block = self.opened.promise.block_size as u64;
        if end.is_none() || !offset.is_multiple_of(block) || !length.is_multiple_of(block) {
            let reason = format!("{length} bytes from {offset} are not blocks of the device");
            return Err(Error::Invalid { name: self.label.clone(), reason });
        }
        if !self.opened.promise.trim || length == 0 {
            return Ok(());
        }
        let file = self.live("trim")?.1.file;
        if let Some(copies) = &self.shared.copies {
            copies.begin_own(file, offset, length);
        }
        let outcome = self.ask("trim", |handle| Request::Trim { handle, offset, length });
        if let Some(copies) = &self.shared.copies {
            copies.end_own(file, outcome.is_ok());
        }
        self.unsynced.written(outcome?);
        Ok(())
    }
}

impl Drop for RemoteDevice {
    fn drop(&mut self) {
        for link in &self.shared.links {
            link.forget(self.number);
        }
    }
}

impl fmt::Debug for RemoteDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteDevice({}, {})", self.label, ByteSize(self.opened.length))
    }
}
