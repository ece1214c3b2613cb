//! Volumes that are away: their slow device can not be opened, or has not answered. What they have on the fast device is kept for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::opening::{Opening, Slow};
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
    /// Why: [`Error::Silent`] where its slow device does not answer.
    pub cause: Error,
    /// For how long.
    pub time: Duration,
    /// Bytes of it that are on the fast device alone.
    pub dirty: u64,
}

/// The same, as the pool keeps it.
pub(super) struct Absent {
    pub(super) known: Known,
    since: Instant,
    why: Why,
}

enum Why {
    /// The call that opens its device has failed.
    Failed(Error),
    /// That call has not returned.
    Silent(Opening),
}

impl Absent {
    fn cause(&self) -> Error {
        match &self.why {
            Why::Failed(cause) => cause.clone(),
            Why::Silent(opening) => Error::Silent { volume: self.known.name.clone(), waited: opening.waited() },
        }
    }

    /// What a request for the volume is told.
    fn refusal(&self) -> Error {
        Error::Away { volume: self.known.name.clone(), cause: Arc::new(self.cause()) }
    }
}

impl Pool {
    /// Volumes whose slow device could not be opened, or has not answered, with why. What they have on the fast device is kept for them.
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
        let one = |(id, absent): (&VolumeId, &Absent)| Away {
            name: absent.known.name.clone(),
            cause: absent.cause(),
            time: absent.since.elapsed(),
            dirty: dirty.get(id).copied().unwrap_or(0),
        };
        away.iter().map(one).collect()
    }

    /// Has those volumes that are [away](Self::away) be served whose devices can be opened now, or have answered. Their names. A device that does not answer is waited for
    /// once, and not again. While a volume is made or taken away, which may last, none is looked for.
    pub fn look_for_away(&self) -> Vec<String> {
        let Some(_one) = self.core.changing.try_lock() else { return Vec::new() };
        let mut seen = self.core.answered();
        seen.extend(self.core.open_slow(self.core.failed()));
        let mut found = Vec::new();
        for (id, known, slow) in seen {
            match slow {
                Slow::Open(slow) => {
                    found.push(known.name.clone());
                    self.core.come_back(&Arc::new(VolumeCore::new(id, known, slow, self.core.chunk)));
                    self.core.away.lock().remove(&id);
                }
                slow => self.core.stays_away(id, known, slow),
            }
        }
        found
    }
}

impl Core {
    /// Volumes that are away because their device could not be opened: it may be there by now.
    fn failed(&self) -> Vec<(VolumeId, Known)> {
        let away = self.away.lock();
        let failed = away.iter().filter(|(_, absent)| matches!(absent.why, Why::Failed(_)));
        failed.map(|(&id, absent)| (id, absent.known.clone())).collect()
    }

    /// Volumes that are away because their device had not answered, and has by now.
    fn answered(&self) -> Vec<(VolumeId, Known, Slow)> {
        let away = self.away.lock();
        let answer = |absent: &Absent| match &absent.why {
            Why::Silent(opening) => opening.answer_until(Instant::now()),
            Why::Failed(_) => None,
        };
        let answered = away.iter().filter_map(|(&id, absent)| Some((id, absent.known.clone(), answer(absent)?.into())));
        answered.collect()
    }

    /// Notes that the device of a volume can not be opened, or has not answered.
    pub(super) fn stays_away(&self, id: VolumeId, known: Known, slow: Slow) {
        let why = match slow {
            Slow::Failed(cause) => Why::Failed(cause),
            Slow::Silent(opening) => Why::Silent(opening),
            Slow::Open(_) => return,
        };
        let mut away = self.away.lock();
        let before = away.get(&id);
        let since = before.map_or_else(Instant::now, |before| before.since);
        let absent = Absent { known, since, why };
        if before.is_none_or(|before| matches!(before.why, Why::Silent(_)) != matches!(absent.why, Why::Silent(_))) {
            let (volume, cause) = (&absent.known.name, absent.cause());
            tracing::error!(volume, %cause, "a volume can not be opened; the others are served");
        }
        away.insert(id, absent);
    }

    /// Why the volume of that name is away, if it is, and what to do.
    pub(super) fn why_away(&self, name: &str) -> Option<Error> {
        self.away.lock().values().find(|absent| absent.known.name == name).map(Absent::refusal)
    }

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
    ///
    /// # Errors
    ///
    /// [`Error::Away`] where its device does not answer: neither would the removal of its file.
    pub(super) fn forget_away(&self, name: &str) -> Result<bool> {
        let volume = {
            let away = self.away.lock();
            let Some((&id, absent)) = away.iter().find(|(_, absent)| absent.known.name == name) else {
                return Ok(false);
            };
            if matches!(absent.why, Why::Silent(_)) {
                return Err(absent.refusal());
            }
            id
        };
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
