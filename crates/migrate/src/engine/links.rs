//! Keeps the names of one file together.
//!
//! A file with several names at the source gets one more name in the hidden directory, made of the file's number there, so that its second
//! name, wherever and whenever it is found, becomes a link of the same inode (paper 5, section 2.4.3).
//!
//! Until all directories are listed, memory knows of how many of a file's names no listing has told yet. Clients see them in the number of links: a
//! program that copies a tree takes a file with one link for a file with one name. A restart forgets it.

use std::collections::HashMap;
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
    /// Inodes that have one, with the number of names of which no listing has told.
    nodes: RwLock<HashMap<NodeId, u32>>,
}

impl Links {
    pub(super) fn open<D: Destination>(destination: &D, hidden: &Hidden<D>) -> Result<Self> {
        let names = destination.names(&hidden.links).doing("reading temporary names")?;
        let nodes = names.into_iter().map(|name| (name.node, 0)).collect();
        Ok(Self { turn: Mutex::new(()), nodes: RwLock::new(nodes) })
    }

    /// Of an inode with a temporary name: how many names no listing has told of.
    fn untold(&self, node: NodeId) -> Option<u32> {
        self.nodes.read().get(&node).copied()
    }

    pub(super) fn forget(&self) {
        self.nodes.write().clear();
    }
}

fn temporary(source: u32, attributes: &Attributes) -> OsString {
    format!("{source}-{}-{}", attributes.id.0, attributes.id.1).into()
}

impl<D: Destination> Engine<D> {
    /// Whether the engine keeps a name of that inode for itself.
    pub fn has_temporary_name(&self, node: NodeId) -> bool {
        self.links.untold(node).is_some()
    }

    /// How many names clients are told that a file has, of which the destination says that it has `names`: without the one that the engine keeps
    /// for itself, and with those that are still to be listed. Some of them may lie outside of what is migrated, so that when all is listed none
    /// is to come.
    pub fn names_seen(&self, object: &D::Object, names: u32) -> u32 {
        let Some(untold) = self.links.untold(self.destination.id(object)) else { return names };
        let now = self.counters.now();
        let to_come = if now.listed < now.directories { untold } else { 0 };
        names.saturating_sub(1).saturating_add(to_come)
    }

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
                if let Some(untold) = self.links.nodes.write().get_mut(&self.destination.id(&known)) {
                    *untold = untold.saturating_sub(1);
                }
            }
            return Ok(false);
        }
        let fresh = make()?;
        self.destination.link(&fresh, &self.hidden.links, &temporary).doing("making a temporary name")?;
        let untold = attributes.links.saturating_sub(1);
        self.links.nodes.write().insert(self.destination.id(&fresh), untold);
        Ok(true)
    }
}
