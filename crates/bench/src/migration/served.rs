//! One migration that is served, with the directories that it takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::status::{Phase, Status};
use ishigaki_migrate_service::{Config, Serving};
use rustix::fs::statvfs;

use super::{Protocol, Running, io, migration, scratch, wrong};
use crate::{Error, Result};

/// So many bytes stay free.
const SPARE: u64 = 4 << 30;
/// How often a status is asked for.
const ASKED: Duration = Duration::from_millis(2);
/// A migration that does nothing new for so long has failed.
const STUCK: Duration = Duration::from_mins(5);

/// A migration at work. Drop ends it, which unmounts its folder; the directories stay.
pub(super) struct Served<'a> {
    serving: Serving,
    /// The destination.
    pub(super) to: PathBuf,
    /// The folder through which clients use it.
    pub(super) at: PathBuf,
    /// When it was begun.
    pub(super) began: Instant,
    stop: &'a AtomicBool,
}

impl<'a> Running<'a> {
    /// Begins a migration of a tree, into a fresh directory.
    pub(super) fn serve(&self, protocol: Protocol, tree: &str, change: impl FnOnce(&mut Config)) -> Result<Served<'a>> {
        let (to, at) = (self.fresh("to")?, self.fresh("at")?);
        let mut config = Config::new(&self.server.source(protocol, tree), to.clone(), at.clone())
            .map_err(|error| migration(&error))?;
        if protocol == Protocol::Smb {
            let from = config.sources[0].from.clone().with_credentials(self.server.credentials());
            config.sources[0].from = from.map_err(|error| migration(&error))?;
        }
        change(&mut config);
        let began = Instant::now();
        let serving = Serving::start(&config, &Cancel::new()).map_err(|error| migration(&error))?;
        Ok(Served { serving, to, at, began, stop: self.settings.stop })
    }

    /// Ends a migration, and removes what it has brought.
    pub(super) fn end(&self, served: Served<'a>) -> Result<()> {
        let Served { serving, to, at, .. } = served;
        serving.stop().map_err(|error| migration(&error))?;
        scratch::open_again(&at);
        self.clear(&[&to, &at])
    }

    /// Puts what a run has made out of the way, so that the next one finds the disk as this one did. It goes at the end, or now if room is short: ext4 passes over
    /// each inode that was freed within the last five minutes before it makes another, so that the next run would take up to three times as long.
    pub(super) fn clear(&self, paths: &[&Path]) -> Result<()> {
        for path in paths {
            if self.has_room()? {
                let aside = self.fresh("ended")?;
                fs::rename(path, &aside).map_err(|source| io(path, "moving a copy away", source))?;
            } else {
                fs::remove_dir_all(path).map_err(|source| io(path, "removing a copy", source))?;
            }
        }
        self.sync()
    }

    /// Whether what was made may stay for a while.
    fn has_room(&self) -> Result<bool> {
        let room = statvfs(self.scratch).map_err(|errno| io(self.scratch, "looking for room", errno.into()))?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize) > SPARE)
    }

    /// A directory of its own.
    pub(super) fn fresh(&self, name: &str) -> Result<PathBuf> {
        self.made.set(self.made.get() + 1);
        let path = self.scratch.join(format!("{name}-{}", self.made.get()));
        fs::create_dir(&path).map_err(|source| io(&path, "making a directory", source))?;
        Ok(path)
    }
}

impl Served<'_> {
    /// Finishes a migration that is done, and ends its service. Gives the directory, which is a plain one now.
    pub(super) fn finish(self) -> Result<PathBuf> {
        let Served { serving, to, at, .. } = self;
        serving.finish().map_err(|error| migration(&error))?;
        serving.stop().map_err(|error| migration(&error))?;
        fs::remove_dir(&at).map_err(|source| io(&at, "removing a mount point", source))?;
        Ok(to)
    }

    /// Waits until the crawler has brought everything, and gives how long that took from the begin on.
    pub(super) fn until_done(&self) -> Result<Duration> {
        let mut news = (0, Instant::now());
        loop {
            let status = self.serving.status();
            if let Some(problem) = status.first_problems.first() {
                return Err(wrong(&self.to, format!("{}: {}", problem.path, problem.message)));
            }
            if status.phase == Phase::Done {
                return Ok(self.began.elapsed());
            }
            let now = status.listed + status.whole + status.copied;
            if now != news.0 {
                news = (now, Instant::now());
            }
            if news.1.elapsed() > STUCK {
                return Err(wrong(&self.to, format!("nothing new for {} s: {:?}", STUCK.as_secs(), status.trouble)));
            }
            self.rest(ASKED)?;
        }
    }

    /// Stops the crawler when the migration is so old.
    pub(super) fn pause_at(&self, age: Duration) -> Result<Status> {
        self.rest(age.saturating_sub(self.began.elapsed()))?;
        self.serving.pause();
        Ok(self.serving.status())
    }

    fn rest(&self, time: Duration) -> Result<()> {
        std::thread::sleep(time);
        if self.stop.load(Ordering::Acquire) { Err(stopped()) } else { Ok(()) }
    }
}

/// A person has asked to end.
pub(super) fn stopped() -> Error {
    ishigaki_servers::Error::Stopped.into()
}
