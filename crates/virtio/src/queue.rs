//! One virtqueue: requests are taken from it as the guest makes them, in its own thread, and answered by workers or, what is quick, by itself.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use virtio_queue::{DescriptorChain, QueueOwnedT, QueueT};
use vm_memory::{
    Bytes, GuestAddress, GuestAddressSpace, GuestMemory, GuestMemoryLoadGuard, GuestMemoryMmap, GuestRegionMmap,
};

use crate::Memory;
use crate::inflight::Account;
use crate::pace::Turns;
use crate::worker::Worker;

/// A request: buffers in a guest's memory.
pub type Chain = DescriptorChain<GuestMemoryLoadGuard<GuestMemoryMmap>>;

/// A request that was taken, for a worker.
pub(crate) struct Job {
    pub(crate) chain: Chain,
    pub(crate) queue: Arc<Queue>,
    /// Nothing slow is needed for it.
    pub(crate) is_quick: bool,
}

/// Kicks without a request from the beginning, after which the guest's memory is not what is seen here. The first is the hypervisor's own, one more may be from before it has connected again.
const EMPTY_KICKS: u32 = 3;

/// A virtqueue of a device.
pub(crate) struct Queue {
    number: u16,
    state: Mutex<State>,
    /// Told when requests have been answered.
    answered: Condvar,
    /// Has the thread look again.
    bell: OwnedFd,
    /// No more requests are taken.
    is_over: AtomicBool,
    /// The guest has broken the rules: nothing of it is taken any more.
    is_broken: Arc<AtomicBool>,
}

struct State {
    ring: virtio_queue::Queue,
    memory: Memory,
    kick: Option<Arc<OwnedFd>>,
    call: Option<OwnedFd>,
    is_started: bool,
    is_enabled: bool,
    /// Chains that were taken and not answered, by where they begin.
    taken: BTreeSet<u16>,
    account: Option<Account>,
    /// Chains that another process had taken.
    again: Vec<u16>,
    /// Whether there was any request.
    was_asked: bool,
    turns: Turns,
}

impl State {
    fn runs(&self) -> bool {
        self.is_started && self.is_enabled
    }

    /// Why a chain can not be taken.
    fn take(&mut self, head: u16) -> Result<(), String> {
        if self.taken.contains(&head) {
            return Err(format!("the request {head} is made twice"));
        }
        if let Some(account) = &mut self.account {
            account.take(head).map_err(|error| error.to_string())?;
        }
        self.was_asked = true;
        // Last of all: what is in here is waited for.
        self.taken.insert(head);
        Ok(())
    }
}

impl Queue {
    pub(crate) fn new(number: u16, size: u16, memory: Memory, is_broken: Arc<AtomicBool>) -> io::Result<Self> {
        let state = State {
            ring: virtio_queue::Queue::new(size).map_err(io::Error::other)?,
            memory,
            kick: None,
            call: None,
            is_started: false,
            is_enabled: false,
            taken: BTreeSet::new(),
            account: None,
            again: Vec::new(),
            was_asked: false,
            turns: Turns::default(),
        };
        Ok(Self {
            number,
            state: Mutex::new(state),
            answered: Condvar::new(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_over: AtomicBool::new(false),
            is_broken,
        })
    }

    /// Changes the ring; for a queue that does not run.
    pub(crate) fn with_ring<T>(&self, change: impl FnOnce(&mut virtio_queue::Queue) -> T) -> T {
        change(&mut self.state.lock().ring)
    }

    /// Where the guest has its rings. The answers that it has seen are counted in its memory.
    pub(crate) fn place(&self, descriptors: u64, available: u64, used: u64) -> Result<(), String> {
        let mut state = self.state.lock();
        let memory = state.memory.memory();
        let ring = &mut state.ring;
        ring.try_set_desc_table_address(GuestAddress(descriptors)).map_err(|error| error.to_string())?;
        ring.try_set_avail_ring_address(GuestAddress(available)).map_err(|error| error.to_string())?;
        ring.try_set_used_ring_address(GuestAddress(used)).map_err(|error| error.to_string())?;
        let seen = ring.used_idx(&*memory, Ordering::Acquire).map_err(|error| error.to_string())?;
        ring.set_next_used(seen.0);
        Ok(())
    }

    pub(crate) fn set_account(&self, account: Option<Account>) {
        self.state.lock().account = account;
    }

    pub(crate) fn set_call(&self, call: Option<OwnedFd>) {
        self.state.lock().call = call;
    }

    /// By that the guest says that there are requests; the queue starts with it.
    pub(crate) fn set_kick(&self, kick: Option<OwnedFd>) -> Result<(), String> {
        let mut state = self.state.lock();
        state.kick = kick.map(Arc::new);
        if state.kick.is_some() && !state.is_started {
            state.is_started = true;
            state.ring.set_ready(true);
            let used = state.ring.next_used();
            if let Some(account) = &mut state.account {
                let again = account.begin(used).map_err(|error| error.to_string())?;
                // What was taken is counted as taken. The hypervisor knows the answers alone.
                let next = used.wrapping_add(again.len() as u16);
                state.ring.set_next_avail(next);
                state.again = again;
            }
        }
        drop(state);
        self.ring();
        Ok(())
    }

    pub(crate) fn enable(&self, is_enabled: bool) {
        self.state.lock().is_enabled = is_enabled;
        self.ring();
    }

    /// Takes nothing more, and waits until all that was taken is answered, or for so long; then nothing of it will be. The place of the next request.
    pub(crate) fn stop(&self, patience: Option<Duration>) -> u16 {
        let until = patience.map(|patience| Instant::now() + patience);
        let mut state = self.state.lock();
        state.is_started = false;
        while !state.taken.is_empty() {
            match until {
                None => self.answered.wait(&mut state),
                Some(until) => {
                    if self.answered.wait_until(&mut state, until).timed_out() {
                        self.break_off("what it has left behind takes too long");
                        break;
                    }
                }
            }
        }
        state.ring.set_ready(false);
        state.kick = None;
        state.call = None;
        state.ring.next_avail()
    }

    /// Ends its thread. What was taken is still answered.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.ring();
    }

    fn ring(&self) {
        // One that has rung often enough rings.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn break_off(&self, reason: &str) {
        if !self.is_broken.swap(true, Ordering::SeqCst) {
            tracing::warn!(queue = self.number, reason, "a virtual machine gets no more answers");
        }
    }

    /// The work of its thread: hands over what the guest asks for, or has it answered at once.
    pub(crate) fn run(self: &Arc<Self>, jobs: &Sender<Job>, worker: &Worker) {
        let mut kicks = 0_u32;
        while !self.is_over.load(Ordering::SeqCst) {
            if !self.is_broken.load(Ordering::SeqCst) {
                match self.take_all(jobs, |chain| worker.is_quick(chain), worker.is_at_pace()) {
                    Ok(None) => {}
                    Ok(Some(own)) => {
                        self.done(own.head_index(), worker.answer(&own, true));
                        // The guest has not been asked to say that there is more.
                        continue;
                    }
                    Err(reason) => self.break_off(&reason),
                }
            }
            let kick = {
                let state = self.state.lock();
                if kicks == EMPTY_KICKS && !state.was_asked {
                    tracing::warn!(
                        queue = self.number,
                        "a virtual machine says that it has asked for something, and there is nothing: is its memory shared (QEMU: `share=on`)?"
                    );
                    kicks += 1;
                }
                state.kick.clone().filter(|_| state.runs() && !self.is_broken.load(Ordering::SeqCst))
            };
            let mut either = vec![PollFd::new(&self.bell, PollFlags::IN)];
            either.extend(kick.as_deref().map(|kick| PollFd::from_borrowed_fd(kick.as_fd(), PollFlags::IN)));
            match poll(&mut either, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return tracing::error!(%error, "a queue of a virtual machine is served no more"),
            }
            let is_rung = |number: usize| either.get(number).is_some_and(|one| !one.revents().is_empty());
            let (bell, kicked) = (is_rung(0), is_rung(1));
            let mut count = [0; 8];
            // Whatever they count, there is something to look at.
            if bell {
                let _ = rustix::io::read(&self.bell, &mut count);
            }
            if kicked && let Some(kick) = &kick {
                let _ = rustix::io::read(kick, &mut count);
                kicks = kicks.saturating_add(1);
            }
        }
    }

    /// Hands over all that there is. If it `keeps`, it gives a quick one back that the guest waits for: then there may be more, and it has to be called again.
    pub(crate) fn take_all(
        self: &Arc<Self>,
        jobs: &Sender<Job>,
        is_quick: impl Fn(&Chain) -> bool,
        keeps: bool,
    ) -> Result<Option<Chain>, String> {
        let mut state = self.state.lock();
        let state = &mut *state;
        if !state.runs() {
            return Ok(None);
        }
        let hand_over = |chain: Chain, is_quick: bool| {
            // There is a worker as long as there are requests.
            let _ = jobs.send(Job { chain, queue: self.clone(), is_quick });
        };
        for head in std::mem::take(&mut state.again) {
            let chain = chain_of(&state.ring, &state.memory, head)?;
            state.taken.insert(head);
            hand_over(chain, false);
        }
        let told = |error: virtio_queue::Error| error.to_string();
        loop {
            let memory = state.memory.memory();
            state.ring.disable_notification(&*memory).map_err(told)?;
            // Not more than the ring has room for.
            let chains: Vec<Chain> = state.ring.iter(state.memory.memory()).map_err(told)?.collect();
            let is_alone = chains.len() == 1 && state.taken.is_empty();
            if !chains.is_empty() {
                state.turns.came(is_alone);
            }
            let is_quick = is_alone && state.turns.are_taken() && chains.iter().all(&is_quick);
            for chain in chains {
                state.take(chain.head_index())?;
                if is_quick && keeps {
                    state.turns.kept();
                    return Ok(Some(chain));
                }
                hand_over(chain, is_quick);
            }
            if !state.ring.enable_notification(&*memory).map_err(told)? {
                return Ok(None);
            }
        }
    }

    /// A worker is done with a request, and has written so many bytes into the guest's memory; `None` where it can not be answered.
    pub(crate) fn done(&self, head: u16, written: Option<u32>) {
        let mut state = self.state.lock();
        match written.filter(|_| !self.is_broken.load(Ordering::SeqCst)) {
            Some(written) => {
                if let Err(reason) = answer(&mut state, head, written) {
                    self.break_off(&reason);
                }
            }
            None => self.break_off("a request can not be answered"),
        }
        state.taken.remove(&head);
        if state.taken.is_empty() {
            self.answered.notify_all();
        }
    }
}

fn answer(state: &mut State, head: u16, written: u32) -> Result<(), String> {
    let told = |error: virtio_queue::Error| error.to_string();
    let memory = state.memory.memory();
    if let Some(account) = &state.account {
        account.answering(head).map_err(|error| error.to_string())?;
    }
    state.ring.add_used(&*memory, head, written).map_err(told)?;
    if let Some(account) = &state.account {
        account.answered(head, state.ring.next_used()).map_err(|error| error.to_string())?;
    }
    if state.ring.needs_notification(&*memory).map_err(told)?
        && let Some(call) = &state.call
    {
        match rustix::io::write(call, &1_u64.to_ne_bytes()) {
            // It has been told already.
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(error) => return Err(format!("the guest could not be told: {error}")),
        }
    }
    Ok(())
}

/// The chain that begins with a descriptor. The library makes chains of an available ring alone, so there is one for it, beyond the guest's memory.
fn chain_of(ring: &virtio_queue::Queue, memory: &Memory, head: u16) -> Result<Chain, String> {
    const PAGE: usize = 4096;
    let told = |error: &dyn std::fmt::Display| format!("a request can not be done again: {error}");
    let guest = memory.memory();
    let beyond = (guest.last_addr().0 / PAGE as u64 + 2) * PAGE as u64;
    let beyond = GuestAddress(beyond);
    let own = GuestRegionMmap::<()>::from_range(beyond, PAGE, None).map_err(|error| told(&error))?;
    let both = guest.insert_region(Arc::new(own)).map_err(|error| told(&error))?;
    // Flags and index, then the entry.
    let available = [0_u16, 1, head].map(u16::to_le_bytes).concat();
    both.write_slice(&available, beyond).map_err(|error| told(&error))?;
    let mut one = virtio_queue::Queue::new(ring.max_size()).map_err(|error| told(&error))?;
    one.set_size(ring.size());
    one.try_set_desc_table_address(GuestAddress(ring.desc_table())).map_err(|error| told(&error))?;
    one.try_set_used_ring_address(GuestAddress(ring.used_ring())).map_err(|error| told(&error))?;
    one.try_set_avail_ring_address(beyond).map_err(|error| told(&error))?;
    one.set_ready(true);
    let mut chains = one.iter(Memory::new(both).memory()).map_err(|error| told(&error))?;
    chains.next().ok_or_else(|| told(&"it is none"))
}
