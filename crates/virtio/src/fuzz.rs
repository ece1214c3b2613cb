//! The door for `fuzz/`: whatever a guest has in its memory, and a hypervisor in the account of its requests, every request is answered or refused.
//!
//! Compiled under `--cfg fuzzing` only.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use ishigaki_device::{Directory, MemoryDirectory};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use virtio_queue::QueueT;
use vm_memory::{Bytes, GuestAddress, GuestAddressSpace, GuestMemoryMmap};

use crate::inflight::{Account, Inflight};
use crate::queue::Queue;
use crate::{Block, Memory, Requests, When};

const SIZE: u16 = 8;
const MEMORY: usize = 64 << 10;
const AVAILABLE: u64 = 0x100;
const USED: u64 = 0x200;
/// Bytes of the account, which an input begins with.
pub const ACCOUNT: usize = 192;

/// What one start of a queue does with an account, if there is one, and a guest's memory from its first byte on. How many requests were done.
///
/// # Panics
///
/// When a request has no outcome, or more was written than there is room for.
pub fn requests(input: &[u8]) -> usize {
    let Some((account, image)) = input.split_at_checked(ACCOUNT) else { return 0 };
    let memory = Memory::new(GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).expect("memory"));
    memory.memory().write_slice(&image[..image.len().min(MEMORY)], GuestAddress(0)).expect("it fits");
    let device = MemoryDirectory::new().create("device", 1 << 20).expect("made");
    let block = Block::new(device, "fuzz", 1, Some(1)).quick_where(|offset, _, _| offset.is_multiple_of(1024));
    let is_broken = Arc::new(AtomicBool::new(false));
    let queue = Arc::new(Queue::new(0, SIZE, memory.clone(), is_broken.clone()).expect("made"));
    queue.with_ring(|ring| ring.set_size(SIZE));
    if queue.place(0, AVAILABLE, USED).is_err() {
        return 0;
    }
    queue.set_account(account_of(account));
    queue.enable(true);
    let kick: OwnedFd = eventfd(0, EventfdFlags::CLOEXEC).expect("made");
    if queue.set_kick(Some(kick)).is_err() {
        return 0;
    }
    let (jobs, taken) = channel();
    let outcome = queue.take_all(&jobs, |_| false, false);
    drop(jobs);
    let mut done = 0;
    for job in taken {
        // Whatever it says, the request is answered.
        block.is_quick(&job.chain);
        let written = block.answer(&job.chain, When::Serving);
        assert!(written.is_none_or(|written| written as usize <= MEMORY * usize::from(SIZE)));
        queue.done(job.chain.head_index(), written);
        done += usize::from(written.is_some() && !is_broken.load(Ordering::SeqCst));
    }
    // All that was taken has an outcome, so this returns.
    queue.stop(None);
    if outcome.is_ok() { done } else { 0 }
}

/// One that begins with these bytes; none where they are all zero.
fn account_of(bytes: &[u8]) -> Option<Account> {
    if bytes.iter().all(|byte| *byte == 0) {
        return None;
    }
    let mut file = std::fs::File::from(memfd_create("account", MemfdFlags::CLOEXEC).expect("made"));
    file.write_all(bytes).expect("written");
    Inflight::map(file, 0, bytes.len() as u64, 1, SIZE).expect("mapped").account(0)
}

/// A guest that reads a sector, and asks for a flush.
pub fn sample() -> Vec<u8> {
    let mut image = vec![0; 0x600];
    let mut descriptor = |number: usize, at: u64, length: u32, flags: u16, next: u16| {
        let bytes = [&at.to_le_bytes()[..], &length.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat();
        image[number * 16..][..16].copy_from_slice(&bytes);
    };
    descriptor(0, 0x300, 16, 1, 1);
    descriptor(1, 0x400, 512, 3, 2);
    descriptor(2, 0x310, 1, 2, 0);
    descriptor(3, 0x320, 16, 1, 4);
    descriptor(4, 0x311, 1, 2, 0);
    image[0x320] = 4;
    image[AVAILABLE as usize + 2] = 2;
    image[AVAILABLE as usize + 6] = 3;
    [&[0; ACCOUNT][..], &image].concat()
}
