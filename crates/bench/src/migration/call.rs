//! Programs that run to their end, and end with this process or when it is told to stop.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, Result};

/// How often a running program is looked after.
const LOOKED: Duration = Duration::from_millis(50);

/// Runs a program to its end, and gives what it printed. Its failure is an error with its own words; a stop kills it.
///
/// The kernel kills the program when the calling thread ends, however that ends.
pub(super) fn call(program: &'static str, arguments: &[&str], stop: &AtomicBool) -> Result<Output> {
    let failed = |reason: String| Error::Process { what: program, reason };
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C is for this process, which kills it.
    command.process_group(0);
    let child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let pid = Pid::from_child(&child);
    let (tell, told) = channel();
    // The program was started by this thread, so it ends with this one and not with the thread that waits for it.
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let output = loop {
        match told.recv_timeout(LOOKED) {
            Ok(output) => break output.map_err(|error| failed(error.to_string()))?,
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Acquire) => {
                let _ = kill_process(pid, Signal::KILL);
                return Err(ishigaki_servers::Error::Stopped.into());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(failed("the thread that waits for it has ended".into())),
        }
    };
    if output.status.success() {
        return Ok(output);
    }
    Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_program_gives_what_it_prints_or_says_why_it_failed() {
        let stop = AtomicBool::new(false);
        assert_eq!(call("sh", &["-c", "echo it is"], &stop).expect("runs").stdout, b"it is\n");
        let error = call("sh", &["-c", "echo no way >&2; exit 3"], &stop).expect_err("fails").to_string();
        assert!(error.contains("no way") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_stop_kills_the_program() {
        let began = Instant::now();
        let error = call("sh", &["-c", "exec sleep 1000"], &AtomicBool::new(true)).expect_err("it is stopped");
        assert!(matches!(error, Error::Server(ishigaki_servers::Error::Stopped)), "{error}");
        assert!(began.elapsed() < Duration::from_secs(500));
    }
}
