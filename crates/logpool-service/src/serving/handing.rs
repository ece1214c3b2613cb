//! How a service leaves what it serves to another process, and goes on itself if that one can not.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ishigaki_device::{Directory, FileDirectory};

use super::{Core, bind, open};
use crate::control::{self, Reply};
use crate::door::Door;
use crate::metrics::http;
use crate::takeover::Parcel;
use crate::{Error, Result};

impl Core {
    /// Lets Prometheus in.
    pub(super) fn let_scrapers_in(self: &Arc<Self>, listener: TcpListener) -> Result<()> {
        let asked = self.clone();
        let door = Door::open("pool-metrics", listener, move |visitor: TcpStream| {
            http::serve(visitor, || asked.metrics());
        })?;
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
            None => Some(Error::Ending),
            Some(service) => service.check_hand_over().err().map(Error::from),
        };
        if let Some(error) = refused {
            drop(guard);
            self.scrape_again();
            return Some(Reply::of(Err(error)));
        }
        let inheritance = guard.take().map(ishigaki_logpool_fs::Service::hand_over);
        let parcel = match inheritance.transpose() {
            Ok(inheritance) => Parcel::of(inheritance.unwrap_or_default()),
            Err(error) => {
                tracing::error!(%error, "the pool could not be closed, and every mount is ended");
                return Some(Reply::of(Err(error.into())));
            }
        };
        drop(self.lock.lock().take());
        let parcel = match parcel {
            Ok(parcel) => parcel,
            Err(cause) => return Some(Reply::of(Err(Error::File { path: self.data.clone(), cause }))),
        };
        let reply = Reply::HandingOver(parcel.heading());
        match control::say(stream, &reply).and_then(|()| parcel.send(stream)) {
            Ok(()) => {
                self.is_replaced.store(true, Ordering::SeqCst);
                tracing::info!(took = ?began.elapsed(), "another process serves now");
            }
            Err(error) => {
                tracing::warn!(%error, "the process that was to take over does not serve; this one goes on");
                match self.go_on(parcel) {
                    Ok(service) => *guard = Some(service),
                    Err(error) => tracing::error!(%error, "it can not, and every mount is ended"),
                }
                drop(guard);
                self.scrape_again();
            }
        }
        None
    }

    /// Serves again what no successor has taken.
    fn go_on(&self, parcel: Parcel) -> Result<ishigaki_logpool_fs::Service> {
        let inheritance = parcel.open().map_err(|cause| Error::File { path: self.data.clone(), cause })?;
        let directory = FileDirectory::open(&self.data)?;
        let lock = directory.lock()?;
        let service = open(&self.config, &self.data, directory, inheritance)?;
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
