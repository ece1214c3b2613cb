//! Registered memory: what a peer may write into without asking anybody.
//!
//! A [`Region`] is a run of bytes with a key. Whoever knows the key may place bytes there, so it is drawn at random, 128
//! bits of it, and given only to the peer that is to write. A region lasts as long as one of its handles: bytes that
//! arrive later find no region, and the connection they came by is closed.
//!
//! While the owner has [taken](Region::take) the memory, to give it to a device for instance, nothing can be placed there
//! either.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use ishigaki_device::AlignedBuffer;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use ring::rand::{SecureRandom, SystemRandom};

use crate::{Error, Result};

/// The right to write into a region. Does not show itself in logs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegionKey(pub [u8; 16]);

impl fmt::Debug for RegionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RegionKey(..)")
    }
}

/// Where in a peer's memory bytes are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The region.
    pub key: RegionKey,
    /// The first byte within it.
    pub offset: u64,
}

/// Memory that one connection's peer can write into. Clones are handles to the same memory.
#[derive(Clone, Debug)]
pub struct Region {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    key: RegionKey,
    length: usize,
    /// Nothing while the owner has it elsewhere.
    memory: Mutex<Option<AlignedBuffer>>,
    table: Arc<Table>,
}

impl Region {
    /// What the peer has to show.
    pub fn key(&self) -> RegionKey {
        self.shared.key
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.shared.length
    }

    /// True when there is not a single byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The beginning of the region, as the target of a write.
    pub fn target(&self) -> Target {
        Target { key: self.key(), offset: 0 }
    }

    /// The memory, locked; nothing if it was taken. Nobody places anything while the guard lives.
    pub fn memory(&self) -> Option<MappedMutexGuard<'_, AlignedBuffer>> {
        MutexGuard::try_map(self.shared.memory.lock(), Option::as_mut).ok()
    }

    /// Takes the memory out of the region, until it is [put](Self::put) back. Nothing if it is taken already.
    pub fn take(&self) -> Option<AlignedBuffer> {
        self.shared.memory.lock().take()
    }

    /// Puts the memory back. Memory of another length is refused, because the peer was told this one.
    pub fn put(&self, memory: AlignedBuffer) -> Result<()> {
        if memory.len() != self.len() {
            let reason = format!("a region of {} bytes can not have {} bytes of memory", self.len(), memory.len());
            return Err(Error::Invalid { reason });
        }
        *self.shared.memory.lock() = Some(memory);
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.table.0.lock().remove(&self.key);
    }
}

/// The regions of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regions {
    table: Arc<Table>,
}

#[derive(Debug, Default)]
struct Table(Mutex<HashMap<RegionKey, Weak<Shared>>>);

impl Regions {
    /// Makes `memory` a region.
    pub(crate) fn register(&self, memory: AlignedBuffer) -> Result<Region> {
        Ok(self.register_as(RegionKey(random()?), memory))
    }

    /// The same with a key that is given.
    pub(crate) fn register_as(&self, key: RegionKey, memory: AlignedBuffer) -> Region {
        let (length, table) = (memory.len(), Arc::clone(&self.table));
        let shared = Arc::new(Shared { key, length, memory: Mutex::new(Some(memory)), table });
        self.table.0.lock().insert(key, Arc::downgrade(&shared));
        Region { shared }
    }

    /// The region that has this key and these bytes, or what is wrong with the request.
    pub(crate) fn find(&self, target: Target, length: usize) -> Result<Region, String> {
        // Not by `?` while the table is locked: the last handle locks it, too.
        let found = self.table.0.lock().get(&target.key).and_then(Weak::upgrade);
        let region = Region { shared: found.ok_or("a write into a region that there is not")? };
        match usize::try_from(target.offset).ok().and_then(|offset| offset.checked_add(length)) {
            Some(end) if end <= region.len() => Ok(region),
            _ => Err(format!("{length} bytes at {} of a region of {} bytes", target.offset, region.len())),
        }
    }
}

/// Bytes that nobody can foretell.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let failed = |_| Error::Invalid { reason: "the operating system has no randomness to give".to_owned() };
    SystemRandom::new().fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_found_by_its_key_alone_and_only_while_it_lives() {
        let regions = Regions::default();
        let region = regions.register(AlignedBuffer::zeroed(4096)).expect("registered");
        let other = regions.register(AlignedBuffer::zeroed(4096)).expect("registered");
        assert_ne!(region.key(), other.key());
        let target = region.target();
        assert!(regions.find(target, 4096).is_ok());
        let mut wrong = target.key;
        wrong.0[15] ^= 1;
        assert!(regions.find(Target { key: wrong, offset: 0 }, 1).is_err());
        let clone = region.clone();
        drop(region);
        assert!(regions.find(target, 1).is_ok());
        drop(clone);
        assert!(regions.find(target, 1).is_err());
        assert_eq!(regions.table.0.lock().len(), 1, "nothing is left of it");
    }

    #[test]
    fn nothing_outside_of_a_region_can_be_named() {
        let regions = Regions::default();
        let region = regions.register(AlignedBuffer::zeroed(4096)).expect("registered");
        let at = |offset| Target { key: region.key(), offset };
        assert!(regions.find(at(4095), 1).is_ok() && regions.find(at(4096), 0).is_ok());
        for (offset, length) in [(4095, 2), (4096, 1), (0, 4097), (u64::MAX, 1), (1, usize::MAX)] {
            assert!(regions.find(at(offset), length).is_err(), "{length} at {offset}");
        }
    }

    #[test]
    fn memory_that_was_taken_comes_back_whole_or_not_at_all() {
        let regions = Regions::default();
        let region = regions.register(AlignedBuffer::zeroed(4096)).expect("registered");
        let memory = region.take().expect("it is there");
        assert!(region.take().is_none() && region.memory().is_none());
        assert!(region.put(AlignedBuffer::zeroed(512)).is_err());
        region.put(memory).expect("the same");
        assert!(region.memory().is_some());
    }

    #[test]
    fn a_key_does_not_show_itself() {
        assert_eq!(format!("{:?}", RegionKey([7; 16])), "RegionKey(..)");
    }
}
