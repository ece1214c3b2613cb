//! The whole medium behind one lock: power, counters and faults, names, and every device's sectors.

use std::collections::BTreeMap;
use std::io;

use fastrand::Rng;
use ishigaki_base::random::Seed;
use rustix::io::Errno;

use super::SimSettings;
use super::contents::Contents;
use super::fault::{Class, Counts, Fate, Fault};
use super::names::Names;
use crate::request::check_longer;
use crate::{Error, Result};

/// A device's identity, whatever its name; never used twice on one medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(u64);

/// What a directory and all its devices share.
#[derive(Debug)]
pub(super) struct Medium {
    settings: SimSettings,
    rng: Rng,
    power_is_on: bool,
    locked: bool,
    counts: Counts,
    names: Names,
    /// Of every device that has a name, may have one after a power cut, or has a user.
    devices: BTreeMap<Id, Held>,
    next: Id,
}

#[derive(Debug)]
struct Held {
    contents: Contents,
    /// How many [`super::SimDevice`]s there are of it.
    handles: usize,
}

impl Medium {
    /// Empty, with the power on.
    pub(super) fn new(settings: SimSettings) -> Self {
        Self {
            rng: settings.seed.generator(),
            settings,
            power_is_on: true,
            locked: false,
            counts: Counts::default(),
            names: Names::default(),
            devices: BTreeMap::new(),
            next: Id(0),
        }
    }

    pub(super) fn settings(&self) -> &SimSettings {
        &self.settings
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn inject(&mut self, fault: Fault) {
        self.settings.faults.push(fault);
    }

    pub(super) fn power_is_on(&self) -> bool {
        self.power_is_on
    }

    pub(super) fn cut(&mut self) {
        self.power_is_on = false;
    }

    /// What a power cut leaves.
    pub(super) fn survivors(&self, seed: Seed) -> Self {
        let mut rng = seed.generator();
        let names = self.names.survivors(&mut rng);
        let devices = names
            .visible()
            .values()
            .filter_map(|id| Some((*id, Held::unused(self.devices.get(id)?.contents.survivors(&mut rng)))))
            .collect();
        self.rebuilt(names, devices, seed.derive(0))
    }

    /// What the next process on the same machine finds.
    pub(super) fn successor(&self) -> Self {
        let devices = self
            .devices
            .iter()
            .filter(|(id, _)| self.names.may_lead_to(**id))
            .map(|(id, held)| (*id, Held::unused(held.contents.clone())))
            .collect();
        self.rebuilt(self.names.clone(), devices, self.settings.seed.derive(self.counts.operations))
    }

    fn rebuilt(&self, names: Names, devices: BTreeMap<Id, Held>, seed: Seed) -> Self {
        let settings = SimSettings { seed, faults: Vec::new(), ..self.settings.clone() };
        Self { names, devices, next: self.next, ..Self::new(settings) }
    }

    /// Fails when there is no power.
    pub(super) fn check_power(&self, name: &str) -> Result<()> {
        if self.power_is_on { Ok(()) } else { Err(Error::PowerCut { name: name.to_owned() }) }
    }

    /// The device of that name.
    pub(super) fn find(&self, name: &str) -> Result<Id> {
        self.names.visible().get(name).copied().ok_or_else(|| Error::NotFound { name: name.to_owned() })
    }

    /// Every name with its device's length.
    pub(super) fn devices(&self) -> Vec<(String, u64)> {
        let length = |id: &Id| self.devices.get(id).map_or(0, |held| held.contents.length());
        self.names.visible().iter().map(|(name, id)| (name.clone(), length(id))).collect()
    }

    /// The sectors of a device that has a name or a user.
    pub(super) fn contents_mut(&mut self, id: Id) -> &mut Contents {
        &mut self.held(id).contents
    }

    fn held(&mut self, id: Id) -> &mut Held {
        self.devices.get_mut(&id).expect("a device with a name or a user is kept")
    }

    pub(super) fn take_handle(&mut self, id: Id) {
        self.held(id).handles += 1;
    }

    pub(super) fn give_handle_back(&mut self, id: Id) {
        self.held(id).handles -= 1;
        self.forget_unreachable();
    }

    /// Gives the space of devices back that nobody uses and no power cut can bring back.
    fn forget_unreachable(&mut self) {
        let names = &self.names;
        self.devices.retain(|&id, held| held.handles > 0 || names.may_lead_to(id));
    }

    /// A new device of zeros.
    pub(super) fn create(&mut self, name: &str, length: u64) -> Result<Id> {
        self.check_power(name)?;
        if self.names.visible().contains_key(name) {
            return Err(Error::AlreadyExists { name: name.to_owned() });
        }
        let used: u64 = self.devices.values().map(|held| held.contents.length()).sum();
        if self.settings.capacity.is_some_and(|capacity| used.saturating_add(length) > capacity.as_u64()) {
            return Err(Error::NoSpace { name: name.to_owned(), needed: length });
        }
        let fate = self.operation(Class::Other);
        let id = self.next;
        self.next = Id(id.0 + 1);
        self.devices.insert(id, Held::unused(Contents::new(length)));
        self.names.name(name, id);
        outcome(fate, name, "create")?;
        Ok(id)
    }

    /// Makes a device longer. One that fails or is cut may have become so.
    pub(super) fn grow(&mut self, name: &str, length: u64) -> Result<Id> {
        self.check_power(name)?;
        let id = self.find(name)?;
        let before = self.contents_mut(id).length();
        check_longer(name, before, length)?;
        let used: u64 = self.devices.values().map(|held| held.contents.length()).sum();
        let more = length - before;
        if self.settings.capacity.is_some_and(|capacity| used.saturating_add(more) > capacity.as_u64()) {
            return Err(Error::NoSpace { name: name.to_owned(), needed: more });
        }
        let fate = self.operation(Class::Other);
        if fate == Fate::Succeeds || self.rng.bool() {
            self.contents_mut(id).grow(length);
        }
        outcome(fate, name, "grow")?;
        Ok(id)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        self.check_power(from)?;
        let id = self.find(from)?;
        let fate = self.operation(Class::Other);
        self.names.name(to, id);
        self.forget_unreachable();
        outcome(fate, from, "rename")
    }

    pub(super) fn remove(&mut self, name: &str) -> Result<()> {
        self.check_power(name)?;
        let id = self.find(name)?;
        let fate = self.operation(Class::Other);
        self.names.unname(name, id);
        self.forget_unreachable();
        outcome(fate, name, "remove")
    }

    pub(super) fn sync_names(&mut self) -> Result<()> {
        self.check_power("directory")?;
        let fate = self.operation(Class::Sync);
        match fate {
            Fate::Succeeds => {
                self.names.sync();
                self.forget_unreachable();
            }
            Fate::Fails => self.names.fail_sync(),
            Fate::Cut => {}
        }
        outcome(fate, "directory", "sync")
    }

    pub(super) fn take_lock(&mut self) -> Result<()> {
        self.check_power("directory")?;
        if self.locked {
            return Err(Error::Locked {
                directory: "simulated directory".to_owned(),
                holder: Some(format!("pid {}", std::process::id())),
            });
        }
        self.locked = true;
        Ok(())
    }

    pub(super) fn give_lock_back(&mut self) {
        self.locked = false;
    }

    pub(super) fn read(&mut self, id: Id, name: &str, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check_power(name)?;
        if self.counts.read_fails(&self.settings.faults) {
            return Err(failed(name, "read"));
        }
        self.contents_mut(id).read(offset, buffer);
        Ok(())
    }

    /// All runs at once, as one operation.
    pub(super) fn write(&mut self, id: Id, name: &str, runs: &[(u64, &[u8])], durable: bool) -> Result<()> {
        self.check_power(name)?;
        let fate = self.operation(Class::Write);
        let contents = &mut self.devices.get_mut(&id).expect("a device with a user is kept").contents;
        // Of runs that overlap any may be the last.
        let mut runs = runs.to_vec();
        self.rng.shuffle(&mut runs);
        for (offset, bytes) in runs {
            match fate {
                Fate::Succeeds if durable => contents.write_durable(offset, bytes),
                Fate::Succeeds | Fate::Cut => contents.write(offset, bytes),
                Fate::Fails => contents.write_some(offset, bytes, &mut self.rng),
            }
        }
        outcome(fate, name, "write")
    }

    pub(super) fn sync(&mut self, id: Id, name: &str) -> Result<()> {
        self.check_power(name)?;
        let fate = self.operation(Class::Sync);
        let contents = self.contents_mut(id);
        match fate {
            Fate::Succeeds => contents.sync(),
            Fate::Fails => contents.fail_sync(),
            // Whatever it had done by then, the rest was in flight: any subset survives either way.
            Fate::Cut => {}
        }
        outcome(fate, name, "sync")
    }

    pub(super) fn trim(&mut self, id: Id, name: &str, offset: u64, length: u64) -> Result<()> {
        self.check_power(name)?;
        let fate = self.operation(Class::Other);
        let held = self.devices.get_mut(&id).expect("a device with a user is kept");
        held.contents.trim(offset, length, &mut self.rng);
        outcome(fate, name, "trim")
    }

    /// Counts an operation that reaches the medium, and cuts the power if this is its moment.
    fn operation(&mut self, class: Class) -> Fate {
        let fate = self.counts.operation(class, &self.settings.faults);
        if fate == Fate::Cut {
            self.cut();
        }
        fate
    }
}

impl Held {
    fn unused(contents: Contents) -> Self {
        Self { contents, handles: 0 }
    }
}

fn outcome(fate: Fate, name: &str, operation: &'static str) -> Result<()> {
    match fate {
        Fate::Succeeds => Ok(()),
        Fate::Fails => Err(failed(name, operation)),
        Fate::Cut => Err(Error::PowerCut { name: name.to_owned() }),
    }
}

fn failed(name: &str, operation: &'static str) -> Error {
    Error::Io { name: name.to_owned(), operation, source: io::Error::from(Errno::IO) }
}
