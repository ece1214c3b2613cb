//! A volume's own way for its machine's agent: the socket `NAME.agent` beside that of the disk, to which QEMU joins a port of the machine (virtio-serial).
//!
//! What comes here is said of this volume, so it takes no token. QEMU stays connected while the machine runs, whatever happens to the agent in it: a line that
//! is no JSON is the rest of one that was cut off, and is passed over.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::sleep;
use std::time::Duration;

use ishigaki_agent::{LONGEST, Message, Reply};
use ishigaki_service::door::{Door as Visitors, PATIENCE, answer, hear};
use ishigaki_service::socket::{gone, through};
use serde::Deserialize;

use super::{learn, not_understood, written};
use crate::core::Core;
use crate::door::make as make_folder;
use crate::{Error, Result};

/// How often a port on which nothing is said looks whether it is still there.
const LOOK: Duration = Duration::from_secs(1);
/// Between two messages: a machine that says one after the other takes no more of the host's time than this leaves.
const PAUSE: Duration = Duration::from_millis(200);

/// The socket, while this lives.
pub(crate) struct Port {
    path: PathBuf,
    is_open: Arc<AtomicBool>,
    _visitors: Visitors,
}

impl Port {
    pub(crate) fn open(core: &Arc<Core>, volume: &str) -> Result<Self> {
        let folder = &core.config.sockets;
        make_folder(folder)?;
        let name = format!("{volume}.agent");
        let path = folder.join(&name);
        let listener = listen(folder, &name).map_err(Error::path(&path))?;
        let (core, volume) = (Arc::downgrade(core), volume.to_owned());
        let is_open = Arc::new(AtomicBool::new(true));
        let open = is_open.clone();
        let serve = move |mut stream| {
            // The machine has gone, or the service ends.
            let _ = attend(&mut stream, &core, &volume, &open);
        };
        let visitors = Visitors::open("volume-port", listener, serve).map_err(Error::path(&path))?;
        Ok(Self { path, is_open, _visitors: visitors })
    }

    /// Whether machines find it.
    pub(crate) fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.is_open.store(false, Ordering::Release);
        if let Err(error) = gone(fs::remove_file(&self.path)) {
            tracing::warn!(path = %self.path.display(), %error, "the socket of an agent could not be removed");
        }
    }
}

/// Listens there, unless another process does.
fn listen(folder: &Path, name: &str) -> io::Result<UnixListener> {
    let directory = File::open(folder)?;
    let path = through(&directory, name);
    match UnixStream::connect(&path) {
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another service listens there")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => gone(fs::remove_file(&path))?,
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers one message after the other, until the end.
fn attend(stream: &mut UnixStream, core: &Weak<Core>, volume: &str, is_open: &AtomicBool) -> io::Result<()> {
    loop {
        let mut text = match hear(stream, 1, LOOK, |heard| !heard.is_empty()) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Vec::new(),
            heard => Some(heard?).filter(|heard| !heard.is_empty()).ok_or(io::ErrorKind::UnexpectedEof)?,
        };
        if !is_open.load(Ordering::Acquire) {
            return Ok(());
        }
        if text.is_empty() || text == b"\n" {
            continue;
        }
        match hear(stream, LONGEST, PATIENCE, |heard| heard.ends_with(b"\n")) {
            Ok(rest) => text.extend(rest),
            // What is still to come of it is no message.
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::FileTooLarge) => continue,
            Err(error) => return Err(error),
        }
        // An agent says one thing at a time: what stands before that is what another one has left.
        let last = text.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap_or_default();
        let Ok(said) = serde_json::from_slice::<serde_json::Value>(last) else { continue };
        let Some(core) = core.upgrade() else { return Ok(()) };
        let reply = match Message::deserialize(said) {
            Ok(message) if message.volume == volume => learn(&core, &message),
            Ok(message) => Err(format!("this port is that of volume `{volume}`, and not of `{}`", message.volume)),
            // Of an agent of another version.
            Err(error) => Err(not_understood(&error)),
        };
        let reply = reply.map_or_else(|message| Reply::Refused { message }, |has_layout| Reply::Taken { has_layout });
        drop(core);
        answer(stream, &written(&reply)?)?;
        sleep(PAUSE);
    }
}
