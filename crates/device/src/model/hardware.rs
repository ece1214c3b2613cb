//! What all requests to a medium share: its machine, and the time that it lives in.

use std::time::Duration;

use parking_lot::Mutex;

use super::hdd::Hdd;
use super::ssd::Ssd;
use super::{Medium, NvmSettings, Pace};
use crate::Result;

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    WriteDurable,
    Sync,
}

/// A request as the hardware sees it: a place on the whole medium, not in a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) position: u64,
    pub(super) length: u64,
}

/// One medium; everybody who has it waits for its one head, or its channels.
#[derive(Debug)]
pub(super) struct Hardware {
    medium: Medium,
    machine: Machine,
    pace: Pace,
}

/// The part of the hardware that one request leaves changed for the next.
#[derive(Debug)]
enum Machine {
    Nvm(NvmSettings),
    Ssd(Mutex<Ssd>),
    /// Boxed, because it is much larger than the others.
    Hdd(Box<Mutex<Hdd>>),
}

impl Hardware {
    pub(super) fn new(medium: Medium, pace: Pace) -> Self {
        let machine = match medium.clone() {
            Medium::Nvm(settings) => Machine::Nvm(settings),
            Medium::Ssd(settings) => Machine::Ssd(Mutex::new(Ssd::new(settings))),
            Medium::Hdd(settings) => Machine::Hdd(Box::new(Mutex::new(Hdd::new(settings)))),
        };
        Self { medium, machine, pace }
    }

    pub(super) fn medium(&self) -> &Medium {
        &self.medium
    }

    /// The time that it lives in.
    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// As after the power came back: nothing waits, caches and buffers are empty.
    pub(super) fn restart(&self) {
        match (&self.machine, &self.medium) {
            (Machine::Ssd(ssd), Medium::Ssd(settings)) => *ssd.lock() = Ssd::new(settings.clone()),
            (Machine::Hdd(hdd), Medium::Hdd(settings)) => *hdd.lock() = Hdd::new(settings.clone()),
            _ => {}
        }
    }

    /// Does the work of requests that arrive together, and returns when the medium has done them all too. Failed work
    /// takes its own time only.
    pub(super) fn serve<T>(&self, requests: &[Request], work: impl FnOnce() -> Result<T>) -> Result<T> {
        let (result, done) = self.begin(requests, work)?;
        self.pace.wait_until(done);
        Ok(result)
    }

    /// Does the work of requests that arrive together, and says when the medium will have done them all.
    pub(super) fn begin<T>(&self, requests: &[Request], work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
        self.pace.await_turn();
        let now = self.pace.now();
        let done = requests.iter().map(|request| self.completion(now, *request)).max().unwrap_or(now);
        Ok((work()?, done))
    }

    /// When the medium will have done a request that arrives now.
    fn completion(&self, now: Duration, request: Request) -> Duration {
        match &self.machine {
            Machine::Nvm(settings) => {
                now + match request.kind {
                    Kind::Read => settings.read,
                    Kind::Write | Kind::WriteDurable => settings.write,
                    Kind::Sync => settings.sync,
                }
            }
            Machine::Ssd(ssd) => ssd.lock().serve(now, request),
            Machine::Hdd(hdd) => hdd.lock().serve(now, request),
        }
    }

    pub(super) fn sync<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.serve(&[Request { kind: Kind::Sync, position: 0, length: 0 }], work)
    }
}
