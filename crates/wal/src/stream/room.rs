//! Room on the medium for what a stream has promised to write: every record has it before it has an LSN.

use std::sync::atomic::Ordering;
use std::time::Instant;

use ishigaki_base::{ByteSize, ErrorKind};
use parking_lot::MutexGuard;

use super::{Inner, State};
use crate::format::RECORD_HEADER;
use crate::log::Shared;
use crate::space::Need;
use crate::{Error, Result};

impl State {
    /// Makes sure that a record of `payload` bytes can be written whenever its group's turn comes, before it has an LSN.
    /// Where only a trim could make room, it is refused with [`Error::Full`]: the caller may be in the trim's way.
    pub(super) fn reserve<'a>(
        &'a self,
        shared: &Shared,
        mut inner: MutexGuard<'a, Inner>,
        payload: usize,
        dependencies: usize,
    ) -> Result<MutexGuard<'a, Inner>> {
        let cost = inner.open.cost(payload, dependencies, shared.block_size);
        if inner.room < cost && cost > shared.pool.bound() {
            let reason = format!(
                "a record of {payload} bytes is larger than the log's space of {} allows",
                ByteSize(shared.pool.bound())
            );
            return Err(Error::Invalid { reason });
        }
        while inner.room < cost {
            inner = self.extend(shared, inner)?;
        }
        self.unpaid.fetch_add((RECORD_HEADER + payload) as u64, Ordering::Relaxed);
        inner.room -= cost;
        inner.cost += cost;
        Ok(inner)
    }

    /// Makes room by a segment, or waits until somebody else has who is at it.
    fn extend<'a>(&'a self, shared: &Shared, mut inner: MutexGuard<'a, Inner>) -> Result<MutexGuard<'a, Inner>> {
        // Under the lock: nobody makes a segment for a log that has come to rest.
        shared.check_open()?;
        if inner.making_segment {
            self.changed.wait(&mut inner);
            return Ok(inner);
        }
        self.add_segment(shared, inner, Need::Append)
    }

    /// Returns when there is the room that [`reserve`](Self::reserve) asks for; others may take it before the caller does.
    /// What was reserved and is not needed comes back when the group is written; then only a trim helps.
    pub(crate) fn wait_for_room(&self, shared: &Shared, payload: usize, dependencies: usize) -> Result<()> {
        let began = Instant::now();
        let mut inner = self.inner.lock();
        let cost = inner.open.cost(payload, dependencies, shared.block_size);
        while inner.room < cost {
            let changes = shared.pool.changes();
            inner = match self.extend(shared, inner) {
                Err(Error::Full { .. }) => self.wait_when_full(shared, changes, began)?,
                extended => extended?,
            };
        }
        Ok(())
    }

    fn wait_when_full<'a>(&'a self, shared: &Shared, changes: u64, since: Instant) -> Result<MutexGuard<'a, Inner>> {
        let mut inner = self.inner.lock();
        if inner.slot.is_taken() {
            self.changed.wait(&mut inner);
            return Ok(inner);
        }
        if !inner.open.is_empty() && inner.slot.is_free() {
            self.write_group(shared, inner);
        } else {
            drop(inner);
            shared.pool.wait(changes, since)?;
        }
        Ok(self.inner.lock())
    }

    /// Gets the stream's next segment, without the lock.
    fn add_segment<'a>(
        &'a self,
        shared: &Shared,
        mut inner: MutexGuard<'a, Inner>,
        need: Need,
    ) -> Result<MutexGuard<'a, Inner>> {
        inner.making_segment = true;
        let index = inner.next_segment;
        drop(inner);
        let made = shared.pool.take(self.id, index, need);

        let mut inner = self.inner.lock();
        inner.making_segment = false;
        self.changed.notify_all();
        match made {
            Ok(segment) => {
                inner.next_segment += 1;
                inner.room += segment.device.len() - shared.chunk_limit as u64;
                inner.spares.push(segment);
                Ok(inner)
            }
            // A full medium is no failure of the log: what has an LSN has its room. Anything else leaves unknown state.
            Err(error) if error.kind() == ErrorKind::Exhausted => Err(error),
            Err(error) => {
                drop(inner);
                Err(shared.fail(error))
            }
        }
    }

    /// Makes a segment ahead of need when the current one is half full. A full medium is left for `reserve` to report.
    pub(crate) fn prepare_segment(&self, shared: &Shared) {
        let mut inner = self.inner.lock();
        if !inner.runs_short || inner.making_segment || shared.check_open().is_err() {
            return;
        }
        // Once a turn: where there is no space, trying at every tick would not make any.
        inner.runs_short = false;
        match self.add_segment(shared, inner, Need::Ahead) {
            Ok(_) => {}
            // Nothing was tried: the next turn may find more.
            Err(Error::Full { .. }) => self.inner.lock().runs_short = true,
            Err(error) => tracing::warn!(%error, stream = %self.id, "no segment could be prepared ahead"),
        }
    }
}
