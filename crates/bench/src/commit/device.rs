//! The device's side: synchronous writes and nothing else.

use std::path::PathBuf;
use std::sync::Arc;

use ishigaki_device::{AlignedBuffer, Device, Directory, FileDirectory};

use super::{NAME, Settings};
use crate::pace::{Pace, Run};
use crate::site::Site;
use crate::{Error, Result};

/// Bytes that each thread writes over, round and round. Enough that no block is written twice in quick succession.
const REGION: u64 = 8 << 20;

/// One preallocated device per thread, so that no two threads share a file's lock.
pub(super) struct Bare {
    devices: Vec<Arc<dyn Device>>,
    /// What each thread writes, over and over, with a number in front that grows.
    blocks: Vec<AlignedBuffer>,
    bytes: usize,
    path: PathBuf,
}

impl Bare {
    /// Prepares for up to `most` threads and writes of `bytes` bytes, rounded up to whole blocks.
    pub(super) fn new(settings: &Settings, site: &Site, most: usize, bytes: usize) -> Result<Self> {
        let path = site.join("device");
        let directory = FileDirectory::open(&path)?;
        let mut random = settings.origin.seed.generator();
        let mut bare = Self { devices: Vec::new(), blocks: Vec::new(), bytes, path };
        for thread in 0..most {
            let device = directory.create(&format!("thread-{thread}"), REGION)?;
            bare.bytes = bytes.max(1).next_multiple_of(device.promise().block_size);
            // Random bytes: a medium that compresses or finds zeros has no easier work than with the engine's.
            let mut block = AlignedBuffer::zeroed(bare.bytes);
            random.fill(&mut block);
            bare.devices.push(device);
            bare.blocks.push(block);
        }
        directory.sync()?;
        Ok(bare)
    }

    /// Bytes of one write.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// One round with this many threads.
    pub(super) fn round(&mut self, threads: usize, pace: Pace) -> Result<Run> {
        let places = (REGION / self.bytes as u64).max(1);
        let offset = |turn: u64| turn % places * self.bytes as u64;
        let workers: Vec<_> = self
            .devices
            .iter()
            .zip(&mut self.blocks)
            .take(threads)
            .map(|(device, block)| {
                move |turn: u64| {
                    block[..8].copy_from_slice(&turn.to_le_bytes());
                    device.write_durable(offset(turn), block).map_err(Error::from)
                }
            })
            .collect();
        let run = pace.run(workers)?;
        for (thread, (device, done)) in self.devices.iter().zip(&run.done).enumerate() {
            let mut back = AlignedBuffer::zeroed(self.bytes);
            device.read_at(offset(done - 1), &mut back)?;
            if *back != *self.blocks[thread] {
                let reason = format!("device thread-{thread} does not hold its write number {}", done - 1);
                return Err(Error::Wrong { workload: NAME, reason, path: self.path.clone() });
            }
        }
        Ok(run)
    }
}
