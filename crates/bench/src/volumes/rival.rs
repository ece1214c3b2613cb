//! A cache of blocks that knows nothing, as `FlashCache` is one: a block of 4 KiB comes when it is read or written, and the one that was used longest ago leaves.
//!
//! Kinder than the original: any block may lie anywhere, the least recently used leaves and not the first of its set, and where blocks lie is kept in memory alone.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_device::{AlignedBuffer, Device, DirectoryLock, Promise, Result};
use parking_lot::{Mutex, RwLock};

/// Bytes of a block.
const BLOCK: u64 = 4096;

/// Dirty blocks that go home together.
const TOGETHER: usize = 256;

/// Requests wait for others of the same stripe of a volume.
const STRIPES: usize = 256;
const STRIPE: u64 = 1 << 20;

type Key = (usize, u64);

/// The fast device, and which blocks of which volume are there.
pub(super) struct Cache {
    fast: Arc<dyn Device>,
    slow: Vec<Arc<dyn Device>>,
    state: Mutex<State>,
    /// Requests of a stripe hold these, so that no block moves under them.
    stripes: Vec<RwLock<()>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Of each block that is here: its place, when it was used, and whether it is nowhere else.
    here: HashMap<Key, Here>,
    /// By when they were used: those that are on the slow device too, and those that are dirty.
    order: [BTreeMap<u64, Key>; 2],
    free: Vec<u64>,
    clock: u64,
}

#[derive(Clone, Copy)]
struct Here {
    place: u64,
    used: u64,
    is_dirty: bool,
}

impl State {
    fn touch(&mut self, key: Key) -> Option<u64> {
        self.change(key, |_| {})
    }

    /// Makes a block that is here the last one that was used, after what changes of it. Its place.
    fn change(&mut self, key: Key, by: impl FnOnce(&mut Here)) -> Option<u64> {
        let here = self.here.get_mut(&key)?;
        self.order[usize::from(here.is_dirty)].remove(&here.used);
        by(here);
        self.clock += 1;
        here.used = self.clock;
        self.order[usize::from(here.is_dirty)].insert(here.used, key);
        Some(here.place)
    }

    fn enter(&mut self, key: Key, place: u64, is_dirty: bool) {
        self.clock += 1;
        self.here.insert(key, Here { place, used: self.clock, is_dirty });
        self.order[usize::from(is_dirty)].insert(self.clock, key);
    }
}

impl Cache {
    pub(super) fn new(fast: Arc<dyn Device>, slow: Vec<Arc<dyn Device>>) -> Arc<Self> {
        let free = (0..fast.len() / BLOCK).rev().map(|place| place * BLOCK).collect();
        let state = Mutex::new(State { free, ..State::default() });
        let stripes = (0..STRIPES).map(|_| RwLock::new(())).collect();
        Arc::new(Self { fast, slow, state, stripes, hits: AtomicU64::new(0), misses: AtomicU64::new(0) })
    }

    /// Its volumes.
    pub(super) fn volumes(self: &Arc<Self>) -> Vec<Arc<dyn Device>> {
        (0..self.slow.len()).map(|volume| Arc::new(Volume { cache: self.clone(), volume }) as Arc<dyn Device>).collect()
    }

    /// Bytes that were read from the fast device, and from the slow one.
    pub(super) fn read(&self) -> [u64; 2] {
        [self.hits.load(Ordering::Relaxed) * BLOCK, self.misses.load(Ordering::Relaxed) * BLOCK]
    }

    /// Brings all that is dirty home.
    pub(super) fn clean(&self) -> Result<()> {
        while self.carry(TOGETHER)? > 0 {}
        self.slow.iter().try_for_each(|slow| slow.sync())
    }

    /// Brings some of what is dirty home, what was used longest ago first. How many.
    fn carry(&self, most: usize) -> Result<usize> {
        let mut dirty: Vec<Key> = {
            let state = self.state.lock();
            state.order[1].values().take(most).copied().collect()
        };
        dirty.sort_unstable();
        let mut buffer = AlignedBuffer::zeroed(BLOCK as usize);
        for &(volume, block) in &dirty {
            let _alone = self.stripe(volume, block * BLOCK).write();
            let Some(place) = self.state.lock().here.get(&(volume, block)).map(|here| here.place) else { continue };
            self.fast.read_at(place, &mut buffer)?;
            self.slow[volume].write_at(block * BLOCK, &buffer)?;
            self.state.lock().change((volume, block), |here| here.is_dirty = false);
        }
        Ok(dirty.len())
    }

    /// Whether more is dirty than may be: a fifth, as with the original.
    fn is_dirty(&self) -> bool {
        let state = self.state.lock();
        state.order[1].len() as u64 > self.fast.len() / BLOCK / 5
    }

    fn stripe(&self, volume: usize, offset: u64) -> &RwLock<()> {
        &self.stripes[((offset / STRIPE) as usize + volume * 61) % STRIPES]
    }

    /// A place for a block, if there is one to be had at once: the block that was used longest ago leaves, of those that are not dirty and that no request is at.
    fn room(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if let Some(place) = state.free.pop() {
            return Some(place);
        }
        // A request holds its stripe from the moment at which it has found a block.
        let is_idle = |&(volume, block): &Key| self.stripe(volume, block * BLOCK).try_write().is_some();
        let found = state.order[0].iter().find(|(_, key)| is_idle(key));
        let (used, key) = found.map(|(used, key)| (*used, *key))?;
        state.order[0].remove(&used);
        state.here.remove(&key).map(|here| here.place)
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("fast", &self.fast).finish_non_exhaustive()
    }
}

/// One volume, by way of the cache.
#[derive(Debug)]
struct Volume {
    cache: Arc<Cache>,
    volume: usize,
}

impl Volume {
    fn slow(&self) -> &Arc<dyn Device> {
        &self.cache.slow[self.volume]
    }

    /// The parts of a request within one stripe each: where they begin, and their bytes in it.
    fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let begin = offset + at as u64;
            let most = (STRIPE - begin % STRIPE) as usize;
            let size = most.min(length.checked_sub(at)?);
            let part = (begin, at..at + size);
            at += size;
            (size > 0).then_some(part)
        })
    }

    fn read_part(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let cache = &self.cache;
        let _alone = cache.stripe(self.volume, offset).write();
        let first = offset / BLOCK;
        let places: Vec<Option<u64>> = {
            let mut state = cache.state.lock();
            (0..buffer.len() as u64 / BLOCK).map(|block| state.touch((self.volume, first + block))).collect()
        };
        let mut at = 0;
        while at < places.len() {
            let mut end = at + 1;
            if let Some(place) = places[at] {
                while end < places.len() && places[end] == Some(place + ((end - at) as u64) * BLOCK) {
                    end += 1;
                }
                cache.hits.fetch_add((end - at) as u64, Ordering::Relaxed);
                cache.fast.read_at(place, &mut buffer[at * BLOCK as usize..end * BLOCK as usize])?;
            } else {
                while end < places.len() && places[end].is_none() {
                    end += 1;
                }
                cache.misses.fetch_add((end - at) as u64, Ordering::Relaxed);
                let some = &mut buffer[at * BLOCK as usize..end * BLOCK as usize];
                self.slow().read_at((first + at as u64) * BLOCK, some)?;
                self.keep(first + at as u64, some, false)?;
            }
            at = end;
        }
        Ok(())
    }

    /// Keeps blocks that are not here. Those for which there is no room are left out; whether that was none.
    fn keep(&self, first: u64, bytes: &[u8], is_dirty: bool) -> Result<bool> {
        let cache = &self.cache;
        let places: Vec<u64> = (0..bytes.len() as u64 / BLOCK).map_while(|_| cache.room()).collect();
        let mut at = 0;
        while at < places.len() {
            let mut end = at + 1;
            while end < places.len() && places[end] == places[at] + ((end - at) as u64) * BLOCK {
                end += 1;
            }
            cache.fast.write_at(places[at], &bytes[at * BLOCK as usize..end * BLOCK as usize])?;
            at = end;
        }
        let mut state = cache.state.lock();
        for (block, &place) in (first..).zip(&places) {
            state.enter((self.volume, block), place, is_dirty);
        }
        Ok(places.len() as u64 * BLOCK == bytes.len() as u64)
    }

    fn write_part(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let cache = &self.cache;
        let mut is_kept = true;
        {
            let _alone = cache.stripe(self.volume, offset).write();
            for (block, some) in (offset / BLOCK..).zip(bytes.chunks(BLOCK as usize)) {
                let key = (self.volume, block);
                let place = cache.state.lock().touch(key);
                if let Some(place) = place {
                    cache.fast.write_at(place, some)?;
                    cache.state.lock().change(key, |here| here.is_dirty = true);
                } else if !self.keep(block, some, true)? {
                    is_kept = false;
                    self.slow().write_at(block * BLOCK, some)?;
                }
            }
        }
        if !is_kept || cache.is_dirty() {
            cache.carry(TOGETHER)?;
        }
        Ok(())
    }
}

impl Device for Volume {
    fn promise(&self) -> Promise {
        self.slow().promise()
    }

    fn len(&self) -> u64 {
        self.slow().len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        Self::parts(offset, buffer.len()).try_for_each(|(begin, part)| self.read_part(begin, &mut buffer[part]))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        Self::parts(offset, bytes.len()).try_for_each(|(begin, part)| self.write_part(begin, &bytes[part]))
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_at(offset, bytes)?;
        self.sync()
    }

    fn write_all_durable(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        writes.iter().try_for_each(|(offset, bytes)| self.write_at(*offset, bytes))?;
        self.sync()
    }

    fn sync(&self) -> Result<()> {
        self.cache.fast.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.slow().lock()
    }

    fn trim(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ishigaki_device::Directory;

    use super::*;
    use crate::volumes::database::memory;

    #[test]
    fn a_small_cache_gives_back_what_was_written_and_all_comes_home() {
        let directory = memory();
        let [fast, slow] =
            [("fast", 16), ("slow", 512)].map(|(name, blocks)| directory.create(name, blocks * BLOCK).unwrap());
        let cache = Cache::new(fast, vec![slow.clone()]);
        let volume = cache.volumes().remove(0);
        let mut random = fastrand::Rng::with_seed(7);
        let mut expected = vec![0_u8; 512];
        for turn in 0..5000_u32 {
            let (block, count) = (random.u64(0..500), random.u64(1..12));
            let mut buffer = AlignedBuffer::zeroed((count * BLOCK) as usize);
            if random.bool() {
                buffer.fill(turn as u8);
                volume.write_at(block * BLOCK, &buffer).unwrap();
                expected[block as usize..(block + count) as usize].fill(turn as u8);
            } else {
                volume.read_at(block * BLOCK, &mut buffer).unwrap();
                for (block, bytes) in (block..).zip(buffer.chunks(BLOCK as usize)) {
                    assert!(bytes.iter().all(|&byte| byte == expected[block as usize]), "turn {turn}, block {block}");
                }
            }
        }
        let [hits, misses] = cache.read();
        assert!(hits > 0 && misses > 0);
        cache.clean().unwrap();
        let mut buffer = AlignedBuffer::zeroed(BLOCK as usize);
        for (block, &byte) in (0..).zip(&expected) {
            slow.read_at(block * BLOCK, &mut buffer).unwrap();
            assert!(buffer.iter().all(|&found| found == byte), "block {block}");
        }
    }
}
