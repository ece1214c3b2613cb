//! One connection to the node, made anew when it was lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ishigaki_fabric::{Call, Caller, Security, connect};
use parking_lot::Mutex;

use super::ClientSettings;
use super::regions::RegionPool;
use super::staging::Staging;
use crate::protocol::{Answer, Opened, Request};
use crate::{Error, Result};

/// A place for a connection.
#[derive(Debug)]
pub(super) struct Link {
    address: String,
    timeout: Duration,
    fabric: ishigaki_fabric::Settings,
    security: Security,
    live: Mutex<Option<Arc<Live>>>,
    /// Locks that this connection holds at the node.
    locks: AtomicUsize,
}

/// A connection, with what the node knows us by.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) caller: Arc<Caller>,
    /// Which run of the node it is.
    pub(super) instance: u64,
    pub(super) regions: RegionPool,
    pub(super) staging: Staging,
    /// What our devices' files are called at this connection, by the device's number.
    pub(super) handles: Mutex<HashMap<u64, Opened>>,
}

impl Link {
    pub(super) fn new(address: &str, settings: &ClientSettings, security: &Security) -> Self {
        Self {
            address: address.to_owned(),
            timeout: settings.timeout,
            fabric: settings.fabric.clone(),
            security: security.clone(),
            live: Mutex::default(),
            locks: AtomicUsize::new(0),
        }
    }

    /// The connection, made anew if it was lost.
    pub(super) fn live(&self) -> Result<Arc<Live>> {
        let mut live = self.live.lock();
        if let Some(live) = live.as_ref().filter(|live| !live.caller.is_lost()) {
            return Ok(Arc::clone(live));
        }
        if self.is_locked() {
            // Somebody else may have the lock by now; whoever goes on as if it were ours would overwrite what is theirs.
            let reason = "the connection was lost, and the lock with it; open everything again".to_owned();
            return Err(ishigaki_device::Error::Invalid { name: self.address.clone(), reason }.into());
        }
        let endpoint = connect(&self.address, &self.fabric, &self.security)?;
        let caller = Caller::new(endpoint, self.timeout);
        let Answer::Welcome { instance } = ask(&caller, &Request::Hello)? else {
            return Err(nonsense(&self.address));
        };
        let (regions, staging) = (RegionPool::default(), Staging::default());
        let fresh = Arc::new(Live { caller, instance, regions, staging, handles: Mutex::default() });
        *live = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// A device of that number is gone; the node may forget its file.
    pub(super) fn forget(&self, device: u64) {
        let Some(live) = self.live.lock().clone() else { return };
        let opened = live.handles.lock().remove(&device);
        if let Some(Opened { handle, .. }) = opened {
            // Nobody waits for the answer, and a lost connection has forgotten it anyway.
            let _ = live.caller.submit(&[Call::message(&Request::Close { handle }.encode())]);
        }
    }

    /// True while a lock is held by this connection, or was when it was lost.
    pub(super) fn is_locked(&self) -> bool {
        self.locks.load(Ordering::SeqCst) > 0
    }

    pub(super) fn add_lock(&self) {
        self.locks.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn remove_lock(&self) {
        self.locks.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Live {
    /// Asks for something that is answered by a message.
    pub(super) fn ask(&self, request: &Request<'_>) -> Result<Answer> {
        ask(&self.caller, request)
    }
}

fn ask(caller: &Arc<Caller>, request: &Request<'_>) -> Result<Answer> {
    let message = request.encode();
    let answer = match caller.call(&Call::message(&message))? {
        ishigaki_fabric::Answer::Message(message) => Answer::decode(&message),
        ishigaki_fabric::Answer::Written(_) => None,
    };
    match answer {
        Some(Answer::Failed(failure)) => Err(failure.of_node(caller.endpoint().peer())),
        Some(answer) => Ok(answer),
        None => Err(nonsense(caller.endpoint().peer())),
    }
}

fn nonsense(peer: &str) -> Error {
    Error::Protocol { peer: peer.to_owned(), reason: "an answer that is none".to_owned() }
}
