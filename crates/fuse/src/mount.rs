//! A file system on a folder: the kernel's requests, answered by some threads.

use std::fs::{self, File};
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use fuse_backend_rs::api::filesystem::FileSystem;
use fuse_backend_rs::api::server::Server;
use fuse_backend_rs::transport::FuseSession;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::configure_io_flusher_behavior;
use rustix::thread::set_current_timer_slack;

use crate::channel::{Channel, End};
use crate::{Error, Result};

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

/// Nanoseconds by which the kernel may wake a thread too late, to wake others with it.
const SLACK: NonZeroU64 = NonZeroU64::MIN;

/// A mounted file system.
///
/// *Drop* unmounts: programs that have files open get `ENOTCONN` from then on. *A crash* of the process leaves a folder that
/// answers so to everybody; the next mount on it puts that right.
pub struct Mount {
    session: FuseSession,
    path: PathBuf,
    end: End,
    threads: Vec<JoinHandle<()>>,
}

impl Mount {
    /// Sees whether a file system can be mounted on that folder, and takes away what a process that died has left there.
    pub fn prepare(path: impl AsRef<Path>) -> Result<()> {
        prepare(path.as_ref())
    }

    /// Mounts a file system on an empty folder.
    #[expect(clippy::missing_panics_doc, reason = "a session that is mounted has its device")]
    pub fn new<F>(fs: F, path: impl AsRef<Path>, settings: &MountSettings) -> Result<Self>
    where
        F: FileSystem + Send + Sync + 'static,
    {
        let path = path.as_ref();
        prepare(path)?;
        let refused = |cause| Error::Mount { path: path.to_owned(), cause };
        let not_started = |cause| Error::Thread { path: path.to_owned(), cause };
        let end = End::new().map_err(not_started)?;
        let mut session = FuseSession::new(path, settings.name, "", false).map_err(refused)?;
        // Who is not root may let others in only if the host's configuration says so.
        session.set_allow_other(rustix::process::geteuid().is_root());
        session.mount().map_err(refused)?;
        let device = session.get_fuse_file().map(File::try_clone).transpose().map_err(not_started)?;
        let device = device.expect("a session that is mounted has it");
        let mut mount = Self { session, path: path.to_owned(), end, threads: Vec::new() };
        let server = Arc::new(Server::new(fs));
        for number in 0..settings.threads.max(1) {
            let channel = Channel::new(&device, &mount.end).map_err(not_started)?;
            let (server, folder, settings) = (server.clone(), path.to_owned(), settings.clone());
            let work = move || {
                prepare_thread(&settings);
                serve(channel, &server, &folder);
            };
            let started = Builder::new().name(format!("fuse-{number}")).spawn(work);
            mount.threads.push(started.map_err(not_started)?);
        }
        tracing::info!(path = %path.display(), "mounted");
        Ok(mount)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether all requests are answered. Somebody else may have unmounted it.
    pub fn is_alive(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.session.umount() {
            tracing::warn!(path = %self.path.display(), %error, "could not be unmounted");
        }
        if let Err(error) = self.end.tell() {
            tracing::warn!(path = %self.path.display(), %error, "its threads could not be told to end");
            return;
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(path = %self.path.display(), "a thread of the mount panicked");
            }
        }
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

/// Takes away what a process that died has left, and sees whether the folder is empty.
fn prepare(path: &Path) -> Result<()> {
    let refuse = |reason: String| Error::Folder { path: path.to_owned(), reason };
    take_away_if_dead(path).map_err(|errno| {
        refuse(format!("nobody answers for what is mounted there, and it could not be unmounted ({errno})"))
    })?;
    let is_fuse = || rustix::fs::statfs(path).is_ok_and(|stat| stat.f_type == FUSE);
    if is_mounted_on(path) && is_fuse() {
        return Err(refuse("somebody serves it already".to_owned()));
    }
    let mut inside = fs::read_dir(path).map_err(|error| refuse(error.to_string()))?;
    if inside.next().is_some() {
        return Err(refuse("it is not empty; what is in it would not be seen any more".to_owned()));
    }
    Ok(())
}

/// Unmounts what nobody answers for.
fn take_away_if_dead(path: &Path) -> rustix::io::Result<()> {
    // Attributes may be known to the kernel for an hour; this question goes to who serves.
    while rustix::fs::statfs(path).err() == Some(Errno::NOTCONN) {
        tracing::info!(path = %path.display(), "a mount that nobody answers for is taken away");
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

/// Answers requests until there is no mount any more.
fn serve<F: FileSystem + Sync>(mut channel: Channel, server: &Server<F>, path: &Path) {
    loop {
        let (reader, writer) = match channel.next() {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "the kernel has ended the connection");
                return;
            }
        };
        let answer = AssertUnwindSafe(|| server.handle_message(reader, writer.into(), None, None));
        match catch_unwind(answer) {
            Ok(Ok(_)) => {}
            // Who has asked may be gone: then there is nobody to tell, and others go on.
            Ok(Err(error)) => tracing::debug!(%error, "an answer did not arrive"),
            Err(_) => {
                // Who has asked would wait for ever, whatever signal comes. This ends the connection for all.
                tracing::error!(path = %path.display(), "a request panicked; the mount is given up");
                let _ = unmount(path, UnmountFlags::FORCE).and_then(|()| unmount(path, UnmountFlags::DETACH));
                return;
            }
        }
    }
}
