//! What every implementation refuses alike: a request that a direct device could never serve.
//!
//! All devices check the same way, whether or not the medium below would mind; so an engine that is wrong about alignment
//! is wrong on memory too, where its tests run.

use crate::{Error, MAX_BLOCK_SIZE, Result, SECTOR};

/// The name under which a directory on a file system keeps its lock; no device may have it.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// The longest name of a device, in bytes.
const MAX_NAME: usize = 100;

/// Refuses a name that some implementation could not keep. For implementations of [`Directory`](crate::Directory) elsewhere.
pub fn check_name(name: &str) -> Result<()> {
    let fault = if name.is_empty() {
        "a device needs a name"
    } else if name.len() > MAX_NAME {
        "the name is longer than 100 bytes"
    } else if name.starts_with('.') {
        "a name may not begin with a dot"
    } else if name == LOCK_NAME {
        "this name is kept for the directory's lock"
    } else if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')) {
        "a name has only ASCII letters, digits, '.', '-' and '_'"
    } else {
        return Ok(());
    };
    Err(Error::Invalid { name: name.to_owned(), reason: fault.to_owned() })
}

/// Refuses a transfer that no device with these blocks and this length could serve. For implementations of
/// [`Device`](crate::Device) elsewhere, so that all refuse alike.
pub fn check_transfer(name: &str, block_size: usize, length: u64, offset: u64, memory: &[u8]) -> Result<()> {
    Bounds { name, block_size, length }.check_transfer(offset, memory)
}

/// True for a block size that a [`crate::Promise`] may name.
pub(crate) fn is_block_size(size: usize) -> bool {
    size.is_power_of_two() && (SECTOR..=MAX_BLOCK_SIZE).contains(&size)
}

/// Rounds a length up to whole blocks.
pub(crate) fn whole_blocks(name: &str, length: u64, block_size: usize) -> Result<u64> {
    length.checked_next_multiple_of(block_size as u64).filter(|&rounded| i64::try_from(rounded).is_ok()).ok_or_else(
        || Error::Invalid { name: name.to_owned(), reason: format!("a length of {length} bytes is too large") },
    )
}

/// Refuses to make a device shorter.
pub(crate) fn check_longer(name: &str, from: u64, to: u64) -> Result<()> {
    if to >= from {
        return Ok(());
    }
    let reason = format!("it has {from} bytes, and can not be made {to} bytes long");
    Err(Error::Invalid { name: name.to_owned(), reason })
}

/// The device that a request is for, as far as the request can be wrong about it.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// The device's name.
    pub(crate) name: &'a str,
    /// Its block size.
    pub(crate) block_size: usize,
    /// Its length in bytes.
    pub(crate) length: u64,
}

impl Bounds<'_> {
    /// Refuses a run of bytes that is not made of this device's blocks.
    pub(crate) fn check_range(self, offset: u64, length: u64) -> Result<()> {
        let block = self.block_size as u64;
        if !offset.is_multiple_of(block) {
            return Err(self.invalid(format!("offset {offset} is not a multiple of the block size {block}")));
        }
        if !length.is_multiple_of(block) {
            return Err(self.invalid(format!("length {length} is not a multiple of the block size {block}")));
        }
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(self.invalid(format!(
                "{length} bytes from offset {offset} reach past the end of the device at {}",
                self.length
            ))),
        }
    }

    /// Refuses a transfer whose range is wrong or whose memory a direct device could not reach. No bytes may lie anywhere.
    pub(crate) fn check_transfer(self, offset: u64, memory: &[u8]) -> Result<()> {
        self.check_range(offset, memory.len() as u64)?;
        if memory.is_empty() || memory.as_ptr().addr().is_multiple_of(self.block_size) {
            Ok(())
        } else {
            Err(self.invalid(format!(
                "the memory does not begin at a multiple of the block size {}; use an AlignedBuffer",
                self.block_size
            )))
        }
    }

    /// Refuses transfers of which one is to be refused.
    pub(crate) fn check_transfers(self, writes: &[(u64, &[u8])]) -> Result<()> {
        writes.iter().try_for_each(|(offset, bytes)| self.check_transfer(*offset, bytes))
    }

    fn invalid(self, reason: String) -> Error {
        Error::Invalid { name: self.name.to_owned(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_pass() {
        for good in ["a", "wal-0001.seg", "A_b-9.", &"x".repeat(100)] {
            check_name(good).expect("a plain name");
        }
        for bad in ["", ".hidden", "a/b", "a b", "ä", "..", "LOCK", &"x".repeat(101)] {
            assert!(matches!(check_name(bad), Err(Error::Invalid { .. })), "{bad:?}");
        }
    }

    #[test]
    fn a_range_that_overflows_is_refused() {
        let bounds = Bounds { name: "d", block_size: SECTOR, length: 1024 };
        bounds.check_range(512, 512).expect("the last block");
        bounds.check_range(1024, 0).expect("nothing at the end");
        assert!(bounds.check_range(1024, 512).is_err());
        assert!(bounds.check_range(u64::MAX - 511, 512).is_err());
        assert!(whole_blocks("d", u64::MAX, SECTOR).is_err());
        assert!(whole_blocks("d", i64::MAX as u64, SECTOR).is_err());
    }
}
