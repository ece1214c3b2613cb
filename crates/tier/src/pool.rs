//! A pool: one fast device, and the volumes that share it.

mod absent;
mod opening;
mod pinning;

pub use absent::Away;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_device::{Device, Directory};
use parking_lot::{Mutex, RwLock};

use crate::header::Header;
use crate::heat::Clock;
use crate::keeper::{Bell, Keeper};
use crate::map::{Found, Known, Map};
use crate::memory::Memory;
use crate::order::Order;
use crate::record::{Record, SlotId, VERSION, VolumeId};
use crate::remembered::Remembered;
use crate::slot::Slot;
use crate::volume::{Closed, Core as VolumeCore, Volume};
use crate::wear::Wear;
use crate::{BLOCK, Error, Mode, OnDemand, Result, Settings};

use self::absent::Absent;
use self::opening::Slow;

/// One fast device, and the volumes that have some of their bytes there.
///
/// *Threads*: everything takes `&self` and may be called from any number of threads. *Drop* ends the pool's own thread with the last handle, and does
/// nothing else: what was not synced may be lost, as with any device. *A crash* at any moment loses nothing that a [`Volume`]'s sync has answered for; that of
/// the process alone, where there is [`Memory`], nothing that was written.
#[derive(Clone)]
pub struct Pool {
    pub(crate) core: Arc<Core>,
    /// Ends with the last handle to the pool; its volumes can do without.
    _keeper: Option<Arc<Keeper>>,
}

/// What its volumes share.
pub(crate) struct Core {
    pub(crate) map: Map,
    /// What the next process finds beside it, though it was not synced.
    pub(crate) remembered: Remembered,
    pub(crate) fast: Arc<dyn Device>,
    slow: Arc<dyn Directory>,
    /// Bytes of a chunk.
    pub(crate) chunk: u64,
    pub(crate) slots: Vec<Slot>,
    /// Slots that hold nothing, durably.
    pub(crate) free: Mutex<Vec<SlotId>>,
    pub(crate) order: Mutex<Order>,
    pub(crate) clock: Clock,
    pub(crate) wear: Wear,
    pub(crate) on_demand: OnDemand,
    /// From how many bytes on a stream goes past the fast device.
    pub(crate) bypass: u64,
    /// The way to ask the thread that keeps slots free, while there is one.
    pub(crate) bell: Mutex<Option<Bell>>,
    volumes: RwLock<BTreeMap<VolumeId, Arc<VolumeCore>>>,
    /// Volumes whose slow device can not be opened, or has not answered. Their slots stay theirs.
    away: Mutex<BTreeMap<VolumeId, Absent>>,
    /// How long a slow device that is opened is waited for; without an end where there are no threads.
    patience: Option<Duration>,
    next: AtomicU32,
    /// One volume is made or taken away at a time, and the map is not said again meanwhile.
    changing: Mutex<()>,
    /// The fast device is synced by one thread.
    pub(crate) syncing: Mutex<()>,
    /// How often a sync of the fast device has failed.
    pub(crate) lost: AtomicU64,
    /// It was told that it fails.
    pub(crate) told: AtomicBool,
}

/// What a pool holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Slots of the fast device.
    pub slots: u64,
    /// Of these, slots that hold a chunk.
    pub used: u64,
    /// Bytes that are on the fast device.
    pub valid: u64,
    /// Of these, bytes that are nowhere else.
    pub dirty: u64,
    /// Bytes written to the fast device since the pool was opened.
    pub written: u64,
    /// Whether blocks that are read may come to it: not while more was written than its [endurance](Settings::endurance) allows.
    pub may_come: bool,
}

impl Pool {
    /// Opens the pool whose map is in `directory`, or makes one there. Its volumes lie in the directory `slow`, each as a device of its name. The
    /// caller holds the locks of all three. With `memory`, what was written and not synced is lost with the power alone, not with the process.
    ///
    /// A volume whose slow device can not be opened, or does not answer within [`Settings::patience`], is [away](Self::away); the others are served.
    ///
    /// # Errors
    ///
    /// [`Error::WrongFast`] when the fast device is another pool's, or has become smaller; [`Error::Damaged`] for a map that is not as it was written.
    pub fn open(
        directory: Arc<dyn Directory>,
        fast: Arc<dyn Device>,
        slow: Arc<dyn Directory>,
        memory: Option<&Memory>,
        settings: &Settings,
    ) -> Result<Self> {
        settings.check()?;
        let (map, mut found) = Map::open(directory, settings)?;
        let chunk = found.chunk.unwrap_or(settings.chunk.0);
        let count = (fast.len() / chunk).saturating_sub(1);
        if count == 0 || u32::try_from(count).is_err() {
            let reason =
                format!("the fast device has {} bytes; it takes two chunks of {chunk} bytes at least", fast.len());
            return Err(Error::invalid(reason));
        }
        let header = Header { pool: map.id(), chunk };
        let there = Header::read(&*fast)?;
        if found.chunk.is_some() || there.is_some_and(|there| there.pool != header.pool) {
            header.check(there)?;
        } else {
            header.write(&*fast)?;
            map.append(&Record::Pool { version: VERSION, chunk })?;
            map.flush()?;
        }
        if let Some((last, _)) = found.slots.last_key_value().filter(|(last, _)| u64::from(last.0) >= count) {
            let needed = (u64::from(last.0) + 2) * chunk;
            let reason = format!("the fast device has {} bytes, and the pool has {needed} there", fast.len());
            return Err(Error::WrongFast { reason });
        }
        fast.sync()?;
        let (remembered, mut known) = Remembered::open(memory, &map, &found, chunk, count)?;
        let mut free = Vec::new();
        let recovered = |id: SlotId| {
            let place = Slot::new(chunk, remembered.words(id));
            if let Some((owner, dirty)) = known.remove(&id) {
                place.lock().recover(owner, found.slots.remove(&id), dirty);
            } else {
                place.lock().reset();
                free.push(id);
            }
            place
        };
        let slots = (0..count as u32).map(SlotId).map(recovered).collect();
        free.reverse();
        remembered.begin();
        let core = Core {
            map,
            remembered,
            fast,
            slow,
            chunk,
            slots,
            free: Mutex::new(free),
            order: Mutex::new(Order::new(count as usize, settings.eviction)),
            clock: Clock::started(settings.half_life),
            wear: Wear::new(settings.endurance.map(|bytes| bytes.0)),
            on_demand: settings.on_demand,
            bypass: if settings.bypass.0 == 0 { u64::MAX } else { settings.bypass.0 },
            bell: Mutex::new(None),
            volumes: RwLock::default(),
            away: Mutex::default(),
            patience: settings.background.then_some(settings.patience),
            next: AtomicU32::new(found.next),
            changing: Mutex::default(),
            syncing: Mutex::default(),
            lost: AtomicU64::new(0),
            told: AtomicBool::new(false),
        };
        core.open_volumes(found);
        if core.remembered.goes_on {
            // What is read from now on stays, whatever comes: all of it is in the map. One that fails has stopped, and the others go on.
            for volume in core.all_volumes() {
                let _ = core.settle(&volume);
            }
        }
        let core = Arc::new(core);
        let keeper = if settings.background { Some(Arc::new(Keeper::start(&core)?)) } else { None };
        Ok(Self { core, _keeper: keeper })
    }

    /// Makes a volume of `length` bytes, all zero, whose slow device is made with its name.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a length that is not whole blocks, a name that is taken, or that no device may have.
    pub fn create(&self, name: &str, length: u64, mode: Mode) -> Result<Volume> {
        let _one = self.core.changing.lock();
        self.core.check_new(name)?;
        check_length(name, length)?;
        let slow = self.core.slow.reserve(name, length)?;
        self.core.slow.sync()?;
        self.core.add(name, slow, mode)
    }

    /// Makes a volume of what there is: the device of that name in the slow directory, for example the image of a disk.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a device that is not whole blocks, or is a volume already; [`Error::Silent`] for one that does not answer.
    pub fn attach(&self, name: &str, mode: Mode) -> Result<Volume> {
        let _one = self.core.changing.lock();
        self.core.check_new(name)?;
        let slow = self.core.open_new(name)?;
        check_length(name, slow.len())?;
        // Its name may be as new as its last user was hasty.
        self.core.slow.sync()?;
        self.core.add(name, slow, mode)
    }

    /// Brings home all that a volume has on the fast device, and gives its slow device back: that has all of it, and is no volume any more. Requests that are
    /// under way are waited for; later ones are refused.
    ///
    /// # Errors
    ///
    /// What the devices say. The volume stays in the pool then, stopped.
    pub fn detach(&self, name: &str) -> Result<()> {
        let volume = self.volume(name)?;
        // Before the lock, as everything that its slow device is waited for: others change meanwhile.
        let closed = volume.core.close()?;
        volume.core.check()?;
        self.core.drain(&volume.core)?;
        check_whole(&volume.core.known, self.core.slow.open(name)?.len())?;
        let _one = self.core.changing.lock();
        self.core.forget(&volume.core)?;
        closed.for_good();
        Ok(())
    }

    /// Takes a volume away, with all that is in it, and also one that is [away](Self::away), unless its device does not answer.
    ///
    /// # Errors
    ///
    /// [`Error::Away`] for that; what the devices say. After an error its slow device may be there still, and be removed by hand.
    pub fn remove(&self, name: &str) -> Result<()> {
        let present = self.volume(name);
        let closed = present.as_ref().ok().map(|volume| volume.core.close()).transpose()?;
        let _one = self.core.changing.lock();
        if !self.core.forget_away(name)? {
            let volume = present.as_ref().map_err(Clone::clone)?;
            self.core.forget(&volume.core)?;
            closed.into_iter().for_each(Closed::for_good);
        }
        match self.core.slow.remove(name) {
            Ok(()) => Ok(self.core.slow.sync()?),
            // Another program has removed it.
            Err(ishigaki_device::Error::NotFound { .. }) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Makes a volume longer, by zeros. Requests that are under way are waited for; handles that are open are refused from then on, as those of a volume that is no
    /// more.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a length that is less than it has, or not whole blocks; what the slow device says where it can not be made longer: the
    /// volume is as it was then.
    pub fn resize(&self, name: &str, length: u64) -> Result<Volume> {
        let before = self.volume(name)?.core;
        check_length(name, length)?;
        if length < before.known.length {
            let has = ByteSize(before.known.length);
            let reason = format!(
                "volume `{name}` has {has}, and can not be made shorter: detach it, make file system and file smaller, and attach it"
            );
            return Err(Error::invalid(reason));
        }
        let closed = before.close()?;
        before.check()?;
        self.core.settle(&before)?;
        if before.is_pinned() {
            let _one = self.core.changing.lock();
            self.core.check_pin(&before, length)?;
        }
        let slow = self.core.slow.grow(name, length)?;
        let _one = self.core.changing.lock();
        let known = before.known_with(length);
        let after = Arc::new(VolumeCore::new(before.id, known, slow, self.core.chunk));
        self.core.replace(&before, &after)?;
        closed.for_good();
        Ok(Volume { core: after, pool: self.core.clone() })
    }

    /// The volume of that name.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], or [`Error::Away`] with why it is [away](Self::away).
    pub fn volume(&self, name: &str) -> Result<Volume> {
        if let Some(core) = self.core.volumes.read().values().find(|volume| volume.known.name == name) {
            return Ok(Volume { core: core.clone(), pool: self.core.clone() });
        }
        Err(self.core.why_away(name).unwrap_or_else(|| Error::NotFound { volume: name.to_owned() }))
    }

    /// The names of the volumes, sorted.
    pub fn volumes(&self) -> Vec<String> {
        self.handles().iter().map(|volume| volume.name().to_owned()).collect()
    }

    /// The volumes, sorted by their names.
    pub fn handles(&self) -> Vec<Volume> {
        let handle = |core| Volume { core, pool: self.core.clone() };
        let mut handles: Vec<_> = self.core.all_volumes().into_iter().map(handle).collect();
        handles.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        handles
    }

    /// [Brings home](Volume::clean) what all volumes have, one after the other.
    ///
    /// # Errors
    ///
    /// The first failure; volumes that it does not concern are brought home all the same.
    pub fn clean(&self) -> Result<()> {
        let mut outcome = Ok(());
        for volume in self.handles() {
            outcome = outcome.and(volume.clean());
        }
        outcome
    }

    /// The number of the time since when nothing that was written is lost but with the power, if there is [`Memory`] for that. When it is another one than
    /// before, writes that were not synced may be lost.
    pub fn session(&self) -> Option<u64> {
        self.core.remembered.session().map(|session| session.0)
    }

    /// The file in memory in which it is said which blocks are dirty, if there is one. It is of no use once the pool is given up.
    pub fn memory(&self) -> Option<PathBuf> {
        self.core.remembered.path().map(Path::to_owned)
    }

    /// Bytes of a chunk.
    pub fn chunk(&self) -> u64 {
        self.core.chunk
    }

    /// Slots of the fast device.
    pub fn slots(&self) -> usize {
        self.core.slots.len()
    }

    /// Slots that there is always to be room in for what is written or asked for: where it is told [what leaves](Self::give_up), as many are free.
    pub fn spare(&self) -> usize {
        self.core.spare()
    }

    /// Has these chunks leave the fast device before all others, the first one first, whenever slots are wanted: for a caller that knows better than their uses what is
    /// going to be used. What was told before counts no more.
    pub fn give_up<'a>(&self, chunks: impl Iterator<Item = (&'a Volume, u32)>) {
        let slot = |(volume, chunk): (&Volume, u32)| volume.core.chunks.get(chunk as usize)?.lock().slot;
        let slots: Vec<_> = chunks.filter_map(slot).collect();
        self.core.order.lock().give_up(slots.into_iter());
        if let Some(bell) = &*self.core.bell.lock() {
            bell.ring();
        }
    }

    /// Slots that hold nothing.
    pub fn free(&self) -> usize {
        self.core.free.lock().len()
    }

    /// What it holds.
    pub fn figures(&self) -> Figures {
        let (slots, wear) = (self.core.slots.len() as u64, &self.core.wear);
        let (written, may_come) = (wear.written(), wear.allows());
        let mut figures = Figures { slots, used: 0, valid: 0, dirty: 0, written, may_come };
        for slot in &self.core.slots {
            let state = slot.lock();
            figures.used += u64::from(state.owner.is_some());
            figures.valid += state.valid.count() * BLOCK;
            figures.dirty += state.dirty.count() * BLOCK;
        }
        figures
    }
}

impl Core {
    /// Opens what the map knows.
    fn open_volumes(&self, found: Found) {
        for (id, known, slow) in self.open_slow(found.volumes.into_iter().collect()) {
            match slow {
                Slow::Open(slow) => {
                    let volume = VolumeCore::new(id, known, slow, self.chunk);
                    self.volumes.write().insert(id, Arc::new(volume));
                }
                slow => self.stays_away(id, known, slow),
            }
        }
        for (slot, id) in self.slots.iter().zip(0..) {
            if let Some((volume, chunk)) = slot.lock().owner
                && let Some(volume) = self.volumes.read().get(&volume)
            {
                self.link(volume, chunk, SlotId(id));
                if self.remembered.goes_on {
                    // The map may not know what is dirty in it.
                    volume.touch(SlotId(id));
                }
            }
        }
    }

    /// A slot has that chunk since before the pool was opened.
    fn link(&self, volume: &VolumeCore, chunk: u32, slot: SlotId) {
        volume.chunks[chunk as usize].lock().slot = Some(slot);
        if !volume.is_pinned() {
            self.order.lock().entered(slot, (volume.id, chunk));
        }
    }

    /// Writes to the fast device.
    pub(crate) fn write_fast(&self, offset: u64, bytes: &[u8]) -> ishigaki_device::Result<()> {
        self.wear.note(bytes.len());
        self.fast.write_at(offset, bytes)
    }

    /// Where a slot begins on the fast device.
    pub(crate) fn place(&self, slot: SlotId) -> u64 {
        (u64::from(slot.0) + 1) * self.chunk
    }

    pub(crate) fn volume(&self, id: VolumeId) -> Option<Arc<VolumeCore>> {
        self.volumes.read().get(&id).cloned()
    }

    pub(crate) fn all_volumes(&self) -> Vec<Arc<VolumeCore>> {
        self.volumes.read().values().cloned().collect()
    }

    fn check_new(&self, name: &str) -> Result<()> {
        self.map.check()?;
        ishigaki_device::check_name(name)?;
        if let Some(away) = self.why_away(name) {
            return Err(away);
        }
        if self.volumes.read().values().any(|volume| volume.known.name == name) {
            return Err(Error::invalid(format!("there is a volume `{name}` already")));
        }
        Ok(())
    }

    fn add(self: &Arc<Self>, name: &str, slow: Arc<dyn Device>, mode: Mode) -> Result<Volume> {
        let id = VolumeId(self.next.fetch_add(1, Ordering::Relaxed));
        let known = Known { mode, pinned: false, length: slow.len(), name: name.to_owned() };
        let volume = Arc::new(VolumeCore::new(id, known, slow, self.chunk));
        self.map.append(&volume.record())?;
        self.map.flush()?;
        self.volumes.write().insert(id, volume.clone());
        Ok(Volume { core: volume, pool: self.clone() })
    }

    /// Takes a closed volume out of the map, and its slots.
    fn forget(&self, volume: &VolumeCore) -> Result<()> {
        // Nothing of it sets out from here on; what is on its way arrives before the map says anything.
        let known = self.volumes.write().remove(&volume.id);
        self.come_to_rest(volume);
        let said = self.map.append(&Record::Gone { id: volume.id }).and_then(|_| self.map.flush());
        if let Err(error) = said {
            self.volumes.write().extend(known.map(|known| (volume.id, known)));
            return Err(error);
        }
        for chunk in &volume.chunks {
            let Some(id) = chunk.lock().slot.take() else { continue };
            self.slots[id.0 as usize].lock().reset();
            self.order.lock().removed(id);
            self.free.lock().push(id);
        }
        Ok(())
    }

    /// Puts a longer volume in the place of a closed one, with its slots.
    fn replace(&self, before: &Arc<VolumeCore>, after: &Arc<VolumeCore>) -> Result<()> {
        // As in forgetting it: movements that are under way know the one before.
        self.volumes.write().remove(&before.id);
        self.come_to_rest(before);
        let said = self.map.append(&after.record()).and_then(|_| self.map.flush());
        if said.is_ok() {
            for (from, to) in before.chunks.iter().zip(&after.chunks) {
                std::mem::swap(&mut *from.lock(), &mut *to.lock());
            }
            std::mem::swap(&mut *before.touched.lock(), &mut *after.touched.lock());
        }
        let is_now = if said.is_ok() { after } else { before };
        self.volumes.write().insert(before.id, is_now.clone());
        said
    }

    /// Waits until no slot of a closed volume is on its way home, nor about to leave its chunk.
    pub(crate) fn come_to_rest(&self, volume: &VolumeCore) {
        for chunk in &volume.chunks {
            let Some(id) = chunk.lock().slot else { continue };
            let slot = &self.slots[id.0 as usize];
            let mut state = slot.lock();
            while state.owner.is_some_and(|owner| owner.0 == volume.id) && (state.users > 0 || state.leaves) {
                slot.wait(&mut state);
            }
        }
    }

    /// Says the map again where its log has become long.
    pub(crate) fn keep_short(&self) -> Result<()> {
        if !self.map.is_long() {
            return Ok(());
        }
        let Some(_alone) = self.changing.try_lock() else { return Ok(()) };
        self.map.restate(|| {
            self.map.append(&Record::Pool { version: VERSION, chunk: self.chunk })?;
            self.map.append(&self.remembered.record())?;
            for volume in self.volumes.read().values() {
                self.map.append(&volume.record())?;
            }
            for (&id, absent) in &*self.away.lock() {
                self.map.append(&absent.known.record(id))?;
            }
            for (slot, id) in self.slots.iter().zip(0..) {
                let state = slot.lock();
                if let Some(mapped) = &state.recorded {
                    self.map.append(&Record::Slot { id: SlotId(id), mapped: mapped.clone() })?;
                }
            }
            Ok(())
        })
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("volumes", &self.volumes()).field("figures", &self.figures()).finish()
    }
}

/// Refuses a slow device that was made shorter under us.
fn check_whole(known: &Known, there: u64) -> Result<()> {
    if there >= known.length {
        return Ok(());
    }
    Err(Error::Short { volume: known.name.clone(), length: known.length, there })
}

fn check_length(name: &str, length: u64) -> Result<()> {
    if length > 0 && length.is_multiple_of(BLOCK) {
        return Ok(());
    }
    let reason = format!(
        "volume `{name}` would have {length} bytes; it takes whole blocks of {BLOCK}: `truncate -s %{BLOCK}` makes the image of a disk so long"
    );
    Err(Error::invalid(reason))
}
