//! The storage node, as a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use ishigaki_remote::Mode;
use serde_json::Value;

use crate::{Error, Result};

/// A process that serves. Killed when dropped: it only reads, and nobody else knows it.
#[derive(Debug)]
pub(super) struct Node {
    child: Child,
    mode: Mode,
    address: String,
    /// Stays open, so that the process can go on telling.
    _stdout: BufReader<ChildStdout>,
}

impl Node {
    /// Starts the program as a node over a folder, and waits until it says where it listens.
    pub(super) fn start(program: &Path, folder: &Path, mode: Mode, connections: usize) -> Result<Self> {
        let failed = |reason: String| Error::Node { reason: format!("{}: {reason}", program.display()) };
        let mut child = Command::new(program)
            .args(["node", "--json", "--read-only", "--listen", "127.0.0.1:0", "--io", &mode.to_string()])
            // Connections of a round that has ended may not have been given up yet.
            .args(["--max-connections", &(4 * connections + 16).to_string(), "--data"])
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

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The error of somebody who asked this node: where the process is gone, that is the reason.
    pub(super) fn explain(&mut self, error: Error) -> Error {
        // A process that has just died may take a moment to be known for dead.
        std::thread::sleep(Duration::from_millis(20));
        match self.child.try_wait() {
            Ok(Some(status)) => Error::Node { reason: format!("ended ({status}): {}; {error}", self.last_words()) },
            _ => error,
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
