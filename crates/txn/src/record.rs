//! One key's place in a table: who wrote it last, its value, and its lock.

use std::sync::atomic::{AtomicU64, Ordering};

use ishigaki_base::Position;
use sdd::{AtomicOwned, Guard, Owned, Tag};

use crate::key::Value;
use crate::protocol::{RecordLock, Stamp, TransactionId, Word};

/// What the index holds for a key.
///
/// The value is immutable and replaced as a whole; readers under an epoch guard keep the old one alive. A record without
/// a value is *absent*: a key being inserted, or one whose deletion has committed and that is about to leave the index.
/// Who may replace the value, and when, is the protocol's business.
#[derive(Debug)]
pub(crate) struct Record {
    /// Of the optimistic protocol.
    pub(crate) word: Word,
    /// Where the last writer's record is in the log.
    version: AtomicU64,
    value: AtomicOwned<Value>,
    /// Of the locking protocol.
    pub(crate) lock: RecordLock,
}

impl Record {
    /// A record with a value, as recovery finds it.
    pub(crate) fn committed(value: Owned<Value>, version: Position) -> Self {
        Self {
            word: Word::default(),
            version: AtomicU64::new(version.to_bits()),
            value: AtomicOwned::from(value),
            lock: RecordLock::default(),
        }
    }

    /// A record without a value, as recovery remembers a deletion.
    pub(crate) fn deleted(version: Position) -> Self {
        Self::absent(Word::default(), version, RecordLock::default())
    }

    /// An absent record that `owner` alone may touch, from before it can be seen.
    pub(crate) fn locked_by(owner: TransactionId) -> Self {
        Self::absent(Word::default(), Position::NONE, RecordLock::held_by(owner))
    }

    /// An absent record whose word is locked, from before it can be seen.
    pub(crate) fn planted() -> Self {
        Self::absent(Word::new(Stamp::new(0, true).locked()), Position::NONE, RecordLock::default())
    }

    fn absent(word: Word, version: Position, lock: RecordLock) -> Self {
        Self { word, version: AtomicU64::new(version.to_bits()), value: AtomicOwned::null(), lock }
    }

    /// What belongs together of its word, value and version; `None` while somebody is writing it.
    pub(crate) fn read<'g>(&self, guard: &'g Guard) -> Option<(Stamp, (Option<&'g Value>, Position))> {
        self.word.read(|| (self.value(guard), self.version()))
    }

    /// Where the last writer's record is in the log.
    pub(crate) fn version(&self) -> Position {
        Position::from_bits(self.version.load(Ordering::Acquire))
    }

    /// The value, as long as `guard` lives.
    pub(crate) fn value<'g>(&self, guard: &'g Guard) -> Option<&'g Value> {
        self.value.load(Ordering::Acquire, guard).as_ref()
    }

    /// True if there is no value.
    pub(crate) fn is_absent(&self) -> bool {
        self.value.is_null(Ordering::Acquire)
    }

    /// Replaces value and version; returns the old value.
    pub(crate) fn replace(&self, value: Option<Owned<Value>>, version: Position) -> Option<Owned<Value>> {
        let (old, _) = self.value.swap((value, Tag::None), Ordering::AcqRel);
        self.version.store(version.to_bits(), Ordering::Release);
        old
    }
}
