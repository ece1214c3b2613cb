//! Directories of this host that are sources, asked without waiting for one that hangs: its file system may be a server's that does not answer, and no call to
//! it returns then.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::fs::{StatVfs, statvfs};

use crate::Config;
use crate::config::From;

/// So long a directory that is there takes at most.
const LIMIT: Duration = Duration::from_secs(3);

/// A directory that has answered.
pub(super) struct Told {
    /// Its path, without symbolic links on the way.
    pub(super) path: PathBuf,
    /// What its file system holds.
    pub(super) room: Option<StatVfs>,
}

/// What the sources of a configuration say, in their order: nothing of one that is no directory of this host, or does not answer.
pub(super) fn ask(config: &Config) -> Vec<Option<Told>> {
    let paths = config.sources.iter().map(|source| match &source.from {
        From::Path(path) => Some(path.clone()),
        From::Nfs(_) | From::Smb { .. } => None,
    });
    let asked: Vec<_> = paths.map(|path| path.and_then(begin)).collect();
    let until = Instant::now() + LIMIT;
    let wait = || until.saturating_duration_since(Instant::now());
    asked.into_iter().map(|asked| asked?.recv_timeout(wait()).ok()?).collect()
}

/// Asks in a thread that is left behind where it hangs.
fn begin(path: PathBuf) -> Option<Receiver<Option<Told>>> {
    let (sender, told) = sync_channel(1);
    let ask = move || {
        let told = fs::canonicalize(path).ok().map(|path| Told { room: statvfs(&path).ok(), path });
        // Its caller may have left.
        let _ = sender.send(told);
    };
    Builder::new().name("source-path".to_owned()).spawn(ask).ok().map(|_| told)
}
