//! The two threads of a client that keeps copies: one hears of changes by the watch and makes the watch anew when it was
//! lost, the other renews the lease by a connection of its own, so that neither has to wait for the other, nor for anything
//! that users do.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ishigaki_fabric::{Endpoint, Event, Outgoing, Security, Wait, connect};
use parking_lot::{Condvar, Mutex};

use super::Copies;
use crate::client::ClientSettings;
use crate::client::link::Link;
use crate::protocol::{Answer, Notice, Request};
use crate::{Error, Result};

/// Between two attempts to reach the node.
const PAUSE: Duration = Duration::from_millis(200);

/// How often the thread that hears looks whether it is to end.
const LOOK: Duration = Duration::from_secs(1);

/// The threads. Dropping it ends them.
#[derive(Debug)]
pub(in crate::client) struct Watcher {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    copies: Arc<Copies>,
    address: String,
    settings: ClientSettings,
    security: Security,
    /// How long a lease lasts; zero until the node has said so.
    lease: Mutex<Duration>,
    changed: Condvar,
}

impl Watcher {
    /// Makes the first watch and starts.
    pub(in crate::client) fn start(
        copies: &Arc<Copies>,
        address: &str,
        settings: &ClientSettings,
        security: &Security,
    ) -> Result<Self> {
        let shared = Arc::new(Shared {
            copies: Arc::clone(copies),
            address: address.to_owned(),
            settings: settings.clone(),
            security: security.clone(),
            lease: Mutex::new(Duration::ZERO),
            changed: Condvar::new(),
        });
        let endpoint = shared.open()?;
        let (hearing, renewing) = (Arc::clone(&shared), Arc::clone(&shared));
        let mut watcher = Self { shared, threads: Vec::new() };
        watcher.spawn("node-watch", move || hearing.hear(endpoint))?;
        watcher.spawn("node-lease", move || renewing.renew())?;
        Ok(watcher)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let failed = |error| Error::Invalid { reason: format!("no thread can be started: {error}") };
        self.threads.push(thread.map_err(failed)?);
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.copies.close();
        // Under the lock, so that nobody misses it between looking and sleeping.
        drop(self.shared.lease.lock());
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic there has been reported already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Connects and asks for a watch.
    fn open(&self) -> Result<Arc<dyn Endpoint>> {
        let endpoint = connect(&self.address, &self.settings.fabric, &self.security)?;
        // The lease counts from before the question: the node's own count can only end later.
        let since = Instant::now();
        endpoint.send(&[Outgoing::Request { id: 0, bytes: &Request::Watch.encode() }])?;
        let mut events = Vec::new();
        endpoint.receive(&mut events, Wait::Until(since + self.settings.timeout))?;
        let answer = match events.first() {
            Some(Event::Reply { bytes, .. }) => Answer::decode(bytes),
            _ => None,
        };
        if let Some(Answer::Failed(failure)) = answer {
            return Err(failure.of_node(&self.address));
        }
        let Some(Answer::Watching { watch, lease }) = answer else {
            return Err(Error::Protocol { peer: self.address.clone(), reason: "it gives no watch".to_owned() });
        };
        let lease = Duration::from_millis(lease.into());
        for event in events.into_iter().skip(1) {
            self.answer(&endpoint, &event)?;
        }
        if !self.copies.begin_watch(watch, &endpoint, since, lease) {
            endpoint.close();
        }
        *self.lease.lock() = lease;
        self.changed.notify_all();
        Ok(endpoint)
    }

    fn hear(&self, mut endpoint: Arc<dyn Endpoint>) {
        loop {
            let outcome = self.listen(&endpoint);
            self.copies.lose_watch();
            loop {
                if self.copies.is_closed() {
                    return;
                }
                tracing::debug!(peer = %self.address, ?outcome, "the watch was lost; copies are not used until there is another");
                self.pause(PAUSE);
                if let Ok(fresh) = self.open() {
                    endpoint = fresh;
                    break;
                }
            }
        }
    }

    /// Answers notices until the watch is lost.
    fn listen(&self, endpoint: &Arc<dyn Endpoint>) -> Result<()> {
        let mut events = Vec::new();
        loop {
            match endpoint.receive(&mut events, Wait::Until(Instant::now() + LOOK)) {
                Ok(()) => {}
                Err(ishigaki_fabric::Error::Timeout { .. }) if !self.copies.is_closed() => continue,
                Err(error) => return Err(error.into()),
            }
            for event in events.drain(..) {
                self.answer(endpoint, &event)?;
            }
        }
    }

    fn answer(&self, endpoint: &Arc<dyn Endpoint>, event: &Event) -> Result<()> {
        let notice = match event {
            Event::Request { id, bytes } => Notice::decode(bytes).map(|notice| (*id, notice)),
            _ => None,
        };
        let Some((id, notice)) = notice else {
            return Err(Error::Protocol { peer: self.address.clone(), reason: "a notice that is none".to_owned() });
        };
        self.copies.hear(notice);
        Ok(endpoint.send(&[Outgoing::Reply { id, credits: 1, bytes: &[] }])?)
    }

    fn renew(&self) {
        let link = Link::new(&self.address, &self.settings, &self.security);
        while !self.copies.is_closed() {
            let lease = *self.lease.lock();
            self.pause(lease / 3);
            let watch = self.copies.watch();
            if watch == 0 {
                continue;
            }
            let since = Instant::now();
            let outcome = link.live().and_then(|live| live.ask(&Request::Renew { watch }));
            match outcome {
                Ok(_) => self.copies.renewed(watch, since, lease),
                // The lease runs out by itself, or the node has given the watch up, and the other thread hears of it.
                Err(error) => {
                    tracing::debug!(peer = %self.address, %error, "the lease was not renewed");
                    self.pause(PAUSE);
                }
            }
        }
    }

    /// Sleeps for so long, or until the client is gone.
    fn pause(&self, time: Duration) {
        let mut lease = self.lease.lock();
        if !self.copies.is_closed() {
            self.changed.wait_for(&mut lease, time);
        }
    }
}
