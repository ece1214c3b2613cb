//! The doors of volumes, and the ports of their machines' agents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::{Core, PATIENCE};
use crate::agents::Port;
use crate::answering::each_answered;
use crate::config::Kind;
use crate::door::Door;
use crate::status::DoorStatus;
use crate::{Error, Result};

/// The door of a volume, if it has one, or why it could not be opened.
type Opened = Result<Option<Door>, String>;

/// Those that are open.
#[derive(Default)]
pub(super) struct Doors {
    all: Mutex<BTreeMap<String, Opened>>,
    /// Of volumes that virtual machines use: where their agents are heard, or why they are not.
    ports: Mutex<BTreeMap<String, Result<Port, String>>>,
    /// Volumes whose doors are being opened or closed. No lock is held meanwhile: a door may wait for its volume.
    claimed: Mutex<BTreeSet<String>>,
    released: Condvar,
    /// The pool, for what ports hear.
    core: OnceLock<Weak<Core>>,
}

/// A volume whose door no other opens or closes, while this lives.
struct Claim<'a> {
    doors: &'a Doors,
    name: String,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.doors.claimed.lock().remove(&self.name);
        self.doors.released.notify_all();
    }
}

impl Doors {
    pub(super) fn are_of(&self, core: &Arc<Core>) {
        _ = self.core.set(Arc::downgrade(core));
    }

    /// Opens those that are not open, and those that another process has taken away. Those of volumes that a command has are left to it.
    pub(super) fn look(&self, core: &Core) {
        for name in core.pool.volumes() {
            if let Some(_one) = self.claim(&name, Duration::ZERO) {
                self.look_at(core, &name);
            }
        }
        self.look_at_ports();
    }

    /// Opens that of a volume, as soon as no other thread is at it.
    pub(super) fn open(&self, core: &Core, name: &str) {
        if let Some(_one) = self.claim(name, PATIENCE) {
            self.look_at(core, name);
        }
        self.look_at_ports();
    }

    /// Opens that of a volume whose door the caller has claimed. No command puts another volume in its place meanwhile, or removes it.
    fn look_at(&self, core: &Core, name: &str) {
        let Ok(volume) = core.pool.volume(name) else { return };
        let name = name.to_owned();
        let is_well = |door: &Opened| matches!(door, Ok(door) if door.as_ref().is_none_or(Door::is_alive));
        if let Some(door) = self.all.lock().get(&name).filter(|door| is_well(door)) {
            if let Ok(Some(door)) = door {
                door.keep_name();
            }
            return;
        }
        let before = self.all.lock().remove(&name);
        let told = match before {
            Some(Err(told)) => Some(told),
            Some(Ok(door)) => {
                tracing::warn!(volume = name, "its door was taken away; it is opened again");
                drop(door);
                None
            }
            None => None,
        };
        let opened = Door::open(&core.config, &volume, core.pool.session()).map_err(|error| error.to_string());
        if let Err(reason) = &opened
            && told.as_ref() != Some(reason)
        {
            tracing::error!(
                volume = name,
                reason,
                "a volume is not served; this is tried again, and the others are served"
            );
        }
        self.all.lock().insert(name, opened);
    }

    /// Opens the ports that are missing, and closes those of volumes that are no more.
    fn look_at_ports(&self) {
        let Some(core) = self.core.get().and_then(Weak::upgrade) else { return };
        let names = core.pool.volumes();
        let mut ports = self.ports.lock();
        ports.retain(|name, port| names.contains(name) && port.as_ref().map_or(true, Port::is_there));
        for name in names.into_iter().filter(|name| core.config.kind(name) == Kind::Socket) {
            if ports.get(&name).is_some_and(Result::is_ok) {
                continue;
            }
            let port = Port::open(&core, &name).map_err(|error| error.to_string());
            if let Err(reason) = &port
                && !matches!(ports.get(&name), Some(Err(told)) if told == reason)
            {
                tracing::warn!(
                    volume = name,
                    reason,
                    "agents are not heard by the port of a volume; this is tried again"
                );
            }
            ports.insert(name, port);
        }
    }

    /// Has a volume's door to oneself, as soon as no other has it; `None` if that takes longer.
    fn claim<'a>(&'a self, name: &str, patience: Duration) -> Option<Claim<'a>> {
        let until = Instant::now() + patience;
        let mut claimed = self.claimed.lock();
        while claimed.contains(name) {
            if self.released.wait_until(&mut claimed, until).timed_out() {
                return None;
            }
        }
        claimed.insert(name.to_owned());
        Some(Claim { doors: self, name: name.to_owned() })
    }

    /// Closes all: what was asked for is answered first. The volumes for which that takes longer than `patience`.
    pub(super) fn close_all(&self, patience: Duration) -> Vec<String> {
        self.ports.lock().clear();
        let all = std::mem::take(&mut *self.all.lock());
        let mut silent = each_answered(all, patience, |_, door| drop(door)).silent;
        // Those that a command has, which waits.
        silent.extend(self.claimed.lock().iter().cloned());
        silent
    }

    /// Does something with a volume while it has no door. It gets it back if it is still there.
    pub(super) fn without<T>(
        &self,
        core: &Core,
        name: &str,
        work: impl FnOnce() -> ishigaki_tier::Result<T>,
    ) -> Result<T> {
        let by = "another command, which waits for its devices".to_owned();
        let one = self.claim(name, PATIENCE).ok_or_else(|| Error::InUse { name: name.to_owned(), by })?;
        self.close(core, name)?;
        let done = work();
        self.look_at(core, name);
        drop(one);
        self.look_at_ports();
        Ok(done?)
    }

    /// Closes that of a volume that is used by none.
    fn close(&self, core: &Core, name: &str) -> Result<()> {
        let mut all = self.all.lock();
        if let Some(Ok(Some(door))) = all.get(name)
            && let Some(by) = door.user()
        {
            return Err(Error::InUse { name: name.to_owned(), by });
        }
        let door = all.remove(name);
        drop(all);
        if let Some(Ok(Some(open))) = &door
            && let Err(error) = open.sync()
            // One that has stopped tells why, where that matters.
            && core.pool.volume(name).is_ok_and(|volume| volume.failure().is_none())
        {
            self.all.lock().extend(door.map(|door| (name.to_owned(), door)));
            return Err(error);
        }
        drop(door);
        Ok(())
    }

    /// The door of a volume, and why it has none.
    pub(super) fn status_of(&self, name: &str) -> (Option<DoorStatus>, Option<String>) {
        match self.all.lock().get(name) {
            Some(Ok(door)) => (door.as_ref().map(Door::status), None),
            Some(Err(reason)) => (None, Some(reason.clone())),
            None => (None, None),
        }
    }
}
