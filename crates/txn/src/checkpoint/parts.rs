//! Parts: the files that pages go into, one after the other.
//!
//! A part is collected in memory and written when it is full, at the length that it has: up to
//! [`CheckpointSettings::part`](crate::CheckpointSettings::part) bytes, or one page that is longer.

use ishigaki_base::LogId;
use ishigaki_device::{AlignedBuffer, Directory, MAX_BLOCK_SIZE};

use super::files::{part_name, write_blocks};
use super::manifest::Part;
use super::page::{Draft, Identity};
use super::throttle::Throttle;
use crate::Result;
use crate::table::TableId;

/// Writes the parts of one checkpoint.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    directory: &'a dyn Directory,
    throttle: Throttle<'a>,
    log: LogId,
    number: u64,
    /// The pages of the part under way; zeros behind them.
    buffer: AlignedBuffer,
    /// What a part may hold.
    limit: usize,
    under_way: Part,
    /// Pages of all parts.
    pages: u64,
    written: Vec<Part>,
}

impl<'a> Parts<'a> {
    pub(super) fn new(
        directory: &'a dyn Directory,
        throttle: Throttle<'a>,
        log: LogId,
        number: u64,
        limit: usize,
    ) -> Self {
        Self {
            directory,
            throttle,
            log,
            number,
            buffer: AlignedBuffer::zeroed(limit.next_multiple_of(MAX_BLOCK_SIZE)),
            limit,
            under_way: Part { length: 0, pages: 0 },
            pages: 0,
            written: Vec::new(),
        }
    }

    /// Adds a page of that table; a part that has no room for it is written first.
    pub(super) fn add(&mut self, page: &mut Draft, table: TableId) -> Result<()> {
        self.throttle.check()?;
        let identity = Identity { log: self.log, checkpoint: self.number, page: self.pages };
        let bytes = page.seal(identity, table);
        if self.under_way.length as usize + bytes.len() > self.limit {
            self.write()?;
        }
        self.pages += 1;
        if bytes.len() > self.limit {
            let mut buffer = AlignedBuffer::zeroed(bytes.len().next_multiple_of(MAX_BLOCK_SIZE));
            buffer[..bytes.len()].copy_from_slice(bytes);
            return self.write_part(&buffer, Part { length: bytes.len() as u64, pages: 1 });
        }
        let at = self.under_way.length as usize;
        self.buffer[at..at + bytes.len()].copy_from_slice(bytes);
        self.under_way = Part { length: (at + bytes.len()) as u64, pages: self.under_way.pages + 1 };
        Ok(())
    }

    /// Lets commits go first, if there are any.
    pub(super) fn give_way(&mut self) {
        self.throttle.give_way();
    }

    /// Writes what is left; all parts, in order.
    pub(super) fn finish(mut self) -> Result<Vec<Part>> {
        self.write()?;
        Ok(self.written)
    }

    fn write(&mut self) -> Result<()> {
        let part = std::mem::replace(&mut self.under_way, Part { length: 0, pages: 0 });
        if part.pages == 0 {
            return Ok(());
        }
        let buffer = std::mem::replace(&mut self.buffer, AlignedBuffer::zeroed(0));
        let written = self.write_part(&buffer, part);
        self.buffer = buffer;
        let end = (part.length as usize).next_multiple_of(MAX_BLOCK_SIZE);
        self.buffer[..end].fill(0);
        written
    }

    fn write_part(&mut self, buffer: &[u8], part: Part) -> Result<()> {
        let device = self.directory.create(&part_name(self.number, self.written.len()), part.length)?;
        write_blocks(device.as_ref(), buffer, part.length as usize, |bytes| self.throttle.pass(bytes))?;
        self.written.push(part);
        Ok(())
    }
}
