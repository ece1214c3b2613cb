//! Opens the slow devices of volumes. The call that opens one does not return while its file system does not answer, so each runs in a thread of its own: the pool waits for it
//! for a while. A volume whose device has not answered by then is [away](super::absent), and what the call brings is taken when it comes.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use ishigaki_device::Device;

use super::{Core, check_whole};
use crate::map::Known;
use crate::record::VolumeId;
use crate::{Error, Result};

/// What comes of opening a device.
type Opened = Result<Arc<dyn Device>>;

/// A device that is being opened. *Drop* waits for nothing: the thread ends with its call, and closes what that has opened.
pub(super) struct Opening {
    since: Instant,
    answer: Receiver<Opened>,
}

impl Opening {
    fn begin(open: impl FnOnce() -> Opened + Send + 'static) -> Result<Self> {
        let (told, answer) = channel();
        let work = move || {
            // It may not be waited for any more.
            let _ = told.send(open());
        };
        let started = Builder::new().name("tier-opening".to_owned()).spawn(work);
        started.map_err(|error| Error::invalid(format!("no thread can be started: {error}")))?;
        Ok(Self { since: Instant::now(), answer })
    }

    /// What has come of it by then. To be asked again only while it is `None`.
    pub(super) fn answer_until(&self, until: Instant) -> Option<Opened> {
        match self.answer.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(opened) => Some(opened),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(Error::invalid("the thread that opens it has panicked".to_owned())))
            }
        }
    }

    pub(super) fn waited(&self) -> Duration {
        self.since.elapsed()
    }
}

/// What is known of a slow device once it was waited for.
pub(super) enum Slow {
    Open(Arc<dyn Device>),
    Failed(Error),
    /// It has not answered.
    Silent(Opening),
}

impl From<Opened> for Slow {
    fn from(opened: Opened) -> Self {
        opened.map_or_else(Self::Failed, Self::Open)
    }
}

impl Core {
    /// Opens the devices of volumes, one after the other as long as they answer. Once one has not, the others are opened together, so that several that do not answer
    /// are waited for together.
    pub(super) fn open_slow(&self, volumes: Vec<(VolumeId, Known)>) -> Vec<(VolumeId, Known, Slow)> {
        let (mut seen, mut under_way) = (Vec::new(), Vec::new());
        for (id, known) in volumes {
            match self.begin_opening(&known, under_way.is_empty()) {
                Slow::Silent(opening) => under_way.push((id, known, opening)),
                slow => seen.push((id, known, slow)),
            }
        }
        let patience = self.patience.unwrap_or_default();
        seen.extend(under_way.into_iter().map(|(id, known, opening)| {
            let slow = opening.answer_until(opening.since + patience).map_or(Slow::Silent(opening), Slow::from);
            (id, known, slow)
        }));
        seen
    }

    fn begin_opening(&self, known: &Known, is_waited_for: bool) -> Slow {
        let (directory, of) = (self.slow.clone(), known.clone());
        let open = move || {
            let slow = directory.open(&of.name)?;
            check_whole(&of, slow.len())?;
            // As the fast device: what is read must stay, though a process that was killed has not synced it.
            slow.sync()?;
            Ok(slow)
        };
        let Some(patience) = self.patience else { return open().into() };
        match Opening::begin(open) {
            Ok(opening) => {
                let until = Instant::now() + if is_waited_for { patience } else { Duration::ZERO };
                opening.answer_until(until).map_or(Slow::Silent(opening), Slow::from)
            }
            Err(cause) => Slow::Failed(cause),
        }
    }

    /// Opens a device that is no volume yet.
    ///
    /// # Errors
    ///
    /// [`Error::Silent`] where it has not answered within the pool's patience.
    pub(super) fn open_new(&self, name: &str) -> Opened {
        let Some(patience) = self.patience else { return Ok(self.slow.open(name)?) };
        let (directory, of) = (self.slow.clone(), name.to_owned());
        let opening = Opening::begin(move || Ok(directory.open(&of)?))?;
        let silent = || Err(Error::Silent { volume: name.to_owned(), waited: opening.waited() });
        opening.answer_until(Instant::now() + patience).unwrap_or_else(silent)
    }
}
