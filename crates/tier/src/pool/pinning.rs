//! Volumes that are pinned: all of such a one is to be on the fast device, and stays there.

use std::sync::atomic::Ordering;

use super::{Core, Pool};
use crate::map::Known;
use crate::volume::Core as VolumeCore;
use crate::{Error, Result};

/// One of how many slots is never pinned.
const KEPT: u64 = 16;

impl Pool {
    /// Has all of a volume be on the fast device and stay there, or not any more. What is not there comes when it is used, or is [asked for](Volume::promote).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where the fast device has no room for it beside what is pinned already, and some more for the others.
    pub fn pin(&self, name: &str, pinned: bool) -> Result<()> {
        let _one = self.core.changing.lock();
        let volume = self.volume(name)?.core;
        if volume.is_pinned() == pinned {
            return Ok(());
        }
        if pinned {
            self.core.check_pin(&volume, volume.known.length)?;
        }
        let known = Known { pinned, ..volume.known.clone() };
        self.core.map.append(&known.record(volume.id))?;
        self.core.map.flush()?;
        volume.pinned.store(pinned, Ordering::Release);
        for (at, chunk) in volume.chunks.iter().zip(0..) {
            let Some(id) = at.lock().slot else { continue };
            let mut order = self.core.order.lock();
            if pinned {
                order.removed(id);
            } else {
                order.entered(id, (volume.id, chunk));
            }
        }
        Ok(())
    }
}

impl Core {
    /// Whether a volume of that length may be pinned: the others keep some of the fast device.
    pub(super) fn check_pin(&self, volume: &VolumeCore, length: u64) -> Result<()> {
        let chunks = |length: u64| length.div_ceil(self.chunk);
        let others = self.all_volumes().into_iter().filter(|other| other.id != volume.id && other.is_pinned());
        let pinned = others.map(|other| chunks(other.known.length)).sum::<u64>() + chunks(length);
        let slots = self.slots.len() as u64;
        let most = slots - slots.div_ceil(KEPT);
        if pinned <= most {
            return Ok(());
        }
        let reason = format!(
            "{pinned} chunks would be pinned, and the fast device has {slots}, of which {most} may be: the others need some"
        );
        Err(Error::invalid(reason))
    }
}
