//! The node's memory that bytes are put into before they are written.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ishigaki_fabric::{RegionKey, Target};
use parking_lot::{Condvar, Mutex};

use super::link::Live;
use crate::protocol::{Answer, Request};
use crate::{Error, Result};

/// How long to wait for a slot: longer than any request that has one may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// The slots of one connection.
#[derive(Debug, Default)]
pub(super) struct Staging {
    keys: OnceLock<Vec<RegionKey>>,
    /// Slots that nobody uses.
    free: Mutex<Vec<u16>>,
    given_back: Condvar,
}

/// Some slots, given back when dropped. A write that was not answered has its connection fail, and the slots with it; so
/// none is used again while the node may still read there.
#[derive(Debug)]
pub(super) struct Slots<'a> {
    staging: &'a Staging,
    pub(super) numbers: Vec<u16>,
}

impl Staging {
    /// Takes up to `wanted` slots, one at least.
    pub(super) fn take<'a>(&'a self, live: &Live, wanted: usize) -> Result<Slots<'a>> {
        if self.keys.get().is_none() {
            self.ask(live)?;
        }
        let deadline = Instant::now() + PATIENCE;
        let mut free = self.free.lock();
        while free.is_empty() {
            if live.caller.is_lost() || self.given_back.wait_until(&mut free, deadline).timed_out() {
                return Err(Error::Invalid { reason: "no staging slot has become free".to_owned() });
            }
        }
        let rest = free.len().saturating_sub(wanted.max(1));
        let numbers = free.split_off(rest);
        Ok(Slots { staging: self, numbers })
    }

    /// Where the bytes for a slot go.
    pub(super) fn target(&self, slot: u16) -> Result<Target> {
        let key = self.keys.get().and_then(|keys| keys.get(usize::from(slot)));
        let key = key.copied().ok_or_else(|| Error::Invalid { reason: "there is no such staging slot".to_owned() })?;
        Ok(Target { key, offset: 0 })
    }

    fn ask(&self, live: &Live) -> Result<()> {
        let Answer::Staging { keys } = live.ask(&Request::Staging)? else {
            return Err(Error::Invalid { reason: "the node gives no staging memory".to_owned() });
        };
        let mut free = self.free.lock();
        let count = keys.len() as u16;
        // Another thread may have asked as well; the node gives all the same slots.
        if count > 0 && self.keys.set(keys).is_ok() {
            free.extend(0..count);
            self.given_back.notify_all();
        }
        Ok(())
    }
}

impl Drop for Slots<'_> {
    fn drop(&mut self) {
        self.staging.free.lock().append(&mut self.numbers);
        self.staging.given_back.notify_all();
    }
}
