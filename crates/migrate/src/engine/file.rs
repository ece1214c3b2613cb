//! A client's use of a stub file.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::MutexGuard;

use super::node::{Node, Stub};
use super::{Doing, Engine, Error, Result};
use crate::destination::Destination;
use crate::record::Record;
use crate::source::{Attributes, Cancel};

/// A stub file. It may become normal while it is held; then calls return at once.
///
/// *Threads*: any number, on clones. *Drop* ends the use and does nothing to the file.
pub struct File<D: Destination> {
    pub(super) engine: Arc<Engine<D>>,
    pub(super) node: Arc<Node<D>>,
}

impl<D: Destination> Clone for File<D> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone(), node: self.node.clone() }
    }
}

/// A client changes a file while it lives: the engine lets that file alone for so long.
///
/// It must be dropped as soon as the change is made, and nothing else may be asked of the file meanwhile.
pub struct Changing<'a, D: Destination> {
    file: &'a File<D>,
    /// What it may change, until that is told to be written.
    pending: Range<u64>,
}

impl<D: Destination> Engine<D> {
    /// The stub, if the file is one. `None` is for good: the file is normal and is nothing to the engine any more.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if its record can not be read; errors of the destination.
    pub fn file(self: &Arc<Self>, object: &D::Object) -> Result<Option<File<D>>> {
        if let Some(node) = self.node(object)? {
            return Ok(Some(File { engine: self.clone(), node }));
        }
        // What is made whole at once, a symbolic link or a pipe, can be lost as long as its directory is not settled.
        self.settled(self.destination.id(object))?;
        Ok(None)
    }

    /// The parts of blocks that a change of `range` leaves: they must be here first. And the whole blocks in it, up to the end of what
    /// the source has to give.
    fn parts(&self, stub: &Stub, range: &Range<u64>) -> (Vec<Range<u64>>, Range<u64>) {
        let block = self.destination.block_size();
        let minsize = stub.record.minsize;
        let whole_from = range.start.checked_next_multiple_of(block).unwrap_or(u64::MAX);
        let whole_to = if range.end >= minsize { u64::MAX } else { range.end / block * block };
        let mut edges = Vec::new();
        for at in [range.start / block * block, range.end.saturating_sub(1) / block * block] {
            let edge = at..at.saturating_add(block).min(minsize);
            if !edge.is_empty()
                && (edge.start < range.start || edge.end > range.end)
                && stub.missing.touches(edge.clone())
                && !edges.contains(&edge)
            {
                edges.push(edge);
            }
        }
        (edges, whole_from..whole_to.max(whole_from))
    }

    /// What must be here before something is done to a file up to `end`. Where that makes the file larger, a file system may make data of the rest of
    /// the block in which it ended, all zeros (btrfs does): nothing of that block may be missing.
    fn last_block(&self, node: &Node<D>, stub: &Stub, end: u64) -> Result<Option<Range<u64>>> {
        let (block, minsize) = (self.destination.block_size(), stub.record.minsize);
        let last = minsize / block * block..minsize;
        if end <= minsize || !stub.missing.touches(last.clone()) {
            return Ok(None);
        }
        let size = self.destination.status(&node.object).doing("looking at a stub")?.size;
        Ok((end > size && size / block * block == last.start).then_some(last))
    }
}

impl<D: Destination> File<D> {
    /// Whether all is here for good.
    pub fn is_normal(&self) -> bool {
        self.node.is_normal()
    }

    /// The file as the destination holds it.
    pub fn object(&self) -> &D::Object {
        &self.node.object
    }

    /// What it says of itself. The engine's own writes do not show in its times.
    ///
    /// # Errors
    ///
    /// Of the destination.
    pub fn status(&self) -> Result<Attributes> {
        let _held = self.node.lock();
        self.engine.destination.status(&self.node.object).doing("looking at a stub")
    }

    /// Waits until all attributes are here.
    ///
    /// # Errors
    ///
    /// Of any kind.
    pub fn attributes_needed(&self, cancel: &Cancel) -> Result<()> {
        if self.node.is_normal() {
            return Ok(());
        }
        let _demand = self.engine.counters.demand();
        self.engine.bring_attributes(&self.node, cancel)
    }

    /// Waits until these bytes are here.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if they are not here and the source has others now; errors of any kind.
    pub fn read_needed(&self, range: Range<u64>, cancel: &Cancel) -> Result<()> {
        if self.node.is_normal() {
            return Ok(());
        }
        let _demand = self.engine.counters.demand();
        self.engine.bring_data(&self.node, range, cancel)?;
        // Complete files keep descriptors open, and no crawler may be at work.
        self.engine.settle_many()
    }

    /// The first range at or behind `offset` that is not known to be a hole; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Of the destination.
    pub fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>> {
        let stub = self.node.lock();
        let here = self.engine.destination.next_data(&self.node.object, offset).doing("looking for a stub's holes")?;
        let missing = stub.missing.within(offset..u64::MAX).next();
        Ok(match (here, missing) {
            (Some(here), Some(missing)) if here.start <= missing.end && missing.start <= here.end => {
                Some(here.start.min(missing.start)..here.end.max(missing.end))
            }
            (Some(here), Some(missing)) if missing.start < here.start => Some(missing),
            (None, missing) => missing,
            (here, _) => here,
        })
    }

    /// Before a client writes this range, or allocates it: what of its blocks it does not write is here, and the directory in which
    /// the file came to be can not be lost any more. Whole blocks need no copy.
    ///
    /// # Errors
    ///
    /// Those of [`read_needed`](Self::read_needed).
    pub fn before_write(&self, range: Range<u64>, cancel: &Cancel) -> Result<Changing<'_, D>> {
        loop {
            let mut stub = self.enter(cancel)?;
            let (mut edges, _) = self.engine.parts(&stub, &range);
            edges.extend(self.engine.last_block(&self.node, &stub, range.end)?.filter(|last| last.start < range.start));
            if !range.is_empty() && !edges.is_empty() {
                drop(stub);
                for edge in edges {
                    self.read_needed(edge, cancel)?;
                }
                continue;
            }
            if stub.waiting > 0 {
                self.node.wait(&mut stub, cancel)?;
                continue;
            }
            return self.begin(stub, range);
        }
    }

    /// Before a client changes attributes of any kind: they are here.
    ///
    /// # Errors
    ///
    /// Those of [`attributes_needed`](Self::attributes_needed).
    pub fn before_attributes_change(&self, cancel: &Cancel) -> Result<Changing<'_, D>> {
        self.before_write(0..0, cancel)
    }

    /// Sets the file's size. What is cut off needs no copy any more, and what is added is zeros.
    ///
    /// # Errors
    ///
    /// Of any kind; conflicts only where the file becomes larger.
    pub fn truncate(&self, size: u64, cancel: &Cancel) -> Result<()> {
        self.truncate_and(size, cancel, || ())
    }

    /// The same, and then what else a door does about it, before anything else is done to the file.
    ///
    /// # Errors
    ///
    /// Those of [`truncate`](Self::truncate).
    pub fn truncate_and(&self, size: u64, cancel: &Cancel, then: impl FnOnce()) -> Result<()> {
        let mut stub = loop {
            let mut stub = self.enter(cancel)?;
            self.node.alone(&mut stub);
            let Some(last) = self.engine.last_block(&self.node, &stub, size)? else { break stub };
            drop(stub);
            self.read_needed(last, cancel)?;
        };
        self.modified(&mut stub)?;
        self.engine.destination.truncate(&self.node.object, size).doing("truncating a stub")?;
        if size < stub.record.minsize {
            (stub.record.minsize, stub.unsaved) = (size, true);
            stub.record.holes.remove(size..u64::MAX);
            self.engine.no_longer_missing(&mut stub, size..u64::MAX);
            self.engine.store_stub(&self.node, &mut stub)?;
        }
        then();
        self.engine.check_complete(&self.node, &mut stub);
        Ok(())
    }

    /// Makes a range zeros and its blocks holes; the size stays.
    ///
    /// # Errors
    ///
    /// Those of [`before_write`](Self::before_write).
    pub fn punch(&self, range: Range<u64>, cancel: &Cancel) -> Result<()> {
        self.punch_and(range, cancel, || ())
    }

    /// The same, and then what else a door does about it, before anything else is done to the file. That may make the file larger, up to the
    /// range's end.
    ///
    /// # Errors
    ///
    /// Those of [`before_write`](Self::before_write).
    pub fn punch_and(&self, range: Range<u64>, cancel: &Cancel, then: impl FnOnce()) -> Result<()> {
        loop {
            let mut stub = self.enter(cancel)?;
            self.node.alone(&mut stub);
            let (mut edges, whole) = self.engine.parts(&stub, &range);
            edges.extend(self.engine.last_block(&self.node, &stub, range.end)?.filter(|last| last.start < range.start));
            if !edges.is_empty() {
                drop(stub);
                for edge in edges {
                    self.read_needed(edge, cancel)?;
                }
                continue;
            }
            self.modified(&mut stub)?;
            self.punch_here(&mut stub, &range, whole)?;
            then();
            return Ok(());
        }
    }

    /// The record tells of the holes before they are made: a hole that it does not know would be filled from the source.
    fn punch_here(&self, stub: &mut Stub, range: &Range<u64>, whole: Range<u64>) -> Result<()> {
        let destination = &self.engine.destination;
        let whole = whole.start..whole.end.min(stub.record.minsize).max(whole.start);
        let mut holes = stub.record.holes.clone();
        holes.insert(whole.clone());
        if stub.settled || whole.is_empty() || holes.count() <= Record::MOST_HOLES {
            stub.record.holes = holes;
            self.engine.store_stub(&self.node, stub)?;
            destination.punch(&self.node.object, range.clone()).doing("punching a stub")?;
        } else {
            // Too many to remember: zeros are written.
            let size = destination.status(&self.node.object).doing("looking at a stub")?.size;
            let zeros = vec![0; 1 << 20];
            let mut at = range.start;
            while at < range.end.min(size) {
                let length = (range.end.min(size) - at).min(zeros.len() as u64);
                let zeroed = destination.write_at(&self.node.object, at, &zeros[..length as usize]);
                if zeroed.is_err() {
                    self.engine.make_holes(&self.node, stub, range.clone());
                }
                zeroed.doing("zeroing a stub")?;
                at += length;
            }
        }
        self.engine.no_longer_missing(stub, whole);
        self.engine.check_complete(&self.node, stub);
        Ok(())
    }

    /// The stub, with all attributes and in a directory that can not be lost.
    fn enter(&self, cancel: &Cancel) -> Result<MutexGuard<'_, Stub>> {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        self.engine.settled(self.node.id)?;
        self.attributes_needed(cancel)?;
        Ok(self.node.lock())
    }

    /// From the first change on, its times are a client's. What an earlier change has cut off is in the record before the next one.
    fn modified(&self, stub: &mut Stub) -> Result<()> {
        if (!stub.record.modified || stub.unsaved) && !stub.settled {
            let before = std::mem::replace(&mut stub.record.modified, true);
            if let Err(error) = self.engine.store_stub(&self.node, stub) {
                stub.record.modified = before;
                return Err(error);
            }
        }
        Ok(())
    }

    fn begin(&self, mut stub: MutexGuard<'_, Stub>, pending: Range<u64>) -> Result<Changing<'_, D>> {
        self.modified(&mut stub)?;
        stub.clients += 1;
        Ok(Changing { file: self, pending })
    }
}

impl<D: Destination> Changing<'_, D> {
    /// The client has written this range; how many of its bytes to tell it. A block at the end that was written in part only is not
    /// counted, since the rest of it is not here. A change of which this is not told has failed, and nothing of it counts.
    pub fn wrote(mut self, range: Range<u64>) -> u64 {
        self.pending = 0..0;
        let File { engine, node } = self.file;
        let mut stub = node.lock();
        let (edges, whole) = engine.parts(&stub, &range);
        let here = whole.start..whole.end.min(stub.record.minsize).max(whole.start);
        engine.no_longer_missing(&mut stub, here);
        engine.check_complete(node, &mut stub);
        match edges.last() {
            Some(edge) if edge.start >= range.start => {
                // What was written of it is taken back: what is allocated counts as here.
                self.pending = edge.clone();
                edge.start - range.start
            }
            _ => range.end - range.start,
        }
    }
}

impl<D: Destination> Drop for Changing<'_, D> {
    fn drop(&mut self) {
        let File { engine, node } = self.file;
        let mut stub = node.lock();
        stub.clients -= 1;
        node.changed();
        if stub.missing.touches(self.pending.clone()) {
            node.alone(&mut stub);
            engine.make_holes(node, &stub, self.pending.clone());
        }
    }
}
