//! Reading and finding by one look, without a guard.
//!
//! A guard is an exchange of a word that others read, and the processor waits for it; most reads need none. A record never
//! moves, and the index says afterwards whether it was the key's all the time that it was looked at ([`Glance`]). Where that
//! does not do, because somebody is at work there, or a key or a value lies somewhere by itself, nothing has happened, and
//! the same is done under a guard.
//!
//! [`Glance`]: ishigaki_index::Glance

use ishigaki_base::Position;
use ishigaki_wal::Dependencies;

use super::Sets;
use super::word::Stamp;
use crate::key::Key;
use crate::records::RecordId;
use crate::table::Table;

/// One look did not do.
#[derive(Debug)]
pub(super) struct Unsure;

impl Sets {
    /// Reads the value of a key.
    #[inline]
    pub(super) fn glance<'a>(
        &'a mut self,
        depends_on: &mut Dependencies,
        (slot, table): (usize, &Table),
        key: &[u8],
        range_protection: bool,
    ) -> Result<Option<&'a [u8]>, Unsure> {
        let Self { tables, reads, known, copied, .. } = self;
        let (id, stamp, row) = if let Some((id, seen)) = known.of_ahead(slot, key) {
            let (stamp, row) = table.rows.at(id).read_here(copied).ok_or(Unsure)?;
            if !stamp.is_same_version(seen) {
                return Err(Unsure);
            }
            (id, stamp, row)
        } else {
            let (glance, found) = table.rows.glance(key).ok_or(Unsure)?;
            let Some((id, record)) = found else {
                if range_protection {
                    let touched = &mut tables[slot];
                    glance.see(&mut touched.seen);
                    touched.absences = true;
                    reads.add_nothing(slot, key);
                }
                return Ok(None);
            };
            let (stamp, row) = record.read_here(copied).ok_or(Unsure)?;
            if stamp.is_dead() || !glance.is_still_so() {
                return Err(Unsure);
            }
            known.note(slot, key, id, stamp);
            (id, stamp, row)
        };
        let position = row.map_or(Position::NONE, |row| row.position);
        Self::add_version((reads, depends_on), (slot, table), (id, stamp), position);
        Ok(row.map(|row| row.value))
    }

    /// The record of a key that is to be written, whatever it holds, and what its word says.
    #[inline]
    pub(super) fn find_at_a_glance(&self, slot: usize, table: &Table, key: &Key) -> Result<(RecordId, Stamp), Unsure> {
        if let Some((id, seen)) = self.known.of(slot, key) {
            let stamp = table.rows.at(id).word().load();
            if !stamp.is_locked() && stamp.is_same_version(seen) {
                return Ok((id, stamp));
            }
        }
        let (glance, found) = table.rows.glance(key).ok_or(Unsure)?;
        let (id, record) = found.ok_or(Unsure)?;
        // All of it: what lies behind the word is written when the transaction commits.
        record.prefetch();
        let stamp = record.word().load();
        let is_sure = !stamp.is_locked() && !stamp.is_dead() && glance.is_still_so();
        if is_sure { Ok((id, stamp)) } else { Err(Unsure) }
    }
}
