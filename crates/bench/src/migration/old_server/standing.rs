//! A program of the old server: a shell on the other host, in a process namespace of its own, that starts it and ends with its input.
//!
//! However this process ends, its end of the pipe closes, the shell ends, and the kernel kills everything in the shell's namespace.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::hosts::Hosts;
use crate::{Error, Result};

#[derive(Debug)]
pub(super) struct Standing {
    what: &'static str,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Standing {
    /// Runs a script there, with a directory as its argument, until it says `ready`.
    pub(super) fn start(hosts: &Hosts, what: &'static str, script: &str, home: &Path) -> Result<Self> {
        let failed = |reason: String| Error::Process { what, reason };
        let words = hosts.there();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.args([
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            script,
            "sh",
        ]);
        // Ctrl-C is for this process, which ends it.
        command.process_group(0);
        command.arg(home).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let Some(answers) = answers else { return Err(failed("its shell has no output".to_owned())) };
        let mut standing = Self { what, child, orders, answers: BufReader::new(answers) };
        standing.expect("ready")?;
        Ok(standing)
    }

    /// Has the script do something, and waits until it is done.
    pub(super) fn order(&mut self, word: &str) -> Result<()> {
        if let Some(orders) = &mut self.orders {
            let written = writeln!(orders, "{word}");
            written.map_err(|error| Error::Process { what: self.what, reason: error.to_string() })?;
        }
        self.expect("done")
    }

    fn expect(&mut self, answer: &str) -> Result<()> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        if read.is_ok() && line.trim() == answer {
            return Ok(());
        }
        Err(Error::Process { what: self.what, reason: format!("its shell has ended, and not said {answer}") })
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}
