//! A file system on a folder: the kernel's requests, answered by some threads.

use std::fs::{self, File};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::Builder;
use std::time::Duration;

use fuse_backend_rs::api::filesystem::FileSystem;
use fuse_backend_rs::api::server::Server;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount_remount, unmount};
use rustix::process::configure_io_flusher_behavior;
use rustix::thread::set_current_timer_slack;

use crate::answers::Answers;
use crate::beside::Nothing;
use crate::channel::{Channel, End};
use crate::crew::Crew;
use crate::{Beside, Connection, Error, Result, layers, session};

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub struct MountSettings {
    /// What programs see in `/proc/mounts`.
    pub name: &'static str,
    /// Requests that are worked on at a time; each takes a thread and 2 MiB.
    pub threads: usize,
    /// The file system is below a block device: the kernel may have to write there before it can give memory to anybody, so
    /// these threads must get theirs without. Takes `CAP_SYS_RESOURCE`.
    pub below_block_device: bool,
}

/// The kind of file system that `statfs` gives for FUSE.
const FUSE: i64 = 0x6573_5546;

/// How long what is mounted on a folder may take to answer before the folder is refused.
const PATIENCE: Duration = Duration::from_secs(10);

/// Nanoseconds by which the kernel may wake a thread too late, to wake others with it.
const SLACK: NonZeroU64 = NonZeroU64::MIN;

/// A mounted file system.
///
/// *Drop* unmounts: programs that have files open get `ENOTCONN` from then on. *A crash* of the process leaves a folder that
/// answers so to everybody; the next mount on it takes that one's place, and no program finds the bare folder meanwhile. What stayed would hold what
/// the kernel passed requests through to: a file that is removed then would keep its room. Before Linux 6.5, it stays below the new one, and *drop*
/// takes both away.
///
/// A mount outlives its process when its device is [handed over](Self::hand_over): requests wait in the kernel until another
/// process [goes on](Self::go_on), and no program notices anything but the time.
pub struct Mount {
    /// `/dev/fuse`, as it was mounted. `None` once it was handed over.
    device: Option<File>,
    path: PathBuf,
    end: End,
    crew: Arc<Crew>,
}

impl Mount {
    /// Sees whether a file system can be mounted on that folder. What a process that died has left there is no obstacle to root; for another user
    /// it is taken away.
    ///
    /// # Errors
    ///
    /// Where something else is mounted, or the folder is not empty; also where a process keeps the device of a mount open and none
    /// answers for it, which is found out in some seconds.
    pub fn prepare(path: impl AsRef<Path>) -> Result<()> {
        in_time(path.as_ref(), PATIENCE, prepare).map(drop)
    }

    /// Whether a process that died has left something mounted on that folder.
    ///
    /// # Errors
    ///
    /// Where a process keeps the device of a mount open and none answers for it, which is found out in some seconds.
    pub fn is_left(path: impl AsRef<Path>) -> Result<bool> {
        in_time(path.as_ref(), PATIENCE, |path| Ok(is_dead(path)))
    }

    /// Takes away what a process that died has [left](Self::is_left).
    ///
    /// # Errors
    ///
    /// Where it can not be unmounted.
    pub fn take_away_dead(path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        take_away_if_dead(path).map_err(|errno| not_unmounted(path, errno))
    }

    /// Mounts a file system on an empty folder.
    pub fn new<F>(fs: F, path: impl AsRef<Path>, settings: &MountSettings) -> Result<Self>
    where
        F: FileSystem + Send + Sync + 'static,
    {
        Self::new_beside(fs, Arc::new(Nothing), path, settings)
    }

    /// Mounts a file system that answers more than the library knows.
    pub fn new_beside<F>(
        fs: F,
        beside: Arc<dyn Beside>,
        path: impl AsRef<Path>,
        settings: &MountSettings,
    ) -> Result<Self>
    where
        F: FileSystem + Send + Sync + 'static,
    {
        let path = path.as_ref();
        let (device, is_below) = match in_time(path, PATIENCE, prepare)? {
            Found::Empty => (session::mount(path, settings.name)?, false),
            Found::Dead => {
                layers::keep_one(path, settings.name, is_dead);
                match session::mount_below(path, settings.name) {
                    Ok(device) => (device, true),
                    Err(error) => {
                        tracing::debug!(path = %path.display(), %error, "the mount of a process that died stays below the new one");
                        (session::mount_over(path, settings.name)?, false)
                    }
                }
            }
        };
        let mount = Self::answering(fs, beside, device, path, settings)?;
        // Once requests are answered: else the question whether the new mount is dead waited for ever.
        if is_below && let Err(error) = take_away_if_dead(path) {
            tracing::warn!(path = %path.display(), %error, "the mount of a process that died stays over the new one");
        }
        tracing::info!(path = %path.display(), "mounted");
        Ok(mount)
    }

    /// Goes on with a mount whose device another process has handed over, with all that it had said to the kernel. Nothing is
    /// asked of the folder: no thread would answer yet.
    pub fn go_on<F>(fs: F, device: OwnedFd, path: impl AsRef<Path>, settings: &MountSettings) -> Result<Self>
    where
        F: FileSystem + Send + Sync + 'static,
    {
        Self::go_on_beside(fs, Arc::new(Nothing), device, path, settings)
    }

    /// The same for a file system that answers more than the library knows.
    pub fn go_on_beside<F>(
        fs: F,
        beside: Arc<dyn Beside>,
        device: OwnedFd,
        path: impl AsRef<Path>,
        settings: &MountSettings,
    ) -> Result<Self>
    where
        F: FileSystem + Send + Sync + 'static,
    {
        let path = path.as_ref();
        let mount = Self::answering(fs, beside, device.into(), path, settings)?;
        tracing::info!(path = %path.display(), "taken over");
        Ok(mount)
    }

    /// Answers by threads.
    fn answering<F>(fs: F, beside: Arc<dyn Beside>, device: File, path: &Path, settings: &MountSettings) -> Result<Self>
    where
        F: FileSystem + Send + Sync + 'static,
    {
        let not_started = |cause| Error::Thread { path: path.to_owned(), cause };
        let own = session::own_channel(&device);
        let connection = Connection::new(&device);
        let end = End::new().map_err(not_started)?;
        let answers = Arc::new(Answers { server: Server::new(fs), beside, path: path.to_owned() });
        let start = {
            let (end, settings, answers) = (end.clone(), settings.clone(), answers.clone());
            let own = own.map_err(not_started)?;
            move |crew: &Arc<Crew>, number| {
                let channel = Channel::new(&own, &end)?;
                let (crew, answers, settings) = (crew.clone(), answers.clone(), settings.clone());
                let work = move || {
                    prepare_thread(&settings);
                    answers.serve(channel, &crew);
                };
                Builder::new().name(format!("fuse-{number}")).spawn(work)
            }
        };
        let crew = Crew::new(settings.threads, start);
        let mount = Self { device: Some(device), path: path.to_owned(), end, crew };
        answers.beside.mounted(connection.map_err(not_started)?);
        drop(answers);
        mount.crew.fill().map_err(not_started)?;
        Ok(mount)
    }

    /// Set-user-ID programs, file capabilities and devices of the file system work from now on, also after a hand-over. Before, the kernel
    /// ignores the first two and opens none of the third.
    ///
    /// # Errors
    ///
    /// When this process is not root.
    pub fn allow_set_ids_and_devices(&self) -> Result<()> {
        // Without the two options that the library sets.
        let options = MountFlags::BIND | MountFlags::NOATIME;
        mount_remount(&self.path, options, "")
            .map_err(|errno| Error::Options { path: self.path.clone(), cause: errno.into() })
    }

    /// Tells its threads to end when they have answered what they are at. Requests wait in the kernel from then on.
    pub fn rest(&self) {
        if let Err(error) = self.end.tell() {
            tracing::warn!(path = %self.path.display(), %error, "its threads could not be told to end");
        }
    }

    /// Lets go of a mount that stays: gives its device when every request that was taken is answered, or left to the successor because it
    /// waits. The file system is dropped by then, unless another process has it.
    #[expect(clippy::missing_panics_doc, reason = "a mount is handed over once")]
    pub fn hand_over(mut self) -> OwnedFd {
        self.rest();
        self.crew.rest();
        self.join();
        let device = self.device.take().expect("it is there until now");
        let left = self.crew.left();
        if left > 0
            && let Err(error) = Connection::new(&device).and_then(|connection| connection.send_again())
        {
            tracing::warn!(path = %self.path.display(), left, %error, "requests that wait end with an error");
        }
        device.into()
    }

    /// `/dev/fuse`, as it was mounted: as long as anybody has it open, the mount is there.
    pub fn device(&self) -> Option<BorrowedFd<'_>> {
        self.device.as_ref().map(AsFd::as_fd)
    }

    fn join(&self) {
        if !self.crew.join() {
            tracing::error!(path = %self.path.display(), "a thread of the mount panicked");
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether all requests are answered. Somebody else may have unmounted it.
    pub fn is_alive(&self) -> bool {
        self.crew.is_whole()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let Some(device) = self.device.take() else { return };
        if let Err(error) = session::unmount(&self.path, device) {
            tracing::warn!(path = %self.path.display(), %error, "could not be unmounted");
        }
        if let Err(error) = self.end.tell() {
            tracing::warn!(path = %self.path.display(), %error, "its threads could not be told to end");
            return;
        }
        self.crew.rest();
        self.join();
        // Where somebody has aborted the connection, nothing was unmounted.
        if let Err(error) = take_away_if_dead(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a dead mount could not be taken away");
        }
    }
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mount").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Ends a mount whose device another process has handed over, and with which no process goes on.
pub fn give_up(path: &Path, device: OwnedFd) -> std::io::Result<()> {
    session::unmount(path, device.into())?;
    Ok(take_away_if_dead(path)?)
}

/// Has the kernel send again what a process has taken from a mount and will never answer, because it has died.
///
/// # Errors
///
/// Where the kernel can not: before 6.9.
pub fn send_again(device: &OwnedFd) -> std::io::Result<()> {
    Connection::new(&File::from(device.try_clone()?))?.send_again()
}

/// Whether that is the device of a mount which is still there, so that a process could answer for it.
pub fn is_mounted(device: &OwnedFd) -> bool {
    let is_fuse = || {
        let (own, fuse) = (rustix::fs::fstat(device)?, rustix::fs::stat(session::DEVICE)?);
        Ok::<_, Errno>(own.st_rdev == fuse.st_rdev && own.st_mode == fuse.st_mode)
    };
    is_fuse().unwrap_or(false) && !session::is_gone(device)
}

/// What is mounted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// A folder that can be mounted on.
    Empty,
    /// The mount of a process that died. It covers the bare folder until another mount does.
    Dead,
}

/// Asks a folder in a thread of its own, which waits for as long as no process answers.
fn in_time<T: Send + 'static>(
    path: &Path,
    patience: Duration,
    ask: impl FnOnce(&Path) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (tell, told) = mpsc::channel();
    let folder = path.to_owned();
    let work = move || drop(tell.send(ask(&folder)));
    let started = Builder::new().name("fuse-prepare".to_owned()).spawn(work);
    started.map_err(|cause| Error::Thread { path: path.to_owned(), cause })?;
    told.recv_timeout(patience).unwrap_or_else(|_| {
        Err(Error::Folder {
            path: path.to_owned(),
            reason: format!(
                "what is mounted there does not answer, and a process keeps it open; `umount -f {}` ends it, and the servers that use it must be started again",
                path.display()
            ),
        })
    })
}

/// Sees whether a process that died has left something, or the folder is empty.
fn prepare(path: &Path) -> Result<Found> {
    let refuse = |reason: String| Error::Folder { path: path.to_owned(), reason };
    if rustix::process::geteuid().is_root() && is_dead(path) {
        return Ok(Found::Dead);
    }
    take_away_if_dead(path).map_err(|errno| not_unmounted(path, errno))?;
    let is_fuse = || rustix::fs::statfs(path).is_ok_and(|stat| stat.f_type == FUSE);
    if is_mounted_on(path) && is_fuse() {
        return Err(refuse("somebody serves it already".to_owned()));
    }
    let mut inside = fs::read_dir(path).map_err(|error| refuse(error.to_string()))?;
    if inside.next().is_some() {
        return Err(refuse("it is not empty; what is in it would not be seen any more".to_owned()));
    }
    Ok(Found::Empty)
}

fn not_unmounted(path: &Path, errno: Errno) -> Error {
    let reason = format!("no process answers for what is mounted there, and it could not be unmounted ({errno})");
    Error::Folder { path: path.to_owned(), reason }
}

/// Whether no process answers for what is mounted there.
fn is_dead(path: &Path) -> bool {
    // Attributes may be known to the kernel for an hour; this question goes to the process that serves.
    rustix::fs::statfs(path).err() == Some(Errno::NOTCONN)
}

/// Unmounts what no process answers for.
fn take_away_if_dead(path: &Path) -> rustix::io::Result<()> {
    while is_dead(path) {
        tracing::info!(path = %path.display(), "a mount that no process answers for is taken away");
        unmount(path, UnmountFlags::DETACH)?;
    }
    Ok(())
}

/// Whether a file system begins at that folder.
fn is_mounted_on(path: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    device(path) != device(&path.join(".."))
}

/// What a thread asks of the kernel before it answers.
fn prepare_thread(settings: &MountSettings) {
    // File systems that model time sleep for some microseconds.
    if let Err(error) = set_current_timer_slack(Some(SLACK)) {
        tracing::debug!(%error, "sleeps are longer than they need be");
    }
    if settings.below_block_device
        && let Err(error) = configure_io_flusher_behavior(true)
    {
        tracing::debug!(%error, "where memory is short, the kernel may wait for this thread, and it for the kernel");
    }
}
