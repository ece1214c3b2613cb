//! A herald's post: what is left to the thread, and when it must not be relied on.
//!
//! Everything is decided under one lock. What is left at the post is either refused, and then the one that leaves it sees to
//! it itself, or the thread comes to it: one that is *away* waits for others, and those may be waiting for the very thing;
//! one that is called off comes no more.

use std::mem::take;

use ishigaki_base::sync::Mutex;

/// The post of one thread `T`, which serves those who ask, by `A`. Public only for the model checker.
#[derive(Debug)]
pub struct Post<T, A>(Mutex<Desk<T, A>>);

#[derive(Debug)]
struct Desk<T, A> {
    thread: Option<T>,
    asked: Vec<A>,
    /// The slot was left to the thread.
    writes: bool,
    place: Place,
    /// Nobody is called any more.
    over: bool,
}

/// Where the thread is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// It asks what is next as soon as it is done, and waits for nobody before.
    Here,
    /// It sleeps, or is about to.
    Asleep,
    /// It serves, and may have to wait for others.
    Away,
}

/// What the thread does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Task<A> {
    /// Writes what the stream holds. It waits for nobody.
    Write,
    /// Serves those who asked. It may wait for others meanwhile.
    Serve(Vec<A>),
    /// Sleeps until it is woken.
    Sleep,
    /// Ends.
    End,
}

impl<T, A> Default for Post<T, A> {
    fn default() -> Self {
        let (thread, asked) = (None, Vec::new());
        Self(Mutex::new(Desk { thread, asked, writes: false, place: Place::Here, over: false }))
    }
}

impl<T, A> Post<T, A> {
    /// Leaves the slot to the thread, which is started or woken if it must. False: the slot is not seen to.
    pub fn leave<E>(&self, start: impl FnOnce() -> Result<T, E>, wake: impl FnOnce(&T)) -> bool {
        let mut desk = self.0.lock();
        if desk.over || desk.place == Place::Away {
            return false;
        }
        desk.writes = desk.call(start, wake).is_ok();
        desk.writes
    }

    /// Asks the thread, which is started or woken if it must. False: the post is given up, and nobody was asked.
    pub fn ask<E>(&self, what: A, start: impl FnOnce() -> Result<T, E>, wake: impl FnOnce(&T)) -> Result<bool, E> {
        let mut desk = self.0.lock();
        if desk.over {
            return Ok(false);
        }
        desk.call(start, wake)?;
        desk.asked.push(what);
        Ok(true)
    }

    /// What is next; the thread has done what it was told before.
    pub fn next(&self) -> Task<A> {
        let mut desk = self.0.lock();
        desk.place = Place::Here;
        if take(&mut desk.writes) {
            Task::Write
        } else if !desk.asked.is_empty() {
            desk.place = Place::Away;
            Task::Serve(take(&mut desk.asked))
        } else if desk.over {
            Task::End
        } else {
            desk.place = Place::Asleep;
            Task::Sleep
        }
    }

    /// Gives the post up: the thread, if there is one, to be woken and waited for, and those who asked and are not served.
    pub fn give_up(&self) -> (Option<T>, Vec<A>) {
        let mut desk = self.0.lock();
        desk.over = true;
        (desk.thread.take(), take(&mut desk.asked))
    }
}

impl<T, A> Desk<T, A> {
    fn call<E>(&mut self, start: impl FnOnce() -> Result<T, E>, wake: impl FnOnce(&T)) -> Result<(), E> {
        match &self.thread {
            None => self.thread = Some(start()?),
            Some(thread) if self.place == Place::Asleep => {
                self.place = Place::Here;
                wake(thread);
            }
            Some(_) => {}
        }
        Ok(())
    }
}
