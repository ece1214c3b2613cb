//! The protocol that a database was opened with: each call goes to the one there is.

use ishigaki_base::Position;
use ishigaki_wal::Dependencies;

use super::locking::Locking;
use super::tictoc::TicToc;
use super::{Held, Intent, Patience, Protocol, ProtocolKind, Reserved, Timestamp, TransactionId, Visit};
use crate::Result;
use crate::key::{Key, KeyRange};
use crate::memory::Purse;
use crate::record::{Record, Value};
use crate::records::RecordId;
use crate::table::{Table, TableRef};
use crate::version::Retired;

/// One transaction's state under its protocol.
#[derive(Debug)]
pub(crate) enum Chosen {
    Locking(Locking),
    TicToc(TicToc),
}

/// Calls the same method of whichever protocol it is.
macro_rules! each {
    ($chosen:expr, $protocol:ident => $call:expr) => {
        match $chosen {
            Chosen::Locking($protocol) => $call,
            Chosen::TicToc($protocol) => $call,
        }
    };
}

impl Chosen {
    /// Starts.
    pub(crate) fn begin(kind: ProtocolKind, id: TransactionId, patience: Patience, range_protection: bool) -> Self {
        match kind {
            ProtocolKind::Locking => Self::Locking(Locking::begin(id, patience, range_protection)),
            ProtocolKind::TicToc => Self::TicToc(TicToc::begin(patience, range_protection)),
        }
    }

    /// The write locks of a transaction that has committed, to be kept beyond its end, where the protocol can.
    pub(crate) fn hold(&mut self) -> Option<Held> {
        match self {
            Self::Locking(_) => None,
            Self::TicToc(tictoc) => Some(tictoc.hold()),
        }
    }
}

impl Protocol for Chosen {
    fn patience(&mut self) -> &mut Patience {
        each!(self, protocol => protocol.patience())
    }

    fn read<R>(&mut self, table: &TableRef, key: &[u8], visit: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        each!(self, protocol => protocol.read(table, key, visit))
    }

    fn prefetch(&mut self, table: &TableRef, keys: &[impl AsRef<[u8]>]) {
        each!(self, protocol => protocol.prefetch(table, keys));
    }

    fn scan(&mut self, table: &TableRef, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        each!(self, protocol => protocol.scan(table, range, visit))
    }

    fn reserve(
        &mut self,
        table: &TableRef,
        key: &Key,
        room: usize,
        intent: Intent,
        purse: &mut Purse,
    ) -> Result<Option<Reserved>> {
        each!(self, protocol => protocol.reserve(table, key, room, intent, purse))
    }

    fn monopolize(&mut self, table: &TableRef) -> Result<()> {
        each!(self, protocol => protocol.monopolize(table))
    }

    fn prepare(&mut self, count: usize, is_written: impl Fn(&Table, &Key, RecordId) -> bool) -> Result<()> {
        each!(self, protocol => protocol.prepare(count, is_written))
    }

    fn decide(&mut self, floor: Timestamp) -> Result<()> {
        each!(self, protocol => protocol.decide(floor))
    }

    fn timestamp(&self) -> Timestamp {
        each!(self, protocol => protocol.timestamp())
    }

    fn depend(&mut self, position: Position) {
        each!(self, protocol => protocol.depend(position));
    }

    fn depend_on_absence(&mut self, table: &Table) {
        each!(self, protocol => protocol.depend_on_absence(table));
    }

    fn depends_on(&self) -> &Dependencies {
        each!(self, protocol => protocol.depends_on())
    }

    fn install(&mut self, record: Record<'_>, value: Option<Value<'_>>, position: Position) -> Option<Retired> {
        each!(self, protocol => protocol.install(record, value, position))
    }

    fn installed_table(&mut self, table: &Table) {
        each!(self, protocol => protocol.installed_table(table));
    }

    fn dropping_table(&mut self, system: &Table) {
        each!(self, protocol => protocol.dropping_table(system));
    }

    fn is_consistent(&mut self) -> bool {
        each!(self, protocol => protocol.is_consistent())
    }

    fn release(&mut self, dropped: impl Fn(&Table) -> bool) {
        each!(self, protocol => protocol.release(dropped));
    }
}
