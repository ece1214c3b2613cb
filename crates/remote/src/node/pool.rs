//! A pool of threads for each connection, woken for each request (paper 3, section 3.2).
//!
//! Threads are started when there is work that none is idle for, up to the pool's size. They end with the connection, when
//! they have done what was received.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use ishigaki_fabric::Message;
use parking_lot::{Condvar, Mutex};

use super::session::Session;
use crate::Result;

/// Serves a connection until it ends.
pub(super) fn serve(session: &Arc<Session>) -> Result<()> {
    let mut pool = Pool::new(session);
    session.each_request(|id, message| {
        pool.give(id, message);
        Ok(())
    })
}

/// The threads of one connection.
#[derive(Debug)]
pub(super) struct Pool {
    session: Arc<Session>,
    desk: Arc<Desk>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Desk {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(u32, Message)>,
    idle: usize,
    closed: bool,
}

impl Pool {
    pub(super) fn new(session: &Arc<Session>) -> Self {
        Self { session: Arc::clone(session), desk: Arc::default(), threads: Vec::new() }
    }

    /// Has a request done by one of the threads.
    pub(super) fn give(&mut self, id: u32, message: Message) {
        let mut state = self.desk.state.lock();
        state.waiting.push_back((id, message));
        let more = state.waiting.len() > state.idle && self.threads.len() < self.session.node.settings.threads;
        drop(state);
        self.desk.work.notify_one();
        if !more {
            return;
        }
        let (session, desk) = (Arc::clone(&self.session), Arc::clone(&self.desk));
        match std::thread::Builder::new().name("node-pool".to_owned()).spawn(move || desk.run(&session)) {
            Ok(thread) => self.threads.push(thread),
            // The others do it, or this one does.
            Err(error) if self.threads.is_empty() => {
                tracing::warn!(%error, "no thread for a connection's pool");
                self.desk.run_waiting(&self.session);
            }
            Err(error) => tracing::warn!(%error, "a connection's pool stays small"),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.desk.state.lock().closed = true;
        self.desk.work.notify_all();
        for thread in self.threads.drain(..) {
            // A panic there has been reported already.
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn run(&self, session: &Session) {
        let mut state = self.state.lock();
        loop {
            if let Some((id, message)) = state.waiting.pop_front() {
                drop(state);
                session.perform(id, &message);
                state = self.state.lock();
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                self.work.wait(&mut state);
                state.idle -= 1;
            }
        }
    }

    fn run_waiting(&self, session: &Session) {
        while let Some((id, message)) = { self.state.lock().waiting.pop_front() } {
            session.perform(id, &message);
        }
    }
}
