//! How a service ends for a restart by its service manager, and how the next one begins.

use super::Serving;
use crate::restart::{self, Left};
use crate::supervisor::{Kept, Supervisor};
use crate::{Config, Error, Result};
use ishigaki_logpool_fs::Inheritance;

impl Serving {
    /// Starts as [`start`](Self::start) does, and goes on with the mounts that the service before this one has [left](Self::keep)
    /// with the service manager: their servers have waited, and notice nothing else. What does not fit the data directory is ended.
    ///
    /// # Errors
    ///
    /// As of [`start`](Self::start). What was left stays with the service manager, for the next start.
    pub fn start_again(config: &Config, kept: Kept, supervisor: Option<&Supervisor>) -> Result<Self> {
        config.check()?;
        let Some(left) = Left::find(kept) else { return Self::begin(config, Inheritance::default(), None) };
        let (names, opened) = left.open(&config.data);
        match opened {
            Ok((inheritance, ticket)) => {
                let serving = Self::begin(config, inheritance, Some(&ticket))?;
                // Else servers would wait for an answer when this process dies, and get none.
                restart::release(supervisor, names);
                Ok(serving)
            }
            Err(error) => {
                tracing::warn!(
                    "what the service manager has kept is not used ({error}); every member's folder is mounted anew, and servers that ran before must be started again"
                );
                restart::release(supervisor, names);
                Self::begin(config, Inheritance::default(), None)
            }
        }
    }

    /// Closes what a service manager gives back to a process that has no use for it.
    pub fn decline(kept: Kept, supervisor: Option<&Supervisor>) {
        if let Some(left) = Left::find(kept) {
            tracing::warn!(
                "what the service manager has kept is not used: another service was there to take over from"
            );
            restart::release(supervisor, left.into_names());
        }
    }

    /// Ends without unmounting: requests that were taken are answered, the others wait in the kernel, the pool is closed, and the
    /// mounts are left with the service manager for the process that it [starts next](Self::start_again). Sockets and rings are
    /// ended.
    ///
    /// # Errors
    ///
    /// When not all that was accepted could be made durable, or the service manager can not be reached. Every mount is ended then.
    pub fn keep(mut self, supervisor: &Supervisor) -> Result<()> {
        self.shut();
        let service = self.core.service.lock().take().ok_or_else(|| self.core.ended())?;
        if let Err(error) = service.check_hand_over() {
            tracing::warn!("{error}; the service ends all the same");
        }
        let inheritance = service.hand_over()?;
        let data = &self.core.data;
        let kept = restart::keep(inheritance, data, supervisor);
        drop(self.core.lock.lock().take());
        kept.map_err(|cause| Error::Keep { data: data.clone(), cause })
    }
}
