//! What memory knows of a stub file while it is in use.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::progress::Counters;
use super::{Doing, Engine, Error, Result};
use crate::destination::{Destination, NodeId};
use crate::ranges::RangeSet;
use crate::record::{Record, Reference, State};
use crate::source::Cancel;

/// How often a waiter looks whether its caller has cancelled it.
const LOOK: Duration = Duration::from_millis(20);

/// A stub file in use. The map holds it weakly; uses, and the settler, hold it.
pub(super) struct Node<D: Destination> {
    pub(super) object: D::Object,
    pub(super) id: NodeId,
    /// It is no stub any more: for good.
    normal: AtomicBool,
    stub: Mutex<Stub>,
    turn: Condvar,
}

/// Protected by the node's lock. Local writes of the engine are done under it, requests to the source are not.
#[expect(clippy::struct_excessive_bools, reason = "each is so or not whatever the others are")]
pub(super) struct Stub {
    pub(super) record: Record,
    /// Where the record is, if not at the inode.
    pub(super) reference: Option<Reference>,
    /// What is not here, below `minsize`: truth while the node lives.
    pub(super) missing: RangeSet,
    /// What is being copied. Each range belongs to one thread; what others have made present meanwhile, that thread leaves alone.
    pub(super) fetching: Vec<Range<u64>>,
    /// The record on the medium says less of what was cut off than memory does. It must be written before the file becomes larger: holes behind the old
    /// end would pass for what is missing.
    pub(super) unsaved: bool,
    /// Attributes are being fetched.
    pub(super) attributes: bool,
    /// Clients that change the file now. While there are any, the engine neither writes nor truncates.
    pub(super) clients: usize,
    /// Threads of the engine that wait for clients to end: no new ones come in.
    pub(super) waiting: usize,
    /// All is here; the settler has it.
    pub(super) complete: bool,
    /// The settler has removed the record.
    pub(super) settled: bool,
    /// Bytes of zeros that have come and are holes. A node that is loaded again takes them for missing, so they count as here when the file is whole.
    pub(super) zeros: u64,
}

pub(super) struct Nodes<D: Destination>(Mutex<HashMap<NodeId, Weak<Node<D>>>>);

impl<D: Destination> Default for Nodes<D> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<D: Destination> Node<D> {
    pub(super) fn is_normal(&self) -> bool {
        self.normal.load(Ordering::Acquire)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Stub> {
        self.stub.lock()
    }

    /// Wakes all that wait for a change of this stub.
    pub(super) fn changed(&self) {
        self.turn.notify_all();
    }

    /// Waits for a change, or for a little while.
    pub(super) fn wait(&self, stub: &mut MutexGuard<'_, Stub>, cancel: &Cancel) -> Result<()> {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        self.turn.wait_for(stub, LOOK);
        Ok(())
    }

    /// Waits until no client changes the file.
    pub(super) fn alone(&self, stub: &mut MutexGuard<'_, Stub>) {
        stub.waiting += 1;
        while stub.clients > 0 {
            self.turn.wait(stub);
        }
        stub.waiting -= 1;
        self.changed();
    }

    pub(super) fn became_normal(&self) {
        self.normal.store(true, Ordering::Release);
        self.changed();
    }
}

impl<D: Destination> Engine<D> {
    /// What is known of a file; `None` if it is no stub.
    pub(super) fn node(&self, object: &D::Object) -> Result<Option<Arc<Node<D>>>> {
        let id = self.destination.id(object);
        // A node that lives knows more than the medium.
        let live = |nodes: &HashMap<NodeId, Weak<Node<D>>>| nodes.get(&id).and_then(Weak::upgrade);
        if let Some(node) = live(&self.nodes.0.lock()) {
            return Ok((!node.is_normal()).then_some(node));
        }
        if !self.has_record(object)? {
            return Ok(None);
        }
        let mut nodes = self.nodes.0.lock();
        if let Some(node) = live(&nodes) {
            return Ok((!node.is_normal()).then_some(node));
        }
        let Some((record, reference)) = self.record(object)? else { return Ok(None) };
        let stub = self.load(object, record, reference)?;
        let node = Arc::new(Node {
            object: object.clone(),
            id,
            normal: AtomicBool::new(false),
            stub: Mutex::new(stub),
            turn: Condvar::new(),
        });
        if nodes.len() >= 1024 && nodes.len() == nodes.capacity() {
            nodes.retain(|_, node| node.strong_count() > 0);
        }
        nodes.insert(id, Arc::downgrade(&node));
        drop(nodes);
        // A crash may have come after the last block, or there are none.
        self.check_complete(&node, &mut node.lock());
        Ok(Some(node))
    }

    /// Sees from the file's blocks and its record what is missing.
    fn load(&self, object: &D::Object, mut record: Record, reference: Option<Reference>) -> Result<Stub> {
        let status = self.destination.status(object).doing("looking at a stub")?;
        // A kill may have come between a smaller size and the record that tells of it.
        let unsaved = status.size < record.minsize;
        record.minsize = record.minsize.min(status.size);
        if !record.modified && status.modified != record.stamp.modified {
            // A crash came between a block and the time that goes with it.
            let times = self.destination.set_times(object, status.accessed, record.stamp.modified);
            times.doing("setting the times of a stub")?;
        }
        let mut missing = RangeSet::from(0..record.minsize);
        let block = self.destination.block_size();
        let mut at = 0;
        let next_data = |at| self.destination.next_data(object, at).doing("looking for a stub's holes");
        if next_data(0)?.is_some() {
            self.destination.forget_read(object).doing("looking for a stub's holes")?;
        }
        while let Some(data) = next_data(at)? {
            let end = if data.end >= status.size { u64::MAX } else { data.end / block * block };
            missing.remove(data.start.next_multiple_of(block)..end);
            at = data.end;
            if at >= record.minsize {
                break;
            }
        }
        for hole in record.holes.iter() {
            missing.remove(hole);
        }
        Ok(Stub {
            record,
            reference,
            missing,
            fetching: Vec::new(),
            unsaved,
            attributes: false,
            clients: 0,
            waiting: 0,
            complete: false,
            settled: false,
            zeros: 0,
        })
    }

    /// Writes the record of a stub as it is in memory, if it still has one.
    pub(super) fn store_stub(&self, node: &Node<D>, stub: &mut Stub) -> Result<()> {
        if stub.settled {
            return Ok(());
        }
        stub.reference = self.store_again(&node.object, &stub.record, stub.reference)?;
        stub.unsaved = false;
        Ok(())
    }

    /// Hands a stub to the settler, if nothing is missing any more.
    pub(super) fn check_complete(&self, node: &Arc<Node<D>>, stub: &mut Stub) {
        if !stub.complete && stub.missing.is_empty() && stub.record.state == State::Partial {
            stub.complete = true;
            Counters::add(&self.counters.here, std::mem::take(&mut stub.zeros));
            self.no_problem(stub.record.source, &stub.record.location.path);
            self.settling.complete(node.clone());
        }
        node.changed();
    }

    /// After a write of that range that failed: what is missing of it becomes holes again. A file system may have made data, all zeros, of blocks
    /// that it did not write (ext4 does where room ends), and a later look at the file would take that for what is here.
    ///
    /// No client may change the file meanwhile. Times stay.
    pub(super) fn make_holes(&self, node: &Arc<Node<D>>, stub: &Stub, range: Range<u64>) {
        let block = self.destination.block_size();
        let blocks = range.start / block * block..range.end.checked_next_multiple_of(block).unwrap_or(u64::MAX);
        let made = self.destination.status(&node.object).and_then(|before| {
            for part in stub.missing.within(blocks) {
                let hole = part.start / block * block..part.end.next_multiple_of(block);
                self.destination.punch(&node.object, hole)?;
            }
            self.destination.set_times(&node.object, before.accessed, before.modified)
        });
        if let Err(error) = made {
            // Memory still knows what is missing, as long as the node lives.
            let path = stub.record.location.path.display();
            tracing::error!(%path, %error, "zeros may pass for data of this file if the service ends before it is whole");
            let mut doubtful = self.doubtful.lock();
            doubtful.retain(|other| !other.is_normal() && !Arc::ptr_eq(other, node));
            doubtful.push(node.clone());
        }
    }

    /// Bytes need not be copied any more.
    pub(super) fn no_longer_missing(&self, stub: &mut Stub, range: Range<u64>) {
        self.arrived(stub, range, 0);
    }

    /// Bytes have come, so many of which are zeros that have become holes.
    pub(super) fn arrived(&self, stub: &mut Stub, range: Range<u64>, zeros: u64) {
        let gone: u64 = stub.missing.within(range.clone()).map(|part| part.end - part.start).sum();
        stub.missing.remove(range);
        let zeros = zeros.min(gone);
        stub.zeros += zeros;
        Counters::add(&self.counters.here, gone - zeros);
    }
}
