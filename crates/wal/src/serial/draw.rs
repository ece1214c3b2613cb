//! An LSN that has been drawn for a record which is still to be decided.

use ishigaki_base::Lsn;
use parking_lot::MutexGuard;

use super::array::{Gathered, Place};
use super::ring::WORD;
use super::writer::{HEADER_WORDS, put_header, put_pad, words_of};
use super::{Buffer, Context, SerialLog};
use crate::Result;
use crate::format::Kind;

/// [`record`](Self::record) uses it; dropping it leaves a filler in the log, so that recovery finds no gap.
#[derive(Debug)]
pub(crate) struct Draw<'a, C: Context> {
    log: &'a SerialLog,
    ctx: &'a C,
    lsn: Lsn,
    /// Bytes of payload that there is room for.
    room: usize,
    hold: Hold<'a>,
    used: bool,
}

/// What a draw keeps until it is used.
#[derive(Debug)]
enum Hold<'a> {
    /// Its space in the buffer.
    Space(Place),
    /// The buffer itself: a long record goes in piece by piece, and nobody else's can be between them.
    All(MutexGuard<'a, Buffer>),
}

impl<'a, C: Context> Draw<'a, C> {
    pub(super) fn new(log: &'a SerialLog, ctx: &'a C, payload: usize) -> Result<Self> {
        let words = words_of(payload);
        let mut buffer = log.buffer.0.lock();
        let (lsn, hold) = if words <= log.longest_piece {
            let place = log.reserve(ctx, &mut buffer, Gathered { records: 1, words })?;
            (place.first, Hold::Space(place))
        } else {
            ctx.check_open()?;
            log.room.promise(ctx, words * WORD as u64)?;
            (log.draw_lsns(&mut buffer, 1), Hold::All(buffer))
        };
        Ok(Self { log, ctx, lsn: Lsn(lsn), room: payload, hold, used: false })
    }

    /// The LSN.
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Puts the record into the buffer.
    ///
    /// # Panics
    /// When `payload` is longer than announced to [`SerialLog::draw`].
    pub(crate) fn record(mut self, payload: &[u8]) -> Lsn {
        assert!(payload.len() <= self.room, "a record is no longer than the room drawn for it");
        self.used = true;
        self.push(Kind::Payload, payload);
        self.lsn
    }

    fn push(&mut self, kind: Kind, payload: &[u8]) {
        let (drawn, words) = (words_of(self.room), words_of(payload.len()));
        match &mut self.hold {
            Hold::Space(place) => {
                self.log.fill(place.position, self.lsn, kind, payload);
                put_pad(&self.log.ring, place.position + words, drawn - words);
                self.log.releases.release(place.ticket, place.position + drawn);
            }
            Hold::All(buffer) => {
                // When the log fails on the way the record has no end, and nobody is told that it is durable.
                let _ = self.log.pour(self.ctx, buffer, self.lsn, kind, payload);
                self.log.room.take_back((drawn - words) * WORD as u64);
            }
        }
    }
}

impl<C: Context> Drop for Draw<'_, C> {
    fn drop(&mut self) {
        if !self.used {
            self.push(Kind::Filler, &[]);
        }
    }
}

impl SerialLog {
    /// Puts a record into the buffer piece by piece, as space becomes free.
    fn pour(&self, ctx: &impl Context, buffer: &mut Buffer, lsn: Lsn, kind: Kind, payload: &[u8]) -> Result<()> {
        let piece = self.longest_piece as usize * WORD;
        self.pour_piece(ctx, buffer, HEADER_WORDS, |position| {
            put_header(&self.ring, position, lsn, kind, payload.len());
        })?;
        for piece in payload.chunks(piece) {
            let words = piece.len().div_ceil(WORD) as u64;
            self.pour_piece(ctx, buffer, words, |position| self.ring.write(position, piece))?;
        }
        Ok(())
    }

    fn pour_piece(&self, ctx: &impl Context, buffer: &mut Buffer, words: u64, write: impl FnOnce(u64)) -> Result<()> {
        self.find_space(ctx, buffer, words)?;
        let (position, ticket) = self.take_space(buffer, words);
        write(position);
        self.releases.release(ticket, position + words);
        Ok(())
    }
}
