//! Any device as a virtio block device.
//!
//! A request is a head of 16 bytes (what is asked for, unused, the sector of 512 bytes), data, and a byte that takes the answer. Data lie anywhere in the guest's
//! memory, so they are copied once, through memory that is aligned as the device wants it.
//!
//! A guest with flushes takes a write that was answered for one that a later flush makes durable, also where this process is killed in between and the next one
//! answers the flush. So a device offers them in a session alone in which the death of a process loses nothing that was written, and guests go on in that
//! session alone. Without one, each write is durable before it is answered; a guest that sends a flush all the same is answered.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_device::{AlignedBuffer, Device, SECTOR};
use virtio_queue::{Reader, Writer};

use crate::queue::Chain;
use crate::{Requests, When};

/// Bytes that one request reads or writes at most.
const LONGEST: usize = 8 << 20;

/// Ranges that one request discards or zeroes at most.
const RANGES: usize = 64;

/// Sectors of such a range at most: 1 GiB, so that one request does not take for ever.
const RANGE_SECTORS: u32 = 1 << 21;

/// Segments of data that one request has at most: a queue of 128 descriptors has them, a head and an answer.
const SEGMENTS: u32 = 126;

/// Features by their bits: the most segments, the size of a block, flush, topology, several queues, discard, write zeroes.
const SEG_MAX: u64 = 1 << 2;
const BLK_SIZE: u64 = 1 << 6;
const FLUSH: u64 = 1 << 9;
const TOPOLOGY: u64 = 1 << 10;
const MQ: u64 = 1 << 12;
const DISCARD: u64 = 1 << 13;
const WRITE_ZEROES: u64 = 1 << 14;

/// What is asked for.
mod asked {
    pub(super) const READ: u32 = 0;
    pub(super) const WRITE: u32 = 1;
    pub(super) const FLUSH: u32 = 4;
    pub(super) const NAME: u32 = 8;
    pub(super) const DISCARD: u32 = 11;
    pub(super) const WRITE_ZEROES: u32 = 13;
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done = 0,
    Failed = 1,
    Unknown = 2,
}

/// Bytes of a device's name, as a guest sees it.
const NAME: usize = 20;

/// A device, as requests ask for it.
pub struct Block {
    device: Arc<dyn Device>,
    name: [u8; NAME],
    queues: u16,
    session: Option<u64>,
    features: AtomicU64,
    quick: Option<Quick>,
}

/// Whether a read, or a write, of so many bytes from an offset on needs nothing slow.
type Quick = Box<dyn Fn(u64, u64, Access) -> bool + Send + Sync>;

/// What is done with bytes of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// They are read.
    Read,
    /// They are written.
    Write,
}

impl Block {
    /// One with so many queues, whose name the guest finds in `/dev/disk/by-id`, as far as it fits into 20 bytes. In a session, what was written to the device
    /// outlives this process.
    pub fn new(device: Arc<dyn Device>, name: &str, queues: u16, session: Option<u64>) -> Self {
        let mut short = [0; NAME];
        let length = name.len().min(NAME);
        short[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self { device, name: short, queues, session, features: AtomicU64::new(0), quick: None }
    }

    /// The same device, of which it is known which accesses, by offset and length, need nothing slow. It is a hint.
    #[must_use]
    pub fn quick_where(self, quick: impl Fn(u64, u64, Access) -> bool + Send + Sync + 'static) -> Self {
        Self { quick: Some(Box::new(quick)), ..self }
    }

    /// Why a request is not done, if it is not.
    fn perform(&self, reader: &mut Reader<'_>, writer: &mut Writer<'_>) -> Result<(), Answer> {
        let mut head = [0; 16];
        reader.read_exact(&mut head).map_err(|_| Answer::Failed)?;
        let [a, b, c, d, _, _, _, _, sector @ ..] = head;
        let sector = u64::from_le_bytes(sector);
        match u32::from_le_bytes([a, b, c, d]) {
            asked::READ => {
                let (offset, mut bytes) = self.place(sector, writer.available_bytes())?;
                self.device.read_at(offset, &mut bytes).map_err(|error| failed(&error))?;
                writer.write_all(&bytes).map_err(|_| Answer::Failed)
            }
            asked::WRITE => {
                let (offset, mut bytes) = self.place(sector, reader.available_bytes())?;
                reader.read_exact(&mut bytes).map_err(|_| Answer::Failed)?;
                let written = if self.features.load(Ordering::Relaxed) & FLUSH == 0 {
                    self.device.write_durable(offset, &bytes)
                } else {
                    self.device.write_at(offset, &bytes)
                };
                written.map_err(|error| failed(&error))
            }
            asked::FLUSH => self.device.sync().map_err(|error| failed(&error)),
            asked::NAME => {
                let room = writer.available_bytes().min(NAME);
                writer.write_all(&self.name[..room]).map_err(|_| Answer::Failed)
            }
            kind @ (asked::DISCARD | asked::WRITE_ZEROES) => self.clear(kind, reader),
            _ => Err(Answer::Unknown),
        }
    }

    /// Where data of that length lie, and memory for them.
    fn place(&self, sector: u64, length: usize) -> Result<(u64, AlignedBuffer), Answer> {
        if length > LONGEST || length == 0 {
            return Err(Answer::Failed);
        }
        let offset = self.range(sector, length as u64)?;
        Ok((offset, AlignedBuffer::zeroed(length)))
    }

    /// Where a range begins that lies in the device, in whole blocks.
    fn range(&self, sector: u64, length: u64) -> Result<u64, Answer> {
        let block = self.device.promise().block_size as u64;
        let offset = sector.checked_mul(SECTOR as u64).ok_or(Answer::Failed)?;
        let end = offset.checked_add(length).ok_or(Answer::Failed)?;
        let fits = end <= self.device.len() && offset.is_multiple_of(block) && length.is_multiple_of(block);
        if fits { Ok(offset) } else { Err(Answer::Failed) }
    }

    /// Discards ranges, or has them read as zeros.
    fn clear(&self, kind: u32, reader: &mut Reader<'_>) -> Result<(), Answer> {
        const RANGE: usize = 16;
        let length = reader.available_bytes();
        if length == 0 || !length.is_multiple_of(RANGE) || length / RANGE > RANGES {
            return Err(Answer::Failed);
        }
        let mut ranges = Vec::new();
        for _ in 0..length / RANGE {
            let mut bytes = [0; RANGE];
            reader.read_exact(&mut bytes).map_err(|_| Answer::Failed)?;
            let [s0, s1, s2, s3, s4, s5, s6, s7, n0, n1, n2, n3, flags @ ..] = bytes;
            let sectors = u32::from_le_bytes([n0, n1, n2, n3]);
            let flags = u32::from_le_bytes(flags);
            // A range to zero may be unmapped as well; nothing else is known.
            if flags > 1 || flags == 1 && kind == asked::DISCARD {
                return Err(Answer::Unknown);
            }
            if sectors > RANGE_SECTORS {
                return Err(Answer::Failed);
            }
            let length = u64::from(sectors) * SECTOR as u64;
            ranges.push((self.range(u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]), length)?, length));
        }
        // All of them can be done before the first one is.
        for (offset, length) in ranges {
            let cleared = match kind {
                asked::DISCARD => self.device.trim(offset, length),
                _ => self.device.zero(offset, length),
            };
            cleared.map_err(|error| failed(&error))?;
        }
        if kind == asked::WRITE_ZEROES && self.features.load(Ordering::Relaxed) & FLUSH == 0 {
            self.device.sync().map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

fn failed(error: &ishigaki_device::Error) -> Answer {
    tracing::debug!(%error, "a request of a virtual machine failed");
    Answer::Failed
}

impl Requests for Block {
    fn queues(&self) -> u16 {
        self.queues
    }

    fn features(&self) -> u64 {
        let flush = if self.session.is_some() { FLUSH } else { 0 };
        SEG_MAX | BLK_SIZE | flush | TOPOLOGY | MQ | DISCARD | WRITE_ZEROES
    }

    fn session(&self) -> u64 {
        self.session.unwrap_or(0)
    }

    fn taken_features(&self, features: u64) {
        self.features.store(features, Ordering::Relaxed);
    }

    /// `struct virtio_blk_config`, all numbers little-endian.
    fn config(&self) -> Vec<u8> {
        let block = self.device.promise().block_size as u32;
        // Partitions and file systems of a guest begin at multiples of 4 KiB.
        let exponent = (4096_u32.max(block) / block).trailing_zeros() as u8;
        let aligned = block / SECTOR as u32;
        let mut config = Vec::with_capacity(60);
        config.extend((self.device.len() / SECTOR as u64).to_le_bytes());
        config.extend(0_u32.to_le_bytes()); // size_max, not told
        config.extend(SEGMENTS.to_le_bytes());
        config.extend([0; 4]); // geometry, not told
        config.extend(block.to_le_bytes());
        config.extend([exponent, 0]);
        config.extend(((4096 / block) as u16).max(1).to_le_bytes()); // the smallest good request
        config.extend(0_u32.to_le_bytes());
        config.extend([0, 0]); // writeback, not told
        config.extend(self.queues.to_le_bytes());
        config.extend(RANGE_SECTORS.to_le_bytes());
        config.extend((RANGES as u32).to_le_bytes());
        config.extend(aligned.to_le_bytes());
        config.extend(RANGE_SECTORS.to_le_bytes());
        config.extend((RANGES as u32).to_le_bytes());
        config.extend([1, 0, 0, 0]); // what is zeroed may be unmapped
        config
    }

    fn answer(&self, chain: &Chain, when: When) -> Option<u32> {
        let memory = chain.memory();
        let mut reader = chain.clone().reader(memory).ok()?;
        let mut writer = chain.clone().writer(memory).ok()?;
        let room = writer.available_bytes().checked_sub(1)?;
        let mut told = writer.split_at(room).ok()?;
        let outcome = match when {
            When::Serving => self.perform(&mut reader, &mut writer),
            When::Refusing => Err(Answer::Failed),
        };
        let answer = outcome.err().unwrap_or(Answer::Done);
        told.write_all(&[answer as u8]).ok()?;
        u32::try_from(writer.bytes_written() + 1).ok()
    }

    fn is_quick(&self, chain: &Chain) -> bool {
        let access = |quick: &Quick| {
            let memory = chain.memory();
            let mut reader = chain.clone().reader(memory).ok()?;
            let mut head = [0; 16];
            reader.read_exact(&mut head).ok()?;
            let [a, b, c, d, _, _, _, _, sector @ ..] = head;
            let offset = u64::from_le_bytes(sector).checked_mul(SECTOR as u64)?;
            let (length, access) = match u32::from_le_bytes([a, b, c, d]) {
                asked::READ => (chain.clone().writer(memory).ok()?.available_bytes().checked_sub(1)?, Access::Read),
                // One that has to be durable waits for a drive.
                asked::WRITE if self.features.load(Ordering::Relaxed) & FLUSH != 0 => {
                    (reader.available_bytes(), Access::Write)
                }
                _ => return None,
            };
            Some(length <= LONGEST && quick(offset, length as u64, access))
        };
        self.quick.as_ref().and_then(access).unwrap_or(false)
    }

    fn is_asked_again(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("device", &self.device).field("queues", &self.queues).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
