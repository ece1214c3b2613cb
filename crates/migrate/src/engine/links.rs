//! Keeps the names of one file together.
//!
//! A file with several names at the source gets one more name in the hidden directory, made of the file's number there, so that its second
//! name, wherever and whenever it is found, becomes a link of the same inode (paper 5, section 2.4.3).

use std::collections::HashSet;
use std::ffi::OsString;

use parking_lot::{Mutex, RwLock};

use super::hidden::Hidden;
use super::{Doing, Engine, Result};
use crate::destination::{Destination, NodeId};
use crate::source::Attributes;

#[derive(Default)]
pub(super) struct Links {
    /// One thread at a time makes such names.
    turn: Mutex<()>,
    /// Inodes that have one.
    nodes: RwLock<HashSet<NodeId>>,
}

impl Links {
    pub(super) fn open<D: Destination>(destination: &D, hidden: &Hidden<D>) -> Result<Self> {
        let names = destination.names(&hidden.links).doing("reading temporary names")?;
        let nodes = names.into_iter().map(|name| name.node).collect();
        Ok(Self { turn: Mutex::new(()), nodes: RwLock::new(nodes) })
    }

    pub(super) fn holds(&self, node: NodeId) -> bool {
        self.nodes.read().contains(&node)
    }

    pub(super) fn forget(&self) {
        self.nodes.write().clear();
    }
}

fn temporary(source: u32, attributes: &Attributes) -> OsString {
    format!("{source}-{}-{}", attributes.id.0, attributes.id.1).into()
}

impl<D: Destination> Engine<D> {
    /// Gives `name` to the inode that already stands for the source's object, or to the one that `make` makes under that name; whether it was made.
    pub(super) fn linked(
        &self,
        source: u32,
        attributes: &Attributes,
        directory: &D::Object,
        name: &OsString,
        make: impl FnOnce() -> Result<D::Object>,
        discard: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        let _turn = self.links.turn.lock();
        let temporary = temporary(source, attributes);
        let known = self.destination.lookup(&self.hidden.links, &temporary).doing("looking for a temporary name")?;
        if let Some(known) = known {
            let here = self.destination.lookup(directory, name).doing("looking for a name")?;
            if here.is_none_or(|here| self.destination.id(&here) != self.destination.id(&known)) {
                discard()?;
                self.destination.link(&known, directory, name).doing("linking a name")?;
            }
            return Ok(false);
        }
        let fresh = make()?;
        self.destination.link(&fresh, &self.hidden.links, &temporary).doing("making a temporary name")?;
        self.links.nodes.write().insert(self.destination.id(&fresh));
        Ok(true)
    }
}
