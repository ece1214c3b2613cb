//! A thread for each request (paper 3, section 3.2): the way that needs nothing and costs most.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::session::Session;
use crate::Result;
use crate::protocol::Request;

/// Serves a connection until it ends, and then until all its requests have.
pub(super) fn serve(session: &Arc<Session>) -> Result<()> {
    let running = Arc::new(Running::default());
    let outcome = receive(session, &running);
    running.wait();
    outcome
}

fn receive(session: &Arc<Session>, running: &Arc<Running>) -> Result<()> {
    session.each_request(|id, message| {
        let (own, one) = (Arc::clone(session), One::of(running));
        let work = move || {
            let _until_it_ends = one;
            own.perform(id, &message);
        };
        if let Err(error) = std::thread::Builder::new().name("node-request".to_owned()).spawn(work) {
            // The request is gone with its thread. The window bounds how many there are, so this is the system's limit.
            tracing::warn!(%error, "no thread for a request");
            return Err(session.nonsense("no thread for a request"));
        }
        Ok(())
    })
}

impl Session {
    /// Does a request and answers it. A connection that is gone needs no answer; whoever receives finds out.
    pub(super) fn perform(&self, id: u32, message: &[u8]) {
        match Request::decode(message) {
            Some(request) => {
                let done = self.execute(id, &request);
                let _ = self.reply(id, done);
            }
            None => {
                self.nonsense("a request that there is not");
            }
        }
    }
}

/// How many requests are under way.
#[derive(Debug, Default)]
struct Running {
    count: Mutex<usize>,
    none: Condvar,
}

impl Running {
    fn wait(&self) {
        let mut count = self.count.lock();
        while *count > 0 {
            self.none.wait(&mut count);
        }
    }
}

/// One of them, until dropped.
struct One(Arc<Running>);

impl One {
    fn of(running: &Arc<Running>) -> Self {
        *running.count.lock() += 1;
        Self(Arc::clone(running))
    }
}

impl Drop for One {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.none.notify_all();
    }
}
