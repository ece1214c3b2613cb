//! Pages that several readers miss at the same time: the node is asked once, and nobody reads an old page or is left waiting.

#[allow(dead_code, reason = "shared by several tests")]
mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::{AlignedBuffer, Device, Directory};
use ishigaki_fabric::Security;
use ishigaki_remote::{CacheSettings, CacheStatistics, Client, ClientSettings, Mode, NodeSettings};
use ishigaki_testkit::seeded_runs;

use kit::proxy::Proxy;
use kit::{MODES, Place, full, read, settings};

const PAGE: u64 = 16384;

/// A node with a file of 1 MiB, and a client without copies that has filled it with ones.
fn filled(mode: Mode) -> (Place, Client, Arc<dyn Device>) {
    let place = Place::with(NodeSettings { lease: Duration::from_secs(30), ..settings(mode) });
    let writer = place.client();
    let device = writer.directory("").create("pages", 64 * PAGE).expect("created");
    device.write_durable(0, &full(64 * PAGE as usize, 1)).expect("written");
    (place, writer, device)
}

fn caching(address: &str, connections: usize) -> Client {
    let cache = CacheSettings { memory: ByteSize::mib(4), page: ByteSize(PAGE) };
    let settings = ClientSettings { cache: Some(cache), connections, ..ClientSettings::default() };
    Client::connect(address, &settings, &Security::Open).expect("connected")
}

/// The same, beside a client with copies whose connections can be held up.
struct Held {
    copy: Arc<dyn Device>,
    client: Client,
    proxy: Proxy,
    device: Arc<dyn Device>,
    writer: Client,
    _place: Place,
}

impl Held {
    fn filled(mode: Mode, connections: usize) -> Self {
        let (place, writer, device) = filled(mode);
        let proxy = Proxy::to(place.node.address());
        let client = caching(&proxy.address, connections);
        let copy = client.directory("").open("pages").expect("opened");
        Self { copy, client, proxy, device, writer, _place: place }
    }
}

fn statistics(client: &Client) -> CacheStatistics {
    client.cache_statistics().expect("there is a cache")
}

/// What the node has read so far.
fn node_read(client: &Client) -> u64 {
    client.status().expect("told").bytes_read
}

/// Waits until it is so, for a while; true if it is.
fn until(mut so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn however_many_miss_a_page_at_once_the_node_is_asked_for_it_once() {
    for mode in MODES {
        let held = Held::filled(mode, 2);
        let Held { writer, proxy, client, copy, .. } = &held;
        // Both connections have opened the file, and the node knows that we keep copies.
        (60..62).for_each(|page| drop(read(copy.as_ref(), page * PAGE, 512)));
        let (before, had) = (node_read(writer), statistics(client));
        proxy.hold();
        std::thread::scope(|scope| {
            // Four pages; only some of them; and some before and behind.
            for (offset, length) in [(3, 4), (3, 4), (4, 1), (5, 2), (1, 4), (5, 4), (0, 9), (3, 4)] {
                scope.spawn(move || {
                    let bytes = read(copy.as_ref(), offset * PAGE + 512, length * PAGE as usize - 1024);
                    assert!(bytes.iter().all(|&byte| byte == 1));
                });
            }
            // Nobody is answered before all that the node is to be asked for at first has arrived there.
            assert!(until(|| node_read(writer) > before), "{mode}");
            proxy.release();
        });
        assert_eq!(node_read(writer) - before, 9 * PAGE, "{mode}: each page once");
        let has = statistics(client);
        assert_eq!(has.misses - had.misses, 9, "{mode}");
        assert_eq!((has.hits + has.joined) - (had.hits + had.joined), 32 - 9, "{mode}: all others");
        assert!(has.joined > had.joined, "{mode}");
    }
}

#[test]
fn a_page_that_was_asked_for_before_a_write_is_not_given_to_who_reads_behind_it() {
    for mode in MODES {
        let held = Held::filled(mode, 1);
        let Held { writer, device, proxy, copy, .. } = &held;
        read(copy.as_ref(), 60 * PAGE, 512);
        let before = node_read(writer);
        proxy.hold();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| read(copy.as_ref(), 0, 512)[0]);
            assert!(until(|| node_read(writer) == before + PAGE), "{mode}");
            device.write_at(0, &full(512, 2)).expect("written");
            let second = scope.spawn(|| read(copy.as_ref(), 0, 512)[0]);
            let third = scope.spawn(|| read(copy.as_ref(), 0, 512)[0]);
            // One of them has to ask again, unless it waits for what came before the write.
            let asked_again = until(|| node_read(writer) > before + PAGE);
            proxy.release();
            assert_eq!(first.join().expect("no panic"), 1, "{mode}: it was read before the write");
            assert_eq!([second, third].map(|reader| reader.join().expect("no panic")), [2, 2], "{mode}");
            assert!(asked_again, "{mode}");
        });
        assert_eq!(read(copy.as_ref(), 0, 512)[0], 2, "{mode}: nor was the old one kept");
    }
}

#[test]
fn who_waits_for_a_reader_whose_connection_is_cut_reads_for_itself() {
    for mode in MODES {
        let held = Held::filled(mode, 2);
        let Held { writer, proxy, copy, .. } = &held;
        (60..62).for_each(|page| drop(read(copy.as_ref(), page * PAGE, 512)));
        let before = node_read(writer);
        proxy.hold();
        std::thread::scope(|scope| {
            // Connections take turns.
            let leads = scope.spawn(|| copy.read_at(0, &mut AlignedBuffer::zeroed(512)));
            assert!(until(|| node_read(writer) == before + PAGE), "{mode}");
            let joins = scope.spawn(|| copy.read_at(0, &mut AlignedBuffer::zeroed(512)));
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(node_read(writer), before + PAGE, "{mode}: it waits");
            assert_eq!(proxy.cut_asked(), 1, "{mode}");
            assert!(leads.join().expect("no panic").is_err(), "{mode}");
            proxy.release();
            joins.join().expect("no panic").expect("the other connection is whole");
        });
        assert_eq!(read(copy.as_ref(), 0, 512)[..], [1; 512], "{mode}");
    }
}

#[test]
fn readers_of_the_same_few_pages_agree_while_others_write_them() {
    seeded_runs("readers_of_the_same_few_pages_agree_while_others_write_them", 2, |seed| {
        for mode in MODES {
            let (place, _writer, device) = filled(mode);
            let client = caching(&place.node.address().to_string(), 2);
            let copy = client.directory("").open("pages").expect("opened");
            // Of each of eight pages: what was written there and is answered.
            let written: [AtomicU64; 8] = std::array::from_fn(|_| AtomicU64::new(1));
            let end = Instant::now() + Duration::from_millis(500);
            std::thread::scope(|scope| {
                for reader in 0..6 {
                    let (copy, written, mut random) = (&copy, &written, seed.derive(reader).generator());
                    scope.spawn(move || {
                        while Instant::now() < end {
                            let first = random.usize(0..8);
                            let count = random.usize(1..=8 - first);
                            let known: Vec<_> =
                                written[first..first + count].iter().map(|at| at.load(Ordering::SeqCst)).collect();
                            let bytes = read(copy.as_ref(), first as u64 * PAGE, count * PAGE as usize);
                            for (page, known) in bytes.chunks(PAGE as usize).zip(known) {
                                let found = u64::from(page[0]);
                                assert!(found >= known, "{mode}: {found} after {known}");
                                assert!(page[..512].iter().all(|&byte| u64::from(byte) == found), "{mode}: torn");
                            }
                        }
                    });
                }
                // Another client, and the readers' own, each for half of the pages.
                for (half, device) in [&device, &copy].into_iter().enumerate() {
                    let (written, mut random) = (&written, seed.derive(100 + half as u64).generator());
                    scope.spawn(move || {
                        for turn in 2..200 {
                            if Instant::now() > end {
                                break;
                            }
                            let page = half * 4 + random.usize(0..4);
                            device.write_at(page as u64 * PAGE, &full(512, turn)).expect("written");
                            written[page].store(turn.into(), Ordering::SeqCst);
                            std::thread::sleep(Duration::from_micros(random.u64(0..3000)));
                        }
                    });
                }
            });
            let has = statistics(&client);
            assert!(has.joined > 0 && has.hits > 0 && has.misses > 0, "{mode}: {has:?}");
        }
    });
}
