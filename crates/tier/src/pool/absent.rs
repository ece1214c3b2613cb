//! Volumes that are away: their slow device can not be opened. What they have on the fast device is kept for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Core, Pool};
use crate::map::Known;
use crate::record::{Record, SlotId, VolumeId};
use crate::volume::Core as VolumeCore;
use crate::{BLOCK, Error, Result};

/// A volume that is away.
#[derive(Clone, Debug)]
pub struct Away {
    /// Its name.
    pub name: String,
    /// Why it can not be opened.
    pub cause: Error,
    /// Bytes of it that are on the fast device alone.
    pub dirty: u64,
}

impl Pool {
    /// Volumes whose slow device could not be opened, with why. What they have on the fast device is kept for them.
    pub fn away(&self) -> Vec<Away> {
        if self.core.away.lock().is_empty() {
            return Vec::new();
        }
        let mut dirty = BTreeMap::new();
        for slot in &self.core.slots {
            let state = slot.lock();
            if let Some((volume, _)) = state.owner {
                *dirty.entry(volume).or_insert(0) += state.dirty.count() * BLOCK;
            }
        }
        let away = self.core.away.lock();
        let one = |(id, (known, cause)): (&VolumeId, &(Known, Error))| Away {
            name: known.name.clone(),
            cause: cause.clone(),
            dirty: dirty.get(id).copied().unwrap_or(0),
        };
        away.iter().map(one).collect()
    }

    /// Opens those volumes that are [away](Self::away) and can be opened now. Their names. While a volume is made or taken away, which may last, none is looked for.
    pub fn look_for_away(&self) -> Vec<String> {
        let Some(_one) = self.core.changing.try_lock() else { return Vec::new() };
        let away: Vec<_> = self.core.away.lock().iter().map(|(&id, (known, _))| (id, known.clone())).collect();
        let mut found = Vec::new();
        for (id, known) in away {
            match self.core.open_slow(&known) {
                Ok(slow) => {
                    found.push(known.name.clone());
                    self.core.come_back(&Arc::new(VolumeCore::new(id, known, slow, self.core.chunk)));
                    self.core.away.lock().remove(&id);
                }
                Err(cause) => {
                    self.core.away.lock().insert(id, (known, cause));
                }
            }
        }
        found
    }
}

impl Core {
    /// Has a volume be served that was away, with what it has in slots.
    fn come_back(&self, volume: &Arc<VolumeCore>) {
        for (slot, id) in self.slots.iter().zip(0..).map(|(slot, id)| (slot, SlotId(id))) {
            if let Some((_, chunk)) = slot.lock().owner.filter(|owner| owner.0 == volume.id) {
                self.link(volume, chunk, id);
                volume.touch(id);
            }
        }
        self.volumes.write().insert(volume.id, volume.clone());
        // As when a pool is opened: what is read from now on stays. A volume that fails at it has stopped.
        let _ = self.settle(volume);
    }

    /// Takes a volume that is away out of the map, and its slots. Whether it was away.
    pub(super) fn forget_away(&self, name: &str) -> Result<bool> {
        let found = self.away.lock().iter().find(|(_, (known, _))| known.name == name).map(|(&id, _)| id);
        let Some(volume) = found else { return Ok(false) };
        self.map.append(&Record::Gone { id: volume })?;
        self.map.flush()?;
        self.away.lock().remove(&volume);
        for (slot, id) in self.slots.iter().zip(0..) {
            let mut state = slot.lock();
            if state.owner.is_some_and(|owner| owner.0 == volume) {
                state.reset();
                self.free.lock().push(SlotId(id));
            }
        }
        Ok(true)
    }
}
