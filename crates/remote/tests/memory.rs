//! What a node's connections may take of its memory, all together, and who gets in beside those that are silent.

#[expect(dead_code, reason = "the other tests use the rest of it")]
mod kit;

use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::{AlignedBuffer, Directory};
use ishigaki_fabric::{Endpoint, Event, Outgoing, RegionKey, Security, Settings, Token, Wait, connect};
use ishigaki_remote::{Export, Folder, Mode, NodeSettings, Results, StorageNode, WorkError, Worker};

use kit::{full, settings};

/// What the connections of a node may have here.
const MEMORY: ByteSize = ByteSize::mib(128);

/// What this process takes besides: threads and sockets of 200 connections, both sides of them.
const BESIDE: u64 = 64 << 20;

const CONNECTIONS: usize = 200;

/// How long they are silent.
const QUIET: Duration = Duration::from_secs(2);

static ALONE: Mutex<()> = Mutex::new(());

/// Hands out as many bytes as it can be made to.
#[derive(Debug)]
struct Generous;

impl Worker for Generous {
    fn take(&self, _: &[u8], _: Folder, results: Results) -> Result<(), WorkError> {
        std::thread::spawn(move || {
            for _ in 0..64 {
                if results.send(vec![1; 1 << 20]).is_err() {
                    return;
                }
            }
            results.finish(Ok(()));
        });
        Ok(())
    }
}

struct Place {
    _folder: tempfile::TempDir,
    node: StorageNode,
}

/// A node with a file of a mebibyte.
fn place(mode: Mode) -> Place {
    let folder = tempfile::tempdir().expect("a folder");
    // Clients that take nothing are given up soon.
    let fabric = Settings { stall: Duration::from_secs(1), ..Settings::default() };
    let settings = NodeSettings { memory: MEMORY, fabric, ..settings(mode) };
    let export = Export::Folder(folder.path().to_owned());
    let node = StorageNode::start_with(&export, settings, Security::Open, Some(Arc::new(Generous))).expect("started");
    let device = kit::client(&node).directory("").create("pages", 1 << 20).expect("created");
    device.write_durable(0, &full(1 << 20, 7)).expect("written");
    Place { _folder: folder, node }
}

fn endpoint(place: &Place) -> Arc<dyn Endpoint> {
    connect(&place.node.address().to_string(), &Settings::default(), &Security::Open).expect("connected")
}

/// The answer to a request, as bytes.
fn ask(endpoint: &dyn Endpoint, request: &[u8]) -> Vec<u8> {
    endpoint.send(&[Outgoing::Request { id: 0, bytes: request }]).expect("sent");
    let mut events = Vec::new();
    endpoint.receive(&mut events, Wait::Until(Instant::now() + Duration::from_secs(20))).expect("received");
    let Some(Event::Reply { bytes, .. }) = events.pop() else { panic!("a reply") };
    bytes.to_vec()
}

fn handle(endpoint: &dyn Endpoint) -> u32 {
    let answer = ask(endpoint, &[&[2, 0, 0][..], &5_u16.to_le_bytes(), b"pages"].concat());
    assert_eq!(answer[0], 2, "{answer:?}");
    u32::from_le_bytes(answer[1..5].try_into().expect("a handle"))
}

fn read_request(handle: u32, key: RegionKey) -> Vec<u8> {
    [&[4][..], &handle.to_le_bytes(), &[0; 8], &(1_u32 << 20).to_le_bytes(), &key.0, &[0; 8]].concat()
}

/// What this process has in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") << 10
}

/// Reads as a client does that has nothing to do with the others. It may have to try again, and is told so.
fn is_served(place: &Place) {
    let begin = Instant::now();
    let device = kit::client(&place.node).directory("").open("pages").expect("opened");
    let mut buffer = AlignedBuffer::zeroed(1 << 20);
    while let Err(error) = device.read_at(0, &mut buffer) {
        assert!(error.to_string().contains("--memory) is taken by others; try again"), "{error}");
        assert!(begin.elapsed() < Duration::from_mins(1), "{:?}", begin.elapsed());
    }
    assert!(buffer.iter().all(|&byte| byte == 7));
}

/// The most that 200 connections take which all do that and are silent then.
#[track_caller]
fn bounded(mode: Mode, act: impl Fn(&dyn Endpoint)) {
    // What another test takes in this process would count.
    let _alone = ALONE.lock().expect("no other test has failed");
    let place = place(mode);
    let before = resident();
    let silent: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let endpoint = endpoint(&place);
            act(&*endpoint);
            endpoint
        })
        .collect();
    let (begin, mut most) = (Instant::now(), 0);
    while begin.elapsed() < QUIET {
        most = most.max(resident().saturating_sub(before));
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{mode}: {CONNECTIONS} connections take {}", ByteSize(most));
    assert!(most < MEMORY.0 + BESIDE, "{mode}: {CONNECTIONS} connections take {}", ByteSize(most));
    is_served(&place);
    drop(silent);
}

#[test]
fn connections_that_read_and_take_nothing_stay_within_the_nodes_memory() {
    for mode in kit::MODES {
        bounded(mode, |endpoint| {
            let request = read_request(handle(endpoint), RegionKey([0; 16]));
            let batch: Vec<_> = (1..17).map(|id| Outgoing::Request { id, bytes: &request }).collect();
            endpoint.send(&batch).expect("sent");
        });
    }
}

#[test]
fn connections_that_have_read_and_are_silent_stay_within_the_nodes_memory() {
    for mode in kit::MODES {
        bounded(mode, |endpoint| {
            let region = endpoint.register(AlignedBuffer::zeroed(1 << 20)).expect("registered");
            let request = read_request(handle(endpoint), region.key());
            let batch: Vec<_> = (1..13).map(|id| Outgoing::Request { id, bytes: &request }).collect();
            endpoint.send(&batch).expect("sent");
            let (mut events, until) = (Vec::new(), Instant::now() + Duration::from_mins(1));
            while events.len() < batch.len() {
                endpoint.receive(&mut events, Wait::Until(until)).expect("received");
            }
            assert!(events.iter().all(|event| matches!(event, Event::Written { .. })), "{events:?}");
        });
    }
}

#[test]
fn connections_that_may_write_and_do_not_stay_within_the_nodes_memory() {
    for mode in kit::MODES {
        bounded(mode, |endpoint| {
            // Slots, as many as there is room for, or the reason why there are none.
            let answer = ask(endpoint, &[6]);
            assert!(answer[0] == 3 || String::from_utf8_lossy(&answer).contains("--memory"), "{answer:?}");
        });
    }
}

#[test]
fn connections_that_ask_for_no_results_of_their_work_stay_within_the_nodes_memory() {
    for mode in kit::MODES {
        bounded(mode, |endpoint| {
            for _ in 0..4 {
                ask(endpoint, &[22, 0, 0, 0, 0]);
            }
        });
    }
}

/// Peers that connect and say nothing, more than the node has connections and arrivals.
#[test]
fn peers_that_say_nothing_keep_no_client_out() {
    for security in [Security::Open, Security::Token(Token::new(b"a token that stays secret").expect("long enough"))] {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = NodeSettings { connections: 8, arrivals: 4, ..settings(Mode::Ring) };
        let node =
            StorageNode::start(&Export::Folder(folder.path().to_owned()), settings, security.clone()).expect("started");
        let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(node.address()).expect("connected")).collect();
        // They have not begun to be given up: that takes the five seconds of a handshake.
        let begin = Instant::now();
        let clients: Vec<_> =
            (0..8).map(|_| connect(&node.address().to_string(), &Settings::default(), &security)).collect();
        assert!(clients.iter().all(Result::is_ok), "{clients:?}");
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
        assert_eq!(node.status().connections, 8);
        let full = connect(&node.address().to_string(), &Settings::default(), &security).expect_err("it is full");
        assert!(full.to_string().contains("as many connections as it takes"), "{full}");
        // A node that ends waits for none of them either.
        let begin = Instant::now();
        drop((clients, node));
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
        drop(silent);
    }
}
