//! What a session waits for before it may say that a commit is durable, by the log's kind and rule.
//!
//! A session may wait only for records that the log has: an LSN that was not drawn stands for all that are drawn by now, and
//! a position at which there is no record is refused.

use ishigaki_base::{Lsn, Position};

use super::Shared;
use crate::serial::SerialLog;
use crate::{CommitRule, Dependencies, Error, Receipt, Result};

impl Shared {
    /// See [`Stream::wait`].
    pub(crate) fn wait(&self, own: usize, lsn: Lsn) -> Result<()> {
        match &self.epochs {
            Some(epochs) => epochs.wait(self, lsn),
            None => self.make_durable(own, lsn),
        }
    }

    /// Makes everything up to `lsn` durable, beginning with the stream of place `own`.
    pub(crate) fn make_durable(&self, own: usize, lsn: Lsn) -> Result<()> {
        if let Some(serial) = &self.serial {
            return serial.wait(self, lsn);
        }
        if self.watermark.reached() >= lsn {
            return Ok(());
        }
        let lsn = lsn.min(self.watermark.last_drawn());
        self.streams[own].flush(self, lsn)?;
        loop {
            // The order matters: nothing that is settled after a failure is acknowledged.
            let reached = self.observe();
            self.check_alive()?;
            if reached >= lsn {
                return Ok(());
            }
            for stream in self.streams.iter().filter(|stream| self.watermark.bound(stream.id()) <= lsn) {
                stream.flush(self, lsn)?;
            }
        }
    }

    /// Makes everything up to `lsn` durable in the stream of that place.
    pub(crate) fn flush(&self, place: usize, lsn: Lsn) -> Result<()> {
        match &self.serial {
            Some(serial) => serial.wait(self, lsn),
            None => self.streams[place].flush(self, lsn),
        }
    }

    /// See [`Stream::settle`].
    pub(crate) fn acknowledge(&self, own: usize, receipt: &Receipt) -> Result<()> {
        self.check_receipt(receipt)?;
        if self.waits_for_all() {
            return self.wait(own, receipt.lsn());
        }
        if let Some(state) = self.streams.get(usize::from(receipt.position.stream().0))
            && state.standing().durable() < receipt.position.lsn()
        {
            state.flush(self, receipt.position.lsn())?;
        }
        receipt.dependencies.iter().try_for_each(|position| self.settle(position))?;
        // The order matters: nothing that is settled after a failure is acknowledged.
        self.check_alive()
    }

    /// Whether [`acknowledge`](Self::acknowledge) would return at once with success.
    pub(crate) fn is_acknowledged(&self, receipt: &Receipt) -> bool {
        let (lsn, own) = (receipt.position.lsn(), usize::from(receipt.position.stream().0));
        match &self.epochs {
            Some(epochs) => epochs.ended() >= receipt.lsn() && self.has_drawn_all_of(receipt),
            None if self.waits_for_all() => self.reaches(receipt.lsn()) && self.has_drawn_all_of(receipt),
            None => {
                self.streams.get(own).map_or(lsn < self.base, |state| state.standing().durable() >= lsn)
                    && receipt.dependencies.iter().all(|position| self.has_settled(position))
            }
        }
    }

    /// Whether a commit waits for everything with a smaller LSN.
    fn waits_for_all(&self) -> bool {
        self.settings.commit == CommitRule::Watermark || self.epochs.is_some() || self.serial.is_some()
    }

    /// Returns when that record is durable with all that it depends on.
    pub(crate) fn settle(&self, position: Position) -> Result<()> {
        match self.streams.get(usize::from(position.stream().0)) {
            Some(state) => state.settle(self, position.lsn()),
            // Of a stream that there was before this generation: recovery has kept it.
            None => Ok(()),
        }
    }

    /// Whether that record is durable with all that it depends on. Never waits.
    pub(crate) fn has_settled(&self, position: Position) -> bool {
        match self.streams.get(usize::from(position.stream().0)) {
            Some(state) => state.standing().settled() >= position.lsn(),
            None => position.lsn() < self.base,
        }
    }

    /// Refuses to depend on records that there are not: nothing could ever make them durable, and recovery would drop, or
    /// take for damage, what names them.
    pub(crate) fn check_drawn(&self, dependencies: &Dependencies) -> Result<()> {
        dependencies.iter().try_for_each(|position| self.check_position(position))
    }

    /// Refuses to wait for records that there are not.
    pub(crate) fn check_receipt(&self, receipt: &Receipt) -> Result<()> {
        self.check_position(receipt.position).and_then(|()| self.check_drawn(&receipt.dependencies))
    }

    fn check_position(&self, position: Position) -> Result<()> {
        if self.has_drawn(position) {
            return Ok(());
        }
        let reason = format!(
            "the log has no record {position}: since it was opened, at LSN {}, none was appended there; name only \
             records whose receipts this log has given",
            self.base
        );
        Err(Error::Invalid { reason })
    }

    fn has_drawn_all_of(&self, receipt: &Receipt) -> bool {
        self.has_drawn(receipt.position) && receipt.dependencies.iter().all(|position| self.has_drawn(position))
    }

    /// Whether that stream has come so far. Of older generations recovery has kept what can be named.
    fn has_drawn(&self, position: Position) -> bool {
        let lsn = position.lsn();
        match (self.streams.get(usize::from(position.stream().0)), &self.serial) {
            _ if lsn < self.base => true,
            // What has settled first: threads that depend on it read that line anyway.
            (Some(state), _) => state.standing().settled() >= lsn || state.standing().drawn() >= lsn,
            (None, Some(serial)) => position.stream() == SerialLog::STREAM && serial.last_drawn() >= lsn,
            (None, None) => false,
        }
    }
}
