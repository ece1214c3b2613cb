//! A server's process, and how it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::failed;
use crate::{Error, Kind, Result};

/// How long a process may take for what is done at once.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Where a server tells what it does, in its data's folder; of its last start.
pub(crate) const TOLD: &str = "told";

/// A server that runs; killed with all of its own when dropped.
#[derive(Debug)]
pub struct Running {
    kind: Kind,
    child: Child,
    data: PathBuf,
    is_gone: bool,
}

impl Running {
    pub(crate) fn new(kind: Kind, child: Child, data: &Path) -> Self {
        Self { kind, child, data: data.to_owned(), is_gone: false }
    }

    /// The number of its first process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to end, so that nothing is left to recover, and waits for it.
    pub fn end(mut self) -> Result<()> {
        let signal = match self.kind {
            Kind::MariaDb => Signal::TERM,
            // Who is connected is disconnected.
            Kind::PostgreSql => Signal::INT,
        };
        let number = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // One that can not be told is one that has ended.
        number.map(|number| kill_process(number, signal));
        let began = Instant::now();
        while self.child.try_wait().map_err(failed(&self.data, "waiting for the server"))?.is_none() {
            if began.elapsed() > PATIENCE {
                let what = format!("the server of {} does not end", self.data.display());
                return Err(Error::Patience { what, seconds: PATIENCE.as_secs(), said: told(&self.data) });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.is_gone = true;
        Ok(())
    }

    /// Kills it with all processes that it has started, and waits until they are gone.
    pub fn kill(&mut self) -> Result<()> {
        if self.is_gone {
            return Ok(());
        }
        let number = self.child.id();
        let children = fs::read_to_string(format!("/proc/{number}/task/{number}/children")).unwrap_or_default();
        let kill = self.child.kill().and_then(|()| self.child.wait());
        kill.map_err(failed(&self.data, "killing the server"))?;
        self.is_gone = true;
        let children: Vec<Pid> =
            children.split_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect();
        for &child in &children {
            // It may have ended with its parent.
            let _ = kill_process(child, Signal::KILL);
        }
        children.into_iter().try_for_each(|child| self.wait_for(child))
    }

    fn wait_for(&self, child: Pid) -> Result<()> {
        let process = PathBuf::from(format!("/proc/{}/exe", child.as_raw_nonzero()));
        let began = Instant::now();
        // What is dead and not yet buried has no program.
        while fs::read_link(&process).is_ok() {
            if began.elapsed() > PATIENCE {
                let what = format!("{} does not end", process.display());
                return Err(Error::Patience { what, seconds: PATIENCE.as_secs(), said: told(&self.data) });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Who is to hear of it asks for it.
        let _ = self.kill();
    }
}

/// The end of what a server has said since it was started.
pub(crate) fn told(data: &Path) -> String {
    let told = fs::read(data.join(TOLD)).unwrap_or_default();
    String::from_utf8_lossy(&told[told.len().saturating_sub(4096)..]).trim().to_owned()
}
