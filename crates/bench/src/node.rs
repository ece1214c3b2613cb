//! A storage node, as a process of its own: the given program, called as `PROGRAM node …`.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_remote::Mode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Error, Result};

/// A process that serves. Killed when dropped: it only reads, and nobody else knows it.
#[derive(Debug)]
pub struct Node {
    child: Child,
    mode: Mode,
    address: String,
    /// Stays open, so that the process can go on telling.
    _stdout: BufReader<ChildStdout>,
}

/// How it is started, beside what stays the same: it serves for reading, at any port of this host.
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    /// How it reads.
    pub mode: Mode,
    /// Connections that are in use at a time, at most.
    pub connections: usize,
    /// Pages that it keeps for the work of clients; its own default if it is not said.
    pub page_memory: Option<ByteSize>,
    /// Where it notes what clients read.
    pub trace: Option<PathBuf>,
}

impl Node {
    /// Starts the program as a node over a folder, and waits until it says where it listens.
    pub fn start(program: &Path, folder: &Path, options: &NodeOptions) -> Result<Self> {
        let failed = |reason: String| Error::Node { reason: format!("{}: {reason}", program.display()) };
        let (mode, mut command) = (options.mode, Command::new(program));
        command
            .args(["node", "--json", "--read-only", "--listen", "127.0.0.1:0", "--io", &mode.to_string()])
            // Connections of a round that has ended may not have been given up yet.
            .args(["--max-connections", &(4 * options.connections + 16).to_string()]);
        if let Some(memory) = options.page_memory {
            command.args(["--page-memory", &format!("{}B", memory.as_u64())]);
        }
        if let Some(trace) = &options.trace {
            command.arg("--trace").arg(trace);
        }
        let mut child = command
            .arg("--data")
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(format!("can not be started: {error}")))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("has no output".to_owned()))?;
        let (mut line, mut stdout) = (String::new(), BufReader::new(stdout));
        let read = stdout.read_line(&mut line);
        let told: Option<Value> = read.ok().and_then(|_| serde_json::from_str(&line).ok());
        let text = |name: &str| told.as_ref().and_then(|told| told[name].as_str()).map(str::to_owned);
        let (address, io) = (text("node"), text("io"));
        let mut node = Self { child, mode, address: address.clone().unwrap_or_default(), _stdout: stdout };
        if address.is_none() {
            let reason = format!("did not say where it listens; {}", node.last_words());
            return Err(failed(reason));
        }
        if io != Some(mode.to_string()) {
            return Err(failed(format!("reads by {} and not by {mode} here", io.unwrap_or_default())));
        }
        Ok(node)
    }

    /// How it reads.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Where it listens: `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The error of somebody who asked this node: where the process is gone, that is the reason.
    pub fn explain(&mut self, error: Error) -> Error {
        match self.why_gone() {
            Some(reason) => Error::Node { reason: format!("{reason}; {error}") },
            None => error,
        }
    }

    /// How the process ended, if it has.
    pub fn why_gone(&mut self) -> Option<String> {
        // One that has just died may take a moment to be known for dead.
        std::thread::sleep(Duration::from_millis(20));
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("ended ({status}): {}", self.last_words()))
    }

    /// Ends it softly, so that it writes out what it has noted.
    pub fn end(mut self) -> Result<()> {
        let failed = |reason: String| Error::Node { reason };
        let number = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let sent = number.map(|number| kill_process(number, Signal::TERM));
        if let Some(Err(error)) = sent {
            return Err(failed(format!("can not be ended: {error}")));
        }
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(failed(format!("ended badly ({status}): {}", self.last_words()))),
            Err(error) => Err(failed(format!("can not be waited for: {error}"))),
        }
    }

    /// What it said on stderr before it ended.
    fn last_words(&mut self) -> String {
        let _ = self.child.kill();
        let mut words = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            // Not to be read is not to be told.
            let _ = stderr.take(4096).read_to_string(&mut words);
        }
        let words = words.trim();
        if words.is_empty() { "it said nothing".to_owned() } else { format!("it said: {words}") }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
