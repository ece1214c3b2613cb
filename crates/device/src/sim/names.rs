//! The entries of a simulated directory: which name leads to which device, and which of that is durable.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::Chance;
use super::medium::Id;

/// Names and what they lead to.
type Entries = BTreeMap<String, Id>;

/// A change of the entries. It speaks of devices, not of names alone, so that it means something even if a change before it
/// is lost.
#[derive(Clone, Debug)]
enum Change {
    /// The device has this name from now on, and no other; whoever had it has none. A creation or a rename.
    Name(String, Id),
    /// The device loses this name, if it has it.
    Unname(String, Id),
}

/// How far a change got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The next sync makes it durable.
    InFlight,
    /// A failed sync dropped it: seen, perhaps durable, and no later sync changes that.
    Lost,
    /// It survives.
    Durable,
}

/// The entries of one directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// What every change since stands on; durable.
    base: Entries,
    /// In the order in which they were made. Durable ones stay only behind one that is not, because that one may still
    /// survive and then comes first.
    changes: Vec<(Change, Standing)>,
    /// What everyone sees.
    visible: Entries,
}

impl Names {
    /// The entries as everyone sees them.
    pub(super) fn visible(&self) -> &Entries {
        &self.visible
    }

    /// Gives a device a name, new or instead of its old one.
    pub(super) fn name(&mut self, name: &str, id: Id) {
        self.change(Change::Name(name.to_owned(), id));
    }

    /// Takes a device's name away.
    pub(super) fn unname(&mut self, name: &str, id: Id) {
        self.change(Change::Unname(name.to_owned(), id));
    }

    /// Makes durable what is in flight.
    pub(super) fn sync(&mut self) {
        self.settle(Standing::Durable);
        let durable = self.changes.iter().take_while(|(_, standing)| *standing == Standing::Durable).count();
        for (change, _) in self.changes.drain(..durable) {
            apply(&mut self.base, &change);
        }
    }

    /// A sync that fails: what was in flight is lost.
    pub(super) fn fail_sync(&mut self) {
        self.settle(Standing::Lost);
    }

    /// What a power cut leaves: the durable changes and any subset of the others.
    pub(super) fn survivors(&self, rng: &mut Rng) -> Self {
        let chance = Chance::draw(rng);
        let mut base = self.base.clone();
        for (change, standing) in &self.changes {
            if *standing == Standing::Durable || chance.hits(rng) {
                apply(&mut base, change);
            }
        }
        Self { visible: base.clone(), base, changes: Vec::new() }
    }

    /// True while some name leads to the device, or may after a power cut.
    pub(super) fn may_lead_to(&self, id: Id) -> bool {
        self.base.values().any(|&other| other == id)
            || self.visible.values().any(|&other| other == id)
            || self.changes.iter().any(|(change, _)| matches!(change, Change::Name(_, other) if *other == id))
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.visible, &change);
        self.changes.push((change, Standing::InFlight));
    }

    fn settle(&mut self, outcome: Standing) {
        for (_, standing) in &mut self.changes {
            if *standing == Standing::InFlight {
                *standing = outcome;
            }
        }
    }
}

fn apply(entries: &mut Entries, change: &Change) {
    match change {
        Change::Name(name, id) => {
            entries.retain(|_, other| other != id);
            entries.insert(name.clone(), *id);
        }
        Change::Unname(name, id) => {
            if entries.get(name) == Some(id) {
                entries.remove(name);
            }
        }
    }
}
