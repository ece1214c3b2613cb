//! A record on its way into a stream: it has its LSN and the stream's lock.

use std::time::Instant;

use ishigaki_base::{Lsn, Position};
use parking_lot::MutexGuard;

use super::{Inner, State};
use crate::format::{Kind, LONGEST_RECORD};
use crate::log::Shared;
use crate::{CommitRule, Dependencies, Error, Receipt, Result};

/// An LSN that has been drawn in a stream: the parallel log's [`Draw`].
#[derive(Debug)]
pub(crate) struct Drawn<'a> {
    shared: &'a Shared,
    state: &'a State,
    inner: MutexGuard<'a, Inner>,
    lsn: Lsn,
    /// What the record will name.
    dependencies: Dependencies,
    room: usize,
    used: bool,
}

impl<'a> Drawn<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        state: &'a State,
        payload: usize,
        dependencies: &Dependencies,
    ) -> Result<Self> {
        shared.check_open()?;
        if payload as u64 > LONGEST_RECORD {
            return Err(Error::Invalid {
                reason: format!("a record has at most {LONGEST_RECORD} bytes, not {payload}"),
            });
        }
        shared.check_drawn(dependencies)?;
        let inner = state.reserve(shared, state.inner.lock(), payload, dependencies.len())?;
        // Looked at again under the lock: whoever closes the log flushes every stream after closing its door.
        shared.check_open()?;
        let dependencies = match shared.settings.commit {
            CommitRule::Watermark => Dependencies::default(),
            CommitRule::Dependencies => state.standing.unsettled(dependencies, |position| shared.has_settled(position)),
        };
        let idle = inner.open.is_empty() && !inner.slot.is_taken();
        let lsn = shared.watermark.draw(state.id, idle);
        state.standing.draws(lsn);
        let draw = Self { shared, state, inner, lsn, dependencies, room: payload, used: false };
        if !draw.dependencies.is_empty() {
            state.standing.expect(draw.receipt());
        }
        Ok(draw)
    }

    /// The LSN.
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }

    fn position(&self) -> Position {
        Position::new(self.lsn, self.state.id)
    }

    /// What a commit with that record waits for.
    pub(crate) fn receipt(&self) -> Receipt {
        Receipt { position: self.position(), dependencies: self.dependencies.clone() }
    }

    /// Puts the record into the stream's buffer.
    ///
    /// # Panics
    /// When `payload` is longer than announced to [`Stream::draw`].
    pub(crate) fn record(mut self, payload: &[u8]) -> Lsn {
        assert!(payload.len() <= self.room, "a record is no longer than the room drawn for it");
        self.used = true;
        self.push(Kind::Payload, payload);
        self.lsn
    }

    fn push(&mut self, kind: Kind, payload: &[u8]) {
        if self.inner.open.is_empty() {
            self.inner.since = Instant::now();
        }
        self.inner.open.push(self.lsn, kind, &self.dependencies, payload);
        self.shared.nudge();
    }
}

impl Drop for Drawn<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.push(Kind::Filler, &[]);
        }
    }
}
