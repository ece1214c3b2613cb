//! How a service ends for a restart by its service manager, and how the next one begins.

use std::io;
use std::time::Duration;

use ishigaki_logpool_fs::Inheritance;

use super::Serving;
use crate::progress::{PERIOD, Progress, Voice};
use crate::restart::{self, Left};
use crate::{Config, Error, Result};
use ishigaki_service::{Kept, Supervisor};

/// How long a start may go on after each sign of work.
const MORE: Duration = Duration::from_mins(2);

impl Serving {
    /// Starts as [`start`](Self::start) does, and goes on with the mounts that the service before this one has [left](Self::keep)
    /// with the service manager: their servers have waited, and notice nothing else. What does not fit the data directory is ended.
    ///
    /// # Errors
    ///
    /// As of [`start`](Self::start). What was left stays with the service manager, for the next start.
    pub fn start_again(config: &Config, kept: Kept, supervisor: Option<&Supervisor>) -> Result<Self> {
        config.check()?;
        let voice = supervisor.map(extend).transpose().map_err(Error::Thread)?;
        let Some(left) = Left::find(kept) else { return Self::begin(config, Inheritance::default(), None, voice) };
        let (names, opened) = left.open(&config.data);
        match opened {
            Ok((inheritance, ticket)) => {
                let serving = Self::begin(config, inheritance, Some(&ticket), voice).inspect_err(|_| {
                    // What was answered for is of no use any more, and was ended.
                    if !restart::fits(&config.data, &ticket) {
                        restart::release(supervisor, names.clone());
                    }
                })?;
                // Else servers would wait for an answer when this process dies, and get none.
                restart::release(supervisor, names);
                Ok(serving)
            }
            Err(error) => {
                tracing::warn!(
                    "what the service manager has kept is not used ({error}); every member's folder is mounted anew, and servers that ran before must be started again"
                );
                restart::release(supervisor, names);
                Self::begin(config, Inheritance::default(), None, voice)
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

/// Has a service manager wait as long as this process is at work.
fn extend(supervisor: &Supervisor) -> io::Result<(Progress, Voice)> {
    let (progress, supervisor) = (Progress::default(), supervisor.clone());
    let voice = Voice::raise(&progress, PERIOD, move || supervisor.extend(MORE))?;
    Ok((progress, voice))
}
