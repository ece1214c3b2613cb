//! What a session holds of a stream.

use std::sync::Arc;

use ishigaki_base::{Lsn, Position, StreamId};

use super::{Drawn, State};
use crate::log::Shared;
use crate::serial::SerialLog;
use crate::{CommitRule, Dependencies, Draw, Error, Receipt, Result, Settled};

/// A handle on one of a log's streams. Cheap to clone; any number of sessions may share a stream.
#[derive(Clone, Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    place: usize,
}

impl Stream {
    pub(crate) fn new(shared: Arc<Shared>, place: usize) -> Self {
        Self { shared, place }
    }

    fn state(&self) -> &State {
        &self.shared.streams[self.place]
    }

    /// Which stream it is.
    pub fn id(&self) -> StreamId {
        StreamId(self.place as u16)
    }

    /// Draws an LSN and puts a record with it into the stream's buffer, as one step. Records are not written to the medium
    /// here (a segment may be made, when none was prepared), so a caller may hold locks; after releasing them it calls
    /// [`pace`](Self::pace), and [`wait`](Self::wait) when it needs the record durable.
    ///
    /// Errors come before there is an LSN: a full medium ([`Error::Device`] of kind `Exhausted`), a full log, after
    /// [`Settings::space_wait`](crate::Settings::space_wait) ([`Error::Full`]), or a log that is closed.
    pub fn append(&self, payload: &[u8]) -> Result<Lsn> {
        self.with_room(&Dependencies::default(), payload.len(), || match &self.shared.serial {
            Some(serial) => serial.append(&*self.shared, payload),
            None => {
                Ok(Drawn::new(&self.shared, self.state(), payload.len(), &Dependencies::default())?.record(payload))
            }
        })
    }

    /// Appends a record that depends on others: it is kept by recovery only if they are. The receipt says what
    /// [`settle`](Self::settle) must wait for. Under [`CommitRule::Dependencies`](crate::CommitRule) the record goes to
    /// another stream if this one writes for a few at the moment and that one is free.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append), and [`Error::Invalid`] for a dependency on a record that was not appended to this log
    /// before, of whatever stream. Nothing has been appended then.
    pub fn append_after(&self, dependencies: &Dependencies, payload: &[u8]) -> Result<Receipt> {
        self.with_room(dependencies, payload.len(), || self.try_append_after(dependencies, payload))
    }

    /// [`append_after`](Self::append_after) for somebody in whose way a trim may be: at the bound of the log's space, where
    /// that one waits, it is refused with [`Error::Full`]. The caller then steps aside, has
    /// [`wait_for_room`](Self::wait_for_room) wait, and tries again.
    pub fn try_append_after(&self, dependencies: &Dependencies, payload: &[u8]) -> Result<Receipt> {
        if let Some(serial) = &self.shared.serial {
            self.shared.check_drawn(dependencies)?;
            // Its order says enough: whatever the record depends on is durable before it.
            let position = Position::new(serial.append(&*self.shared, payload)?, SerialLog::STREAM);
            return Ok(Receipt { position, dependencies: Dependencies::default() });
        }
        let mut state = match self.shared.settings.commit {
            CommitRule::Watermark => self.state(),
            CommitRule::Dependencies => self.shared.least_busy(self.place),
        };
        loop {
            match Drawn::new(&self.shared, state, payload.len(), dependencies) {
                Ok(draw) => {
                    let receipt = draw.receipt();
                    draw.record(payload);
                    return Ok(receipt);
                }
                // Room is waited for in the own stream.
                Err(Error::Full { .. }) if state.id() != self.id() => state = self.state(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns when the log has room for a record of `payload` bytes with these dependencies: at once, or after a
    /// [`trim`](crate::Log::trim). It is not kept: whoever comes first has it.
    ///
    /// Errors: a full log, after [`Settings::space_wait`](crate::Settings::space_wait) ([`Error::Full`]), a full medium, or
    /// a log that is closed.
    pub fn wait_for_room(&self, dependencies: &Dependencies, payload: usize) -> Result<()> {
        match &self.shared.serial {
            Some(serial) => serial.wait_for_room(&*self.shared, payload),
            None => self.state().wait_for_room(&self.shared, payload, dependencies.len()),
        }
    }

    /// Tries until there is room. Nobody else waits behind whoever waits for it.
    fn with_room<R>(&self, dependencies: &Dependencies, payload: usize, attempt: impl Fn() -> Result<R>) -> Result<R> {
        loop {
            match attempt() {
                Err(Error::Full { .. }) => self.wait_for_room(dependencies, payload)?,
                done => return done,
            }
        }
    }

    /// Draws an LSN for a record of at most `payload` bytes that is not decided yet. Until the [`Draw`] is used or dropped
    /// nobody else gets at this stream; so its holder must not use the log in any other way meanwhile.
    pub fn draw(&self, payload: usize) -> Result<Draw<'_>> {
        self.with_room(&Dependencies::default(), payload, || match &self.shared.serial {
            Some(serial) => Ok(Draw::of_serial(serial.draw(&*self.shared, payload)?)),
            None => Ok(Draw::of_stream(Drawn::new(&self.shared, self.state(), payload, &Dependencies::default())?)),
        })
    }

    /// To be called after [`append`](Self::append), when locks are released: writes the group if its caps are reached
    /// (flush pipelining, P-WAL section 3), and holds the caller back while the device can not keep up, or while whoever
    /// trims can not ([`Settings::space`](crate::Settings::space)).
    pub fn pace(&self) {
        self.pace_place(self.place);
    }

    /// [`pace`](Self::pace) after [`append_after`](Self::append_after), whichever stream took the record.
    pub fn pace_after(&self, receipt: &Receipt) {
        self.pace_place(usize::from(receipt.position().stream().0));
    }

    fn pace_place(&self, place: usize) {
        if let Some(serial) = &self.shared.serial {
            serial.pace(&*self.shared);
            serial.pay(&*self.shared);
        } else {
            self.shared.streams[place].pace(&self.shared);
            self.shared.streams[place].pay(&self.shared);
        }
    }

    /// Returns when every record with an LSN up to `lsn`, of every stream, is durable (notification control, P-WAL
    /// section 3). Of LSNs that are not drawn yet there is no record to wait for.
    ///
    /// The caller writes its own stream's group itself if nobody else is at it, then sees to the streams that lag behind
    /// `lsn`: so no stream whose sessions fell silent can hold an acknowledgement back, and no thread needs to watch.
    pub fn wait(&self, lsn: Lsn) -> Result<()> {
        self.shared.wait(self.place, lsn)
    }

    /// Returns when the record of that receipt may be acknowledged, by the log's [`CommitRule`](crate::CommitRule).
    ///
    /// # Errors
    ///
    /// The failure that closed the log; [`Error::Invalid`] for a receipt that names a record which this log does not have.
    pub fn settle(&self, receipt: &Receipt) -> Result<()> {
        self.shared.note_waiting(receipt, false);
        self.shared.acknowledge(self.place, receipt)
    }

    /// [`settle`](Self::settle) for a task: waits without a thread. The log's own threads write for it; without
    /// [`Settings::background`](crate::Settings) there are none, and polling does the waiting.
    pub fn settled(&self, receipt: Receipt) -> Settled {
        let place = usize::from(receipt.position().stream().0);
        let place = if receipt.position() == Position::NONE { self.place } else { place };
        Settled::new(self.shared.clone(), place, receipt)
    }
}
