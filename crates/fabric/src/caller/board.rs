//! What the threads of a caller share: which requests are under way, who waits, who leads.

use std::thread::{Thread, ThreadId};

use super::{Answer, Call};
use crate::Error;
use crate::region::Region;

/// All under one lock.
#[derive(Debug)]
pub(super) struct Board {
    slots: Vec<Slot>,
    /// Slots that hold nothing.
    free: Vec<u16>,
    /// How many requests may be sent.
    credits: u32,
    /// Somebody receives.
    pub(super) led: bool,
    /// Why the connection has ended.
    pub(super) failed: Option<String>,
    /// Who sleeps.
    asleep: Vec<Thread>,
    /// Who wants credits.
    seekers: Vec<Thread>,
    /// Whose answers have come; to be woken when the lock is free.
    pub(super) to_wake: Vec<Thread>,
}

#[derive(Debug)]
struct Slot {
    /// The upper half of the request's number, so that a number is not used again soon.
    generation: u16,
    state: State,
    /// Who is to be woken.
    waiter: Option<Thread>,
    /// The peer may write there until it has answered.
    region: Option<Region>,
}

#[derive(Debug)]
enum State {
    Free,
    Sent,
    /// Sent, and nobody wants the answer.
    GivenUp,
    Answered(Answer),
}

impl Board {
    pub(super) fn new(window: u16) -> Self {
        let (slots, free) = (Vec::new(), Vec::new());
        let (asleep, seekers, to_wake) = (Vec::new(), Vec::new(), Vec::new());
        Self { slots, free, credits: window.into(), led: false, failed: None, asleep, seekers, to_wake }
    }

    /// Takes slots and credits for as many of the calls as there are, one at least; their numbers. Nothing: this thread is
    /// to be woken when there are credits again.
    pub(super) fn begin(&mut self, calls: &[Call<'_>]) -> Option<Vec<u32>> {
        if self.failed.is_some() {
            return None;
        }
        let mut ids = Vec::with_capacity(calls.len().min(self.credits as usize));
        for call in calls {
            let Some(index) = self.slot().filter(|_| self.credits > 0) else { break };
            self.credits -= 1;
            let slot = &mut self.slots[usize::from(index)];
            slot.state = State::Sent;
            slot.region.clone_from(&call.region);
            ids.push(u32::from(slot.generation) << 16 | u32::from(index));
            self.free.pop();
        }
        if ids.is_empty() {
            self.seekers.push(std::thread::current());
            return None;
        }
        Some(ids)
    }

    /// A free slot, the last of the free ones.
    fn slot(&mut self) -> Option<u16> {
        if self.free.is_empty() {
            let index = u16::try_from(self.slots.len()).ok()?;
            self.slots.push(Slot { generation: 0, state: State::Free, waiter: None, region: None });
            self.free.push(index);
        }
        self.free.last().copied()
    }

    fn find(&mut self, id: u32) -> Option<&mut Slot> {
        let (index, generation) = ((id & 0xffff) as usize, (id >> 16) as u16);
        self.slots.get_mut(index).filter(|slot| slot.generation == generation)
    }

    fn release(&mut self, id: u32) {
        let Some(slot) = self.find(id) else { return };
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = State::Free;
        slot.waiter = None;
        slot.region = None;
        self.free.push(id as u16);
    }

    /// Takes note of an answer that `own`, who need not be woken, has received; false if nobody had asked.
    pub(super) fn answer(&mut self, id: u32, credits: u16, answer: Answer, own: ThreadId) -> bool {
        let Some(slot) = self.find(id) else { return false };
        let waiter = match slot.state {
            State::Sent => {
                slot.state = State::Answered(answer);
                slot.region = None;
                slot.waiter.take()
            }
            State::GivenUp => {
                self.release(id);
                None
            }
            State::Free | State::Answered(_) => return false,
        };
        self.credits = self.credits.saturating_add(credits.into());
        self.to_wake.extend(waiter.filter(|waiter| waiter.id() != own));
        if credits > 0 && self.failed.is_none() {
            self.to_wake.append(&mut self.seekers);
        }
        true
    }

    /// Takes an answer that has come.
    pub(super) fn take(&mut self, id: u32) -> Option<Answer> {
        let slot = self.find(id)?;
        let State::Answered(answer) = std::mem::replace(&mut slot.state, State::Sent) else { return None };
        self.release(id);
        Some(answer)
    }

    /// This thread, whose handle `own` is, is to be woken when that answer has come.
    pub(super) fn wait_for(&mut self, id: u32, own: &Thread) {
        // Who waits for many does so again and again, and a handle costs more than a look.
        if let Some(slot) = self.find(id)
            && slot.waiter.as_ref().is_none_or(|waiter| waiter.id() != own.id())
        {
            slot.waiter = Some(own.clone());
        }
    }

    /// Nobody wants that answer any more.
    pub(super) fn give_up(&mut self, id: u32) {
        match self.find(id) {
            Some(slot) if matches!(slot.state, State::Sent) => slot.state = State::GivenUp,
            Some(_) => self.release(id),
            None => {}
        }
    }

    /// This thread is about to sleep.
    pub(super) fn sleep(&mut self) {
        self.asleep.push(std::thread::current());
    }

    /// This thread is awake again.
    pub(super) fn woken(&mut self) {
        let own = std::thread::current().id();
        self.asleep.retain(|thread| thread.id() != own);
        self.seekers.retain(|thread| thread.id() != own);
    }

    /// Who might lead next.
    pub(super) fn next_leader(&self) -> Option<Thread> {
        self.asleep.last().cloned()
    }

    /// The end: everybody is woken.
    pub(super) fn fail(&mut self, error: &Error) {
        self.failed.get_or_insert_with(|| match error {
            Error::Lost { reason, .. } | Error::Protocol { reason, .. } => reason.clone(),
            other => other.to_string(),
        });
        self.to_wake.extend(self.asleep.iter().cloned());
    }
}
