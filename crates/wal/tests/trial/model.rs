//! What a log must show.

use std::collections::{BTreeMap, BTreeSet};
use std::error;
use std::sync::Mutex;

use ishigaki_base::{Lsn, Position};
use ishigaki_wal::{CommitRule, Dependencies, Receipt, Recovery, Result, Sink, Start, Stream};

/// The latest records, of which the next one may depend on some.
const LATEST: usize = 6;

/// What was appended, what of it was acknowledged, and what is not needed any more.
///
/// A log must show everything acknowledged from its start on, nothing but what was appended, and of what a record depends
/// on, all; under the watermark's rule a prefix. The start is the latest that was noted, or one that was about to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    appended: BTreeMap<u64, Entry>,
    acknowledged: BTreeSet<u64>,
    /// The log needs no more than what lies from here on, and has said so.
    pub(crate) noted: Start,
    /// It may have come to say so.
    pub(crate) asked: Start,
    /// What lies before here is elsewhere, durably.
    pub(crate) elsewhere: Start,
}

#[derive(Clone, Debug)]
struct Entry {
    payload: Vec<u8>,
    position: Position,
    /// The LSNs that it depends on.
    reads: Vec<u64>,
}

impl Model {
    /// Appends a record that depends on some of the latest; one of so many is a long one.
    pub(crate) fn append(&mut self, stream: &Stream, random: &mut fastrand::Rng, long: u8) -> Result<Receipt> {
        let length = if random.u8(..long) == 0 { random.usize(..9000) } else { random.usize(..300) };
        // A sector of zeros would look torn.
        let payload = (0..length).map(|_| random.u8(1..)).collect();
        self.append_bytes(stream, random, payload)
    }

    /// Appends that record, which depends on some of the latest.
    pub(crate) fn append_bytes(
        &mut self,
        stream: &Stream,
        random: &mut fastrand::Rng,
        payload: Vec<u8>,
    ) -> Result<Receipt> {
        let (mut dependencies, mut reads) = (Dependencies::default(), Vec::new());
        for entry in self.appended.values().rev().take(LATEST).filter(|_| random.u8(..4) == 0) {
            dependencies.add(entry.position);
            reads.push(entry.position.lsn().0);
        }
        let receipt = stream.append_after(&dependencies, &payload)?;
        self.appended.insert(receipt.lsn().0, Entry { payload, position: receipt.position(), reads });
        Ok(receipt)
    }

    /// That record is durable with all that it depends on.
    pub(crate) fn acknowledge(&mut self, lsn: Lsn) {
        self.acknowledged.insert(lsn.0);
    }

    /// Everything up to that LSN is durable.
    pub(crate) fn acknowledge_up_to(&mut self, lsn: Lsn) {
        self.acknowledged.extend(self.appended.range(..=lsn.0).map(|(&lsn, _)| lsn));
    }

    /// Checks what a log shows that was opened from some start, and takes it for the truth from here on: somebody may have
    /// seen it. The rule is that of the last generation that was written.
    pub(crate) fn check(&mut self, shown: &Shown, recovery: &Recovery, from: Start, rule: CommitRule) {
        let shown = shown.0.lock().unwrap();
        let (start, cut) = (recovery.start, recovery.cut);
        assert!(start >= self.noted.max(from) && start <= self.asked.max(from), "it starts at {start}: {self:?}");
        self.forget_before(start);
        for lsn in &self.acknowledged {
            assert!(shown.contains_key(lsn), "record {lsn} was acknowledged and is not there, from {start} on");
        }
        if rule == CommitRule::Watermark {
            assert_eq!(shown.len(), self.appended.range(..=cut.0).count(), "there is a gap below {cut}");
        }
        for (lsn, (position, payload)) in &*shown {
            let entry = self.appended.get(lsn).unwrap_or_else(|| panic!("record {lsn} is not known from {start} on"));
            assert!((entry.position, &entry.payload) == (*position, payload), "record {lsn} is another one");
            for read in entry.reads.iter().filter(|&&read| read >= start.lsn.0) {
                assert!(shown.contains_key(read), "record {lsn} is there, but not {read}, which it depends on");
            }
        }
        self.appended.retain(|lsn, _| shown.contains_key(lsn));
        self.acknowledge_up_to(Lsn::MAX);
        (self.noted, self.asked) = (start, start);
    }

    /// What lies before the start is gone.
    fn forget_before(&mut self, start: Start) {
        self.appended = self.appended.split_off(&start.lsn.0);
        self.acknowledged = self.acknowledged.split_off(&start.lsn.0);
    }
}

/// What a recovery has shown, each record once.
#[derive(Default)]
pub(crate) struct Shown(Mutex<BTreeMap<u64, (Position, Vec<u8>)>>);

impl Sink for Shown {
    fn take(&self, position: Position, payload: &[u8]) -> std::result::Result<(), Box<dyn error::Error + Send + Sync>> {
        let before = self.0.lock().unwrap().insert(position.lsn().0, (position, payload.to_vec()));
        assert!(before.is_none(), "a record is shown once");
        Ok(())
    }
}
