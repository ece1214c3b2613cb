//! A sync of a volume: its data become durable, and then the map that finds them.
//!
//! ```text
//!  snapshot of the slots that were written ──▶ sync of the devices ──▶ records of what the snapshot has and still holds ──▶ the log is durable
//! ```
//!
//! What came after the snapshot is the next sync's.

use std::sync::atomic::Ordering;

use crate::blocks::Blocks;
use crate::pool::Core;
use crate::record::{Mapped, Record, SlotId};
use crate::slot::State;
use crate::volume;
use crate::{Error, Mode, Result};

/// What a slot had when a sync began.
struct Snapshot {
    slot: SlotId,
    owners: u64,
    valid: Blocks,
    dirty: Blocks,
}

impl Core {
    /// Makes durable what was written to a volume, and came to the fast device for it.
    pub(crate) fn settle(&self, volume: &volume::Core) -> Result<()> {
        let _one = volume.settling.lock();
        volume.check()?;
        // It stops before the next sync begins, which would find nothing left to do.
        self.settle_alone(volume).map_err(|cause| volume.stop(cause))
    }

    fn settle_alone(&self, volume: &volume::Core) -> Result<()> {
        let lost = self.lost();
        let snapshots = self.snapshots(volume);
        if volume.slow_written.swap(false, Ordering::AcqRel) {
            volume.slow.sync()?;
        }
        let synced = if snapshots.is_empty() { Ok(()) } else { self.sync_fast() };
        if volume.known.mode != Mode::WriteBack && (synced.is_err() || self.lost() != lost) {
            // The slow device has all of it. What the fast one has of these is not trusted any more.
            self.distrust(volume, snapshots.iter().map(|snapshot| snapshot.slot));
            return Ok(());
        }
        synced?;
        if self.lost() != lost {
            return Err(Error::invalid(
                "a sync of the fast device failed, which may have lost writes of this volume".to_owned(),
            ));
        }
        for snapshot in snapshots {
            let mut state = self.slots[snapshot.slot.0 as usize].lock();
            if state.owners != snapshot.owners || state.owner.is_none() || state.leaves {
                // It has left its chunk, for which all had to be home.
                continue;
            }
            let mapped = mapped(&state, &snapshot);
            if mapped != state.recorded {
                if let Some(mapped) = &mapped {
                    self.map.append(&Record::Slot { id: snapshot.slot, mapped: mapped.clone() })?;
                }
                state.recorded = mapped;
            }
        }
        self.map.flush()
    }

    fn snapshots(&self, volume: &volume::Core) -> Vec<Snapshot> {
        let touched = std::mem::take(&mut *volume.touched.lock());
        let snapshot = |slot: SlotId| {
            let mut state = self.slots[slot.0 as usize].lock();
            state.owner.filter(|owner| owner.0 == volume.id)?;
            state.since.clear();
            Some(Snapshot {
                slot,
                owners: state.owners,
                valid: state.valid.clone(),
                dirty: Blocks::clone(&state.dirty),
            })
        };
        touched.into_iter().filter_map(snapshot).collect()
    }

    /// How often a sync of the fast device has failed.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Acquire)
    }

    /// Tells that the fast device fails at something without which the volume goes on. Once: it may be so with every request from now on.
    pub(crate) fn tell_lost(&self, cause: &ishigaki_device::Error) {
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::error!(%cause, "the fast device fails; what is on the slow one as well is served from there");
        }
    }

    /// Nothing of these slots is trusted any more that is on the slow device as well.
    fn distrust(&self, volume: &volume::Core, slots: impl Iterator<Item = SlotId>) {
        for slot in slots {
            let mut state = self.slots[slot.0 as usize].lock();
            if state.owner.is_some_and(|owner| owner.0 == volume.id) {
                state.valid = Blocks::clone(&state.dirty);
            }
        }
    }

    /// Syncs the fast device. When that fails, volumes with writes there that were not synced, and are nowhere else, stop.
    fn sync_fast(&self) -> Result<()> {
        // One after the other: a sync that succeeds says nothing about writes that a failed one has lost.
        let _one = self.syncing.lock();
        self.fast.sync().map_err(|cause| {
            self.lost.fetch_add(1, Ordering::AcqRel);
            // What it calls dirty may not be there any more.
            self.remembered.end();
            let cause = Error::from(cause);
            for volume in self.all_volumes() {
                if volume.known.mode != Mode::WriteBack {
                    let touched = std::mem::take(&mut *volume.touched.lock());
                    self.distrust(&volume, touched.into_iter());
                } else if !volume.touched.lock().is_empty() {
                    volume.stop(cause.clone());
                }
            }
            cause
        })
    }
}

/// What the map may say of a slot now that what the snapshot has is durable.
fn mapped(state: &State, snapshot: &Snapshot) -> Option<Mapped> {
    let owner = state.owner?;
    let recorded = state.recorded.as_ref();
    // Dirty blocks stay so, whatever was written over them since: here is the only place where they are.
    let mut dirty = snapshot.dirty.clone();
    if let Some(recorded) = recorded {
        dirty.union(&recorded.dirty);
    }
    dirty.keep(&state.dirty);
    // Clean ones count if nothing was written over them since, nor is at this moment; else those that counted before do, as far as they are clean.
    let mut clean;
    let open;
    if state.writers == 0 {
        clean = snapshot.valid.clone();
        clean.subtract(&snapshot.dirty);
        clean.subtract(&state.since);
        open = false;
    } else {
        clean = recorded.map_or_else(|| Blocks::none_like(&dirty), Mapped::clean);
        open = recorded.is_some_and(|recorded| recorded.open);
    }
    clean.keep(&state.valid);
    clean.subtract(&state.dirty);
    let mut valid = clean;
    valid.union(&dirty);
    let is_worth_it = !valid.is_empty() || recorded.is_some();
    is_worth_it.then_some(Mapped { owner, open, valid, dirty })
}
