//! The checkpoints that there are: the current one, and the one before as long as there is space for it and its log.
//!
//! ```text
//!  log   ├── since the one before ──┼── since the current one ──┤
//!        ▲                          ▲
//!        trimmed to here            trimmed to here once the one before is given up
//! ```
//!
//! The checkpointer gives the one before up when the log's live segments would slow sessions down, when a session or a
//! checkpoint finds the medium full, and in favor of the next one. A backup that reads the files locks this meanwhile.

use ishigaki_base::ErrorKind;

use super::{Checkpointer, Manifest, files};
use crate::Result;

/// Manifests whose parts and logs are there.
#[derive(Debug)]
pub(super) struct Held {
    /// The one that counts.
    pub(super) current: Option<Manifest>,
    /// The one before, if it is kept with its log.
    pub(super) previous: Option<Manifest>,
}

impl Checkpointer {
    /// Writes the current manifest down as the one before, if that is wanted; whether it is there now.
    pub(super) fn keep_current(&self, held: &Held) -> bool {
        let Some(current) = held.current.as_ref().filter(|_| self.settings.keep_previous) else { return false };
        let kept = files::keep(self.directory.as_ref(), current);
        if let Err(error) = &kept {
            tracing::warn!(%error, "the checkpoint before the next one can not be kept");
        }
        kept.is_ok()
    }

    /// Removes what is of neither checkpoint, and trims the log to where they need it. No other one is being made.
    pub(super) fn settle(&self, held: &mut Held) -> Result<()> {
        if self.is_tight() {
            held.previous = None;
        }
        let Some(current) = &held.current else { return Ok(()) };
        let previous = held.previous.as_ref();
        files::remove_others(self.directory.as_ref(), current.number, previous.map(|manifest| manifest.number));
        Ok(self.log.trim(previous.map_or(current.start, |manifest| manifest.start))?)
    }

    /// Gives up the checkpoint before the current one if its log takes space that sessions need.
    pub(crate) fn relieve(&self) {
        if self.is_tight() {
            self.give_up_previous();
        }
    }

    /// Gives up the checkpoint before the current one and trims the log, unless a backup reads them or another thread changes
    /// them right now. Says whether there is more space now.
    pub(crate) fn give_up_previous(&self) -> bool {
        let Some(mut held) = self.held.try_lock() else { return false };
        let Held { current: Some(current), previous } = &mut *held else { return false };
        let Some(previous) = previous.take() else { return false };
        files::remove_previous(self.directory.as_ref(), previous.number);
        tracing::info!(
            number = previous.number,
            "the checkpoint before the current one is given up: its space is needed"
        );
        match self.log.trim(current.start) {
            Ok(()) => true,
            Err(error) => {
                if error.kind() != ErrorKind::Closed {
                    tracing::warn!(%error, "the log could not be trimmed");
                }
                false
            }
        }
    }

    /// Whether sessions begin to be slowed down for lack of space.
    pub(super) fn is_tight(&self) -> bool {
        let space = self.log.space();
        space.live > space.easy
    }
}
