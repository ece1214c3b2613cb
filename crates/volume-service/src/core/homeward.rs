//! Brings home what is on the fast device alone.

use std::time::Duration;

use ishigaki_base::ByteSize;

use super::Core;
use crate::answering::{Moving, answered_while_moving};
use crate::{Error, Result};

/// For how long nothing of a volume may get to its slow device before another one is taken.
const SILENCE: Duration = Duration::from_secs(10);
/// The same, once one was silent for so long.
const SHORT_SILENCE: Duration = Duration::from_secs(3);

impl Core {
    /// Brings home what the volumes have, one after the other, as the disk likes it. One whose slow device does not answer keeps no other one, and is left to
    /// a thread of its own.
    pub(super) fn flush(&self) -> Result<()> {
        let (mut outcome, mut silent, mut left) = (Ok(()), Vec::new(), Vec::new());
        let mut patience = SILENCE;
        for volume in self.pool.handles() {
            let (name, of) = (volume.name().to_owned(), volume.clone());
            match answered_while_moving(patience, || of.went_home(), move || volume.clean()) {
                Ok(Moving::Done(done)) => outcome = outcome.and(done),
                Err(error) => left.push(format!("{name} ({error})")),
                Ok(Moving::Silent(heard)) => {
                    patience = SHORT_SILENCE;
                    silent.push((name, heard));
                }
            }
        }
        left.extend(self.left());
        for (name, heard) in silent {
            match heard.try_recv() {
                Ok(done) => outcome = outcome.and(done),
                Err(_) => left.push(format!("{name} (its device does not answer)")),
            }
        }
        if !left.is_empty() {
            return Err(Error::NotHome(left.join(", ")));
        }
        Ok(outcome?)
    }

    /// Volumes that can not be brought home: what they have on the fast device alone stays there.
    fn left(&self) -> Vec<String> {
        let away = self.pool.away().into_iter().map(|away| format!("{} (away)", away.name));
        // Of one that has stopped it is not known what its device has.
        let volumes = self.pool.handles().into_iter().filter_map(|volume| {
            volume.failure()?;
            let dirty = ByteSize(volume.figures().dirty);
            Some(format!("{} (stopped, {dirty} on the fast device alone)", volume.name()))
        });
        volumes.chain(away).collect()
    }
}
