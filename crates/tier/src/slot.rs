//! What is known of one slot.

use std::ops::{Deref, Range};

use ishigaki_base::Lsn;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::blocks::Blocks;
use crate::memory::SlotWords;
use crate::record::{Mapped, VolumeId};

/// A place for a chunk on the fast device.
#[derive(Debug)]
pub(crate) struct Slot {
    state: Mutex<State>,
    /// Told when blocks are not claimed any more, or the slot does not leave its chunk any more.
    changed: Condvar,
}

/// What its lock guards. No device is waited for under it.
#[derive(Debug)]
pub(crate) struct State {
    /// The volume and its chunk.
    pub(crate) owner: Option<(VolumeId, u32)>,
    /// How often it had another owner.
    pub(crate) owners: u64,
    /// Blocks that are here.
    pub(crate) valid: Blocks,
    /// Of these: blocks that are nowhere else.
    pub(crate) dirty: Dirty,
    /// Blocks that one request alone writes: those that are not here and come, and all that is written to both devices.
    pub(crate) claimed: Blocks,
    /// Blocks that were written since they were last [copied home](crate::moving).
    pub(crate) rewritten: Blocks,
    /// Blocks that came or were written since the last [snapshot](crate::settling).
    pub(crate) since: Blocks,
    /// Requests that are at its blocks: it does not leave its chunk meanwhile.
    pub(crate) users: u32,
    /// Of these: requests that write.
    pub(crate) writers: u32,
    /// Its dirty blocks are on their way home, or become zeros there: one movement at a time.
    pub(crate) is_cleaned: bool,
    /// It is about to leave its chunk.
    pub(crate) leaves: bool,
    /// What the map says, by the last record of it.
    pub(crate) recorded: Option<Mapped>,
    /// The record that has opened it.
    pub(crate) opened: Lsn,
}

impl Slot {
    /// One that holds nothing. What becomes dirty in it is said there as well.
    pub(crate) fn new(chunk: u64, words: Option<SlotWords>) -> Self {
        let none = || Blocks::none(chunk);
        let state = State {
            owner: None,
            owners: 0,
            valid: none(),
            dirty: Dirty { blocks: none(), words },
            claimed: none(),
            rewritten: none(),
            since: none(),
            users: 0,
            writers: 0,
            is_cleaned: false,
            leaves: false,
            recorded: None,
            opened: Lsn::ZERO,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        self.state.try_lock()
    }

    /// Waits until something has changed that a request may wait for.
    pub(crate) fn wait(&self, state: &mut MutexGuard<'_, State>) {
        self.changed.wait(state);
    }

    /// Gives claimed blocks free, and does what comes with it before anybody else sees them.
    pub(crate) fn free(&self, claimed: &Blocks, with: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        with(&mut state);
        state.claimed.subtract(claimed);
        drop(state);
        self.tell();
    }

    pub(crate) fn tell(&self) {
        self.changed.notify_all();
    }
}

/// The dirty blocks of a slot. Whatever changes them says so in the [memory](crate::memory) that the next process finds.
#[derive(Debug)]
pub(crate) struct Dirty {
    blocks: Blocks,
    words: Option<SlotWords>,
}

impl Dirty {
    fn change(&mut self, with: impl FnOnce(&mut Blocks)) {
        with(&mut self.blocks);
        if let Some(words) = &self.words {
            words.dirty(&self.blocks);
        }
    }

    /// Without these.
    pub(crate) fn subtract(&mut self, other: &Blocks) {
        self.change(|blocks| blocks.subtract(other));
    }
}

impl Deref for Dirty {
    type Target = Blocks;

    fn deref(&self) -> &Blocks {
        &self.blocks
    }
}

impl State {
    /// It is that chunk's from now on.
    pub(crate) fn belong(&mut self, owner: (VolumeId, u32)) {
        self.owner = Some(owner);
        self.owners += 1;
        if let Some(words) = &self.dirty.words {
            words.belong(owner);
        }
    }

    /// Whether it is that of a chunk of that volume.
    pub(crate) fn belongs_to(&self, volume: VolumeId) -> bool {
        self.owner.is_some_and(|(owner, _)| owner == volume)
    }

    /// These blocks are here, and nowhere else.
    pub(crate) fn written(&mut self, range: Range<u64>) {
        for blocks in [&mut self.valid, &mut self.rewritten, &mut self.since] {
            blocks.insert(range.clone());
        }
        self.dirty.change(|blocks| blocks.insert(range));
    }

    /// It holds nothing any more.
    pub(crate) fn reset(&mut self) {
        self.owner = None;
        self.recorded = None;
        self.leaves = false;
        for blocks in [&mut self.valid, &mut self.rewritten, &mut self.since] {
            blocks.clear();
        }
        self.dirty.change(Blocks::clear);
    }

    /// Takes what the map has said before a crash, and which blocks are dirty.
    pub(crate) fn recover(&mut self, owner: (VolumeId, u32), recorded: Option<Mapped>, dirty: Blocks) {
        self.belong(owner);
        self.valid = dirty.clone();
        // Clean blocks of an open slot may have been written over.
        if let Some(recorded) = recorded.as_ref().filter(|recorded| !recorded.open) {
            self.valid.union(&recorded.clean());
        }
        self.dirty.change(|blocks| *blocks = dirty);
        self.recorded = recorded;
    }

    /// Whether the map must call the slot open before these blocks are written over.
    pub(crate) fn must_be_open(&self, blocks: Range<u64>) -> bool {
        self.recorded.as_ref().is_some_and(|recorded| recorded.clean().has_any(blocks))
    }

    /// Whether it could leave its chunk.
    pub(crate) fn is_idle(&self) -> bool {
        self.owner.is_some() && self.users == 0 && !self.leaves && self.dirty.is_empty()
    }
}
