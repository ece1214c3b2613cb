//! From the shared buffer to the medium: the only one who empties the one and writes the other.
//!
//! A turn takes what is complete, in order, as far as one batch of chunks holds, out of the buffer and into [`Block`]s; from
//! then on the buffer has that space again, and inserts go on while the blocks are written (double buffering). A record that
//! does not fit goes on in the next turn's chunks.

use ishigaki_base::Lsn;
use ishigaki_device::AlignedBuffer;

use super::array::Releases;
use super::ring::{Ring, WORD};
use crate::buffer::Block;
use crate::format::{Kind, MAX_BATCH, RECORD_HEADER, RecordHeader};
use crate::segment::Pen;
use crate::{Error, Result};

/// Words of a record's header in the buffer: its LSN, then length and kind. On the medium a record has no more bytes than
/// in the buffer.
pub(crate) const HEADER_WORDS: u64 = RECORD_HEADER.div_ceil(WORD) as u64;

/// In a header's first word: no record, but so many words to pass over.
const PAD: u64 = 1 << 63;

/// In a header's second word.
const FILLER: u64 = 1 << 63;

/// Words of a record of `payload` bytes in the buffer.
pub(crate) fn words_of(payload: usize) -> u64 {
    HEADER_WORDS + payload.div_ceil(WORD) as u64
}

/// Puts a record's header into the buffer.
pub(crate) fn put_header(ring: &Ring, position: u64, lsn: Lsn, kind: Kind, length: usize) {
    let filler = if kind == Kind::Filler { FILLER } else { 0 };
    ring.put(position, lsn.0);
    ring.put(position + 1, length as u64 | filler);
}

/// Marks words that belong to a group and hold nothing.
pub(crate) fn put_pad(ring: &Ring, position: u64, words: u64) {
    if words > 0 {
        ring.put(position, PAD | words);
    }
}

/// Where the emptying of the buffer and the writing of the stream stand.
#[derive(Debug)]
pub(crate) struct Writer {
    /// `None` once the log has failed or come to rest.
    pub(crate) pen: Option<Pen>,
    /// The next chunks; the last one of them is being filled.
    pub(crate) blocks: Vec<Block>,
    /// Emptied ones.
    pool: Vec<Block>,
    chunk_limit: usize,
    /// Everything before this position is in a chunk.
    pub(crate) cursor: u64,
    /// Everything before this position is complete.
    complete: u64,
    /// Of the first group that was not complete when last looked at.
    pub(crate) ticket: u64,
    /// Of the record that comes next, or of the one that is being taken out.
    next: Lsn,
    /// Bytes of its payload that are still to come; 0 when its header is.
    left: u64,
    /// Words taken out that have not been written.
    pub(crate) staged: u64,
}

impl Writer {
    /// Goes on at the buffer's beginning with the record that has `next`.
    pub(crate) fn new(pen: Pen, next: Lsn, chunk_limit: usize) -> Self {
        Self {
            pen: Some(pen),
            blocks: Vec::new(),
            pool: Vec::new(),
            chunk_limit,
            cursor: 0,
            complete: 0,
            ticket: 0,
            next,
            left: 0,
            staged: 0,
        }
    }

    /// The block to fill, with at least `room` bytes free; `None` when the batch is full.
    fn block_with(&mut self, room: usize) -> Option<&mut Block> {
        if self.blocks.last().is_none_or(|block| block.free() < room) {
            if self.blocks.len() == MAX_BATCH {
                return None;
            }
            let limit = self.chunk_limit;
            let block = self.pool.pop().unwrap_or_else(|| Block::new(AlignedBuffer::zeroed(limit)));
            self.blocks.push(block);
        }
        self.blocks.last_mut()
    }

    /// The chunks are written.
    pub(crate) fn clear(&mut self) {
        self.staged = 0;
        self.blocks.iter_mut().for_each(Block::clear);
        self.pool.append(&mut self.blocks);
    }

    /// The last record that is in a chunk as a whole.
    pub(crate) fn last(&self) -> Lsn {
        self.next.previous()
    }

    /// The last record that has a part in a chunk.
    pub(crate) fn begun(&self) -> Lsn {
        if self.left > 0 { self.next } else { self.last() }
    }

    /// Takes complete records out of the buffer until the batch is full.
    pub(crate) fn stage(&mut self, ring: &Ring, releases: &Releases) -> Result<()> {
        while let Some(end) = releases.released(self.ticket, self.complete) {
            self.complete = end;
            self.ticket += 1;
        }
        let before = self.cursor;
        while self.cursor < self.complete {
            let went_on = if self.left == 0 { self.begin_record(ring)? } else { self.go_on(ring) };
            if !went_on {
                break;
            }
        }
        self.staged += self.cursor - before;
        Ok(())
    }

    /// Takes a record's header. False when the batch is full.
    fn begin_record(&mut self, ring: &Ring) -> Result<bool> {
        let word = ring.get(self.cursor);
        if word & PAD != 0 {
            self.cursor += word & !PAD;
            return Ok(true);
        }
        if word != self.next.0 {
            let reason = format!("the log's buffer holds record {word} where {} belongs: a defect", self.next);
            return Err(Error::Invalid { reason });
        }
        let word = ring.get(self.cursor + 1);
        let (length, kind) = (word & !FILLER, if word & FILLER == 0 { Kind::Payload } else { Kind::Filler });
        let header = RecordHeader { lsn: self.next, kind, dependencies: 0, length };
        let Some(block) = self.block_with(RECORD_HEADER) else { return Ok(false) };
        block.mark_record();
        block.put(&header.encode());
        self.cursor += HEADER_WORDS;
        self.left = length;
        self.end_record_if_whole();
        Ok(true)
    }

    /// Takes more of a record's payload, in whole words except at its end. False when the batch is full.
    fn go_on(&mut self, ring: &Ring) -> bool {
        let (cursor, there) = (self.cursor, self.left.min((self.complete - self.cursor) * WORD as u64) as usize);
        let Some(block) = self.block_with(there.min(WORD)) else { return false };
        let free = block.free();
        let taken = if there <= free { there } else { free / WORD * WORD };
        ring.read(cursor, block.extend(taken));
        self.cursor += taken.div_ceil(WORD) as u64;
        self.left -= taken as u64;
        self.end_record_if_whole();
        true
    }

    fn end_record_if_whole(&mut self) {
        if self.left == 0 {
            self.next = self.next.next();
        }
    }
}
