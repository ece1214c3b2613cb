//! Since when, and up to when, the keys without a record are absent.
//!
//! A key that has no record has no word either; all of them in a table share these two. Without them an insertion could
//! commit at a moment at which somebody else has read that the key is not there.
//!
//! ```text
//! who reads an absence:  extend `until` ; fence ; look that there is still no record
//! who inserts:           put an absent record in, locked ; fence ; take over `since` and `until` as its own range
//! ```
//!
//! Both sides store before they look, so one of them sees the other: the reader meets the record, or whoever inserts takes a
//! timestamp behind the reader's. A record that leaves the index leaves its range here first; and a reader who finds that
//! `since` has changed between his two looks can not know which absence he saw.

use ishigaki_base::sync::atomic::{AtomicU64, Ordering, fence};

use super::word::{Stamp, Timestamp};

/// The validity of all absences of a table. Written by whoever reads one, so it is apart from what else a table has.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Absences {
    /// The largest timestamp of a deletion.
    since: AtomicU64,
    /// The largest timestamp of who has read that a key is absent.
    until: AtomicU64,
}

impl Absences {
    /// The least timestamp at which all keys that have no record now are absent.
    pub fn since(&self) -> Timestamp {
        self.since.load(Ordering::Acquire)
    }

    /// Whoever inserts from now on comes behind `to`. What has no record *after* this call was absent up to `to`.
    pub fn extend(&self, to: Timestamp) {
        if self.until.load(Ordering::Relaxed) < to {
            self.until.fetch_max(to, Ordering::AcqRel);
        }
        fence(Ordering::SeqCst);
    }

    /// The range of an absent record that has just been put into the index. It does not begin before `least`, from which on
    /// the record tells the versions of this key from those of the one whose record it was before.
    pub fn of_new_record(&self, least: Timestamp) -> Stamp {
        fence(Ordering::SeqCst);
        Stamp::new(self.since().max(least), true).extended(self.until.load(Ordering::Acquire))
    }

    /// A key is absent from `stamp.wts()` on and has been read so up to `stamp.rts()`; its record is about to go.
    pub fn take_over(&self, stamp: Stamp) {
        self.since.fetch_max(stamp.wts(), Ordering::AcqRel);
        self.until.fetch_max(stamp.rts(), Ordering::AcqRel);
    }

    /// The last timestamp that anything of this was valid at.
    pub fn last(&self) -> Timestamp {
        self.since().max(self.until.load(Ordering::Acquire))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_new_record_has_been_absent_as_long_as_its_key_and_was_read_so_as_late() {
        let absences = Absences::default();
        absences.take_over(Stamp::new(5, true).extended(7));
        let stamp = absences.of_new_record(0);
        assert!(stamp.is_absent() && (stamp.wts(), stamp.rts()) == (5, 7));
        absences.extend(9);
        let stamp = absences.of_new_record(6);
        assert_eq!((stamp.wts(), stamp.rts(), absences.last()), (6, 9, 9));
    }
}
