//! One key's place in a table: its latest version, and what the protocols need to know.

use sdd::Guard;

use crate::protocol::{RecordLock, Stamp, Word};
use crate::version::{Latest, Retired, Version, View};

/// What the index leads to.
///
/// The version is immutable and replaced as a whole; readers under an epoch guard keep the old one alive. A record without
/// one is *absent*: a key being inserted, one whose deletion has committed and that is about to leave the index, or no key's
/// record. Who may replace the version, and when, is the protocol's business.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub(crate) struct Record {
    /// Of the optimistic protocol.
    pub(crate) word: Word,
    latest: Latest,
    /// Of the locking protocol.
    pub(crate) lock: RecordLock,
}

impl Record {
    /// What belongs together of its word and its version; `None` while somebody is writing it.
    #[inline]
    pub(crate) fn read<'g>(&'g self, guard: &'g Guard) -> Option<(Stamp, Option<View<'g>>)> {
        self.word.read(|| self.latest(guard))
    }

    /// The latest version, as long as `guard` lives.
    #[inline]
    pub(crate) fn latest<'g>(&'g self, guard: &'g Guard) -> Option<View<'g>> {
        self.latest.load(guard)
    }

    /// True if there is none.
    pub(crate) fn is_absent(&self) -> bool {
        self.latest.is_none()
    }

    /// Replaces the version; returns the old one.
    pub(crate) fn replace(&self, version: Option<Version>) -> Option<Retired> {
        self.latest.replace(version)
    }

    /// Makes a record that has left the index ready for another key. False if it is worn out: its timestamps can not grow.
    pub(crate) fn retire(&self) -> bool {
        drop(self.replace(None));
        self.lock.begin_again();
        self.word.can_begin_again()
    }
}
