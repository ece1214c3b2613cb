//! Checkpoint areas become durable: by a sync of their member, because a round takes them home, or because the pool is closed.
//!
//! An area's bytes are written after everything that the member had accepted before them is durable in the log. They must
//! be in the checkpoint file before they go home, too: a round that is cut off leaves blocks torn, and only what is in the
//! log or in the checkpoint file makes them whole again.
//!
//! An entry that builds on bytes of an area must find them wherever it is replayed. They may have been written since the
//! checkpoint file was, which has each area as a whole, and only as it was last, and only for the file that has the area's
//! name and is long enough. So before an entry that leaves a part of an area as it is, or takes it from its place, the whole
//! area goes into the log, unless it is home.

use ishigaki_base::Lsn;
use parking_lot::MutexGuard;

use super::state::Refusal;
use super::{Resident, State};
use crate::areas::Areas;
use crate::format::{Change, Run};
use crate::image::{BLOCK, Image};
use crate::{Area, FileId, Profile, Result};

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
    /// Takes what was written to areas and is not in the checkpoint file. The caller holds that one's lock, and writes it,
    /// unless the log fails before; nothing comes after that.
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
        self.state.lock().writing_areas = false;
        Ok(())
    }

    /// Makes durable whatever was accepted, areas as well.
    pub(super) fn sync_areas(&self) -> Result<()> {
        let areas = self.areas.lock();
        let due = self.due_areas(&mut *self.state()?);
        self.core.process.commit(self.id, due.last)?;
        self.write_areas(areas, due)
    }

    /// The same for a pool that takes no more requests, and whose log is durable to its end.
    pub(crate) fn close_areas(&self) -> Result<()> {
        let areas = self.areas.lock();
        let mut state = self.state.lock();
        if state.failure.is_some() {
            return Ok(());
        }
        let due = self.due_areas(&mut state);
        drop(state);
        self.write_areas(areas, due)
    }

    /// Before that change: puts areas into the log that it changes in part, or takes from their place.
    pub(super) fn log_areas(&self, state: &mut State, change: &Change<'_>) -> Result<u64, Refusal> {
        let mut logged = 0;
        for (area, file, offset) in cut_areas(&self.settings.profile, &state.image, change) {
            let contents = state.image.contents(file)?;
            let block = contents.dirty_blocks().find(|(block, _)| *block == offset / BLOCK);
            let Some(bytes) = block.map(|(_, bytes)| bytes.clone()) else { continue };
            let length = Area::LENGTH.min(contents.length().saturating_sub(offset));
            let bytes = bytes.as_deref().map(|bytes| &bytes[..length as usize]);
            self.check_share(state, length, 0)?;
            let runs = vec![Run { at: 0, length, bytes }];
            logged += state.append(&self.core, self.id, Change::Data { file, offset, length, runs })?;
            if state.dirty_areas.get(&area) == Some(&file) {
                state.dirty_areas.remove(&area);
            }
        }
        Ok(logged)
    }
}

/// The areas of which a change leaves a part as it is, or that will not be areas any more after it: their number in the
/// profile, their file and where they begin.
fn cut_areas(profile: &Profile, image: &Image, change: &Change<'_>) -> Vec<(usize, FileId, u64)> {
    let is_cut = |path: &str, file: FileId, from: u64, to: u64| match change {
        Change::Rename { from: name, .. } => {
            path.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        Change::Truncate { file: of, length } => *of == file && from < *length && *length < to,
        Change::Zero { file: of, offset, length, .. } => {
            let end = offset + length;
            *of == file && *offset < to && from < end && !(*offset <= from && to <= end)
        }
        _ => false,
    };
    let named = profile.areas.iter().enumerate().filter_map(|(number, area)| {
        let file = image.names.get(area.file).copied().flatten()?;
        is_cut(area.file, file, area.offset, area.offset + Area::LENGTH).then_some((number, file, area.offset))
    });
    named.collect()
}
