//! The service manager that has started this process, which is systemd or speaks as it does: it is told what goes on, keeps
//! descriptors from one process to the next, and gives them back.
//!
//! ```text
//!  this process ── NOTIFY_SOCKET: READY=1, FDSTORE=1 with a descriptor, BARRIER=1 ──▶ service manager
//!  next process ◀── from descriptor 3 on: LISTEN_FDS of them, LISTEN_FDNAMES ─────── service manager
//! ```
//!
//! What it gives to the next process it keeps as well, until it is [told to forget](Supervisor::forget).

use std::env;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::time::{ClockId, clock_gettime};

/// How long the service manager may take to hear a word, and to be through with all that it was told.
const PATIENCE: Duration = Duration::from_secs(10);

/// A service manager, as this process reaches it.
#[derive(Clone, Debug)]
pub struct Supervisor {
    address: SocketAddr,
}

impl Supervisor {
    /// The one that has started this process, if any has: that of `NOTIFY_SOCKET`.
    ///
    /// # Errors
    ///
    /// When that is no address of a socket.
    pub fn of_environment() -> io::Result<Option<Self>> {
        let Some(place) = env::var_os("NOTIFY_SOCKET") else { return Ok(None) };
        let address = match place.as_encoded_bytes() {
            // One that is in no file system.
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(&place),
        };
        Ok(Some(Self { address: address? }))
    }

    /// The one that listens on a socket of that path.
    ///
    /// # Errors
    ///
    /// When no socket can have that path.
    pub fn at(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { address: SocketAddr::from_pathname(path)? })
    }

    /// Tells it that this process serves, and that this is the process of the service now.
    ///
    /// # Errors
    ///
    /// When it can not be reached.
    pub fn ready(&self) -> io::Result<()> {
        self.send(&format!("READY=1\nMAINPID={}\n", std::process::id()), None)
    }

    /// Tells it that another process is about to take over. [`ready`](Self::ready) ends that, said by that one, or by this one if that fails.
    ///
    /// # Errors
    ///
    /// When it can not be reached.
    pub fn reloading(&self) -> io::Result<()> {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\n"), None)
    }

    /// Has it wait at least so long from now until this process serves.
    ///
    /// # Errors
    ///
    /// When it can not be reached.
    pub fn extend(&self, time: Duration) -> io::Result<()> {
        self.send(&format!("EXTEND_TIMEOUT_USEC={}\n", time.as_micros()), None)
    }

    /// Has it keep a descriptor for the next process. It does not say whether it does.
    ///
    /// # Errors
    ///
    /// When it can not be reached.
    pub fn keep(&self, name: &str, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        // It must not watch the device of a mount: every request would wake it.
        self.send(&format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0\n"), Some(descriptor))
    }

    /// Has it close those descriptors of that name that it keeps.
    ///
    /// # Errors
    ///
    /// When it can not be reached.
    pub fn forget(&self, name: &str) -> io::Result<()> {
        self.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}\n"), None)
    }

    /// Waits until it is through with all that it was told.
    ///
    /// # Errors
    ///
    /// When it can not be reached, or does not answer.
    pub fn wait(&self) -> io::Result<()> {
        let (heard, said) = io::pipe()?;
        self.send("BARRIER=1", Some(said.as_fd()))?;
        // From here on it alone has the other end, and closes that in its turn.
        drop(said);
        let time = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let mut ends = [PollFd::new(&heard, PollFlags::IN)];
        match retry_on_intr(|| poll(&mut ends, Some(&time)))? {
            0 => Err(io::Error::new(io::ErrorKind::TimedOut, "the service manager does not answer")),
            _ => Ok(()),
        }
    }

    fn send(&self, words: &str, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.connect_addr(&self.address)?;
        let descriptors: Vec<_> = descriptor.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::other("there is no room for a descriptor"));
        }
        sendmsg(&socket, &[IoSlice::new(words.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// Descriptors that a service manager has kept and gives back, with their names.
#[derive(Debug, Default)]
pub struct Kept(Vec<(String, OwnedFd)>);

impl Kept {
    /// Those with which this process was started; none when it is asked again.
    ///
    /// # Errors
    ///
    /// When the environment does not say so as a service manager does.
    pub fn of_environment() -> io::Result<Self> {
        static ASKED: AtomicBool = AtomicBool::new(false);
        if ASKED.swap(true, Ordering::SeqCst) {
            return Ok(Self::default());
        }
        let given = sd_listen_fds::get().map_err(io::Error::other)?;
        let mut kept = Vec::new();
        for (name, descriptor) in given {
            let descriptor = descriptor.into_std();
            // No program that is started from here may have it: a mount lives as long as any process has its device.
            fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
            kept.push((name.unwrap_or_default(), descriptor));
        }
        Ok(Self(kept))
    }

    /// The descriptors themselves, with their names.
    pub fn into_descriptors(self) -> Vec<(String, OwnedFd)> {
        self.0
    }

    /// These.
    pub fn new(descriptors: Vec<(String, OwnedFd)>) -> Self {
        Self(descriptors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_manager_is_told_who_serves_and_that_another_takes_over() {
        let place = std::env::temp_dir().join(format!("ishigaki-supervisor-{}", std::process::id()));
        let heard = UnixDatagram::bind(&place).unwrap();
        let supervisor = Supervisor::at(&place).unwrap();
        supervisor.reloading().unwrap();
        supervisor.ready().unwrap();
        let mut bytes = [0; 256];
        let mut next = || {
            let length = heard.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..length].to_vec()).unwrap()
        };
        let reloading = next();
        let micros = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|rest| rest.strip_suffix('\n'));
        assert!(micros.is_some_and(|micros| micros.parse::<u64>().is_ok_and(|micros| micros > 0)), "{reloading}");
        assert_eq!(next(), format!("READY=1\nMAINPID={}\n", std::process::id()));
        std::fs::remove_file(&place).unwrap();
    }
}
