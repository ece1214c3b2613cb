//! A storage node, as a process of its own: the given program, called as `PROGRAM node …`.

use std::path::{Path, PathBuf};
use std::process::Command;

use ishigaki_base::ByteSize;
use ishigaki_fabric::Fabric;
use ishigaki_remote::Mode;

use crate::serving::Serving;
use crate::{Error, Result};

/// A process that serves. Told to end when dropped.
#[derive(Debug)]
pub struct Node {
    serving: Serving,
    mode: Mode,
    address: String,
}

/// How it is started, beside what stays the same: it serves for reading, at any port of its host.
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    /// Of which it is; this one's own if it is not said. Whoever comes from another one needs the token.
    pub address: Option<std::net::Ipv4Addr>,
    /// A file with a secret that clients must have, too.
    pub token: Option<PathBuf>,
    /// What runs it: words before the program's own.
    pub within: Vec<String>,
    /// How it reads.
    pub mode: Mode,
    /// What carries bytes for those who ask for it, beside TCP.
    pub fabric: Fabric,
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
        let failed = |reason: String| Error::Node { reason };
        let (mode, mut command) = (options.mode, Command::new(program));
        if let Some((first, rest)) = options.within.split_first() {
            command = Command::new(first);
            command.args(rest).arg(program);
        }
        let address = options.address.unwrap_or(std::net::Ipv4Addr::LOCALHOST);
        command
            .args(["node", "--json", "--read-only", "--listen", &format!("{address}:0"), "--io", &mode.to_string()])
            .args(["--fabric", &options.fabric.to_string()])
            // Connections of a round that has ended may not have been given up yet.
            .args(["--max-connections", &(4 * options.connections + 16).to_string()]);
        if let Some(memory) = options.page_memory {
            command.args(["--page-memory", &format!("{}B", memory.as_u64())]);
        }
        if let Some(trace) = &options.trace {
            command.arg("--trace").arg(trace);
        }
        if let Some(token) = &options.token {
            command.arg("--token-file").arg(token);
        } else {
            // It serves what the bench has made, for as long as that runs.
            command.arg("--open-to-this-host");
        }
        command.arg("--data").arg(folder);
        let serving = Serving::start(command).map_err(failed)?;
        let text = |name: &str| serving.text(name).unwrap_or_default();
        let (address, io) = (text("node"), text("io"));
        if address.is_empty() {
            return Err(failed(format!("{}: did not say where it listens", program.display())));
        }
        if io != mode.to_string() {
            return Err(failed(format!("{}: reads by {io} and not by {mode} here", program.display())));
        }
        Ok(Self { serving, mode, address })
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
        self.serving.why_gone()
    }

    /// Ends it softly, so that it writes out what it has noted.
    pub fn end(self) -> Result<()> {
        self.serving.end().map_err(|reason| Error::Node { reason })
    }
}
