//! One ring: the only place where the kernel is given addresses.
//!
//! A ring is used by one call at a time, and a call returns only when the kernel has answered all that it was asked: so no
//! address outlives the borrow that it came from, and nothing is in flight between two calls.

#![allow(unsafe_code, reason = "the kernel reads from the addresses it is given")]

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use crate::file::Run;

/// How many requests a ring takes at once.
pub(super) const MOST: usize = 64;

/// One request and its answer.
#[derive(Debug)]
pub(super) struct Step<'a> {
    /// What is to be written; less than 2 GiB.
    pub(super) run: Run<'a>,
    /// The kernel's answer: how many bytes were.
    pub(super) outcome: rustix::io::Result<usize>,
}

/// A pair of queues shared with the kernel.
pub(super) struct Ring {
    queues: IoUring,
}

impl Ring {
    pub(super) fn new() -> rustix::io::Result<Self> {
        // Without `setup_submit_all` (Linux 5.18) the kernel stops at a request that it finds wrong; `run` would go on.
        match IoUring::new(MOST as u32) {
            Ok(queues) => Ok(Self { queues }),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }

    /// Does up to [`MOST`] requests beside each other and returns when all of them are answered. After an error of the
    /// ring itself, none of them is under way any more and the ring is of no further use.
    pub(super) fn run(&mut self, file: &OwnedFd, steps: &mut [Step]) -> rustix::io::Result<()> {
        let file = types::Fd(file.as_raw_fd());
        let mut queue = self.queues.submission();
        for (index, step) in steps.iter().enumerate() {
            // SAFETY: the addresses come from the borrows in `steps` and the descriptor from `file`, and both last until
            // this function returns. It does so only when nothing of them is left with the kernel: `finish` waits for every
            // answer, and when it can not, either the kernel has never seen the entries or the process ends there. There
            // is no panic on the way: nothing is indexed and nothing unwrapped. The kernel only reads there.
            if unsafe { queue.push(&entry(file, step.run, index as u64)) }.is_err() {
                // More than fit; the kernel has seen nothing yet, and will not, because the ring is given up.
                return Err(Errno::INVAL);
            }
        }
        drop(queue);
        self.finish(steps)
    }

    /// Waits for all answers.
    fn finish(&mut self, steps: &mut [Step]) -> rustix::io::Result<()> {
        let mut unanswered = steps.len();
        while unanswered > 0 {
            let outcome = self.queues.submit_and_wait(unanswered);
            for answer in self.queues.completion() {
                unanswered -= 1;
                if let Some(step) = steps.get_mut(answer.user_data() as usize) {
                    step.outcome = match u32::try_from(answer.result()) {
                        Ok(bytes) => Ok(bytes as usize),
                        Err(_) => Err(Errno::from_raw_os_error(-answer.result())),
                    };
                }
            }
            let Err(error) = outcome else { continue };
            match Errno::from_io_error(&error) {
                // A signal, or memory that is short for the moment; the kernel goes on with what it has.
                Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => std::thread::yield_now(),
                // The kernel has taken none of what is left.
                errno if self.queues.submission().len() >= unanswered => return Err(errno.unwrap_or(Errno::IO)),
                _ => {
                    // Nothing here may panic: the caller's memory would be given free under the kernel's hands.
                    let _ = writeln!(
                        io::stderr(),
                        "io_uring answers no more and still owns memory of this process: {error}"
                    );
                    std::process::abort();
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({})", self.queues.as_raw_fd())
    }
}

fn entry(file: types::Fd, run: Run, index: u64) -> squeue::Entry {
    opcode::Write::new(file, run.bytes.as_ptr(), run.bytes.len() as u32)
        .offset(run.offset)
        .rw_flags(run.flags.bits() as i32)
        .build()
        .user_data(index)
}
