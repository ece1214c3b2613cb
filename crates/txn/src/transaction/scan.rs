//! Scans: committed values and own writes, merged in key order.

use std::ops::{Bound, ControlFlow};

use super::Transaction;
use crate::key::{self, KeyRange};
use crate::protocol::Protocol;
use crate::write_set::Write;
use crate::{Result, TableId};

impl Transaction {
    /// Visits the keys of a range and their values in key order, own writes included, until `visit` breaks.
    ///
    /// What was visited has been read: no change of it and no insertion into it comes between this and the commit, or the
    /// commit fails. Of a range that was left early that holds up to about the last key visited. To page through a table, break after as many keys as a page has, and call again with
    /// `Bound::Excluded` of the last one: under locking the pages' locks become one.
    ///
    /// `visit` should not wait for anything: memory is not reclaimed while it runs.
    pub fn scan(
        &mut self,
        table: TableId,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let slot = self.enter(table)?;
        self.scan_in(slot, range, visit)
    }

    pub(super) fn scan_in(
        &mut self,
        slot: usize,
        range: KeyRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        // An inverted range is empty; the ordered map would not take it.
        if key::is_empty(range) {
            return Ok(());
        }
        let table = &self.tables[slot];
        let mut own = self.writes.range(table.id, range).into_iter().peekable();
        let mut stopped = false;
        let scanned = self.protocol.scan(table, range, &mut |key, value| {
            let flow = merge(&mut own, key, value, &mut visit);
            stopped = flow.is_break();
            flow
        });
        if scanned.is_ok() && !stopped {
            for (key, write) in own {
                if let Some(value) = write.value
                    && visit(key, value).is_break()
                {
                    break;
                }
            }
        }
        self.settle(scanned)
    }
}

/// Visits the own writes before `key`, then the one of `key` or else what is committed.
fn merge<'a>(
    own: &mut std::iter::Peekable<impl Iterator<Item = (&'a [u8], Write<'a>)>>,
    key: &[u8],
    value: &[u8],
    visit: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    while let Some((own_key, write)) = own.next_if(|(own_key, _)| *own_key <= key) {
        if let Some(value) = write.value {
            visit(own_key, value)?;
        }
        if own_key == key {
            return ControlFlow::Continue(());
        }
    }
    visit(key, value)
}
