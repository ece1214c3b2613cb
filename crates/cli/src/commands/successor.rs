//! The next process of a service: SIGHUP has it start its own program again, which may be a newer one by then and takes over.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use ishigaki_migrate_service::Supervisor;

use super::ends::Ends;

const TAKEOVER: &str = "--takeover";

/// The process that is to take over, if one is on its way.
#[derive(Default)]
pub(super) struct Successor(Option<Child>);

impl Successor {
    /// Starts one if SIGHUP has come; tells the service manager, if there is one, and once more when that process has not taken over.
    pub(super) fn look(&mut self, ends: &Ends, supervisor: Option<&Supervisor>) {
        if let Some(child) = &mut self.0
            && !matches!(child.try_wait(), Ok(None))
        {
            // It could not take over, and has said why.
            self.0 = None;
            tell(supervisor.map(Supervisor::ready));
        }
        if !ends.is_to_restart() {
            return;
        }
        if let Some(child) = &self.0 {
            tracing::warn!(pid = child.id(), "a SIGHUP is passed over: this program is started again already");
            return;
        }
        let failed =
            |error: &io::Error| tracing::error!("no successor is started, and this process serves on: {error}");
        // Before that process can say that it serves.
        tell(supervisor.map(Supervisor::reloading));
        self.0 = spawn().inspect_err(failed).ok();
        if self.0.is_none() {
            tell(supervisor.map(Supervisor::ready));
        }
    }
}

fn tell(told: Option<io::Result<()>>) {
    if let Some(Err(error)) = told {
        tracing::warn!("systemd is not told what goes on: NOTIFY_SOCKET: {error}");
    }
}

/// The same program with the same arguments, and `--takeover`.
fn spawn() -> io::Result<Child> {
    let mut words = std::env::args_os();
    let called = words.next().map(PathBuf::from).filter(|path| path.components().count() > 1);
    let program = called.map_or_else(std::env::current_exe, Ok)?;
    let is_flag = |word: &OsString| word == TAKEOVER;
    let mut again = Command::new(&program);
    again.args(words.filter(|word| !is_flag(word))).arg(TAKEOVER).stdin(Stdio::null());
    again.spawn().map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))
}
