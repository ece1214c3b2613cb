//! A stream's own thread, the herald: it starts when it is needed for the first time and sleeps while it is not.
//!
//! It writes for a crowd: where many threads wait for their commits, waking one of them to write the next group would leave
//! the device idle that long; the herald writes group after group while the threads do nothing but their transactions. And
//! it writes for tasks, which must not block: [`Settled`] is a future that is ready when a receipt may be acknowledged, and
//! the herald wakes the tasks when it is.
//!
//! A future gives way once before it does anything: whatever else the executor has to run comes first, so that the
//! commits of many tasks go into one group even on a single thread. A lone task is polled once more, and no timer runs.
//! When everybody waits the executor's thread would only sleep until the herald has written. So it writes itself, where that
//! is short ([`Settings::hold`](crate::Settings::hold)): that saves waking one thread by the other and back.

pub(crate) mod post;

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::thread;

use ishigaki_base::Lsn;

use crate::background::Background;
use crate::log::Shared;
use crate::{Error, Receipt, Result};
use post::{Post, Task};

/// Who waits for records of one stream without a thread.
#[derive(Debug, Default)]
pub(crate) struct Herald(Post<Background, (Receipt, Waker)>);

impl Herald {
    /// Wakes the task when the receipt may be acknowledged, or the log has failed.
    fn ask(&self, shared: &Arc<Shared>, place: usize, receipt: Receipt, waker: Waker) -> Result<()> {
        // A closed log makes everything durable; then its threads end.
        let called = !shared.is_closed()
            && self.0.ask((receipt, waker), || start(&Arc::downgrade(shared), place), Background::wake)?;
        if called { Ok(()) } else { Err(Error::Closed) }
    }

    /// Leaves the stream's free slot to the thread, which writes until nothing is left. False if it can not be relied on:
    /// then another thread must write.
    pub(crate) fn take_over(&self, shared: &Weak<Shared>, place: usize) -> bool {
        self.0.leave(|| start(shared, place), Background::wake)
    }

    /// Ends the thread. Who still waits is woken, to find that the log is closed or that all is well.
    pub(crate) fn stop(&self) {
        let (thread, waiting) = self.0.give_up();
        if let Some(thread) = thread {
            thread.stop();
        }
        for (_, waker) in waiting {
            waker.wake();
        }
    }
}

fn start(shared: &Weak<Shared>, place: usize) -> Result<Background> {
    Background::start("ishigaki-herald", shared.clone(), move |shared, _| run(shared, place))
}

fn run(shared: &Weak<Shared>, place: usize) {
    while let Some(shared) = shared.upgrade() {
        match shared.heralds[place].0.next() {
            Task::Write => shared.streams[place].write_on(&shared),
            Task::Serve(waiting) => serve(&shared, place, waiting),
            Task::Sleep => {
                drop(shared);
                thread::park();
            }
            Task::End => return,
        }
    }
}

/// Makes durable what is waited for. What depends on other streams comes last, so that nobody else waits for it.
fn serve(shared: &Shared, place: usize, waiting: Vec<(Receipt, Waker)>) {
    let last = waiting.iter().map(|(receipt, _)| receipt.position().lsn()).max().unwrap_or(Lsn::ZERO);
    // Where epochs decide nobody writes on his own.
    let mut failed = shared.epochs.is_none() && shared.flush(place, last).is_err();
    let mut rest = Vec::new();
    for (receipt, waker) in waiting {
        if failed || shared.is_acknowledged(&receipt) { waker.wake() } else { rest.push((receipt, waker)) }
    }
    for (receipt, waker) in rest {
        failed = failed || shared.acknowledge(place, &receipt).is_err();
        waker.wake();
    }
}

/// Ready when a record, and all that it depends on, is durable by the log's rule; or with the error that closed the log.
///
/// Made by [`Stream::settled`](crate::Stream::settled). Dropping it gives the waiting up, not the record.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Settled {
    shared: Arc<Shared>,
    place: usize,
    receipt: Receipt,
    gave_way: bool,
}

impl Settled {
    pub(crate) fn new(shared: Arc<Shared>, place: usize, receipt: Receipt) -> Self {
        Self { shared, place, receipt, gave_way: false }
    }
}

impl Future for Settled {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.shared.is_acknowledged(&self.receipt) {
            return Poll::Ready(self.shared.check_alive());
        }
        if let Err(closed) = self.shared.check_alive() {
            return Poll::Ready(Err(closed));
        }
        if !self.shared.settings.background {
            return Poll::Ready(self.shared.acknowledge(self.place, &self.receipt));
        }
        if !self.gave_way {
            if let Err(invalid) = self.shared.check_receipt(&self.receipt) {
                return Poll::Ready(Err(invalid));
            }
            self.gave_way = true;
            self.shared.note_waiting(&self.receipt, true);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.shared.write_briefly(self.place) && self.shared.is_acknowledged(&self.receipt) {
            return Poll::Ready(self.shared.check_alive());
        }
        let asked = self.shared.heralds[self.place].ask(
            &self.shared,
            self.place,
            self.receipt.clone(),
            context.waker().clone(),
        );
        match asked {
            Ok(()) => Poll::Pending,
            // Closing makes everything durable that has an LSN.
            Err(Error::Closed) => Poll::Ready(self.shared.acknowledge(self.place, &self.receipt)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}
