//! How a service leaves what it serves to another process, and goes on itself if that one can not.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ishigaki_migrate_fs::{Door, Migration};

use super::opening::Opening;
use super::{Core, bind};
use crate::check::Opened;
use crate::control::{self, Reply};
use crate::shown::shown;
use crate::takeover::{Heading, Inheritance, VERSION};
use crate::{Error, Result};

/// How long a decision on a conflict, or what else is under way, may take before a hand-over is refused.
const WORK: Duration = Duration::from_secs(10);

impl Core {
    /// Hands everything over to the process at the other side. Gives a reply if that was refused.
    pub(super) fn hand_over(self: &Arc<Self>, stream: &UnixStream) -> Option<Reply> {
        let refused = |why: &str| {
            let (to, reason) = (self.config.to.clone(), why.to_owned());
            Some(Reply::of(Err(Error::HandOver { to, reason, is_torn: false })))
        };
        let Some(_settling) = self.settling.try_lock_for(WORK) else {
            return refused("it is at work on something that must end first; try again");
        };
        if !self.crawling.suspend() {
            return refused(if self.crawling.is_held() {
                "another process takes its place just now; ask that one"
            } else {
                "the migration is finished; stop that service, and start this one"
            });
        }
        // What is durable already need not be made so while clients wait.
        if let Err(error) = self.engine().settle() {
            tracing::warn!(%error, "what has come is not yet durable");
        }
        let began = Instant::now();
        self.rests.store(true, Ordering::SeqCst);
        let Some(door) = self.door.lock().take() else {
            self.rests.store(false, Ordering::SeqCst);
            self.crawling.release(false);
            return refused("its folder is not there any more");
        };
        drop(self.scrapers.lock().take());
        let inheritance = match self.let_go(door) {
            Ok(inheritance) => inheritance,
            Err(error) => {
                tracing::error!(%error, "a hand-over has failed, and the folder is unmounted");
                self.rests.store(false, Ordering::SeqCst);
                return Some(Reply::of(Err(error)));
            }
        };
        let how = self.crawling.how();
        let (how, told) = ((how.bandwidth, how.threads), (self.config.bandwidth, self.config.parallel));
        let heading = Heading {
            version: VERSION,
            at: shown(&self.config.at),
            orphans: inheritance.handed.orphans.len(),
            table: inheritance.handed.table.len() as u64,
            paused: Some(self.crawling.is_paused()).filter(|paused| *paused != self.config.paused),
            throttle: (how != told).then_some(how),
            first: self.told_first.lock().clone(),
        };
        let sent = control::say(stream, &Reply::HandingOver(heading)).and_then(|()| inheritance.send(stream));
        if let Err(error) = sent {
            tracing::warn!(%error, "the process that was to take over does not serve; this one goes on");
            if let Err(error) = self.go_on(inheritance) {
                tracing::error!(%error, "this process can not go on; the folder is unmounted");
            }
            self.rests.store(false, Ordering::SeqCst);
        } else {
            tracing::info!(took = ?began.elapsed(), "another process serves now");
            self.is_replaced.store(true, Ordering::SeqCst);
            self.cancel.cancel();
            self.crawling.end();
        }
        None
    }

    /// Lets go of the folder. What has come since this was settled the next process settles, as after a crash: to have it durable now would
    /// have clients wait for the disk.
    fn let_go(&self, door: Door) -> Result<Inheritance> {
        let failed = |cause| Error::Destination { path: self.config.to.clone(), cause };
        let own = self.own.try_clone().map_err(failed)?;
        let handed = door.hand_over().map_err(failed)?;
        Ok(Inheritance { own, handed })
    }

    /// Serves again what no successor has taken. That one may have changed what the migration has recorded, so it is opened anew.
    fn go_on(self: &Arc<Self>, inheritance: Inheritance) -> Result<()> {
        let engine = Opening::of(&self.config, Opened::default(), &self.cancel)?.engine(&self.config, &self.cancel)?;
        let migration = Arc::new(Migration::new(engine.clone()));
        let door = Door::go_on(&self.config.to, &self.config.at, migration.clone(), inheritance.handed)?;
        *self.engine.write() = engine;
        *self.migration.lock() = migration;
        *self.door.lock() = Some(door);
        self.put_first();
        self.crawling.release(false);
        if let Some(address) = self.metrics {
            let again = bind(&address.to_string()).and_then(|listener| self.let_scrapers_in(listener));
            if let Err(error) = again {
                tracing::warn!(%error, "Prometheus finds no figures any more");
            }
        }
        Ok(())
    }
}
