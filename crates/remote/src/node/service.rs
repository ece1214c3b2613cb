//! Doing one request, in whatever thread: what each kind means.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ishigaki_device::{Access, Error, Promise, Result};
use ishigaki_fabric::Target;

use super::export::OpenFile;
use super::leases::NOTE;
use super::session::{Done, Session, invalid};
use crate::credentials::OWN_TOKEN;
use crate::protocol::{Answer, Failure, MAX_READ, MAX_WRITTEN, Opened, Request};

/// Names that one answer lists.
const NAMES: usize = 1000;

impl Session {
    /// Does a request; what goes wrong becomes its answer.
    pub(super) fn execute(&self, id: u32, request: &Request<'_>) -> Done {
        let outcome = match *request {
            Request::Next { work, length, target } => self.works.next(work, id, length, target).map(|()| Done::Noted),
            Request::Read { handle, offset, length, target } => self.read(handle, offset, length, target),
            Request::Blank { length, target } => self.blank(length, target),
            ref other => self.act(other).map(Done::Said),
        };
        outcome.unwrap_or_else(|error| Done::Said(Answer::Failed(Failure::of(&error))))
    }

    fn read(&self, handle: u32, offset: u64, length: u32, target: Target) -> Result<Done> {
        let (file, length) = (self.file_to_read(handle, offset, length)?, checked_read(length)?);
        let mut buffer = self.buffer(length)?;
        let outcome = file.device.read_at(offset, &mut buffer.bytes[..length]);
        if let Err(error) = outcome {
            self.node.memory.put(buffer);
            return Err(error);
        }
        self.node.bytes_read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(Done::Read { buffer, length, target })
    }

    fn blank(&self, length: u32, target: Target) -> Result<Done> {
        let length = checked_read(length)?;
        let mut buffer = self.buffer(length)?;
        // What a buffer holds is left from reads, of other clients as well.
        buffer.bytes[..length].fill(0);
        Ok(Done::Read { buffer, length, target })
    }

    fn act(&self, request: &Request<'_>) -> Result<Answer> {
        let node = &self.node;
        let exported = &node.exported;
        match *request {
            Request::Hello => return Ok(Answer::Welcome { instance: node.instance }),
            Request::Load => return Ok(Answer::Load(node.status())),
            Request::Open { directory, name } if is_own(directory, name) => return Err(kept()),
            Request::Open { directory, name } => return self.opened(exported.file(directory, name)?),
            Request::Close { handle } => self.remove_file(handle),
            Request::Read { .. } | Request::Blank { .. } => return Err(invalid("a read has no message")),
            Request::Sync { handle } => self.file(handle)?.device.sync()?,
            Request::LockFile { handle } => {
                let lock = self.file(handle)?.lock()?;
                return Ok(Answer::Locked { lock: self.add_lock(lock)? });
            }
            Request::List { directory, after } => {
                let mut names = exported.directory(directory)?.list()?;
                names.retain(|name| name.as_str() > after && !is_own(directory, name));
                let more = names.len() > NAMES;
                names.truncate(NAMES);
                return Ok(Answer::Names { names, more });
            }
            Request::Unlock { lock } => self.remove_lock(lock),
            Request::Watch => return Err(invalid("a watch is no request like others")),
            Request::Begin { order } => return Ok(self.works.begin(node, &self.endpoint, order)),
            Request::Stop { work } => self.works.stop(work),
            Request::Keep { handle, watch } => {
                self.own_watch.store(watch, Ordering::SeqCst);
                self.file(handle)?.keepers.add(node.watches.find(watch)?);
            }
            Request::Renew { watch } => {
                self.own_watch.store(watch, Ordering::SeqCst);
                let watch = node.watches.find(watch)?;
                node.leases.begin()?;
                watch.renew()?;
            }
            ref change => return self.change(change),
        }
        Ok(Answer::Done)
    }

    /// What a node that only reads refuses.
    fn change(&self, request: &Request<'_>) -> Result<Answer> {
        let exported = &self.node.exported;
        if exported.access == Access::ReadOnly {
            return Err(invalid("this node serves for reading only"));
        }
        match *request {
            Request::Staging => {
                let keys = self.staging()?.iter().map(ishigaki_fabric::Region::key).collect();
                return Ok(Answer::Staging { keys });
            }
            Request::Write { handle, offset, length, slot, durable } => {
                self.write(&self.file(handle)?, offset, length, slot, durable)?;
            }
            Request::Trim { handle, offset, length } => {
                let file = self.file(handle)?;
                let own = self.own_watch.load(Ordering::SeqCst);
                self.node.leases.wait_for_old()?;
                file.keepers.change(file.id, own, offset, length, || file.device.trim(offset, length))?;
            }
            Request::Create { directory, name, .. } | Request::Remove { directory, name }
                if is_own(directory, name) =>
            {
                return Err(kept());
            }
            Request::Rename { directory, from, to } if is_own(directory, from) || is_own(directory, to) => {
                return Err(kept());
            }
            Request::Create { directory, name, length } => {
                exported.directory(directory)?.create(name, length)?;
                exported.forget(name);
                return self.opened(exported.file(directory, name)?);
            }
            Request::Rename { directory, from, to } => {
                exported.directory(directory)?.rename(from, to)?;
                exported.forget(from);
                exported.forget(to);
            }
            Request::Remove { directory, name } => {
                exported.directory(directory)?.remove(name)?;
                exported.forget(name);
            }
            Request::SyncNames { directory } => exported.directory(directory)?.sync()?,
            Request::LockNames { directory } => {
                let lock = exported.directory(directory)?.lock()?;
                return Ok(Answer::Locked { lock: self.add_lock(lock)? });
            }
            _ => return Err(invalid("an unknown request")),
        }
        Ok(Answer::Done)
    }

    fn write(&self, file: &Arc<OpenFile>, offset: u64, length: u32, slot: u16, durable: bool) -> Result<()> {
        let slots = self.staging()?;
        let region = slots.get(usize::from(slot)).ok_or_else(|| invalid("there is no such staging slot"))?;
        let length = length as usize;
        // Out of the client's reach while it is being written.
        let memory = region.take().ok_or_else(|| invalid("this staging slot is being written already"))?;
        let own = self.own_watch.load(Ordering::SeqCst);
        let outcome = match memory.get(..length) {
            Some(bytes) => self.node.leases.wait_for_old().and_then(|()| {
                file.keepers.change(file.id, own, offset, length as u64, || {
                    if durable { file.device.write_durable(offset, bytes) } else { file.device.write_at(offset, bytes) }
                })
            }),
            None => Err(invalid("a write that is longer than a staging slot")),
        };
        region.put(memory).map_err(|error| invalid(&error.to_string()))?;
        outcome?;
        self.node.bytes_written.fetch_add(length as u64, Ordering::Relaxed);
        Ok(())
    }

    fn opened(&self, file: Arc<OpenFile>) -> Result<Answer> {
        let Promise { atomic_write, trim, .. } = file.device.promise();
        let writable = self.node.exported.access == Access::ReadWrite;
        // No write is longer than a slot, so none beyond that can be whole.
        let atomic_write = atomic_write.min(MAX_WRITTEN);
        let promise = Promise { atomic_write, trim: trim && writable, ..file.device.promise() };
        let identity = file.identity;
        let (id, length, writes_through) = (file.id, file.device.len(), file.device.writes_through());
        let handle = self.add_file(file)?;
        Ok(Answer::Opened(Opened { handle, file: id, identity, length, promise, writes_through, writable }))
    }
}

/// The name is that of a file of the node's own.
fn is_own(directory: &str, name: &str) -> bool {
    directory.is_empty() && (name == NOTE || name.starts_with(OWN_TOKEN))
}

fn kept() -> Error {
    invalid("this name is kept for the node's own files")
}

/// A length that a read may have.
pub(super) fn checked_read(length: u32) -> Result<usize> {
    match length as usize {
        length if length <= MAX_READ => Ok(length),
        length => Err(Error::Invalid {
            name: String::new(),
            reason: format!("a read of {length} bytes; {MAX_READ} are the most"),
        }),
    }
}
