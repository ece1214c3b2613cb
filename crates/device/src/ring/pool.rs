//! The idle rings, and how a call sees all its bytes through one of them.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::queue::{MOST, Ring, Step};
use crate::file::{Calls, Run, Transfer};

/// No request may ask for more, because its answer has only 31 bits.
const LARGEST: usize = 1 << 30;

/// Rings that nobody uses at the moment. The lock is held to take one or to give it back, never while one works.
#[derive(Debug)]
pub(super) struct Pool {
    idle: Mutex<Vec<Ring>>,
    /// No single request asks for more bytes.
    largest: usize,
}

impl Pool {
    /// A pool with one ring.
    pub(super) fn new() -> rustix::io::Result<Self> {
        Self::of_requests_up_to(LARGEST)
    }

    /// The same with smaller requests.
    pub(super) fn of_requests_up_to(largest: usize) -> rustix::io::Result<Self> {
        Ok(Self { idle: Mutex::new(vec![Ring::new()?]), largest })
    }

    /// How many rings nobody uses.
    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        self.idle.lock().len()
    }

    /// The first request for a run.
    fn step<'a>(&self, run: &Run<'a>) -> Step<'a> {
        let bytes = &run.bytes[..run.bytes.len().min(self.largest)];
        Step { run: Run { bytes, ..*run }, outcome: Ok(0) }
    }

    /// Gives `steps` to a ring of their own. One that fails is not used again.
    fn run(&self, file: &OwnedFd, steps: &mut [Step]) -> rustix::io::Result<()> {
        let idle = self.idle.lock().pop();
        let mut ring = match idle {
            Some(ring) => ring,
            None => Ring::new()?,
        };
        ring.run(file, steps)?;
        self.idle.lock().push(ring);
        Ok(())
    }
}

impl Transfer for Pool {
    fn write(&self, file: &OwnedFd, runs: &[Run]) -> rustix::io::Result<()> {
        if runs.len() == 1 {
            return Calls.write(file, runs);
        }
        let mut rest: VecDeque<Run> = runs.iter().copied().filter(|run| !run.bytes.is_empty()).collect();
        while !rest.is_empty() {
            let batch: Vec<Run> = rest.drain(..rest.len().min(MOST)).collect();
            let mut steps: Vec<Step> = batch.iter().map(|run| self.step(run)).collect();
            self.run(file, &mut steps)?;
            for (run, step) in batch.iter().zip(&steps) {
                let done = progress(step.outcome)?;
                if done < run.bytes.len() {
                    rest.push_back(Run { offset: run.offset + done as u64, bytes: &run.bytes[done..], ..*run });
                }
            }
        }
        Ok(())
    }

    fn read(&self, file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> rustix::io::Result<()> {
        Calls.read(file, offset, buffer)
    }
}

/// How many bytes a request has done: none if it was interrupted.
fn progress(outcome: rustix::io::Result<usize>) -> rustix::io::Result<usize> {
    match outcome {
        // The medium takes nothing and does not say why.
        Ok(0) => Err(Errno::IO),
        Err(Errno::INTR) => Ok(0),
        outcome => outcome,
    }
}
