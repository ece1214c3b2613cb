//! Movements: blocks come to the fast device, dirty ones go home, and slots leave their chunks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ishigaki_base::Lsn;
use ishigaki_device::AlignedBuffer;

use crate::blocks::Blocks;
use crate::keeper::Bell;
use crate::pool::Core;
use crate::record::{Record, SlotId, VolumeId};
use crate::slot::State;
use crate::volume;
use crate::{BLOCK, OnDemand, Result};

/// Slots that leave their chunks together, for one write of the map.
pub(crate) const TOGETHER: usize = 8;

/// How many of the coldest slots are looked at for some that can leave.
const LOOKED_AT: usize = 64;

/// Dirty blocks of a slot on their way home.
struct Homeward {
    slot: SlotId,
    volume: Arc<volume::Core>,
    chunk: u32,
    blocks: Blocks,
}

/// A slot that is about to leave its chunk.
struct Leaving {
    slot: SlotId,
    volume: Arc<volume::Core>,
    chunk: u32,
    /// The slow device has durably what the map calls dirty. Where such blocks became zeros there, these may not be durable yet: until they are, the map keeps what
    /// was before them.
    is_home: bool,
}

/// For what a chunk gets a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// For a write, or because it was asked for: where none is free, one is made so.
    Needed,
    /// For blocks that were read: where a thread makes slots free, only one that is so already; and where nothing leaves for such blocks, one of many.
    Welcome,
}

impl Core {
    /// Gives a chunk a slot, where one is to be had. False where none is.
    pub(crate) fn give(&self, volume: &volume::Core, chunk: u32, want: Want) -> Result<bool> {
        let Some(id) = self.take_free(volume, want)? else { return Ok(false) };
        let mut at = volume.chunks[chunk as usize].lock();
        if at.slot.is_some() || at.is_written_directly() {
            drop(at);
            self.free.lock().push(id);
            return Ok(true);
        }
        at.slot = Some(id);
        self.slots[id.0 as usize].lock().belong((volume.id, chunk));
        drop(at);
        if !volume.is_pinned() {
            self.order.lock().entered(id, (volume.id, chunk));
        }
        Ok(true)
    }

    /// A slot that holds nothing, for a volume.
    fn take_free(&self, volume: &volume::Core, want: Want) -> Result<Option<SlotId>> {
        let (found, left) = {
            let mut free = self.free.lock();
            if want == Want::Welcome && self.on_demand == OnDemand::WhereFree && free.len() <= self.spare() {
                return Ok(None);
            }
            (free.pop(), free.len())
        };
        let is_kept = left < self.kept_free().div_ceil(2) && self.bell.lock().as_ref().is_some_and(Bell::ring);
        if found.is_some() || want == Want::Welcome && is_kept {
            return Ok(found);
        }
        // Where a thread brings others' blocks home, a request waits for those of its own volume alone: another one's slow device may not answer.
        let own = self.bell.lock().is_some().then_some(volume.id);
        self.make_free(own)?;
        Ok(self.free.lock().pop())
    }

    /// Has the coldest slots leave their chunks. How many have. Where it is `own`'s affair, no other volume's slow device is waited for.
    pub(crate) fn make_free(&self, own: Option<VolumeId>) -> Result<usize> {
        let coldest = self.order.lock().coldest(LOOKED_AT);
        let mut left = self.evict(&coldest, own)?;
        if left == 0 {
            let is_own = |id: &&SlotId| {
                own.is_none_or(|own| self.slots[id.0 as usize].lock().owner.is_some_and(|owner| owner.0 == own))
            };
            let some: Vec<_> = coldest.iter().filter(is_own).take(TOGETHER).copied().collect();
            // What fails stops its own volume. Another one has a slot all the same, or is written where it lies.
            let cleaned = self.clean(&some);
            left = self.evict(&coldest, own)?;
            if left == 0 {
                // They can not leave for now: those of a volume that has stopped never will. Others come to be the coldest.
                let mut order = self.order.lock();
                for id in coldest {
                    order.deferred(id);
                }
            }
            if let Err(error) = cleaned {
                tracing::warn!(%error, "dirty blocks could not be brought home");
            }
        }
        self.keep_short()?;
        Ok(left)
    }

    /// Has some of these slots leave their chunks, if they hold nothing dirty and no request uses them. How many have. Where it is `own`'s affair, no other volume's slow
    /// device is waited for.
    pub(crate) fn evict(&self, slots: &[SlotId], own: Option<VolumeId>) -> Result<usize> {
        let mut leaving: Vec<_> = slots.iter().filter_map(|&id| self.take_leave(id, own)).take(TOGETHER).collect();
        let mut synced = BTreeMap::new();
        for one in leaving.iter_mut().filter(|one| !one.is_home) {
            let volume = &one.volume;
            let sync = || volume.slow.sync().map_err(|cause| volume.stop(cause.into())).is_ok();
            one.is_home = *synced.entry(volume.id).or_insert_with(sync);
        }
        let mut last = Lsn::ZERO;
        let noted = leaving.iter().filter(|one| one.is_home).try_for_each(|one| {
            if self.slots[one.slot.0 as usize].lock().recorded.take().is_some() {
                last = self.map.append(&Record::Free { id: one.slot })?;
            }
            Ok(())
        });
        let noted = noted.and_then(|()| self.map.wait(last));
        let mut left = 0;
        for one in leaving {
            let mut at = one.volume.chunks[one.chunk as usize].lock();
            let slot = &self.slots[one.slot.0 as usize];
            let mut state = slot.lock();
            if noted.is_ok() && one.is_home {
                at.slot = None;
                state.reset();
                self.order.lock().evicted(one.slot, (one.volume.id, one.chunk));
                self.free.lock().push(one.slot);
                left += 1;
            }
            state.leaves = false;
            drop((state, at));
            slot.tell();
        }
        noted.map(|()| left)
    }

    /// Has a slot be about to leave its chunk, if it can.
    fn take_leave(&self, slot: SlotId, own: Option<VolumeId>) -> Option<Leaving> {
        let mut state = self.slots[slot.0 as usize].lock();
        let (id, chunk) = state.owner.filter(|_| state.is_idle())?;
        let volume = self.volume(id).filter(|volume| !volume.is_pinned())?;
        let is_home = state.recorded.as_ref().is_none_or(|recorded| recorded.dirty.is_empty());
        if !is_home && own.is_some_and(|own| own != id) {
            return None;
        }
        state.leaves = true;
        Some(Leaving { slot, volume, chunk, is_home })
    }

    /// Brings the dirty blocks of slots home, but for those that another thread is bringing home. They stay where they are, too. The first failure is told, and stops the
    /// volume that it is for.
    pub(crate) fn clean(&self, slots: &[SlotId]) -> Result<()> {
        let mut of_volumes: BTreeMap<VolumeId, Vec<SlotId>> = BTreeMap::new();
        for &id in slots {
            if let Some((volume, _)) = self.slots[id.0 as usize].lock().owner {
                of_volumes.entry(volume).or_default().push(id);
            }
        }
        let mut outcome = Ok(());
        // One volume after the other: nothing of one is on its way while another one's slow device is waited for.
        for (volume, slots) in of_volumes {
            let set_out = |id: SlotId| {
                let mut state = self.slots[id.0 as usize].lock();
                state.belongs_to(volume).then(|| self.set_out(id, &mut state)).flatten()
            };
            outcome = outcome.and(self.bring_home(slots.into_iter().filter_map(set_out).collect()));
        }
        outcome
    }

    /// Brings all home that a volume has dirty now, whatever thread does it.
    pub(crate) fn clean_all_of(&self, volume: &volume::Core) -> Result<()> {
        // A slot may have become another volume's, whose slow device is not waited for.
        let slots = volume.chunks.iter().filter_map(|chunk| chunk.lock().slot);
        let (mut homeward, mut others) = (Vec::new(), Vec::new());
        for id in slots {
            let mut state = self.slots[id.0 as usize].lock();
            if state.belongs_to(volume.id) {
                match self.set_out(id, &mut state) {
                    Some(one) => homeward.push(one),
                    None => others.push(id),
                }
            }
        }
        let mut outcome = self.bring_home(homeward);
        for id in others {
            // What is on its way set out before this, and may have become dirty again since. Nothing of ours is on its way while it is waited for.
            let slot = &self.slots[id.0 as usize];
            let mut state = slot.lock();
            while state.belongs_to(volume.id) && (state.is_cleaned || state.leaves) {
                slot.wait(&mut state);
            }
            let one = state.belongs_to(volume.id).then(|| self.set_out(id, &mut state)).flatten();
            drop(state);
            outcome = outcome.and(one.map_or(Ok(()), |one| self.bring_home(vec![one])));
        }
        outcome
    }

    fn bring_home(&self, mut homeward: Vec<Homeward>) -> Result<()> {
        // In the order of the disk.
        homeward.sort_by_key(|one| (one.volume.id, one.chunk));
        let mut failures = BTreeMap::new();
        for one in &homeward {
            if let Err(cause) = self.carry(one) {
                failures.entry(one.volume.id).or_insert_with(|| one.volume.stop(cause));
            }
        }
        let volumes: BTreeMap<VolumeId, &Arc<volume::Core>> =
            homeward.iter().map(|one| (one.volume.id, &one.volume)).collect();
        for (id, volume) in volumes {
            if let Err(cause) = volume.slow.sync() {
                failures.entry(id).or_insert_with(|| volume.stop(cause.into()));
            }
        }
        let mut outcome = Ok(());
        for one in &homeward {
            let arrived = self.arrive(one, !failures.contains_key(&one.volume.id));
            outcome = outcome.and(arrived);
        }
        failures.into_values().next().map_or(outcome, Err)
    }

    /// What of a slot is to go home, if anything.
    fn set_out(&self, slot: SlotId, state: &mut State) -> Option<Homeward> {
        let (id, chunk) = state.owner?;
        let volume = self.volume(id)?;
        if state.leaves || state.is_cleaned || state.dirty.is_empty() || volume.check().is_err() {
            return None;
        }
        state.users += 1;
        state.is_cleaned = true;
        state.rewritten.clear();
        let blocks = Blocks::clone(&state.dirty);
        Some(Homeward { slot, volume, chunk, blocks })
    }

    fn carry(&self, one: &Homeward) -> Result<()> {
        for run in one.blocks.present() {
            let mut buffer = AlignedBuffer::zeroed(((run.end - run.start) * BLOCK) as usize);
            self.fast.read_at(self.place(one.slot) + run.start * BLOCK, &mut buffer)?;
            one.volume.slow.write_at(u64::from(one.chunk) * self.chunk + run.start * BLOCK, &buffer)?;
            one.volume.went_home.fetch_add(run.end - run.start, Ordering::Relaxed);
        }
        Ok(())
    }

    /// What is home is not dirty any more, and out of the map.
    fn arrive(&self, one: &Homeward, is_home: bool) -> Result<()> {
        let slot = &self.slots[one.slot.0 as usize];
        let mut state = slot.lock();
        let mut noted = Ok(());
        if is_home {
            let mut home = one.blocks.clone();
            home.subtract(&state.rewritten);
            state.dirty.subtract(&home);
            if let Some(recorded) = &mut state.recorded {
                let before = recorded.clone();
                recorded.valid.subtract(&home);
                recorded.dirty.subtract(&home);
                if *recorded != before {
                    noted = self.map.append(&Record::Slot { id: one.slot, mapped: recorded.clone() }).map(drop);
                }
            }
        }
        state.users -= 1;
        state.is_cleaned = false;
        drop(state);
        slot.tell();
        // The next sync may call them clean.
        one.volume.touch(one.slot);
        noted
    }

    /// Brings all that a volume has here home. It is closed, so nothing becomes dirty meanwhile.
    pub(crate) fn drain(&self, volume: &volume::Core) -> Result<()> {
        loop {
            // Other threads bring slots home too, and set out with one at any moment: what is on its way is theirs.
            self.come_to_rest(volume);
            let slots = volume.chunks.iter().filter_map(|chunk| chunk.lock().slot);
            let dirty: Vec<_> = slots.filter(|id| !self.slots[id.0 as usize].lock().dirty.is_empty()).collect();
            if dirty.is_empty() {
                break;
            }
            self.clean(&dirty)?;
            volume.check()?;
        }
        Ok(volume.slow.sync()?)
    }

    /// Brings blocks of a chunk that are not here. How many have come. They are read in one piece from the first to the last: a disk's arm takes longer to reach
    /// the next one than to pass over what lies between.
    pub(crate) fn promote(&self, volume: &volume::Core, chunk: u32, range: Range<u64>) -> Result<u64> {
        if !self.wear.allows() {
            return Ok(0);
        }
        let Some(id) = self.enter_to_bring(volume, chunk, Want::Needed)? else { return Ok(0) };
        self.order.lock().asked_for(id);
        let missing = self.slots[id.0 as usize].lock().valid.missing(range);
        let runs = || missing.present();
        let whole = runs().next().zip(runs().last()).map(|(first, last)| first.start..last.end);
        let brought = whole.map_or(Ok(0), |whole| {
            let mut buffer = AlignedBuffer::zeroed(((whole.end - whole.start) * BLOCK) as usize);
            self.bring(volume, id, chunk, whole, &mut buffer)
        });
        self.left(volume, id);
        brought
    }

    /// Reads a run of blocks from the slow device, and keeps those that are not here, and that no other request has, in the slot. How many.
    pub(crate) fn bring(
        &self,
        volume: &volume::Core,
        id: SlotId,
        chunk: u32,
        run: Range<u64>,
        buffer: &mut [u8],
    ) -> Result<u64> {
        let slot = &self.slots[id.0 as usize];
        let mut state = slot.lock();
        let mut coming = state.valid.missing(run.clone());
        coming.subtract(&state.claimed);
        state.claimed.union(&coming);
        drop(state);
        let lost = self.lost();
        let read = volume.slow.read_at(u64::from(chunk) * self.chunk + run.start * BLOCK, buffer);
        // What does not come stays where it is.
        let came = read.is_ok()
            && coming.present().all(|some| {
                let part = ((some.start - run.start) * BLOCK) as usize..((some.end - run.start) * BLOCK) as usize;
                let written = self.write_fast(self.place(id) + some.start * BLOCK, &buffer[part]);
                written.inspect_err(|cause| self.tell_lost(cause)).is_ok()
            });
        let mut brought = 0;
        slot.free(&coming, |state| {
            // Before the look at what was lost: a sync that fails later finds it.
            volume.touch(id);
            if came && self.lost() == lost {
                state.valid.union(&coming);
                state.since.union(&coming);
                brought = coming.count();
            }
        });
        read?;
        Ok(brought)
    }

    /// A slot of the chunk, which stays until it is [left](Self::left).
    pub(crate) fn enter_to_bring(&self, volume: &volume::Core, chunk: u32, want: Want) -> Result<Option<SlotId>> {
        for _ in 0..2 {
            let at = volume.chunks[chunk as usize].lock();
            if let Some(id) = at.slot {
                let mut state = self.slots[id.0 as usize].lock();
                if state.leaves {
                    return Ok(None);
                }
                state.users += 1;
                return Ok(Some(id));
            }
            if at.is_written_directly() {
                return Ok(None);
            }
            drop(at);
            if !self.give(volume, chunk, want)? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Blocks may have come to a slot that was [entered](Self::enter_to_bring).
    pub(crate) fn left(&self, volume: &volume::Core, id: SlotId) {
        let slot = &self.slots[id.0 as usize];
        slot.lock().users -= 1;
        slot.tell();
        volume.touch(id);
    }
}
