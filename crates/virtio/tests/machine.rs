//! A device as a hypervisor and a guest use it: messages over the socket, rings in memory that both have.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_device::{AlignedBuffer, Device, Directory, MemoryDirectory, Promise};
use ishigaki_virtio::{Block, Socket};
use parking_lot::{Condvar, Mutex};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserInflight, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};
use vmm_sys_util::eventfd::EventFd;

const MEMORY: usize = 1 << 20;
const SIZE: u16 = 8;
const AVAILABLE: usize = 0x1000;
const USED: usize = 0x2000;
/// Each request has a page: its head, the answer behind it, and a page of data behind all of these.
const REQUESTS: usize = 0x10_000;
const DATA: usize = 0x40_000;
const PAGE: usize = 4096;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;

/// A guest with one queue. A request has the descriptor of its slot, which names a table.
struct Guest {
    file: File,
    region: MmapRegion,
    kick: EventFd,
    call: EventFd,
    available: u16,
    seen: u16,
}

/// Requests that a guest has under way at most.
const SLOTS: u16 = 5;

impl Guest {
    fn new() -> Self {
        let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&file, MEMORY as u64).unwrap();
        let region = MmapRegion::from_file(FileOffset::new(file.try_clone().unwrap(), 0), MEMORY).unwrap();
        let (kick, call) = (EventFd::new(0).unwrap(), EventFd::new(0).unwrap());
        Self { file, region, kick, call, available: 0, seen: 0 }
    }

    fn put<T: vm_memory::ByteValued>(&self, at: usize, value: T) {
        self.region.as_volatile_slice().write_obj(value, at).unwrap();
    }

    fn get<T: vm_memory::ByteValued>(&self, at: usize) -> T {
        self.region.as_volatile_slice().read_obj(at).unwrap()
    }

    fn describe(&self, number: u16, at: usize, length: usize, writes: bool, next: Option<u16>) {
        let place = usize::from(number) * 16;
        self.put(place, at as u64);
        self.put(place + 8, length as u32);
        self.put(place + 12, u16::from(next.is_some()) | u16::from(writes) << 1);
        self.put(place + 14, next.unwrap_or(0));
    }

    /// Makes a request in a slot: with an indirect table, so that each takes one descriptor.
    fn ask(&mut self, slot: u16, kind: u32, sector: u64) {
        let request = REQUESTS + usize::from(slot) * PAGE;
        let table = request + 1024;
        self.put(request, kind);
        self.put(request + 8, sector);
        self.put(request + 512, 0xaa_u8);
        let data = DATA + usize::from(slot) * PAGE;
        let parts = match kind {
            FLUSH => vec![(request, 16, false), (request + 512, 1, true)],
            _ => vec![(request, 16, false), (data, PAGE, kind == READ), (request + 512, 1, true)],
        };
        for (number, (at, length, writes)) in parts.iter().enumerate() {
            let place = table + number * 16;
            let is_last = number + 1 == parts.len();
            self.put(place, *at as u64);
            self.put(place + 8, *length as u32);
            self.put(place + 12, u16::from(!is_last) | u16::from(*writes) << 1);
            self.put(place + 14, number as u16 + 1);
        }
        self.describe(slot, table, parts.len() * 16, false, None);
        self.put(usize::from(slot) * 16 + 12, 4_u16);
        self.offer(slot);
    }

    /// Puts a head into the available ring.
    fn offer(&mut self, head: u16) {
        self.put(AVAILABLE + 4 + usize::from(self.available % SIZE) * 2, head);
        self.available = self.available.wrapping_add(1);
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.put(AVAILABLE + 2, self.available);
        self.kick.write(1).unwrap();
    }

    /// The slots of the next answers, as they come, and what they say.
    fn answers(&mut self, count: usize) -> Vec<(u16, u8)> {
        let until = Instant::now() + Duration::from_secs(20);
        let mut answers = Vec::new();
        while answers.len() < count {
            if self.get::<u16>(USED + 2) == self.seen {
                assert!(Instant::now() < until, "{answers:?} and no more");
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let head: u32 = self.get(USED + 4 + usize::from(self.seen % SIZE) * 8);
            self.seen = self.seen.wrapping_add(1);
            answers.push((head as u16, self.get(REQUESTS + head as usize * PAGE + 512)));
        }
        answers
    }

    fn data(&self, slot: u16) -> u64 {
        self.get(DATA + usize::from(slot) * PAGE)
    }

    fn set_data(&self, slot: u16, value: u64) {
        for word in 0..PAGE / 8 {
            self.put(DATA + usize::from(slot) * PAGE + word * 8, value);
        }
    }

    fn answer_of_one(&mut self, slot: u16, kind: u32, sector: u64) -> u8 {
        self.ask(slot, kind, sector);
        let answers = self.answers(1);
        assert_eq!(answers[0].0, slot);
        answers[0].1
    }
}

/// The hypervisor's side of a connection.
struct Hypervisor {
    frontend: Frontend,
    inflight: (VhostUserInflight, File),
}

impl Hypervisor {
    /// Connects, and takes all features but event indices: the guest looks by itself.
    fn greet(path: &Path) -> Frontend {
        let mut frontend = Frontend::connect(path, 1).unwrap();
        frontend.set_owner().unwrap();
        let features = frontend.get_features().unwrap();
        let protocol = frontend.get_protocol_features().unwrap();
        assert!(protocol.contains(VhostUserProtocolFeatures::INFLIGHT_SHMFD));
        frontend.set_protocol_features(protocol).unwrap();
        frontend.set_features(features & !(1 << 29)).unwrap();
        frontend
    }

    /// Connects, and starts the queue at that place. With what was in flight at the process before.
    fn start(path: &Path, guest: &Guest, base: u16, inflight: Option<(VhostUserInflight, File)>) -> Self {
        let mut frontend = Self::greet(path);
        let inflight =
            inflight.unwrap_or_else(|| frontend.get_inflight_fd(&VhostUserInflight::new(0, 0, 1, SIZE)).unwrap());
        frontend.set_inflight_fd(&inflight.0, inflight.1.as_raw_fd()).unwrap();
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: MEMORY as u64,
            userspace_addr: 0x7000_0000,
            mmap_offset: 0,
            mmap_handle: guest.file.as_raw_fd(),
        };
        frontend.set_mem_table(&[region]).unwrap();
        frontend.set_vring_num(0, SIZE).unwrap();
        frontend.set_vring_base(0, base).unwrap();
        let at = |offset: usize| 0x7000_0000 + offset as u64;
        let place = VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: at(0),
            used_ring_addr: at(USED),
            avail_ring_addr: at(AVAILABLE),
            log_addr: None,
        };
        frontend.set_vring_addr(0, &place).unwrap();
        frontend.set_vring_call(0, &guest.call).unwrap();
        frontend.set_vring_kick(0, &guest.kick).unwrap();
        frontend.set_vring_enable(0, true).unwrap();
        Self { frontend, inflight }
    }
}

/// A device whose reads wait while it is held.
#[derive(Debug)]
struct Held {
    device: Arc<dyn Device>,
    /// Held, and how many wait.
    state: Mutex<(bool, u32)>,
    changed: Condvar,
}

impl Held {
    fn new(length: u64) -> Arc<Self> {
        let device = MemoryDirectory::new().create("device", length).unwrap();
        Arc::new(Self { device, state: Mutex::new((false, 0)), changed: Condvar::new() })
    }

    fn hold(&self, is_held: bool) {
        self.state.lock().0 = is_held;
        self.changed.notify_all();
    }

    fn until_waiting(&self, count: u32) {
        let mut state = self.state.lock();
        while state.1 < count {
            self.changed.wait(&mut state);
        }
    }
}

/// Holds a device no more when a test ends, however it does: a socket waits for it.
struct Release(Arc<Held>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.hold(false);
    }
}

impl Device for Held {
    fn promise(&self) -> Promise {
        self.device.promise()
    }

    fn len(&self) -> u64 {
        self.device.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> ishigaki_device::Result<()> {
        let mut state = self.state.lock();
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            self.changed.wait(&mut state);
        }
        state.1 -= 1;
        drop(state);
        self.device.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> ishigaki_device::Result<()> {
        self.device.write_at(offset, bytes)
    }

    fn sync(&self) -> ishigaki_device::Result<()> {
        self.device.sync()
    }

    fn trim(&self, offset: u64, length: u64) -> ishigaki_device::Result<()> {
        self.device.trim(offset, length)
    }
}

fn serve(path: &Path, device: &Arc<Held>) -> Socket {
    serve_in(path, device, Some(1))
}

fn serve_in(path: &Path, device: &Arc<Held>, session: Option<u64>) -> Socket {
    let device = device.clone();
    Socket::new(path, 4, move || Arc::new(Block::new(device.clone(), "volume", 2, session))).unwrap()
}

const LENGTH: u64 = 1 << 20;

#[test]
fn a_guest_reads_what_it_has_written_and_sees_the_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let device = Held::new(LENGTH);
    let socket = serve(&path, &device);
    let mut guest = Guest::new();
    let mut hypervisor = Hypervisor::start(&path, &guest, 0, None);
    let flags = VhostUserConfigFlags::empty();
    let (_, config) = hypervisor.frontend.get_config(0, 60, flags, &[0; 60]).unwrap();
    assert_eq!(config[..8], (LENGTH / 512).to_le_bytes());
    assert!(socket.is_connected());
    for round in 0..100_u64 {
        let sector = round % 16 * 8;
        guest.set_data(0, round);
        assert_eq!(guest.answer_of_one(0, WRITE, sector), 0);
        assert_eq!(guest.answer_of_one(1, READ, sector), 0);
        assert_eq!(guest.data(1), round);
        assert_eq!(guest.answer_of_one(2, FLUSH, 0), 0);
    }
    assert_eq!(guest.answer_of_one(0, WRITE, LENGTH / 512), 1, "beyond the end");
    assert_eq!(hypervisor.frontend.get_vring_base(0).unwrap(), 301);
}

#[test]
fn a_queue_that_stops_has_answered_all_that_it_has_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let device = Held::new(LENGTH);
    let _socket = serve(&path, &device);
    let mut guest = Guest::new();
    let hypervisor = Hypervisor::start(&path, &guest, 0, None);
    device.hold(true);
    guest.ask(0, READ, 0);
    guest.ask(1, READ, 8);
    device.until_waiting(2);
    let stopping = std::thread::spawn(move || (hypervisor.frontend.get_vring_base(0).unwrap(), hypervisor));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!stopping.is_finished());
    device.hold(false);
    let (base, hypervisor) = stopping.join().unwrap();
    assert_eq!(base, 2);
    assert_eq!(guest.get::<u16>(USED + 2), 2, "both are answered");
    // What is asked now waits until the queue is started again.
    guest.ask(2, READ, 0);
    guest.answers(2);
    hypervisor.frontend.set_vring_base(0, 2).unwrap();
    hypervisor.frontend.set_vring_kick(0, &guest.kick).unwrap();
    hypervisor.frontend.set_vring_call(0, &guest.call).unwrap();
    assert_eq!(guest.answers(1), [(2, 0)]);
}

#[test]
fn what_a_dead_process_has_taken_is_answered_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let device = Held::new(LENGTH);
    let mut guest = Guest::new();
    guest.set_data(4, 77);
    let first = serve(&path, &device);
    let hypervisor = Hypervisor::start(&path, &guest, 0, None);
    assert_eq!(guest.answer_of_one(4, WRITE, 0), 0);
    // Two wait, and one that came later is answered before them.
    device.hold(true);
    guest.ask(2, READ, 0);
    guest.ask(0, READ, 8);
    device.until_waiting(2);
    assert_eq!(guest.answer_of_one(3, FLUSH, 0), 0);
    // The process takes nothing more, and its requests stand still, which is as good as dead for the other one.
    let _release = Release(device.clone());
    let inflight = hypervisor.inflight;
    drop(hypervisor.frontend);
    std::thread::sleep(Duration::from_millis(300));
    let other = folder.path().join("other");
    let alive = Held::new(LENGTH);
    alive
        .device
        .write_at(0, &{
            let mut page = AlignedBuffer::zeroed(PAGE);
            page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&78_u64.to_le_bytes()));
            page
        })
        .unwrap();
    let second = serve(&other, &alive);
    // The hypervisor knows how many answers the guest has, and no more.
    let after = Hypervisor::start(&other, &guest, 2, Some(inflight));
    let mut answers = guest.answers(2);
    answers.sort_unstable();
    assert_eq!(answers, [(0, 0), (2, 0)]);
    assert_eq!((guest.data(2), guest.data(0)), (78, 0));
    assert_eq!(guest.answer_of_one(1, READ, 0), 0, "and what comes after them");
    assert_eq!(after.frontend.get_vring_base(0).unwrap(), 5);
    assert_eq!(guest.get::<u16>(USED + 2), 5, "nothing is answered twice");
    drop((after, second));
    device.hold(false);
    drop(first);
}

#[test]
fn a_machine_goes_on_where_nothing_that_it_has_written_is_lost_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let device = Held::new(LENGTH);
    let mut guest = Guest::new();
    let offers = |path: &Path| Hypervisor::greet(path).get_features().unwrap() & 1 << 9 != 0;
    // The session before it, that before which it began, and what was durable when it was answered.
    for (before, after, goes_on) in [(Some(7), Some(7), true), (Some(7), Some(8), false), (None, Some(8), true)] {
        let socket = serve_in(&path, &device, before);
        assert_eq!(offers(&path), before.is_some());
        let hypervisor = Hypervisor::start(&path, &guest, guest.seen, None);
        assert_eq!(guest.answer_of_one(0, WRITE, 0), 0);
        drop((hypervisor.frontend, socket));
        let (told, file) = hypervisor.inflight;
        let _next = serve_in(&path, &device, after);
        if goes_on {
            let _after = Hypervisor::start(&path, &guest, guest.seen, Some((told, file)));
            assert_eq!(guest.answer_of_one(0, READ, 0), 0);
            continue;
        }
        let mut frontend = Hypervisor::greet(&path);
        let _ = frontend.set_inflight_fd(&told, file.as_raw_fd());
        assert!(frontend.get_features().is_err(), "it is hung up on");
        // One that starts anew is welcome.
        assert!(offers(&path));
    }
}

#[test]
fn a_socket_that_ends_answers_what_it_has_taken_and_leaves_the_rest_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let device = Held::new(LENGTH);
    let mut guest = Guest::new();
    let socket = serve(&path, &device);
    let hypervisor = Hypervisor::start(&path, &guest, 0, None);
    device.hold(true);
    guest.ask(0, READ, 0);
    device.until_waiting(1);
    let ending = std::thread::spawn(move || drop(socket));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!ending.is_finished());
    device.hold(false);
    ending.join().unwrap();
    assert_eq!(guest.answers(1), [(0, 0)]);
    guest.ask(1, READ, 0);
    let _socket = serve(&path, &device);
    let inflight = (hypervisor.inflight.0, hypervisor.inflight.1.try_clone().unwrap());
    drop(hypervisor);
    let _next = Hypervisor::start(&path, &guest, 1, Some(inflight));
    assert_eq!(guest.answers(1), [(1, 0)]);
}

#[test]
fn a_guest_that_breaks_the_rules_harms_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let device = Held::new(LENGTH);
    let (path, other) = (folder.path().join("socket"), folder.path().join("other"));
    let (_socket, _other) = (serve(&path, &device), serve(&other, &device));
    let mut good = Guest::new();
    let _good = Hypervisor::start(&other, &good, 0, None);
    let bad: [fn(&mut Guest); 6] = [
        // More requests than the ring has room for.
        |guest| {
            guest.put(AVAILABLE + 2, SIZE + 1);
            guest.kick.write(1).unwrap();
        },
        // A chain that ends nowhere.
        |guest| {
            guest.describe(0, REQUESTS, 16, false, Some(0));
            guest.offer(0);
        },
        // A head that is none.
        |guest| guest.offer(SIZE),
        // A table within a table.
        |guest| {
            guest.ask(1, READ, 0);
            guest.put(REQUESTS + PAGE + 1024 + 12, 4_u16);
            guest.offer(1);
        },
        // One twice.
        |guest| {
            guest.describe(0, REQUESTS, 16, false, None);
            guest.offer(0);
            guest.offer(0);
        },
        // Beyond the memory.
        |guest| {
            guest.describe(0, MEMORY - 8, 16, true, None);
            guest.offer(0);
        },
    ];
    for (number, breaks) in bad.iter().enumerate() {
        let mut guest = Guest::new();
        let hypervisor = Hypervisor::start(&path, &guest, 0, None);
        assert_eq!(guest.answer_of_one(0, READ, 0), 0, "{number}");
        breaks(&mut guest);
        assert_eq!(good.answer_of_one(number as u16 % SLOTS, READ, 0), 0, "{number}: the other machine");
        drop(hypervisor);
    }
    let mut guest = Guest::new();
    let _hypervisor = Hypervisor::start(&path, &guest, 0, None);
    assert_eq!(guest.answer_of_one(0, READ, 0), 0, "the next machine");
}
