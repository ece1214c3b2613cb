//! RDMA, if only in software: two virtual machines, each with a network device below `rdma_rxe`, have a storage node and its client,
//! which reach each other over libfabric's provider `verbs`. What is read and written is the same on both sides, and the devices
//! have counted packets of RDMA for all of it.
//!
//! Takes QEMU, and an image that a chore makes, so it is asked for:
//!
//! ```sh
//! cargo xtask guest
//! cargo test -p ishigaki-remote --test rdma -- --ignored
//! ```

use std::path::Path;
use std::time::{Duration, Instant};

use ishigaki_base::crc32c;
use ishigaki_base::random::Seed;
use ishigaki_device::{AlignedBuffer, Device, Directory, FileDirectory};
use ishigaki_fabric::{EndpointKind, Fabric, Libfabric, Security, Settings, Token};
use ishigaki_remote::{Access, Client, ClientSettings, Export, NodeSettings, StorageNode};
use ishigaki_testkit::guest::{Guest, Machine};

/// What the program of a guest is, by a variable of its environment.
const SIDE: &str = "ISHIGAKI_TEST_SIDE";

/// What carries the bytes: libfabric's provider for devices of RDMA, with reliable endpoints on top.
const TRANSPORT: &str = "ofi:verbs;ofi_rxm";

const NODE: &str = "10.0.0.1";
const CLIENT: &str = "10.0.0.2";
const PORT: u16 = 7117;

/// Bytes of the file that the client reads, and of the one that it writes.
const READ: usize = 4 << 20;
const WRITTEN: usize = 2 << 20;

/// Of a read and of a write.
const PIECE: usize = 64 << 10;

/// RDMA in software puts no more into a packet of an Ethernet's usual size.
const PACKET: u64 = 1024;

/// A machine without hardware support takes its time.
const PATIENCE: Duration = Duration::from_mins(2);

/// The bytes of a file, which both sides know.
fn content(seed: u64, length: usize) -> AlignedBuffer {
    let mut bytes = AlignedBuffer::zeroed(length);
    Seed(seed).generator().fill(&mut bytes);
    bytes
}

fn security() -> Security {
    Security::Token(Token::new(b"a token for two virtual machines").expect("long enough"))
}

/// No test of its own: what the guests run.
#[test]
fn the_program_of_a_guest() {
    let Ok(side) = std::env::var(SIDE) else { return };
    let fabric: Fabric = TRANSPORT.parse().expect("a transport");
    let settings = Settings { fabric, connect: PATIENCE, stall: PATIENCE, ..Settings::default() };
    let found = Libfabric::probe().expect("a library that can be used").expect("libfabric");
    for way in found.providers.iter().filter(|way| way.name == "verbs" && way.endpoint == EndpointKind::Connected) {
        println!("GUEST provider {} on {}", way.name, way.domain);
    }
    if side == "node" { serve(settings) } else { use_it(settings) }
}

/// Serves a file until the client says that it has done.
fn serve(fabric: Settings) {
    let place = Path::new("/tmp/node");
    std::fs::create_dir(place).expect("made");
    let directory = FileDirectory::open(place).expect("opened");
    let device = directory.create("read", READ as u64).expect("made");
    device.write_at(0, &content(1, READ)).expect("written");
    let listen = format!("{NODE}:{PORT}");
    let settings = NodeSettings { listen, access: Access::ReadWrite, fabric, ..NodeSettings::default() };
    let node = StorageNode::start(&Export::Folder(place.to_owned()), settings, security()).expect("started");
    println!("GUEST serves {}", node.address());
    let begun = Instant::now();
    while !place.join("over").exists() {
        assert!(begun.elapsed() < PATIENCE, "the client comes to its end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let written = std::fs::read(place.join("written")).expect("read");
    println!("GUEST checksum {:08x} of {} bytes", crc32c(&written), written.len());
    std::thread::sleep(Duration::from_secs(1));
}

/// Reads a file of the node's, and writes another.
fn use_it(fabric: Settings) {
    let settings = ClientSettings { fabric, ..ClientSettings::default() };
    let client = Client::connect(&format!("{NODE}:{PORT}"), &settings, &security()).expect("connected");
    let directory = client.directory("");
    let device = directory.open_device("read").expect("opened");
    let mut bytes = AlignedBuffer::zeroed(READ);
    for (number, piece) in bytes.chunks_mut(PIECE).enumerate() {
        device.read_at((number * PIECE) as u64, piece).expect("read");
    }
    println!("GUEST checksum {:08x} of {} bytes", crc32c(&bytes), bytes.len());
    let device = directory.create("written", WRITTEN as u64).expect("made");
    for (number, piece) in content(2, WRITTEN).chunks(PIECE).enumerate() {
        device.write_at((number * PIECE) as u64, piece).expect("written");
    }
    device.sync().expect("durable");
    directory.create("over", 4096).expect("made");
}

/// A machine on a network of two.
fn machine(folder: &Path, side: &str, address: &str, number: u8) -> Guest {
    let (here, there) = (folder.join(format!("{number}")), folder.join(format!("{}", 3 - number)));
    let net = format!(
        "dgram,id=net,local.type=unix,local.path={},remote.type=unix,remote.path={}",
        here.display(),
        there.display()
    );
    let device = format!("virtio-net-pci,netdev=net,mac=52:54:00:00:00:0{number}");
    Machine::new(env!("CARGO_TARGET_TMPDIR"), "rdma", 640)
        .named(side)
        .with("rdma")
        .with_program(&std::env::current_exe().expect("this binary"))
        .told(&format!("RDMA_ADDRESS={address}"))
        // For 256 peers and more the provider wants a queue that is longer than what this device can have.
        .told("FI_UNIVERSE_SIZE=16")
        .told(&format!("{SIDE}={side}"))
        .arguments(["-netdev", &net, "-device", &device])
        .start()
}

/// Hears that a device has sent and received at least so many packets of RDMA.
fn check_counters(guest: &Guest, sent: u64, received: u64) {
    for (name, least) in [("sent_pkts", sent), ("rcvd_pkts", received)] {
        let count = guest.hear_of(&format!("counter {name}"));
        let count: u64 = count.parse().expect("a number");
        assert!(count >= least, "{name}: {count} packets, which are less than {least}");
    }
}

#[test]
#[ignore = "it takes QEMU, an image, and minutes"]
fn a_node_and_its_client_reach_each_other_by_rdma_in_software() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = machine(folder.path(), "node", NODE, 1);
    assert!(node.hear_of("link").contains("state ACTIVE"), "the device of the node");
    assert_eq!(node.hear_of("provider"), "verbs on rxe0");
    node.hear_of("serves");
    let client = machine(folder.path(), "client", CLIENT, 2);
    let checksum = |seed, length| format!("{:08x} of {length} bytes", crc32c(&content(seed, length)));
    assert_eq!(client.hear_of("checksum"), checksum(1, READ));
    assert_eq!(node.hear_of("checksum"), checksum(2, WRITTEN));
    let (read, written) = (READ as u64 / PACKET, WRITTEN as u64 / PACKET);
    check_counters(&client, written, read);
    check_counters(&node, read, written);
}
