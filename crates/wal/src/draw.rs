//! An LSN that has been drawn for a record which is still to be decided.

use ishigaki_base::Lsn;

use crate::log::Shared;
use crate::serial;
use crate::stream::Drawn;

/// An LSN that has been drawn. [`record`](Self::record) uses it; dropping it leaves a filler in the log, so that recovery
/// finds no gap.
#[derive(Debug)]
pub struct Draw<'a>(Way<'a>);

/// By the kind of the log.
#[derive(Debug)]
enum Way<'a> {
    Stream(Drawn<'a>),
    Serial(serial::Draw<'a, Shared>),
}

impl<'a> Draw<'a> {
    pub(crate) fn of_stream(drawn: Drawn<'a>) -> Self {
        Self(Way::Stream(drawn))
    }

    pub(crate) fn of_serial(draw: serial::Draw<'a, Shared>) -> Self {
        Self(Way::Serial(draw))
    }

    /// The LSN.
    pub fn lsn(&self) -> Lsn {
        match &self.0 {
            Way::Stream(drawn) => drawn.lsn(),
            Way::Serial(draw) => draw.lsn(),
        }
    }

    /// Puts the record into the log's buffer.
    ///
    /// # Panics
    /// When `payload` is longer than announced to [`Stream::draw`](crate::Stream::draw).
    pub fn record(self, payload: &[u8]) -> Lsn {
        match self.0 {
            Way::Stream(drawn) => drawn.record(payload),
            Way::Serial(draw) => draw.record(payload),
        }
    }
}
