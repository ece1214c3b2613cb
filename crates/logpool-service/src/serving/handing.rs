//! How a service leaves what it serves to another process, and goes on itself if that one can not.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ishigaki_device::{Directory, DirectoryLock, Error as DeviceError, FileDirectory};

use super::{Core, bind, open};
use crate::control::{self, Reply};
use crate::takeover::{self, Parcel};
use crate::{Error, Result};
use ishigaki_service::door::Door;
use ishigaki_service::http;

/// How long a successor that has hung up may still hold the directory's lock.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// How often that is looked at.
const LOCK_LOOK: Duration = Duration::from_millis(5);

impl Core {
    /// Lets Prometheus in.
    pub(super) fn let_scrapers_in(self: &Arc<Self>, listener: TcpListener) -> Result<()> {
        let asked = self.clone();
        let door = Door::open("pool-metrics", listener, move |visitor: TcpStream| {
            http::serve(visitor, || asked.metrics());
        })
        .map_err(Error::Thread)?;
        *self.scrapers.lock() = Some(door);
        Ok(())
    }

    /// Hands everything over to the process at the other side. Gives a reply if that was refused.
    pub(super) fn hand_over(self: &Arc<Self>, stream: &mut UnixStream) -> Option<Reply> {
        // A visitor of the metrics needs the service until it is gone.
        drop(self.scrapers.lock().take());
        let mut guard = self.service.lock();
        let began = Instant::now();
        let refused = match guard.as_ref() {
            None => Some(self.ended()),
            Some(service) => service.check_hand_over().err().map(Error::from),
        };
        if let Some(error) = refused {
            drop(guard);
            self.scrape_again();
            return Some(Reply::of(Err(error)));
        }
        let inheritance = guard.take().map(ishigaki_logpool_fs::Service::hand_over);
        let mut parcel = match inheritance.transpose() {
            Ok(inheritance) => Parcel::of(inheritance.unwrap_or_default()),
            Err(error) => {
                let error = Error::from(error);
                self.fail(&error);
                return Some(Reply::of(Err(error)));
            }
        };
        drop(self.lock.lock().take());
        let sent = parcel.write().and_then(|()| {
            control::say(stream, &Reply::HandingOver(parcel.heading()))?;
            let patience = self.config.takeover.unwrap_or(takeover::PATIENCE);
            takeover::await_go(stream, patience)?;
            let sent = parcel.send(stream, patience);
            let hangs = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
            sent.inspect_err(|error| {
                if hangs(error) {
                    takeover::end_successor(stream);
                }
            })
        });
        match sent {
            Ok(()) => {
                self.is_replaced.store(true, Ordering::SeqCst);
                tracing::info!(took = ?began.elapsed(), "another process serves now");
            }
            Err(error) => {
                tracing::warn!(%error, "the process that was to take over does not serve; this one goes on");
                match self.go_on(parcel) {
                    Ok(service) => *guard = Some(service),
                    Err(error) => self.fail(&error),
                }
                drop(guard);
                self.scrape_again();
            }
        }
        None
    }

    /// Nothing is served any more, and no other process serves. The owner sees that and ends.
    fn fail(&self, error: &Error) {
        tracing::error!(%error, "a hand-over has failed, and every mount is ended");
        *self.failure.lock() = Some((error.kind(), error.to_string()));
    }

    /// Why nothing is served, after a hand-over that has failed.
    pub(super) fn failure(&self) -> Option<Error> {
        let failure = self.failure.lock().clone();
        failure.map(|(kind, reason)| Error::HandOver { data: self.data.clone(), kind, reason })
    }

    /// What is said of a service that serves nothing.
    pub(super) fn ended(&self) -> Error {
        self.failure().unwrap_or(Error::Ending)
    }

    /// Serves again what no successor has taken.
    fn go_on(&self, parcel: Parcel) -> Result<ishigaki_logpool_fs::Service> {
        let inheritance = parcel.open().map_err(|cause| Error::File { path: self.data.clone(), cause })?;
        let directory = FileDirectory::open(&self.data)?;
        let lock = lock_soon(&directory)?;
        let service = open(&self.config, &self.data, directory, inheritance, None, None)?;
        *self.lock.lock() = Some(lock);
        Ok(service)
    }

    /// Lets Prometheus in again.
    fn scrape_again(self: &Arc<Self>) {
        let Some(address) = self.metrics else { return };
        if let Err(error) = bind(&address.to_string()).and_then(|listener| self.let_scrapers_in(listener)) {
            tracing::warn!(%error, "Prometheus finds no numbers any more");
        }
    }
}

/// Takes the directory's lock. A successor that was killed hangs up before the kernel gives its lock free.
fn lock_soon(directory: &FileDirectory) -> Result<DirectoryLock> {
    let began = Instant::now();
    loop {
        match directory.lock() {
            Err(DeviceError::Locked { .. }) if began.elapsed() < LOCK_WAIT => std::thread::sleep(LOCK_LOOK),
            taken => return Ok(taken?),
        }
    }
}
