//! What a block device answers to requests that lie in a machine's memory, without a machine.

use std::cell::Cell;

use ishigaki_device::{Directory, MemoryDirectory};
use virtio_queue::desc::RawDescriptor;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::mock::MockSplitQueue;
use virtio_queue::{Queue, QueueOwnedT};
use vm_memory::{Bytes, GuestAddress, GuestAddressSpace, GuestMemoryMmap};

use super::*;
use crate::Memory;

const LENGTH: u64 = 1 << 20;
const MEMORY: usize = 32 << 20;

/// Where in the memory are what is asked, data, and the answer.
const ASKED: GuestAddress = GuestAddress(0x10_000);
const DATA: GuestAddress = GuestAddress(0x20_000);
const ANSWERED: GuestAddress = GuestAddress(0x1f0_0000);

/// The flag of a descriptor that the device writes to.
const WRITES: u16 = 2;

struct Guest {
    block: Block,
    memory: Memory,
    /// Whether the last request was.
    was_quick: Cell<bool>,
}

impl Guest {
    fn new() -> Self {
        let device = MemoryDirectory::new().create("volume", LENGTH).unwrap();
        let block = Block::new(device, "a volume with a long name", 1, Some(1));
        block.taken_features(FLUSH);
        let memory = Memory::new(GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).unwrap());
        Self { block, memory, was_quick: Cell::new(false) }
    }

    /// Asks with these buffers after the head: where they begin, their lengths, and whether the device writes to them. The length that is told, and the answer.
    fn ask_with(&self, kind: u32, sector: u64, buffers: &[(GuestAddress, u32, bool)]) -> Option<(u32, u8)> {
        let guard = self.memory.memory();
        let head = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        guard.write_slice(&head, ASKED).unwrap();
        guard.write_slice(&[0xaa], ANSWERED).unwrap();
        let rings = MockSplitQueue::new(&*guard, 16);
        let all = [(ASKED, 16, false)].into_iter().chain(buffers.iter().copied());
        let parts: Vec<_> = all
            .map(|(at, length, writes)| {
                RawDescriptor::from(Descriptor::new(at.0, length, if writes { WRITES } else { 0 }, 0))
            })
            .collect();
        rings.build_desc_chain(&parts).unwrap();
        let mut queue: Queue = rings.create_queue().unwrap();
        let chain: Chain = queue.iter(self.memory.memory()).unwrap().next().unwrap();
        let told = self.block.answer(&chain, When::Serving)?;
        self.was_quick.set(self.block.is_quick(&chain));
        let mut answer = [0];
        guard.read_slice(&mut answer, ANSWERED).unwrap();
        Some((told, answer[0]))
    }

    /// Asks with data in one buffer.
    fn ask(&self, kind: u32, sector: u64, length: u32, writes: bool) -> (u32, u8) {
        self.ask_with(kind, sector, &[(DATA, length, writes), (ANSWERED, 1, true)]).unwrap()
    }

    fn put(&self, bytes: &[u8]) {
        self.memory.memory().write_slice(bytes, DATA).unwrap();
    }

    fn got(&self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.memory().read_slice(&mut bytes, DATA).unwrap();
        bytes
    }
}

const DONE: u8 = Answer::Done as u8;
const FAILED: u8 = Answer::Failed as u8;
const UNKNOWN: u8 = Answer::Unknown as u8;

#[test]
fn what_is_written_is_read_wherever_its_parts_lie() {
    let guest = Guest::new();
    let bytes: Vec<u8> = (0..4096_u32).map(|number| number as u8).collect();
    guest.put(&bytes);
    // Two buffers, which are split within a sector.
    let second = GuestAddress(DATA.0 + 1000);
    let parts = [(DATA, 1000, false), (second, 3096, false), (ANSWERED, 1, true)];
    assert_eq!(guest.ask_with(asked::WRITE, 16, &parts), Some((1, DONE)));
    guest.put(&[0; 4096]);
    assert_eq!(guest.ask(asked::READ, 16, 4096, true), (4097, DONE));
    assert_eq!(guest.got(4096), bytes);
    assert_eq!(guest.ask(asked::READ, 17, 512, true), (513, DONE));
    assert_eq!(guest.got(512), bytes[512..1024]);
    assert_eq!(guest.ask_with(asked::FLUSH, 0, &[(ANSWERED, 1, true)]), Some((1, DONE)));
}

#[test]
fn what_is_not_in_the_device_or_makes_no_sense_fails_and_changes_nothing() {
    let guest = Guest::new();
    guest.put(&[7; 4096]);
    let last = LENGTH / 512 - 1;
    for (sector, length) in
        [(last, 1024), (last + 1, 512), (u64::MAX, 512), (u64::MAX / 512 + 1, 512), (0, 511), (0, 513)]
    {
        assert_eq!(guest.ask(asked::WRITE, sector, length, false), (1, FAILED), "{length} at {sector}");
        assert_eq!(guest.ask(asked::READ, sector, length, true), (1, FAILED), "{length} at {sector}");
    }
    assert_eq!(guest.ask(asked::READ, 0, LONGEST as u32 + 512, true), (1, FAILED));
    for kind in [2, 3, 5, 14, u32::MAX] {
        assert_eq!(guest.ask(kind, 0, 512, false), (1, UNKNOWN), "{kind}");
    }
    // No data, data the wrong way round, half a head.
    assert_eq!(guest.ask_with(asked::READ, 0, &[(ANSWERED, 1, true)]), Some((1, FAILED)));
    assert_eq!(guest.ask(asked::WRITE, 0, 512, true), (1, FAILED));
    let mut device = AlignedBuffer::zeroed(LENGTH as usize);
    guest.block.device.read_at(0, &mut device).unwrap();
    assert!(device.iter().all(|byte| *byte == 0));
    // No room for the answer; buffers outside of the memory.
    assert_eq!(guest.ask_with(asked::FLUSH, 0, &[]), None);
    let outside = GuestAddress(MEMORY as u64 - 100);
    assert_eq!(guest.ask_with(asked::READ, 0, &[(outside, 512, true), (ANSWERED, 1, true)]), None);
    assert_eq!(guest.ask_with(asked::READ, 0, &[(GuestAddress(u64::MAX), 2, true), (ANSWERED, 1, true)]), None);
}

#[test]
fn ranges_are_zeroed_and_discarded_all_or_none() {
    let guest = Guest::new();
    let range = |sector: u64, sectors: u32, flags: u32| {
        [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
    };
    let mut ones = AlignedBuffer::zeroed(8192);
    ones.fill(1);
    guest.block.device.write_at(0, &ones).unwrap();
    guest.put(&[range(0, 1, 0), range(4, 2, 1)].concat());
    assert_eq!(guest.ask(asked::WRITE_ZEROES, 0, 32, false), (1, DONE));
    let read = || {
        let mut bytes = AlignedBuffer::zeroed(8192);
        guest.block.device.read_at(0, &mut bytes).unwrap();
        bytes.chunks(512).map(|sector| sector[0]).collect::<Vec<_>>()
    };
    let after = [0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    assert_eq!(read(), after);
    guest.put(&[range(8, 1, 0), range(LENGTH / 512, 1, 0)].concat());
    assert_eq!(guest.ask(asked::WRITE_ZEROES, 0, 32, false), (1, FAILED), "one is outside");
    guest.put(&range(8, 1, 2));
    assert_eq!(guest.ask(asked::WRITE_ZEROES, 0, 16, false), (1, UNKNOWN));
    guest.put(&range(8, 1, 1));
    assert_eq!(guest.ask(asked::DISCARD, 0, 16, false), (1, UNKNOWN), "a range that is discarded has no flag");
    for length in [0, 8, 24, 16 * (RANGES as u32 + 1)] {
        guest.put(&vec![0; length as usize]);
        assert_eq!(guest.ask(asked::DISCARD, 0, length, false), (1, FAILED), "{length}");
    }
    guest.put(&range(0, RANGE_SECTORS + 1, 0));
    assert_eq!(guest.ask(asked::DISCARD, 0, 16, false), (1, FAILED));
    assert_eq!(read(), after);
    guest.put(&range(8, 2, 0));
    assert_eq!(guest.ask(asked::DISCARD, 0, 16, false), (1, DONE));
}

#[test]
fn its_name_and_its_size_are_told() {
    let guest = Guest::new();
    assert_eq!(guest.ask(asked::NAME, 0, 20, true), (21, DONE));
    assert_eq!(guest.got(20), b"a volume with a long");
    let config = guest.block.config();
    assert_eq!(config.len(), 60);
    assert_eq!(config[..8], (LENGTH / 512).to_le_bytes());
    assert_eq!(config[20..24], 512_u32.to_le_bytes());
    assert_eq!(config[34..36], 1_u16.to_le_bytes());
}

#[test]
fn what_needs_nothing_slow_is_known_by_its_place_and_by_what_it_is() {
    let mut guest = Guest::new();
    guest.ask(asked::READ, 0, 4096, true);
    assert!(!guest.was_quick.get(), "nothing is known of the device");
    guest.block = guest.block.quick_where(|offset, length, access| {
        offset + length <= 64 << 10 && (access == Access::Read || length == 4096)
    });
    let is_quick = |kind, sector, length, writes| {
        guest.ask(kind, sector, length, writes);
        guest.was_quick.get()
    };
    assert!(is_quick(asked::READ, 8, 4096, true));
    assert!(is_quick(asked::READ, 0, 64 << 10, true));
    assert!(!is_quick(asked::READ, 8, 64 << 10, true), "a part of it is elsewhere");
    assert!(is_quick(asked::WRITE, 8, 4096, false));
    assert!(!is_quick(asked::WRITE, 8, 8192, false));
    assert!(!is_quick(asked::READ, u64::MAX / 2, 4096, true));
    guest.ask_with(asked::FLUSH, 0, &[(ANSWERED, 1, true)]);
    assert!(!guest.was_quick.get());
    guest.block.taken_features(0);
    guest.ask(asked::WRITE, 8, 4096, false);
    assert!(!guest.was_quick.get(), "it has to be durable");
}
