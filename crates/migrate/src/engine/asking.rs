//! Waiting for sources.

use std::path::Path;
use std::time::Instant;

use super::{Engine, Error, Result};
use crate::destination::Destination;
use crate::source::{Cancel, ErrorKind, Source};

impl<D: Destination> Engine<D> {
    /// Asks a source until it answers, the caller ends it, or the limit is over.
    pub(super) fn ask<T>(
        &self,
        number: u32,
        path: &Path,
        cancel: &Cancel,
        mut what: impl FnMut(&dyn Source) -> crate::source::Result<T>,
    ) -> Result<T> {
        let origin = self.origins.get(number as usize).ok_or(Error::UnknownSource {
            node: 0,
            source_number: number,
            known: self.origins.len(),
        })?;
        let began = Instant::now();
        let mut pause = self.settings.pause;
        let mut waiting = None;
        loop {
            let error = match what(&*origin.source) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let path = path.to_owned();
            match error.kind {
                ErrorKind::Cancelled => return Err(Error::Cancelled),
                ErrorKind::Unavailable => {}
                _ => return Err(Error::Source { path, error }),
            }
            if self.settings.give_up.is_some_and(|limit| began.elapsed() + pause > limit) {
                return Err(Error::GivenUp { path, message: error.message });
            }
            if waiting.is_none() {
                tracing::warn!(source = origin.source.name(), path = %path.display(), %error, "the source does not answer; waiting");
                waiting = Some(self.counters.waiting());
            }
            if cancel.wait(pause) {
                return Err(Error::Cancelled);
            }
            pause = (pause * 2).min(self.settings.pause * 100);
        }
    }
}
