//! The file that all sides read: every sector holds its own number.

use std::path::PathBuf;
use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, Device, Directory, FileDevice, FileDirectory, SECTOR};

use super::NAME;
use crate::site::Site;
use crate::{Error, Result};

/// Its name.
pub(super) const FILE: &str = "pages";

/// Bytes that are written at once.
const PIECE: usize = 1 << 20;

/// The file, written and open.
#[derive(Debug)]
pub(super) struct Pages {
    device: Arc<FileDevice>,
    path: PathBuf,
    seed: Seed,
}

impl Pages {
    /// Writes it, durably.
    pub(super) fn write(site: &Site, length: ByteSize, seed: Seed) -> Result<Self> {
        let directory = FileDirectory::open(site.path())?;
        let length = length.0.next_multiple_of(PIECE as u64);
        let device = directory.create(FILE, length)?;
        let mut piece = AlignedBuffer::zeroed(PIECE);
        for offset in (0..length).step_by(PIECE) {
            for (number, sector) in (offset / SECTOR as u64..).zip(piece.chunks_mut(SECTOR)) {
                sector.fill(number as u8);
                sector[..8].copy_from_slice(&mark(seed, number));
            }
            device.write_at(offset, &piece)?;
        }
        device.sync()?;
        directory.sync()?;
        drop(device);
        let device = Arc::new(directory.open_device(FILE)?);
        Ok(Self { device, path: site.path().to_owned(), seed })
    }

    pub(super) fn device(&self) -> &Arc<FileDevice> {
        &self.device
    }

    /// Bytes of the smallest read.
    pub(super) fn block(&self) -> usize {
        self.device.promise().block_size
    }

    /// A generator of places to read `size` bytes from, another one for each number.
    pub(super) fn places(&self, size: usize, number: usize) -> impl FnMut() -> u64 + use<> {
        let (count, mut random) = (self.device.len() / size as u64, self.seed.derive(2 + number as u64).generator());
        move || random.u64(0..count) * size as u64
    }

    /// Whether these bytes, read from that offset, are those that were written: the first and the last sector are looked at,
    /// so that the looking is no share of the time to speak of.
    pub(super) fn check(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let (first, last) = (offset / SECTOR as u64, (offset + bytes.len() as u64) / SECTOR as u64 - 1);
        let ends = [(first, 0), (last, bytes.len() - SECTOR)];
        if ends.iter().all(|&(number, at)| bytes[at..].starts_with(&mark(self.seed, number))) {
            return Ok(());
        }
        Err(self.wrong(format!("{} bytes from {offset} are others than were written", bytes.len())))
    }

    /// Whether these are the zeros of a read of nothing.
    pub(super) fn check_blank(&self, bytes: &[u8]) -> Result<()> {
        if bytes.first() == Some(&0) && bytes.last() == Some(&0) {
            return Ok(());
        }
        Err(self.wrong("the node was asked for zeros and sent something else".to_owned()))
    }

    fn wrong(&self, reason: String) -> Error {
        Error::Wrong { workload: NAME, reason, path: self.path.clone() }
    }
}

/// What the sector of that number begins with.
fn mark(seed: Seed, number: u64) -> [u8; 8] {
    (number ^ seed.0).to_le_bytes()
}
