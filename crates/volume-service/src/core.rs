//! What is done with a pool, whether it is served or not; `doors` has those of its volumes where it is, `homeward` brings all home.

mod doors;
mod homeward;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::{Device, Directory, DirectoryLock, FileDevice, FileDirectory, Place};
use ishigaki_emulate::BlockDevice;
use ishigaki_tier::{BLOCK, Memory, Mode, Pool, Volume};

use crate::agents;
use crate::answering::{answered, each_answered};
use crate::config::{Config, Kind};
use crate::control::{Made, Reply, Request};
use crate::door::{make as make_folder, take_away_dead};
use crate::files::Files;
use crate::image;
use crate::prefetching::Prefetching;
use crate::status::{AwayStatus, Status, VolumeStatus};
use crate::{Error, Result};

use self::doors::Doors;

/// How long another process may have the pool, and another command a volume.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long the slow device's directory may take to be opened.
const OPENING: Duration = Duration::from_secs(4);
const NAP: Duration = Duration::from_millis(50);

/// A file system in memory, which is lost with the power alone.
const MEMORY: &str = "/dev/shm";

/// A file of the map by which a pool is known.
const MARK: &str = "pool";

/// The devices of a pool that lies elsewhere than its configuration says: on modelled ones, for experiments.
#[derive(Clone, Debug)]
pub struct Devices {
    /// What lies where.
    pub map: Arc<dyn Directory>,
    /// The fast device.
    pub fast: Arc<dyn Device>,
    /// The volumes, each as a device of its name.
    pub slow: Arc<dyn Directory>,
    /// What outlives a process.
    pub memory: Option<Memory>,
}

/// A pool that is open.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    pub(crate) prefetching: Prefetching,
    /// Where the volumes are files that other programs could change.
    files: Option<Files>,
    /// The doors of volumes. `None` where the pool is not served.
    doors: Option<Doors>,
    began: Instant,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) agents: Option<SocketAddr>,
    /// Nothing else uses these meanwhile.
    _locks: Vec<DirectoryLock>,
}

/// Makes a pool where the configuration says: directories that are missing, and the fast device of that size if it is a file that is missing.
///
/// # Errors
///
/// [`Error::Taken`] where there is one already; [`Error::Setting`] where the fast device is missing and has no size.
pub fn make(config: &Config, fast_size: Option<ByteSize>) -> Result<Status> {
    if config.map.join(MARK).exists() {
        return Err(Error::Taken { path: config.map.clone(), reason: "there is a pool already".to_owned() });
    }
    make_folder(&config.map)?;
    let exists = config.fast.try_exists().map_err(Error::path(&config.fast))?;
    match (exists, fast_size) {
        (true, None) => {}
        (true, Some(_)) => {
            let reason = "it is there already, with the size that it has; leave the size out to use it".to_owned();
            return Err(Error::Taken { path: config.fast.clone(), reason });
        }
        (false, Some(ByteSize(size))) if size < 2 * config.settings.chunk.0 => {
            return Err(Error::Setting {
                path: config.path.clone(),
                field: "fast",
                reason: format!("{size} bytes are too few"),
                remedy: "it takes two chunks at least, and is of use with many",
            });
        }
        (false, Some(ByteSize(size))) => reserve(&config.fast, size)?,
        (false, None) => {
            return Err(Error::Setting {
                path: config.path.clone(),
                field: "fast",
                reason: format!("{} is not there", config.fast.display()),
                remedy: "give a raw device, or `--fast-size` to have a file made",
            });
        }
    }
    let core = until_free(|| Core::open(config, false)).inspect_err(|_| {
        // What was made for it would be in the way of the next try.
        if !exists && let Err(error) = fs::remove_file(&config.fast) {
            tracing::warn!(path = %config.fast.display(), %error, "the file of the fast device could not be removed");
        }
    })?;
    let mark = config.map.join(MARK);
    fs::write(&mark, b"").map_err(Error::path(&mark))?;
    let directory = fs::File::open(&config.map).and_then(|directory| directory.sync_all());
    directory.map_err(Error::path(&config.map))?;
    Ok(core.status())
}

/// Makes the file of a fast device, all its space reserved.
fn reserve(path: &Path, size: u64) -> Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        let cause = std::io::Error::new(std::io::ErrorKind::InvalidInput, "this is no name of a file");
        return Err(Error::Path { path: path.to_owned(), cause });
    };
    let directory = FileDirectory::open(folder)?;
    directory.reserve(name, size)?;
    Ok(directory.sync()?)
}

/// What comes of using a pool, as soon as no other process has it. A command that asks a pool which is not served has it for a moment, and a service before
/// it listens.
pub(crate) fn until_free<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match work() {
            Err(Error::Device(ishigaki_device::Error::Locked { .. })) if Instant::now() < until => {
                std::thread::sleep(NAP);
            }
            outcome => return outcome,
        }
    }
}

impl Core {
    /// Opens a pool that was [made](make), unless another process has it.
    pub(crate) fn of_pool(config: &Config, is_served: bool) -> Result<Self> {
        if !config.map.join(MARK).try_exists().map_err(Error::path(&config.map))? {
            return Err(Error::NoPool(config.map.clone()));
        }
        Self::open(config, is_served)
    }

    fn open(config: &Config, is_served: bool) -> Result<Self> {
        // Before there is a file on the slow device, which may not answer.
        if is_served && let Err(error) = BlockDevice::prepare() {
            tracing::warn!(%error, "block devices will be attached by threads that may wait for slow devices");
        }
        let map = Arc::new(FileDirectory::open(&config.map)?);
        let locked = map.lock()?;
        let place = config.slow.clone();
        let opened = answered(OPENING, move || place.open().and_then(|slow| Ok((slow.lock()?, slow))));
        let (lock, slow) = opened.map_err(|cause| Error::Slow { place: config.slow.to_string(), cause })??;
        let locks = vec![locked, lock];
        let fast = FileDevice::open_path(&config.fast).map_err(|error| match error {
            ishigaki_device::Error::NotFound { .. } => Error::NoFast(config.fast.clone()),
            error => error.into(),
        })?;
        let memory = Some(Memory::in_folder(MEMORY));
        let mut core = Self::over(config, Devices { map, fast: Arc::new(fast), slow, memory }, locks, is_served)?;
        if let Place::File(folder) | Place::Ring(folder) = &config.slow {
            core.files = Some(Files::of(folder));
            core.look_at_files();
        }
        Ok(core)
    }

    /// Opens the pool on these devices, or makes one there.
    pub(crate) fn over(config: &Config, devices: Devices, locks: Vec<DirectoryLock>, is_served: bool) -> Result<Self> {
        let Devices { map, fast, slow, memory } = devices;
        let pool = Pool::open(map, fast, slow, memory.as_ref(), &config.settings)?;
        let (has, wanted) = (ByteSize(pool.chunk()), config.settings.chunk);
        if has != wanted {
            tracing::warn!(
                "the pool was made with chunks of {has}, which it keeps; `chunk` in the configuration says {wanted}"
            );
        }
        let doors = is_served.then(Doors::default);
        let prefetching = Prefetching::new(config);
        Ok(Self {
            config: config.clone(),
            pool,
            prefetching,
            files: None,
            doors,
            began: Instant::now(),
            metrics: None,
            agents: None,
            _locks: locks,
        })
    }

    /// Opens volumes that were away and are there again.
    pub(crate) fn look_for_away(&self) {
        for name in self.pool.look_for_away() {
            tracing::info!(volume = name, "a volume that was away is there again");
        }
    }

    /// Stops volumes whose files other programs have changed.
    pub(crate) fn look_at_files(&self) {
        if let Some(files) = &self.files {
            files.look(&self.pool);
        }
    }

    fn check_folder(&self) -> Result<()> {
        self.files.as_ref().map_or(Ok(()), Files::check_folder)
    }

    /// Makes a volume where the slow device's folder is, and none where it was moved to.
    fn create(&self, name: &str, size: u64, mode: Mode) -> Result<Volume> {
        self.check_folder()?;
        let volume = self.pool.create(name, size, mode)?;
        self.check_folder().inspect_err(|_| {
            if let Err(error) = self.pool.remove(name) {
                tracing::warn!(volume = name, %error, "a volume that was made in a folder while that was moved stays");
            }
        })?;
        Ok(volume)
    }

    /// Refuses a file that can not become a volume, and one that is a volume already.
    fn check_image(&self, name: &str) -> Result<()> {
        if let Err(away @ ishigaki_tier::Error::Away { .. }) = self.pool.volume(name) {
            return Err(away.into());
        }
        // What has come since the last look is known, too.
        self.look_at_files();
        self.files.as_ref().map_or(Ok(()), |files| image::check(files, name))
    }

    /// Takes away block devices that a service which died has left, of volumes that have none any more: those that have one get theirs opened again.
    pub(crate) fn take_away_dead(&self) {
        let volumes = self.pool.volumes();
        take_away_dead(&self.config.blocks, |name| {
            self.config.kind(name) != Kind::Block || volumes.iter().all(|volume| volume != name)
        });
    }

    /// Says that it is served.
    pub(crate) fn is_served_by(&self, this: &Arc<Self>) {
        if let Some(doors) = &self.doors {
            doors.are_of(this);
        }
    }

    /// Opens the doors that are not open, and those that another process has taken away.
    pub(crate) fn look_at_doors(&self) {
        if let Some(doors) = &self.doors {
            doors.look(self);
        }
    }

    /// Closes all doors: what was asked for is answered first. The volumes for which that takes longer than `patience`.
    pub(crate) fn close_doors(&self, patience: Duration) -> Vec<String> {
        self.doors.as_ref().map_or_else(Vec::new, |doors| doors.close_all(patience))
    }

    /// Does something with a volume while it has no door. It gets it back if it is still there.
    fn without_door<T>(&self, name: &str, work: impl FnOnce() -> ishigaki_tier::Result<T>) -> Result<T> {
        self.pool.volume(name)?;
        match &self.doors {
            Some(doors) => doors.without(self, name, work),
            None => Ok(work()?),
        }
    }

    /// Does what is asked.
    pub(crate) fn answer(&self, request: Request) -> Result<Reply> {
        match request {
            Request::Status {} => Ok(Reply::Status(Box::new(self.status()))),
            Request::Create { name, size, mode } => {
                let volume = self.create(&name, size, mode.parse::<Mode>()?)?;
                Ok(self.made(&volume))
            }
            Request::Attach { name, mode } => {
                let mode = mode.parse::<Mode>()?;
                self.check_folder()?;
                self.check_image(&name)?;
                let volume = self.pool.attach(&name, mode)?;
                Ok(self.made(&volume))
            }
            Request::Resize { name, size } => {
                self.check_folder()?;
                let resized = self.without_door(&name, || self.pool.resize(&name, size))?;
                Ok(self.made(&resized))
            }
            Request::Detach { name } => {
                self.look_at_files();
                self.without_door(&name, || self.pool.detach(&name))?;
                self.gone(&name);
                Ok(Reply::Done {})
            }
            Request::Remove { name, force } => {
                let is_away = self.pool.away().iter().any(|away| away.name == name);
                if !force {
                    if !is_away {
                        self.pool.volume(&name)?;
                    }
                    return Err(Error::NotForced(name));
                }
                if is_away {
                    self.pool.remove(&name)?;
                } else {
                    self.without_door(&name, || self.pool.remove(&name))?;
                }
                self.gone(&name);
                Ok(Reply::Done {})
            }
            Request::Pin { name, pinned } => {
                self.pool.pin(&name, pinned)?;
                self.prefetching.wake();
                Ok(Reply::Done {})
            }
            Request::Token { name } => {
                self.pool.volume(&name)?;
                Ok(Reply::Token(agents::token(&self.config.map, &name)?))
            }
            Request::Flush {} => {
                self.look_at_files();
                self.flush()?;
                Ok(Reply::Done {})
            }
        }
    }

    /// Forgets what was kept of a volume that is no more.
    fn gone(&self, name: &str) {
        agents::forget(&self.config.map, name);
        self.prefetching.forget(name);
        if let Some(files) = &self.files {
            files.forget(name);
        }
        take_away_dead(&self.config.blocks, |other| other == name);
    }

    fn made(&self, volume: &Volume) -> Reply {
        self.look_at_files();
        if let Some(doors) = &self.doors {
            doors.open(self, volume.name());
        }
        Reply::Made(Made { served: self.doors.is_some(), volume: self.status_of(volume) })
    }

    pub(crate) fn status(&self) -> Status {
        let figures = self.pool.figures();
        let volumes = self.pool.handles();
        let away = self.pool.away().into_iter().map(|away| AwayStatus {
            name: away.name,
            message: away.cause.to_string(),
            is_silent: matches!(away.cause, ishigaki_tier::Error::Silent { .. }),
            away_seconds: away.time.as_secs_f64(),
            dirty_bytes: away.dirty,
        });
        Status {
            map: self.config.map.clone(),
            fast: self.config.fast.clone(),
            slow: self.config.slow.to_string(),
            is_served: self.doors.is_some(),
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            chunk: self.pool.chunk(),
            slots: figures.slots,
            used_slots: figures.used,
            fast_bytes: figures.valid,
            dirty_bytes: figures.dirty,
            written_bytes: figures.written,
            is_worn: !figures.may_come,
            prefetch: self.prefetching.status(),
            volumes: volumes.iter().map(|volume| self.status_of(volume)).collect(),
            away: away.collect(),
            memory: self.pool.memory(),
            metrics: self.metrics.map(|address| address.to_string()),
            agents: self.agents.map(|address| address.to_string()),
        }
    }

    fn status_of(&self, volume: &Volume) -> VolumeStatus {
        let (door, closed) = self.doors.as_ref().map_or((None, None), |doors| doors.status_of(volume.name()));
        let (hits, misses) = volume.reads().blocks;
        let figures = volume.figures();
        let failure = volume.failure().map(|error| error.to_string());
        VolumeStatus {
            name: volume.name().to_owned(),
            size: volume.len(),
            mode: volume.mode().to_string(),
            trouble: failure.or(closed),
            pinned: volume.is_pinned(),
            door,
            hit_bytes: hits * BLOCK,
            miss_bytes: misses * BLOCK,
            fast_bytes: figures.valid,
            dirty_bytes: figures.dirty,
            files: self.prefetching.files(volume, self.pool.chunk()),
        }
    }

    /// Makes durable what the volumes have, for the end. One that had stopped is told of.
    pub(crate) fn sync(&self, patience: Duration, silent: Vec<String>) -> Result<()> {
        let volumes = self.pool.handles().into_iter().map(|volume| (volume.name().to_owned(), volume));
        // What hangs already is not waited for again.
        let volumes = volumes.filter(|(name, _)| !silent.contains(name)).collect();
        let synced = each_answered(volumes, patience, |_, volume: Volume| -> Result<()> {
            volume.failure().map_or_else(|| volume.sync().map_err(Error::from), |failure| Err(failure.into()))
        });
        let mut outcome = Ok(());
        for (volume, synced) in synced.done {
            if let Err(error) = synced {
                tracing::error!(volume, %error, "a volume could not be synced at the end");
                outcome = outcome.and(Err(error));
            }
        }
        let silent: Vec<_> = silent.into_iter().chain(synced.silent).collect();
        if silent.is_empty() { outcome } else { Err(Error::Hanging(silent.join(", "))) }
    }
}
