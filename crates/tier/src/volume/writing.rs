//! The way of a write, and of what makes zeros or forgets, within one chunk.

use std::ops::Range;
use std::sync::atomic::Ordering;

use ishigaki_device::AlignedBuffer;

use super::{Piece, Volume, Way};
use crate::blocks::Blocks;
use crate::record::{Record, SlotId};
use crate::slot::Slot;
use crate::{BLOCK, Mode, Result};

impl Volume {
    pub(super) fn write_piece(&self, piece: Piece, bytes: &[u8], passes: bool) -> Result<()> {
        self.core.chunks[piece.chunk as usize].lock().heat.written(piece.length, &self.pool.clock);
        let way = self.enter_to_write(piece.chunk, self.core.known.mode == Mode::WriteBack && !passes)?;
        let Way::Slot(slot, id) = way else {
            let outcome = self.core.slow.write_at(self.home(piece.chunk) + piece.within, bytes);
            self.core.slow_written.store(true, Ordering::Release);
            self.core.chunks[piece.chunk as usize].lock().direct -= 1;
            return Ok(outcome?);
        };
        let outcome = match self.core.known.mode {
            Mode::WriteBack => self.write_back(slot, id, piece, bytes),
            Mode::WriteThrough => self.write_through(slot, id, piece, bytes),
            Mode::ReadOnly => self.write_home(slot, id, piece, bytes),
        };
        self.leave(slot, id);
        outcome
    }

    /// A writer is done with a slot.
    fn leave(&self, slot: &Slot, id: SlotId) {
        let mut state = slot.lock();
        state.users -= 1;
        state.writers -= 1;
        drop(state);
        self.core.touch(id);
    }

    /// Takes the blocks of a range that `which` wants for one request alone, when no other request has any of the range, and the map allows that what is
    /// here is written over.
    fn claim(&self, slot: &Slot, id: SlotId, range: Range<u64>, which: impl Fn(&Blocks) -> Blocks) -> Result<Blocks> {
        let mut state = slot.lock();
        loop {
            if state.claimed.has_any(range.clone()) {
                slot.wait(&mut state);
            } else if state.must_be_open(range.clone()) {
                if let Some(mut mapped) = state.recorded.clone().filter(|recorded| !recorded.open) {
                    mapped.open = true;
                    state.opened = self.pool.map.append(&Record::Slot { id, mapped: mapped.clone() })?;
                    state.recorded = Some(mapped);
                }
                let opened = state.opened;
                if self.pool.map.is_durable(opened) {
                    break;
                }
                drop(state);
                self.pool.map.wait(opened)?;
                state = slot.lock();
            } else {
                break;
            }
        }
        let claimed = which(&state.valid);
        state.claimed.union(&claimed);
        Ok(claimed)
    }

    /// To the fast device alone. Blocks that are not there come from the slow one, where only a part of one is written.
    fn write_back(&self, slot: &Slot, id: SlotId, piece: Piece, bytes: &[u8]) -> Result<()> {
        let range = piece.blocks();
        let claimed = self.claim(slot, id, range.clone(), |valid| valid.missing(range.clone()))?;
        let outcome = self.write_fast(id, piece, &claimed, bytes);
        slot.free(&claimed, |state| {
            if outcome.is_ok() {
                state.written(range);
            }
        });
        outcome
    }

    /// Writes a piece on the fast device, and with it the rest of those claimed blocks of which it has a part.
    fn write_fast(&self, id: SlotId, piece: Piece, claimed: &Blocks, bytes: &[u8]) -> Result<()> {
        let place = self.pool.place(id);
        let end = piece.within + bytes.len() as u64;
        let mut whole = piece.within..end;
        let range = piece.blocks();
        let mut edges = vec![range.start, range.end - 1];
        edges.dedup();
        for block in edges {
            let bounds = block * BLOCK..(block + 1) * BLOCK;
            let part = bounds.start.max(piece.within)..bounds.end.min(end);
            if part == bounds || !claimed.has(block) {
                continue;
            }
            let mut buffer = AlignedBuffer::zeroed(BLOCK as usize);
            self.core.slow.read_at(self.home(piece.chunk) + bounds.start, &mut buffer)?;
            buffer[(part.start - bounds.start) as usize..(part.end - bounds.start) as usize]
                .copy_from_slice(&bytes[(part.start - piece.within) as usize..(part.end - piece.within) as usize]);
            self.pool.write_fast(place + bounds.start, &buffer)?;
            if part.start == whole.start {
                whole.start = part.end;
            } else {
                whole.end = part.start;
            }
        }
        if whole.is_empty() {
            return Ok(());
        }
        let rest = &bytes[(whole.start - piece.within) as usize..(whole.end - piece.within) as usize];
        Ok(self.pool.write_fast(place + whole.start, rest)?)
    }

    /// To both devices. Its blocks are one request's alone meanwhile, or two could leave either device with another one's bytes.
    fn write_through(&self, slot: &Slot, id: SlotId, piece: Piece, bytes: &[u8]) -> Result<()> {
        let range = piece.blocks();
        let mut all = Blocks::none(self.pool.chunk);
        all.insert(range.clone());
        self.claim(slot, id, range.clone(), |_| all.clone())?;
        let here = slot.lock().valid.within(range.clone());
        let lost = self.pool.lost();
        let outcome = self.core.slow.write_at(self.home(piece.chunk) + piece.within, bytes);
        self.core.slow_written.store(true, Ordering::Release);
        let copied = outcome.is_ok()
            && here.present().all(|run| {
                let (first, part) = piece.part(&run);
                let written = self.pool.write_fast(self.pool.place(id) + first, &bytes[part]);
                written.inspect_err(|cause| self.pool.tell_lost(cause)).is_ok()
            });
        slot.free(&all, |state| {
            // Before the look at what was lost: a sync that fails later finds it.
            self.core.touch(id);
            if copied && self.pool.lost() == lost {
                state.since.union(&here);
            } else {
                // The slow device has them, or it is not known what either has.
                state.valid.subtract(&here);
            }
        });
        Ok(outcome?)
    }

    /// To the slow device, while the fast one forgets.
    fn write_home(&self, slot: &Slot, id: SlotId, piece: Piece, bytes: &[u8]) -> Result<()> {
        let forgotten = self.forget_blocks(slot, id, piece.blocks())?;
        let outcome = self.core.slow.write_at(self.home(piece.chunk) + piece.within, bytes);
        self.core.slow_written.store(true, Ordering::Release);
        slot.free(&forgotten, |_| ());
        Ok(outcome?)
    }

    /// Claims blocks, which are not on the fast device any more.
    fn forget_blocks(&self, slot: &Slot, id: SlotId, range: Range<u64>) -> Result<Blocks> {
        let mut all = Blocks::none(self.pool.chunk);
        all.insert(range.clone());
        self.claim(slot, id, range, |_| all.clone())?;
        let mut state = slot.lock();
        state.valid.subtract(&all);
        state.dirty.subtract(&all);
        Ok(all)
    }

    pub(super) fn trim_piece(&self, piece: Piece) -> Result<()> {
        // Of a block of which only a part is trimmed, all is kept.
        let range = piece.within.div_ceil(BLOCK)..(piece.within + piece.length as u64) / BLOCK;
        if range.is_empty() {
            return Ok(());
        }
        if let Way::Slot(slot, id) = self.enter_to_write(piece.chunk, false)? {
            let forgotten = self.forget_blocks(slot, id, range.clone());
            let freed = forgotten.map(|forgotten| slot.free(&forgotten, |_| ()));
            self.leave(slot, id);
            freed?;
        } else {
            self.core.chunks[piece.chunk as usize].lock().direct -= 1;
        }
        if self.core.slow.promise().trim {
            self.core.slow.trim(self.home(piece.chunk) + range.start * BLOCK, (range.end - range.start) * BLOCK)?;
            self.core.slow_written.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Zeros. Whole blocks are forgotten here, and zeros at home.
    pub(super) fn zero_piece(&self, piece: Piece) -> Result<()> {
        let end = piece.within + piece.length as u64;
        let range = piece.within.div_ceil(BLOCK)..end / BLOCK;
        let written = |bounds: Range<u64>| {
            if bounds.is_empty() {
                return Ok(());
            }
            let zeros = AlignedBuffer::zeroed((bounds.end - bounds.start) as usize);
            let part = Piece { within: bounds.start, at: 0, length: zeros.len(), ..piece };
            self.write_piece(part, &zeros, false)
        };
        if range.is_empty() {
            // It is in one block, or in two neighbours.
            return written(piece.within..end);
        }
        written(piece.within..range.start * BLOCK)?;
        written(range.end * BLOCK..end)?;
        let zero = || {
            let outcome =
                self.core.slow.zero(self.home(piece.chunk) + range.start * BLOCK, (range.end - range.start) * BLOCK);
            self.core.slow_written.store(true, Ordering::Release);
            outcome
        };
        let Way::Slot(slot, id) = self.enter_to_write(piece.chunk, false)? else {
            let outcome = zero();
            self.core.chunks[piece.chunk as usize].lock().direct -= 1;
            return Ok(outcome?);
        };
        let outcome = self.zero_blocks(slot, id, range.clone(), zero);
        self.leave(slot, id);
        outcome
    }

    /// Has blocks of a slot be zeros at home. They are forgotten here no sooner than that: a sync in between must not find them nowhere. Nor are they taken home
    /// meanwhile, over the zeros.
    fn zero_blocks(
        &self,
        slot: &Slot,
        id: SlotId,
        range: Range<u64>,
        zero: impl FnOnce() -> ishigaki_device::Result<()>,
    ) -> Result<()> {
        let mut all = Blocks::none(self.pool.chunk);
        all.insert(range.clone());
        self.claim(slot, id, range, |_| all.clone())?;
        let mut state = slot.lock();
        while state.is_cleaned {
            slot.wait(&mut state);
        }
        state.is_cleaned = true;
        drop(state);
        let outcome = zero();
        slot.free(&all, |state| {
            state.is_cleaned = false;
            if outcome.is_ok() {
                state.valid.subtract(&all);
                state.dirty.subtract(&all);
            }
        });
        Ok(outcome?)
    }
}
