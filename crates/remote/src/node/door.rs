//! Arrivals that have not shown yet who they are: few at a time, and the newest ones.
//!
//! A peer that connects and says nothing costs a thread and a socket until its time for the handshake (with TLS, if there is
//! any) is over. The door lets in a few such arrivals at a time. When one more comes, the door closes the one that has taken
//! the longest: a client that means well is done within milliseconds, so silent peers push out each other and never it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ishigaki_fabric::ArrivalCloser;
use parking_lot::{Condvar, Mutex};

/// How long an arrival waits for the threads of those before it that were closed.
const PATIENCE: Duration = Duration::from_millis(200);

/// The arrivals of a node.
#[derive(Debug)]
pub(super) struct Door {
    most: usize,
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By number, so in the order in which they came.
    greeting: BTreeMap<u64, ArrivalCloser>,
    /// Threads that greet or are about to end.
    threads: usize,
    closed: bool,
}

impl Door {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default(), left: Condvar::new() })
    }

    /// Lets an arrival in, which is greeted until the step is dropped. Nothing: the node stops.
    pub(super) fn enter(self: &Arc<Self>, number: u64, closer: ArrivalCloser) -> Option<Step> {
        let mut state = self.state.lock();
        while state.greeting.len() >= self.most
            && let Some((_, oldest)) = state.greeting.pop_first()
        {
            oldest.close();
        }
        while state.threads >= 2 * self.most && !state.closed {
            // A thread whose socket was closed ends at once; for want of processors not so soon.
            if self.left.wait_for(&mut state, PATIENCE).timed_out() {
                break;
            }
        }
        if state.closed {
            return None;
        }
        state.greeting.insert(number, closer);
        state.threads += 1;
        Some(Step { door: Arc::clone(self), number })
    }

    /// Closes all that are being greeted; none is let in any more.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        std::mem::take(&mut state.greeting).values().for_each(ArrivalCloser::close);
        self.left.notify_all();
    }
}

/// An arrival that is being greeted.
#[derive(Debug)]
pub(super) struct Step {
    door: Arc<Door>,
    number: u64,
}

impl Step {
    /// Takes it off those that are closed in favour of others: before its peer is told that it is welcome, or one that has been
    /// told so could be closed all the same. False: it has been closed already.
    pub(super) fn let_in(&self) -> bool {
        self.door.state.lock().greeting.remove(&self.number).is_some()
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let mut state = self.door.state.lock();
        state.greeting.remove(&self.number);
        state.threads -= 1;
        self.door.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::TcpStream;

    use ishigaki_fabric::{Arrival, Listener, Security, Settings};

    use super::*;

    #[test]
    fn what_is_let_in_is_closed_in_favour_of_none() {
        let listener = Listener::bind("127.0.0.1:0", Settings::default(), Security::Open).expect("bound");
        let door = Door::new(1);
        let arrive = |number| -> (TcpStream, Arrival, Step) {
            let stream = TcpStream::connect(listener.address()).expect("connected");
            stream.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
            let arrival = listener.accept().expect("accepted").expect("an arrival");
            let step = door.enter(number, arrival.closer().expect("a closer")).expect("it is open");
            (stream, arrival, step)
        };
        let is_open = |stream: &mut TcpStream| match stream.read(&mut [0]) {
            Ok(_) => false,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        };
        let (mut welcome, _arrival, step) = arrive(0);
        assert!(step.let_in());
        let (mut slow, _slow_arrival, late) = arrive(1);
        let (mut newest, _newest_arrival, _newest_step) = arrive(2);
        assert!(is_open(&mut welcome) && !is_open(&mut slow) && is_open(&mut newest));
        assert!(!late.let_in(), "it was closed");
    }
}
