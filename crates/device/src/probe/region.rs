//! What a thread of the probe writes to.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::random::Seed;

use super::latency::Latencies;
use crate::{AlignedBuffer, Device, Directory, Error, Pace, Result};

/// A thread's own preallocated device, and what it writes there.
#[derive(Debug)]
pub(super) struct Region {
    name: String,
    device: Arc<dyn Device>,
    block: AlignedBuffer,
}

/// What one thread did in one run.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) latencies: Latencies,
    pub(super) begin: Duration,
    pub(super) end: Duration,
    /// Where the last write went.
    last: u64,
}

/// A region for each of so many threads. Their names are gone already: a device lives as long as its user, so nothing is
/// left behind however the probe ends.
pub(super) fn regions(
    directory: &dyn Directory,
    count: usize,
    length: u64,
    largest: usize,
    seed: Seed,
) -> Result<Vec<Region>> {
    // Random bytes: a medium that compresses or looks for zeros has no easier work than with a log.
    let mut random = seed.generator();
    let mut regions = Vec::with_capacity(count);
    for thread in 0..count {
        let name = format!("probe-{thread}");
        let device = directory.create(&name, length)?;
        directory.remove(&name)?;
        let mut block = AlignedBuffer::zeroed(largest.next_multiple_of(device.promise().block_size));
        random.fill(&mut block);
        regions.push(Region { name, device, block });
    }
    directory.sync()?;
    Ok(regions)
}

impl Region {
    pub(super) fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// Writes one run of `size` bytes behind the other, each durable before the next, until the time is over.
    pub(super) fn append(&mut self, size: usize, duration: Duration, pace: &Pace) -> Result<Work> {
        let places = (self.device.len() / size as u64).max(1);
        let mut latencies = Latencies::new();
        let begin = pace.now();
        let (mut before, mut turn) = (begin, 0_u64);
        let end = loop {
            // A number that grows, so that what is read back at the end shows the last write and no earlier one.
            self.block[..8].copy_from_slice(&turn.to_le_bytes());
            self.device.write_durable(turn % places * size as u64, &self.block[..size])?;
            let after = pace.now();
            latencies.record(after.saturating_sub(before));
            if after.saturating_sub(begin) >= duration {
                break after;
            }
            (before, turn) = (after, turn + 1);
        };
        Ok(Work { latencies, begin, end, last: turn % places * size as u64 })
    }

    /// Refuses a device that does not hold the last write of that run.
    pub(super) fn check(&self, work: &Work, size: usize) -> Result<()> {
        let offset = work.last;
        let mut back = AlignedBuffer::zeroed(size);
        self.device.read_at(offset, &mut back)?;
        if back[..] == self.block[..size] {
            return Ok(());
        }
        let reason = format!("the {size} bytes at {offset} are not what was last written there");
        let source = io::Error::new(io::ErrorKind::InvalidData, reason);
        Err(Error::Io { name: self.name.clone(), operation: "reading back", source })
    }
}
