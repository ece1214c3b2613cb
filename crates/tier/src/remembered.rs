//! What a process that died has left in memory beside the map: which blocks are dirty.

use std::collections::BTreeMap;
use std::path::Path;

use crate::blocks::Blocks;
use crate::map::{Found, Map};
use crate::memory::{Memory, Region, SlotWords};
use crate::record::{Record, Session, SlotId, VolumeId};
use crate::{Error, Result};

/// Slots that hold something, by what counts: their chunks, and which of their blocks are dirty.
type Slots = BTreeMap<SlotId, ((VolumeId, u32), Blocks)>;

/// The memory of a pool.
#[derive(Debug)]
pub(crate) struct Remembered {
    region: Option<Region>,
    session: Session,
    /// Whether anything counts beside the map.
    pub(crate) goes_on: bool,
}

impl Remembered {
    /// Looks for what counts beside the map, and has what is written from now on be remembered: in the session that goes on, or in a new one, which the map names
    /// before anything of it counts. Without memory that can be used, the pool goes on without.
    pub(crate) fn open(
        memory: Option<&Memory>,
        map: &Map,
        found: &Found,
        chunk: u64,
        count: u64,
    ) -> Result<(Self, Slots)> {
        let mapped = memory.map(|memory| memory.map(map.id(), chunk, count)).transpose();
        let region = mapped.unwrap_or_else(|cause| {
            tracing::warn!(%cause, "no memory outlives this process: what was written and not synced would be lost if it were killed");
            None
        });
        if let Some(region) = &region
            && let Some(session) = region.session().filter(|&session| found.session == Some(session))
            && let Some(slots) = recall(region, found, chunk, count)?
        {
            return Ok((Self { region: Some(region.clone()), session, goes_on: true }, slots));
        }
        let slots = found.slots.iter().map(|(&id, mapped)| (id, (mapped.owner, mapped.dirty.clone()))).collect();
        let session = region.as_ref().map_or(Session(0), Region::clear);
        // What an older session has left is out of date as soon as this process does anything.
        if session != found.session.unwrap_or(Session(0)) {
            map.append(&Record::Session(session))?;
            map.flush()?;
        }
        Ok((Self { region, session, goes_on: false }, slots))
    }

    /// Where the dirty blocks of a slot are said.
    pub(crate) fn words(&self, slot: SlotId) -> Option<SlotWords> {
        self.region.as_ref().map(|region| region.slot(slot))
    }

    /// What the memory says is what the slots have: it counts.
    pub(crate) fn begin(&self) {
        if let Some(region) = &self.region {
            region.begin(self.session);
        }
    }

    /// What is called dirty may not be on the fast device any more: nothing is believed.
    pub(crate) fn end(&self) {
        if let Some(region) = &self.region {
            region.end();
        }
    }

    /// The file of that memory, if it has one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.region.as_ref().and_then(Region::path)
    }

    /// The session, if there is memory for one.
    pub(crate) fn session(&self) -> Option<Session> {
        self.region.as_ref().and_then(Region::session)
    }

    /// As the map is to name it.
    pub(crate) fn record(&self) -> Record {
        Record::Session(self.session)
    }
}

/// The slots by what the memory says; `None` where that is nothing that the map allows.
fn recall(region: &Region, found: &Found, chunk: u64, count: u64) -> Result<Option<Slots>> {
    let mut slots = Slots::new();
    let mut owners = BTreeMap::new();
    for id in (0..region.slots()).map(SlotId) {
        let (owner, dirty) = region.slot(id).read(chunk);
        let mapped = found.slots.get(&id);
        let known = found.volumes.get(&owner.0);
        if mapped.is_none() && (dirty.is_empty() || known.is_none()) {
            // It holds nothing, or what a volume had that is gone.
            continue;
        }
        let is_within = known.is_some_and(|known| u64::from(owner.1) * chunk < known.length);
        let is_mapped = mapped.is_none_or(|mapped| mapped.owner == owner);
        if !is_within || !is_mapped || owners.insert(owner, id).is_some() {
            tracing::error!(slot = id.0, "memory of before does not fit the map, and is not believed");
            return Ok(None);
        }
        if u64::from(id.0) >= count {
            let reason = format!("the fast device has room for {count} chunks, and the pool had more there");
            return Err(Error::WrongFast { reason });
        }
        slots.insert(id, (owner, dirty));
    }
    Ok(Some(slots))
}
