//! A device of a directory that another process serves.

use std::sync::Arc;

use ishigaki_device::{Device, Promise, Result, check_transfer};

use super::Claim;
use super::link::Link;
use crate::layout::PAYLOAD;
use crate::message::{Opened, Operation, Request};

/// What a run takes behind the bytes of all.
const RUN: usize = 16;

/// A device that the server has open for us, until it is dropped.
#[derive(Debug)]
pub(super) struct ShmDevice {
    link: Arc<Link>,
    name: String,
    handle: u32,
    length: u64,
    opened: Opened,
}

impl ShmDevice {
    pub(super) fn new(link: Arc<Link>, name: &str, handle: u32, length: u64, opened: Opened) -> Self {
        Self { link, name: name.to_owned(), handle, length, opened }
    }

    fn claim(&self, operation: Operation) -> Result<(Claim<'_>, Request)> {
        let request = Request { handle: self.handle, ..Request::new(operation) };
        Ok((self.link.claim(&self.name, operation)?, request))
    }

    fn ask(&self, operation: Operation, offset: u64, number: u64) -> Result<()> {
        let (claim, request) = self.claim(operation)?;
        claim.ask(&Request { offset, number, ..request })?;
        Ok(())
    }

    /// Writes as many bytes as a slot carries.
    fn write_piece(&self, operation: Operation, offset: u64, bytes: &[u8]) -> Result<()> {
        let (claim, request) = self.claim(operation)?;
        claim.put(0, bytes);
        claim.ask(&Request { offset, length: bytes.len(), ..request })?;
        Ok(())
    }

    fn check(&self, offset: u64, memory: &[u8]) -> Result<()> {
        check_transfer(&self.name, self.opened.promise.block_size, self.length, offset, memory)
    }
}

impl Device for ShmDevice {
    fn promise(&self) -> Promise {
        self.opened.promise
    }

    fn writes_through(&self) -> Option<bool> {
        self.opened.writes_through
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(offset, buffer)?;
        for (number, piece) in buffer.chunks_mut(PAYLOAD).enumerate() {
            let (claim, request) = self.claim(Operation::Read)?;
            let offset = offset + (number * PAYLOAD) as u64;
            let answer = claim.ask(&Request { offset, length: piece.len(), ..request })?;
            if answer.length != piece.len() {
                return Err(claim.nonsense());
            }
            claim.get(0, piece);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes)?;
        let mut pieces = bytes.chunks(PAYLOAD).zip((offset..).step_by(PAYLOAD));
        pieces.try_for_each(|(piece, offset)| self.write_piece(Operation::Write, offset, piece))
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes)?;
        if bytes.len() <= PAYLOAD {
            return self.write_piece(Operation::WriteDurable, offset, bytes);
        }
        self.write_at(offset, bytes)?;
        self.sync()
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        writes.iter().try_for_each(|(offset, bytes)| self.check(*offset, bytes))?;
        let length: usize = writes.iter().map(|(_, bytes)| bytes.len() + RUN).sum();
        if length > PAYLOAD {
            writes.iter().try_for_each(|(offset, bytes)| self.write_at(*offset, bytes))?;
            return self.sync();
        }
        let (claim, request) = self.claim(Operation::WriteAll)?;
        let (mut at, mut table) = (0, Vec::with_capacity(writes.len() * RUN));
        for (offset, bytes) in writes {
            claim.put(at, bytes);
            at += bytes.len();
            table.extend(offset.to_le_bytes());
            table.extend((bytes.len() as u64).to_le_bytes());
        }
        claim.put(at, &table);
        claim.ask(&Request { length, number: writes.len() as u64, ..request })?;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.ask(Operation::Sync, 0, 0)
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.ask(Operation::Trim, offset, length)
    }
}

impl Drop for ShmDevice {
    fn drop(&mut self) {
        // A server that has gone has let go of it, too.
        let _ = self.ask(Operation::Close, 0, 0);
    }
}
