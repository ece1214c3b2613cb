//! A member: what a database server does to its log, without the server.
//!
//! ```text
//!  0        4096         8192         12288                                                    end of the file
//!  │ nothing │ how far    │ how far    │ a stream of bytes, which goes round                    │
//!            by turns, each MiB           each commit adds some, and writes the blocks they are in
//! ```
//!
//! The bytes of the stream are those of its seed, by their place. Behind the stream's end its last block has zeros.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use parking_lot::Mutex;

use crate::{Error, Latencies, Result};

/// Fresh bytes of a commit, as an insert of `InnoDB`'s has.
const FRESH: u64 = 346;

/// Bytes of a block.
const BLOCK: u64 = 4096;

/// Where the stream begins.
const BEGIN: u64 = 3 * BLOCK;

/// After so many bytes a member says how far it is.
const CHECKPOINT: u64 = 1 << 20;

/// One member's file, and what was acknowledged of it.
#[derive(Debug)]
pub(super) struct Member {
    path: PathBuf,
    file: File,
    /// Blocks that the stream goes round in.
    blocks: u64,
    seed: u64,
    /// Commits that were acknowledged.
    commits: AtomicU64,
    /// Of commits since they were last taken.
    latencies: Mutex<Latencies>,
}

/// The log file in a member's mount.
pub(super) fn log_of(mount: &Path) -> PathBuf {
    mount.join("ib_logfile0")
}

impl Member {
    /// With an empty file of that size.
    pub(super) fn create(mount: &Path, size: ByteSize, seed: Seed) -> Result<Self> {
        let path = log_of(mount);
        let made = File::options().read(true).write(true).create_new(true).open(&path);
        let made = made.and_then(|file| file.set_len(size.0 / BLOCK * BLOCK).map(|()| file));
        let made = made.and_then(|file| file.sync_all().map(|()| file));
        let file = made.map_err(failed(&path, "making a member's file"))?;
        let blocks = size.0 / BLOCK - BEGIN / BLOCK;
        let (commits, latencies) = (AtomicU64::new(0), Mutex::default());
        Ok(Self { path, file, blocks, seed: seed.0, commits, latencies })
    }

    /// Commits that were acknowledged until now.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// The latencies since this was last asked.
    pub(super) fn take_latencies(&self) -> Latencies {
        std::mem::take(&mut *self.latencies.lock())
    }

    /// One commit after the other.
    pub(super) fn commit_until(&self, over: &AtomicBool) -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            let (number, begun) = (self.commits(), Instant::now());
            self.commit(number).map_err(failed(&self.path, "a commit"))?;
            self.latencies.lock().record(begun.elapsed());
            self.commits.store(number + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn commit(&self, number: u64) -> std::io::Result<()> {
        let (from, to) = (number * FRESH, (number + 1) * FRESH);
        for block in from / BLOCK..=(to - 1) / BLOCK {
            self.file.write_all_at(&self.block(block, to), BEGIN + block % self.blocks * BLOCK)?;
        }
        self.file.sync_data()?;
        if from / CHECKPOINT < to / CHECKPOINT {
            let turn = to / CHECKPOINT;
            self.file.write_all_at(&checkpoint(turn), place_of_checkpoint(turn))?;
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// A block of the stream, which ends at `end`.
    fn block(&self, block: u64, end: u64) -> Vec<u8> {
        let word = |at: u64| mix(self.seed ^ at).to_le_bytes();
        let first = block * BLOCK;
        let mut bytes: Vec<u8> = (first / 8..(first + BLOCK) / 8).flat_map(word).collect();
        bytes[(end - first).min(BLOCK) as usize..].fill(0);
        bytes
    }

    /// Everything that was acknowledged is there. If not, that is the reason.
    pub(super) fn check(&self) -> Result<(), String> {
        let said = |reason: String| format!("{}: {reason}", self.path.display());
        let file = File::open(&self.path).map_err(|error| said(error.to_string()))?;
        let (commits, end) = (self.commits(), self.commits() * FRESH);
        let last = end.saturating_sub(1) / BLOCK;
        let mut found = vec![0; BLOCK as usize];
        let mut read = |at| file.read_exact_at(&mut found, at).map(|()| found.clone());
        for block in (last + 1).saturating_sub(self.blocks)..=last {
            let at = BEGIN + block % self.blocks * BLOCK;
            if commits > 0 && read(at).map_err(|error| said(error.to_string()))? != self.block(block, end) {
                return Err(said(format!("the block at {at} is not as the last of {commits} commits has left it")));
            }
        }
        let turn = end / CHECKPOINT;
        for turn in turn.saturating_sub(1).max(1)..=turn {
            let at = place_of_checkpoint(turn);
            if read(at).map_err(|error| said(error.to_string()))? != checkpoint(turn) {
                return Err(said(format!("the checkpoint at {at} is not the one of MiB {turn}")));
            }
        }
        Ok(())
    }
}

/// One of the two blocks, by turns.
fn place_of_checkpoint(turn: u64) -> u64 {
    BLOCK * (1 + turn % 2)
}

fn checkpoint(turn: u64) -> Vec<u8> {
    turn.to_le_bytes().repeat(BLOCK as usize / 8)
}

/// Bits that look drawn, of a number (the finalizer of Steele, Lea and Flood's `SplitMix`).
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn failed(path: &Path, operation: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Io { path: path.to_owned(), operation, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member that went round its file more than once, in a folder like any other.
    fn member(folder: &Path) -> Member {
        let member = Member::create(folder, ByteSize::mib(1), Seed(7)).unwrap();
        for number in 0..4000 {
            member.commit(number).unwrap();
            member.commits.store(number + 1, Ordering::Relaxed);
        }
        member
    }

    #[test]
    fn a_file_that_went_round_has_what_was_committed_last() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(member(folder.path()).check(), Ok(()));
    }

    #[test]
    fn a_commit_that_is_lost_is_seen_and_so_is_another_byte() {
        let folder = tempfile::tempdir().unwrap();
        let member = member(folder.path());
        member.commits.fetch_add(1, Ordering::Relaxed);
        assert!(member.check().unwrap_err().contains("4001 commits"));
        member.commits.fetch_sub(1, Ordering::Relaxed);
        member.file.write_all_at(&[1], BEGIN + 5 * BLOCK).unwrap();
        assert!(member.check().is_err());
        member.commit(3999).unwrap();
        member.file.write_all_at(&member.block(256 - 3 + 5, u64::MAX), BEGIN + 5 * BLOCK).unwrap();
        assert_eq!(member.check(), Ok(()));
        member.file.write_all_at(&[9], place_of_checkpoint(1)).unwrap();
        assert!(member.check().unwrap_err().contains("checkpoint"));
    }
}
