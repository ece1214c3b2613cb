//! The storage node of a run: the one that was named, or a process of our own over the loaded page files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_bench::hosts::Hosts;
use ishigaki_bench::node::{Node, NodeOptions};
use ishigaki_remote::{Client, ClientSettings, Credentials, Location, Status};

use crate::{Error, Result};

/// Who has the page files for others.
#[derive(Clone, Debug)]
pub enum Host {
    /// A process of our own for the run: this program, called as `PROGRAM node …`.
    Own {
        /// The program.
        program: PathBuf,
    },
    /// A process of our own on another host made of this one, which keeps so many pages for the work of clients.
    Apart {
        /// The program.
        program: PathBuf,
        /// The other host.
        hosts: Arc<Hosts>,
        /// Pages that it keeps for the work of clients.
        memory: ByteSize,
    },
    /// A node that is there. It has the loaded page files in this directory.
    Named(Box<Location>),
}

fn place(node: &Node, credentials: Credentials) -> Location {
    Location::new(node.address(), credentials)
}

/// A node that serves.
#[derive(Debug)]
pub(crate) struct Serving {
    location: Location,
    /// For asking how it is doing, by a connection of its own.
    client: Client,
    process: Option<Node>,
}

impl Serving {
    /// Connects to the one that was named, or starts one. It keeps as many pages for the work of clients as clients do.
    pub(crate) fn begin(host: &Host, pages: &Path, memory: Option<ByteSize>, trace: Option<PathBuf>) -> Result<Self> {
        let options = NodeOptions { connections: 64, page_memory: memory, trace, ..NodeOptions::default() };
        let (location, process) = match host {
            Host::Named(location) => (Location::clone(location), None),
            Host::Own { program } => {
                let process = Node::start(program, pages, &options)?;
                (place(&process, Credentials::None), Some(process))
            }
            Host::Apart { program, hosts, memory } => {
                let token = hosts.token().to_owned();
                let options = NodeOptions {
                    address: Some(hosts.address()),
                    token: Some(token.clone()),
                    within: hosts.there(),
                    page_memory: Some(*memory),
                    ..options
                };
                let process = Node::start(program, pages, &options)?;
                (place(&process, Credentials::Token(token)), Some(process))
            }
        };
        let security = location.credentials.security()?;
        let client = Client::connect(&location.address, &ClientSettings::default(), &security)?;
        Ok(Self { location, client, process })
    }

    /// Where the page files are.
    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// How it is doing.
    pub(crate) fn status(&self) -> Result<Status> {
        Ok(self.client.status()?)
    }

    /// The error of somebody who asked this node: where the process is gone, that is the reason.
    pub(crate) fn explain(&mut self, error: Error) -> Error {
        match self.process.as_mut().and_then(Node::why_gone) {
            Some(reason) => ishigaki_bench::Error::Node { reason: format!("{reason}; {error}") }.into(),
            None => error,
        }
    }

    /// Ends it softly, if it is ours.
    pub(crate) fn end(self) -> Result<()> {
        drop(self.client);
        Ok(self.process.map_or(Ok(()), Node::end)?)
    }
}
