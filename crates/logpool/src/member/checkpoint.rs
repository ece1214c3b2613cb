//! Checkpoint areas become durable: by a sync of their member, or because a round takes them home.
//!
//! An area's bytes are written after everything that the member had accepted before them is durable in the log. They must
//! be in the checkpoint file before they go home, too: a round that is cut off leaves blocks torn, and only what is in the
//! log or in the checkpoint file makes them whole again.

use ishigaki_base::Lsn;
use parking_lot::MutexGuard;

use super::{Resident, State};
use crate::areas::Areas;
use crate::{Area, FileId, Result};

/// Areas to be written to the checkpoint file.
#[derive(Debug)]
pub(super) struct DueAreas {
    /// Everything up to here must be durable before.
    pub(super) last: Lsn,
    /// The last entry before they were written.
    after: u64,
    areas: Vec<(usize, FileId, Vec<u8>)>,
}

impl Resident {
    /// Takes what was written to areas and is not in the checkpoint file. The caller holds that one's lock.
    pub(super) fn due_areas(&self, state: &mut State) -> DueAreas {
        let mut areas = Vec::new();
        for (area, file) in std::mem::take(&mut state.dirty_areas) {
            let Ok(contents) = state.image.contents(file) else { continue };
            let mut bytes = vec![0; Area::LENGTH as usize];
            // A block is in memory from its change until a round has ended, and a round takes it from here.
            if contents.read_known(self.settings.profile.areas[area].offset, &mut bytes).is_empty() {
                areas.push((area, file, bytes));
            }
        }
        state.writing_areas = !areas.is_empty();
        DueAreas { last: state.last, after: state.number, areas }
    }

    /// Writes them; everything before is durable.
    pub(super) fn write_areas(&self, mut file: MutexGuard<'_, Areas>, due: DueAreas) -> Result<()> {
        if due.areas.is_empty() {
            return Ok(());
        }
        let after = due.after;
        let mut due = due.areas.into_iter();
        let written = due.try_for_each(|(area, id, bytes)| file.write(area, id, after, bytes));
        written.map_err(|error| self.fail(error))?;
        self.state()?.writing_areas = false;
        Ok(())
    }

    /// Makes durable whatever was accepted, areas as well.
    pub(super) fn sync_areas(&self) -> Result<()> {
        let areas = self.areas.lock();
        let due = self.due_areas(&mut *self.state()?);
        self.core.process.commit(self.id, due.last)?;
        self.write_areas(areas, due)
    }
}
