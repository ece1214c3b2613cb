//! What is durable on the simulated medium, and what a power cut leaves.

use std::collections::BTreeSet;

use fastrand::Rng;
use ishigaki_base::random::Seed;

use super::BLOCK;
use super::tree::{Op, Tree};

pub(super) struct Journal {
    durable: Tree,
    /// Changes since, in order.
    pending: Vec<Op>,
    /// Blocks whose data is in the page cache alone: inode and number.
    dirty: BTreeSet<(u64, u64)>,
    /// Changes of different inodes become durable in their order.
    ordered: bool,
    random: Rng,
}

impl Journal {
    pub(super) fn new(seed: Seed, durable: Tree) -> Self {
        Self { durable, pending: Vec::new(), dirty: BTreeSet::new(), ordered: true, random: seed.generator() }
    }

    pub(super) fn keeps_no_order(&mut self) {
        self.ordered = false;
    }

    pub(super) fn log(&mut self, op: Op) {
        self.pending.push(op);
    }

    pub(super) fn dirty(&mut self, inode: u64, blocks: Vec<u64>) {
        self.dirty.extend(blocks.into_iter().map(|block| (inode, block)));
    }

    /// Allocates a dirty block, if it is still there: it takes its place in the order of changes.
    fn write_back(&mut self, now: &Tree, (inode, at): (u64, u64)) {
        let found = now.inode(inode).and_then(|found| Some((found.blocks()?.get(&at)?.clone(), found.size)));
        if let Some((block, size)) = found {
            self.pending.push(Op::Allocate(inode, at, block, size.min((at + 1) * BLOCK)));
        }
    }

    /// The kernel writes back when it likes to.
    pub(super) fn write_back_by_chance(&mut self, now: &Tree) {
        if !self.dirty.is_empty() && self.random.u8(..) < 40 {
            let chosen =
                *self.dirty.iter().nth(self.random.usize(..self.dirty.len())).expect("chosen below its length");
            self.dirty.remove(&chosen);
            self.write_back(now, chosen);
        }
        if self.random.u8(..) < 8 {
            self.commit(self.pending.len());
        }
    }

    /// Makes so many changes durable. Where no order is kept, some of them are held back by chance, with all later ones of the same inodes.
    fn commit(&mut self, changes: usize) {
        let (mut held, mut rest) = (BTreeSet::new(), Vec::new());
        for (at, op) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            let touched = op.inodes();
            let mut is_held = || touched.iter().any(|inode| held.contains(inode)) || self.random.u8(..4) == 0;
            if at >= changes || (!self.ordered && is_held()) {
                held.extend(touched);
                rest.push(op);
            } else {
                self.durable.apply(&op);
            }
        }
        self.pending = rest;
    }

    /// Makes an inode's changes durable, and those that they need before them.
    fn commit_of(&mut self, inode: u64) {
        let needed = self.needed(inode);
        for (op, is_needed) in std::mem::take(&mut self.pending).into_iter().zip(needed) {
            if is_needed {
                self.durable.apply(&op);
            } else {
                self.pending.push(op);
            }
        }
    }

    fn needed(&self, inode: u64) -> Vec<bool> {
        let mut inodes = BTreeSet::from([inode]);
        let mut needed = vec![false; self.pending.len()];
        for (op, needed) in self.pending.iter().zip(&mut needed).rev() {
            *needed = op.inodes().iter().any(|inode| inodes.contains(inode));
            if *needed {
                inodes.extend(op.inodes());
            }
        }
        needed
    }

    /// Makes one inode's data durable, or all data, and all changes before that; where no order is kept, all changes that the inode needs.
    pub(super) fn sync(&mut self, now: &Tree, inode: Option<u64>) {
        let (now_clean, dirty) =
            std::mem::take(&mut self.dirty).into_iter().partition(|(of, _)| inode.is_none_or(|inode| inode == *of));
        self.dirty = dirty;
        let now_clean: BTreeSet<(u64, u64)> = now_clean;
        for block in now_clean {
            self.write_back(now, block);
        }
        match inode {
            Some(inode) if !self.ordered => self.commit_of(inode),
            _ => self.pending.drain(..).for_each(|op| self.durable.apply(&op)),
        }
    }

    /// What is on the medium after a cut, which is durable from then on.
    pub(super) fn cut(&mut self, now: &Tree) -> Tree {
        // Blocks may go to the medium at the last moment, in any order.
        let mut dirty: Vec<_> = std::mem::take(&mut self.dirty).into_iter().collect();
        self.random.shuffle(&mut dirty);
        let late = dirty.split_off(self.random.usize(..=dirty.len()));
        for block in dirty {
            self.write_back(now, block);
        }
        let survive = self.random.usize(..=self.pending.len());
        self.commit(survive);
        self.pending.clear();
        for (inode, at) in late {
            if let Some(block) = now.inode(inode).and_then(|found| found.blocks()?.get(&at).cloned())
                && self.random.bool()
            {
                self.durable.overwrite(inode, at, &block);
            }
        }
        self.durable.drop_orphans();
        self.durable.clone()
    }
}
