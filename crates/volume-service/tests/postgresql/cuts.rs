//! The power goes: the machine ends, and the drives under its volume keep of what was not synced what a seed says, torn and reordered.
//!
//! The service's part is played in this process, over the simulated medium: a pool with its threads, and the volume on a socket. The same cut leaves other
//! survivors with each seed. Some of them are judged by this host's server, which is quick; one is what the next machine starts from.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, Device, Directory, Fault, SimDirectory, SimSettings};
use ishigaki_tier::{Memory, Mode, Pool, Settings};
use ishigaki_virtio::{Block, Requests, Socket};

use crate::stage::NAME;
use crate::{Folder, PATIENCE, SIZE, check, cluster, hear, last_told, machine};

const CHUNK: u64 = 256 << 10;

/// Bytes of the fast device: far fewer than the server uses, so that chunks come and go.
const FAST: u64 = 24 * CHUNK;

const FAST_NAME: &str = "fast";

/// Bytes of a step of a copy.
const STEP: usize = 1 << 20;

/// Survivors of one cut that are judged, beside those that the next machine starts from.
const OTHERS: u64 = 4;

/// A small log, so that its segments are used again and again.
fn settings() -> Settings {
    Settings {
        chunk: ByteSize(CHUNK),
        log: ByteSize::kib(512),
        segment: ByteSize::kib(32),
        half_life: Duration::from_secs(5),
        ..Settings::default()
    }
}

fn open(medium: &SimDirectory) -> Pool {
    let directory: Arc<dyn Directory> = Arc::new(medium.clone());
    let fast = directory.open(FAST_NAME).unwrap();
    // The memory is lost with the power.
    Pool::open(directory.clone(), fast, directory, Some(&Memory::simulated()), &settings()).unwrap()
}

/// The drives, with the image on the slow one as a volume.
fn drives(seed: Seed, image: &Path) -> SimDirectory {
    let block_size = if seed.0.is_multiple_of(2) { 512 } else { 4096 };
    let medium = SimDirectory::new(SimSettings { seed, block_size, ..SimSettings::default() });
    medium.create(FAST_NAME, FAST).unwrap();
    let slow = medium.create(NAME, SIZE).unwrap();
    let mut file = File::open(image).unwrap();
    let mut buffer = AlignedBuffer::zeroed(4096);
    for offset in (0..SIZE).step_by(buffer.len()) {
        file.read_exact(&mut buffer).unwrap();
        // What is zero takes no memory.
        if buffer.iter().any(|byte| *byte != 0) {
            slow.write_durable(offset, &buffer).unwrap();
        }
    }
    medium.sync().unwrap();
    open(&medium).attach(NAME, Mode::WriteBack).unwrap();
    medium
}

/// Copies a device into a file.
fn copy(device: &dyn Device, path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(device.len()).unwrap();
    let mut buffer = AlignedBuffer::zeroed(STEP);
    for offset in (0..device.len()).step_by(STEP) {
        let part = &mut buffer[..STEP.min((device.len() - offset) as usize)];
        device.read_at(offset, part).unwrap();
        if part.iter().any(|byte| *byte != 0) {
            file.write_all_at(part, offset).unwrap();
        }
    }
}

/// A volume on a socket, as the service has it.
struct Served {
    _socket: Socket,
    _pool: Pool,
}

impl Served {
    fn start(medium: &SimDirectory, path: &Path) -> Self {
        let pool = open(medium);
        let (volume, session) = (pool.volume(NAME).unwrap(), pool.session());
        let requests =
            move || -> Arc<dyn Requests> { Arc::new(Block::new(Arc::new(volume.clone()), NAME, 1, session)) };
        Self { _socket: Socket::new(path, 4, requests).unwrap(), _pool: pool }
    }
}

/// Judges what a cut has left, without a machine. Where it is not as it should be, the drives stay as files, as the cut has left them.
fn judge(cut: &SimDirectory, seed: Seed, told: u64, folder: &Path) {
    println!("survivors {seed}");
    let judged = catch_unwind(AssertUnwindSafe(|| {
        let image = folder.join("copy");
        copy(&open(&cut.survivors(seed)).volume(NAME).unwrap(), &image);
        cluster::judge(&image, told);
    }));
    if let Err(panic) = judged {
        let survivors = cut.survivors(seed);
        for (name, _) in survivors.devices() {
            copy(&*survivors.open(&name).unwrap(), &folder.join(format!("cut-{name}")));
        }
        resume_unwind(panic);
    }
}

fn wait_for_cut(medium: &SimDirectory) {
    let begun = Instant::now();
    while medium.power_is_on() {
        assert!(begun.elapsed() < PATIENCE, "the machine writes within minutes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// So many cuts of the power, each at a drawn operation: mostly under transactions, else while the machine or its server starts.
pub(crate) fn cuts(seed: Seed, count: u64) {
    let folder = Folder::new();
    let [image, socket, copied] = ["image", "socket", "copied"].map(|name| folder.path().join(name));
    cluster::make(&image);
    let mut medium = drives(seed, &image);
    let mut told = 0;
    for cut in 0..count {
        let seed = seed.derive(cut);
        let mut random = seed.generator();
        let served = Served::start(&medium, &socket);
        let guest = machine(&socket);
        let soon = cut > 0 && random.u8(0..4) == 0;
        if !soon {
            check(&guest, told);
            told = hear(&guest, random.u64(20..100));
        }
        let operation = medium.operations() + random.u64(1..if soon { 200 } else { 1000 });
        medium.inject(Fault::PowerCut { operation });
        wait_for_cut(&medium);
        told = last_told(&guest.kill(), told);
        drop(served);
        println!("cut {} of {count}, at operation {operation}: a client was told of {told}", cut + 1);
        for survivors in 0..=OTHERS {
            judge(&medium, seed.derive(survivors), told, folder.path());
        }
        // What was judged was its twin.
        medium = medium.survivors(seed.derive(0));
    }
    let served = Served::start(&medium, &socket);
    let guest = machine(&socket);
    check(&guest, told);
    told = hear(&guest, 20);
    told = last_told(&guest.kill(), told);
    drop(served);
    // As a plain image.
    open(&medium).detach(NAME).unwrap();
    copy(&*medium.open(NAME).unwrap(), &copied);
    cluster::judge(&copied, told);
}
