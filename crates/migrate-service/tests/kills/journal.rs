//! What a power cut leaves of the journal of an ext4.
//!
//! jbd2 writes a transaction, flushes, writes its commit block, and flushes again; only then it takes the transaction for committed, and tells programs so.
//! A commit block says everything in its first sector, and is zeros up to its 4 KiB. A drive promises no more than whole sectors of 512 bytes: a cut
//! between the two flushes can leave a new first sector before old ones. Linux takes that transaction for committed then; e2fsck ends before it,
//! tells that it is corrupt, and no longer trusts the list of files that were removed while a program had them open, which takes a check
//! without questions (`-y`). No program has lost anything by either.

use std::path::Path;
use std::process::Command;

/// Bytes of a sector, which a drive writes wholly or not at all.
const SECTOR: usize = 512;
/// With which each block begins that is no copy.
const MAGIC: u32 = 0xC03B_3998;
const COMMIT: u32 = 2;
/// The place of a commit block's checksum.
const CHECKSUM: usize = 16;

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The checksum of jbd2: CRC-32C without its last step.
fn checksum(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// The journal of an ext4 that is not mounted.
pub(crate) struct Journal(Vec<u8>);

impl Journal {
    pub(crate) fn of(device: &Path) -> Self {
        let copy = tempfile::NamedTempFile::new().unwrap();
        let request = format!("dump <8> {}", copy.path().display());
        let done = Command::new("debugfs").args(["-R", &request]).arg(device).output().unwrap();
        let journal = Self(std::fs::read(copy.path()).unwrap());
        assert!(journal.block() >= 1024, "{}", String::from_utf8_lossy(&done.stderr));
        journal
    }

    /// Bytes of a block, as its superblock tells.
    fn block(&self) -> usize {
        if self.0.len() > 1024 && number(&self.0, 0) == MAGIC { number(&self.0, 12) as usize } else { 0 }
    }

    /// Whether e2fsck ends before a transaction only because its commit block is torn: its first sector is whole, others are old, and nothing was written
    /// of a later transaction.
    pub(crate) fn explains(&self, said: &str) -> bool {
        let Some((_, named)) = said.split_once("Journal transaction ") else { return false };
        let Some((named, _)) = named.split_once(" was corrupt, replay was aborted") else { return false };
        named.parse().is_ok_and(|transaction| self.has_torn_end(transaction))
    }

    fn has_torn_end(&self, transaction: u32) -> bool {
        let seed = checksum(u32::MAX, &self.0[0x30..0x40]);
        let all = || self.0.chunks_exact(self.block()).skip(1).filter(|block| number(block, 0) == MAGIC);
        let is_right = |block: &[u8], whole: usize| {
            let mut block = block.to_vec();
            block[whole..].fill(0);
            let told = number(&block, CHECKSUM);
            block[CHECKSUM..CHECKSUM + 4].fill(0);
            checksum(seed, &block) == told
        };
        let is_torn = |block: &[u8]| is_right(block, SECTOR) && !is_right(block, block.len());
        let mut commits = all().filter(|block| number(block, 4) == COMMIT && number(block, 8) == transaction);
        commits.next().is_some_and(is_torn)
            && commits.next().is_none()
            && all().all(|block| number(block, 8) <= transaction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 4096;
    const DESCRIPTOR: u32 = 1;

    fn block(kind: u32, transaction: u32) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        for (at, value) in [(0, MAGIC), (4, kind), (8, transaction)] {
            block[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        block
    }

    /// Transactions 7 and 8, each with a block that it changes.
    fn journal() -> Journal {
        let uuid = *b"sixteen letters!";
        let seed = checksum(u32::MAX, &uuid);
        let mut superblock = block(4, 0);
        superblock[12..16].copy_from_slice(&(BLOCK as u32).to_be_bytes());
        superblock[0x30..0x40].copy_from_slice(&uuid);
        let mut bytes = superblock;
        for transaction in [7, 8] {
            let mut commit = block(COMMIT, transaction);
            let sum = checksum(seed, &commit);
            commit[CHECKSUM..CHECKSUM + 4].copy_from_slice(&sum.to_be_bytes());
            bytes.extend([block(DESCRIPTOR, transaction), vec![9; BLOCK], commit].concat());
        }
        Journal(bytes)
    }

    fn said(transaction: u32) -> String {
        format!("/dev/loop0: Journal transaction {transaction} was corrupt, replay was aborted.\n/dev/loop0: and more")
    }

    #[test]
    fn a_torn_commit_block_at_the_journals_end_explains_what_e2fsck_says_and_nothing_else_does() {
        let whole = journal();
        assert!(!whole.explains(&said(7)) && !whole.explains(&said(8)), "no block is torn");
        let garbled = |at: usize| {
            let mut journal = journal();
            journal.0[at] ^= 0x40;
            journal
        };
        let (first, last) = (3 * BLOCK, 6 * BLOCK);
        let torn = garbled(last + 3 * SECTOR);
        assert!(torn.explains(&said(8)));
        assert!(!torn.explains(&said(7)) && !torn.explains(&said(9)), "another transaction");
        assert!(!torn.explains("/dev/loop0: Inode 5 has a bad checksum"), "something else");
        assert!(!garbled(first + 3 * SECTOR).explains(&said(7)), "a later one was written");
        assert!(!garbled(last + 50).explains(&said(8)), "the first sector is not as it was written");
        let mut later = torn;
        later.0.extend(block(DESCRIPTOR, 9));
        assert!(!later.explains(&said(8)), "a later one was begun");
    }
}
