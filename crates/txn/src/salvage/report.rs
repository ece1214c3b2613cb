//! What a salvage has found, and what is missing.

use ishigaki_base::Lsn;
use ishigaki_wal::{Damage, LogEnd, Rescued, Start};

use super::rows::Rows;
use crate::Result;
use crate::checkpoint::leftovers::{Gap, Place};
use crate::table::TableId;
use crate::unread::Sources;

/// What was found in a damaged database.
#[derive(Clone, Debug)]
pub struct SalvageReport {
    /// The number of the checkpoint whose rows were read, if there was one.
    pub checkpoint: Option<u64>,
    /// The tables with their rows.
    pub tables: Vec<SalvagedTable>,
    /// Every damage that was found.
    pub damages: Vec<Damage>,
    /// What the medium failed to read: nothing is known of these bytes.
    pub unread: Vec<Damage>,
    /// What could not be read, and is nowhere else.
    pub missing: Vec<Missing>,
    /// Commits that were in damaged places of the log: first and last LSN of each run. Not every LSN in it need have been a
    /// commit.
    pub lost: Vec<(Lsn, Lsn)>,
    /// The end of the log is damaged, or nothing says where it was: commits behind this LSN may be missing, too.
    pub lost_behind: Option<Lsn>,
    /// The last LSN that was read from the log.
    pub end: Lsn,
    /// What says where the log ended.
    pub log_end: LogEnd,
}

/// A table that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedTable {
    /// Its number.
    pub id: TableId,
    /// Its name; `None` where that was lost.
    pub name: Option<String>,
    /// How many rows it has.
    pub rows: u64,
}

/// Rows that are missing: those behind one key and before another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The last row before, by table and key; `None` where everything from the beginning on is missing.
    pub after: Option<(TableId, Vec<u8>)>,
    /// The first row behind; `None` where everything to the end is missing.
    pub before: Option<(TableId, Vec<u8>)>,
    /// The damage.
    pub damage: Damage,
    /// The log or the checkpoint before had rows for this place, but perhaps not all or not their newest values.
    pub partly: bool,
}

impl Default for SalvageReport {
    fn default() -> Self {
        Self {
            checkpoint: None,
            tables: Vec::new(),
            damages: Vec::new(),
            unread: Vec::new(),
            missing: Vec::new(),
            lost: Vec::new(),
            lost_behind: None,
            end: Lsn::ZERO,
            log_end: LogEnd::Closed(Lsn::ZERO),
        }
    }
}

impl SalvageReport {
    /// Whether everything is there that was committed.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.lost.is_empty() && self.lost_behind.is_none()
    }

    /// Says what of the gaps was not filled, and what the log lacks.
    pub(super) fn judge(&mut self, gaps: &[Gap], can_fill: bool, start: Start, end: Lsn, rescued: &Rescued) {
        self.lost_behind = rescued.lost_behind;
        self.end = rescued.end;
        // What lies before the checkpoint is in there; it matters only for rows that must be had from the log.
        self.lost = rescued.lost.iter().filter(|(_, last)| *last >= start.lsn).copied().collect();
        if let Some((first, _)) = self.lost.first_mut() {
            *first = (*first).max(start.lsn);
        }
        if rescued.end < end {
            let first = rescued.end.next().max(start.lsn);
            let is_known = self.lost.last().is_some_and(|(_, last)| *last >= end);
            if first <= end && !is_known {
                self.lost.push((first, end));
                if self.damages.is_empty() {
                    let what = format!("it ends at {}, and was durable up to {end}", rescued.end);
                    self.damages.push(Damage { file: "wal-*".to_owned(), offset: None, what });
                }
            }
        }
        let is_filled = can_fill && rescued.lost.iter().all(|(first, _)| *first >= start.lsn);
        if !is_filled {
            let missing = gaps.iter().map(|gap| Missing {
                after: gap.after.clone(),
                before: gap.before.clone(),
                damage: gap.damage.clone(),
                partly: can_fill || rescued.records > 0,
            });
            self.missing = missing.collect();
        }
    }

    /// Says what may be missing where nothing says where the log ended. It was durable up to `durable` once.
    pub(super) fn judge_end(&mut self, log_end: LogEnd, durable: Lsn) {
        if let LogEnd::Unknown(why) = &log_end {
            let missing = self.lost.last().map_or(Lsn::ZERO, |(_, last)| *last);
            let known = self.end.max(durable).max(missing);
            self.lost_behind = Some(self.lost_behind.map_or(known, |behind| behind.max(known)));
            if self.damages.is_empty() {
                self.damages.push(Damage { file: "wal-control".to_owned(), offset: None, what: why.clone() });
            }
        }
        self.log_end = log_end;
    }

    /// Tells what the medium failed to read apart from damage.
    pub(super) fn tell_apart(&mut self, sources: &Sources<'_>) -> Result<()> {
        let before = self.damages.clone();
        self.unread = sources.settle(&mut self.damages)?;
        for missing in &mut self.missing {
            let said = &missing.damage;
            if before.contains(said) && !self.damages.contains(said) {
                let unread = self.unread.iter().find(|unread| unread.file == said.file);
                missing.damage = unread.unwrap_or(said).clone();
            }
        }
        Ok(())
    }

    pub(super) fn count(&mut self, rows: &Rows<'_>) {
        let table = |(id, name)| SalvagedTable { id, name, rows: rows.count(id) };
        self.tables = rows.tables().into_iter().map(table).collect();
    }

    /// What a table is called in this report.
    pub fn table_name(&self, id: TableId) -> String {
        let known = self.tables.iter().find(|table| table.id == id).and_then(|table| table.name.clone());
        if id == TableId::SYSTEM { "names of tables".to_owned() } else { known.unwrap_or_else(|| id.to_string()) }
    }
}

impl Missing {
    /// Whether a row of that table and key may be missing here.
    pub fn may_hold(&self, table: TableId, key: &[u8]) -> bool {
        let gap = Gap { after: self.after.clone(), before: self.before.clone(), damage: self.damage.clone() };
        gap.holds(table, key)
    }

    /// The two ends.
    pub fn ends(&self) -> (Option<&Place>, Option<&Place>) {
        (self.after.as_ref(), self.before.as_ref())
    }
}
