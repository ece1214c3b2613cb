//! The group: records that wait, already in the shape of chunks, to be written together.

use ishigaki_base::{Lsn, Position, crc32c};
use ishigaki_device::AlignedBuffer;

use crate::Dependencies;
use crate::format::{CHUNK_HEADER, ChunkHeader, Kind, NO_RECORD, RECORD_HEADER, RecordHeader};

/// One chunk being filled: room for the header, then record bytes.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: AlignedBuffer,
    filled: usize,
    first_record: u32,
}

impl Block {
    pub(crate) fn new(bytes: AlignedBuffer) -> Self {
        Self { bytes, filled: CHUNK_HEADER, first_record: NO_RECORD }
    }

    pub(crate) fn free(&self) -> usize {
        self.bytes.len() - self.filled
    }

    pub(crate) fn mark_record(&mut self) {
        if self.first_record == NO_RECORD {
            self.first_record = (self.filled - CHUNK_HEADER) as u32;
        }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    /// The next `length` bytes, for the caller to fill.
    pub(crate) fn extend(&mut self, length: usize) -> &mut [u8] {
        let begin = self.filled;
        self.filled += length;
        &mut self.bytes[begin..self.filled]
    }

    /// Bytes of the chunk on a medium with such blocks.
    pub(crate) fn length(&self, block: usize) -> usize {
        self.filled.next_multiple_of(block)
    }

    /// Takes the content out; the memory stays.
    pub(crate) fn clear(&mut self) {
        self.filled = CHUNK_HEADER;
        self.first_record = NO_RECORD;
    }

    /// Completes the chunk: pads it, writes the header, and gives the bytes for the device. Of `header` the block fills
    /// in what it knows itself: lengths and checksums.
    pub(crate) fn seal(&mut self, header: ChunkHeader) -> &[u8] {
        let header = ChunkHeader {
            payload: (self.filled - CHUNK_HEADER) as u32,
            first_record: self.first_record,
            payload_crc: crc32c(&self.bytes[CHUNK_HEADER..self.filled]),
            ..header
        };
        let length = header.length();
        self.bytes[self.filled..length].fill(0);
        header.encode(&mut self.bytes[..CHUNK_HEADER]);
        &self.bytes[..length]
    }
}

/// The records of one stream that have an LSN and are not yet being written.
#[derive(Debug)]
pub(crate) struct Group {
    blocks: Vec<Block>,
    /// Emptied memory, kept for the next group.
    pool: Vec<AlignedBuffer>,
    chunk_limit: usize,
    first: Lsn,
    last: Lsn,
    records: usize,
    bytes: u64,
}

/// How many emptied blocks a stream keeps: what may pile up while a group is in flight.
const POOLED_BLOCKS: usize = 6;

impl Group {
    pub(crate) fn new(chunk_limit: usize) -> Self {
        Self {
            blocks: Vec::new(),
            pool: Vec::new(),
            chunk_limit,
            first: Lsn::MAX,
            last: Lsn::ZERO,
            records: 0,
            bytes: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The smallest LSN in the group, [`Lsn::MAX`] when it is empty.
    pub(crate) fn first(&self) -> Lsn {
        self.first
    }

    /// The largest LSN that the group, or one before it, has held.
    pub(crate) fn last(&self) -> Lsn {
        self.last
    }

    pub(crate) fn records(&self) -> usize {
        self.records
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most bytes on the medium that a record of `payload` bytes with so many dependencies can add to the group,
    /// padding to `block` included.
    pub(crate) fn cost(&self, payload: usize, dependencies: usize, block: usize) -> u64 {
        let head = RECORD_HEADER + dependencies * size_of::<Position>();
        let per_chunk = (self.chunk_limit - CHUNK_HEADER - head) as u64;
        let length = (head + payload) as u64;
        // One chunk more than whole ones fit: the record may begin at the end of one.
        let chunks = length / per_chunk + 2;
        length + chunks * (CHUNK_HEADER + head + block) as u64
    }

    /// Takes a record in. A record's header and dependencies lie in one chunk; its payload may go on in the next ones.
    pub(crate) fn push(&mut self, lsn: Lsn, kind: Kind, dependencies: &Dependencies, mut payload: &[u8]) {
        let count = dependencies.len() as u8;
        let header = RecordHeader { lsn, kind, dependencies: count, length: payload.len() as u64 };
        let block = self.block_with(header.size());
        block.mark_record();
        block.put(&header.encode());
        dependencies.iter().for_each(|position| block.put(&position.to_bits().to_le_bytes()));
        self.bytes += (header.size() + payload.len()) as u64;
        while !payload.is_empty() {
            let block = self.block_with(1);
            let (now, later) = payload.split_at(payload.len().min(block.free()));
            block.put(now);
            payload = later;
        }
        self.first = self.first.min(lsn);
        self.last = lsn;
        self.records += 1;
    }

    /// The block to fill, with at least `room` bytes free.
    fn block_with(&mut self, room: usize) -> &mut Block {
        if self.blocks.last().is_none_or(|block| block.free() < room) {
            let bytes = self.pool.pop().unwrap_or_else(|| AlignedBuffer::zeroed(self.chunk_limit));
            self.blocks.push(Block::new(bytes));
        }
        self.blocks.last_mut().expect("a block was just pushed if there was none")
    }

    /// Empties the group into the chunks to write.
    pub(crate) fn take(&mut self) -> Vec<Block> {
        self.first = Lsn::MAX;
        self.records = 0;
        self.bytes = 0;
        std::mem::take(&mut self.blocks)
    }

    /// Takes the memory of written chunks back.
    pub(crate) fn recycle(&mut self, blocks: Vec<Block>) {
        let room = POOLED_BLOCKS.saturating_sub(self.pool.len());
        self.pool.extend(blocks.into_iter().take(room).map(|block| block.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(group: &mut Group, lsn: u64, payload: &[u8]) {
        group.push(Lsn(lsn), Kind::Payload, &Dependencies::default(), payload);
    }

    #[test]
    fn a_long_record_goes_on_in_further_chunks() {
        let mut group = Group::new(4096);
        let payload = vec![7; 10_000];
        push(&mut group, 5, &payload);
        let cost = group.cost(payload.len(), 0, 512);
        let blocks = group.take();
        assert_eq!(blocks.iter().map(|block| block.first_record).collect::<Vec<_>>(), [0, NO_RECORD, NO_RECORD]);
        let padded: usize = blocks.iter().map(|block| block.filled.next_multiple_of(512)).sum();
        assert!(padded as u64 <= cost, "{padded} <= {cost}");
    }

    #[test]
    fn a_record_header_is_never_split() {
        let mut group = Group::new(4096);
        let fill = 4096 - CHUNK_HEADER - RECORD_HEADER - 10;
        push(&mut group, 1, &vec![1; fill]);
        push(&mut group, 2, &[2; 3]);
        let blocks = group.take();
        assert_eq!(blocks.len(), 2);
        assert_eq!((blocks[0].filled, blocks[1].first_record), (4086, 0));
        assert!(group.is_empty());
        assert_eq!(group.first(), Lsn::MAX);
    }
}
