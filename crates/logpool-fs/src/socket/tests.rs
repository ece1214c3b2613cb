//! What a device answers to requests that lie in a machine's memory, without a machine.

use ishigaki_device::{Directory, MemoryDirectory};
use ishigaki_logpool::{MemberSettings, Pool, Settings};
use virtio_queue::QueueOwnedT;
use virtio_queue::desc::RawDescriptor;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::mock::MockSplitQueue;
use vm_memory::{Bytes, GuestAddress, GuestAddressSpace, GuestMemoryMmap};

use super::*;

type Memory = ishigaki_virtio::Memory;

/// Where in the memory a request lies, and where its answer goes.
const ASKED: GuestAddress = GuestAddress(0x10_000);
const ANSWERED: GuestAddress = GuestAddress(0x20_000);

/// The flag of a descriptor that the device writes to.
const WRITES: u16 = 2;

const GETATTR: u32 = 3;
const READ: u32 = 15;
const FSYNC: u32 = 20;
const FORGET: u32 = 2;

fn device() -> (Pool, Files) {
    let pool =
        Pool::open_together(Arc::new(MemoryDirectory::new()) as Arc<dyn Directory>, Settings::default()).unwrap();
    let member = pool.add("guest", MemberSettings::default()).unwrap();
    let fs = PoolFs::new(member, Access::own(), Calendar::new(std::time::SystemTime::now));
    (pool, Files(Server::new(fs)))
}

/// Asks, with so much room for an answer. Gives the length that is told, and the error of an answer.
fn ask(device: &Files, when: When, asks: u32, arguments: &[u8], room: u32) -> Option<(u32, i32)> {
    let memory = Memory::new(GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 1 << 20)]).unwrap());
    let guard = memory.memory();
    let mut request =
        [&(40 + arguments.len() as u32).to_le_bytes()[..], &asks.to_le_bytes(), &77_u64.to_le_bytes()].concat();
    request.extend_from_slice(&1_u64.to_le_bytes());
    request.resize(40, 0);
    request.extend_from_slice(arguments);
    guard.write_slice(&request, ASKED).unwrap();
    // What was there before must not be taken for an answer.
    guard.write_slice(&[0xaa; 64], ANSWERED).unwrap();
    let rings = MockSplitQueue::new(&*guard, 16);
    let mut parts = vec![RawDescriptor::from(Descriptor::new(ASKED.0, request.len() as u32, 0, 0))];
    if room > 0 {
        parts.push(RawDescriptor::from(Descriptor::new(ANSWERED.0, room, WRITES, 0)));
    }
    rings.build_desc_chain(&parts).unwrap();
    let mut queue: virtio_queue::Queue = rings.create_queue().unwrap();
    let chain: Chain = queue.iter(memory.memory()).unwrap().next().unwrap();
    let told = device.answer(&chain, when)?;
    if told == 0 {
        return Some((0, 0));
    }
    let mut answer = [0; ANSWER];
    guard.read_slice(&mut answer, ANSWERED).unwrap();
    assert_eq!(answer[8..], 77_u64.to_le_bytes(), "the number of the request");
    assert_eq!(answer[..4], told.to_le_bytes());
    Some((told, i32::from_le_bytes([answer[4], answer[5], answer[6], answer[7]])))
}

#[test]
fn what_is_refused_is_an_error_for_the_machine_and_never_a_success() {
    let refused = Some((ANSWER as u32, -Errno::IO.raw_os_error()));
    let (_pool, device) = device();
    assert_eq!(ask(&device, When::Serving, GETATTR, &[0; 16], 200).unwrap().1, 0, "it answers");
    assert_eq!(ask(&device, When::Serving, FSYNC, &[], 200), refused, "what it lacks its length says");

    assert_eq!(ask(&device, When::Refusing, FSYNC, &[0; 16], 200), refused, "it is ending");
    assert_eq!(ask(&device, When::Refusing, FORGET, &[0; 8], 0), Some((0, 0)), "nobody waits for that");
}

#[test]
fn what_has_no_room_for_an_answer_gets_none() {
    let (_pool, device) = device();
    for room in [0, 1, ANSWER as u32 - 1] {
        assert_eq!(ask(&device, When::Serving, FSYNC, &[0; 16], room), None, "{room}");
    }
}

#[test]
fn nobody_has_more_read_than_a_kernel_asks_for() {
    let (_pool, device) = device();
    let mut read = [0; 40];
    read[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    let (_, error) = ask(&device, When::Serving, READ, &read, 4096).unwrap();
    assert_eq!(error, -Errno::INVAL.raw_os_error());
}
