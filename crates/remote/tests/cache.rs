//! Copies that clients keep: they spare the node, and nobody ever reads an old one.

#[allow(dead_code, reason = "shared by several tests")]
mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::{AlignedBuffer, Device, Directory};
use ishigaki_fabric::{Event, Outgoing, Security, Settings, Wait, connect};
use ishigaki_remote::{
    CacheSettings, Client, ClientSettings, Export, Mode, NodeSettings, ReadQueue, RemoteDevice, StorageNode,
};
use ishigaki_testkit::{seeded, seeded_runs};

use kit::{MODES, Place, full, node, read, settings};

fn leasing(mode: Mode) -> NodeSettings {
    NodeSettings { lease: Duration::from_millis(500), ..settings(mode) }
}

fn caching(node: &StorageNode, connections: usize) -> Client {
    let cache = CacheSettings { memory: ByteSize::mib(4), page: ByteSize::kib(16) };
    let settings = ClientSettings { cache: Some(cache), connections, ..ClientSettings::default() };
    Client::connect(&node.address().to_string(), &settings, &Security::Open).expect("connected")
}

fn with_pages(mode: Mode, length: u64) -> (Place, Client, Arc<dyn Device>) {
    let place = Place::with(leasing(mode));
    let writer = place.client();
    let device = writer.directory("").create("pages", length).expect("created");
    (place, writer, device)
}

#[test]
fn what_was_read_once_does_not_come_from_the_node_again() {
    for mode in MODES {
        // The last page is not whole.
        let (place, _writer, device) = with_pages(mode, (1 << 20) + 4096);
        device.write_durable(0, &full(1 << 20, 7)).expect("written");
        let client = caching(&place.node, 1);
        let copy = client.directory("").open("pages").expect("opened");
        assert_eq!(read(copy.as_ref(), 8192, 65536)[..], vec![7; 65536][..]);
        let before = client.status().expect("told").bytes_read;
        for (offset, length) in [(8192, 65536), (0, 4096), (77824, 512), (40960, 16384)] {
            assert!(read(copy.as_ref(), offset, length).iter().all(|&byte| byte == 7));
        }
        assert_eq!(client.status().expect("told").bytes_read, before, "{mode}");
        assert_eq!(read(copy.as_ref(), (1 << 20) - 512, 4608)[..512], [7; 512]);
        read(copy.as_ref(), 1 << 20, 4096);
        let statistics = client.cache_statistics().expect("there is a cache");
        assert_eq!((statistics.misses, statistics.pages, statistics.dropped), (7, 7, 0), "{statistics:?}");
        // Longer than an eighth of the cache: read, and not kept.
        assert!(read(copy.as_ref(), 0, 1 << 20).iter().all(|&byte| byte == 7));
        assert_eq!(client.cache_statistics().expect("there is a cache").pages, 7);
        // Of pages that are there in part, only those that are not.
        let before = client.status().expect("told").bytes_read;
        for page in [1, 3] {
            device.write_at(page * 16384, &full(512, 7)).expect("written");
        }
        assert_eq!(read(copy.as_ref(), 8192, 65536)[..], vec![7; 65536][..]);
        assert_eq!(client.status().expect("told").bytes_read, before + 2 * 16384, "{mode}");
    }
}

#[test]
fn any_reads_and_writes_of_clients_with_and_without_copies_agree() {
    seeded_runs("any_reads_and_writes_of_clients_with_and_without_copies_agree", 2, |seed| {
        for mode in MODES {
            let (place, writer, _device) = with_pages(mode, 1 << 20);
            let clients = [caching(&place.node, 1), caching(&place.node, 2), writer];
            let devices = clients.each_ref().map(|client| client.directory("").open("pages").expect("opened"));
            let (mut random, mut model) = (seed.generator(), vec![0; 1 << 20]);
            for turn in 1..150 {
                let device = &devices[random.usize(0..3)];
                let blocks = 1 << random.u32(0..7);
                let offset = random.usize(0..=2048 - blocks) * 512;
                let length = blocks * 512;
                if random.u8(0..3) > 0 {
                    let found = read(device.as_ref(), offset as u64, length);
                    assert!(found[..] == model[offset..offset + length], "{mode}, turn {turn}");
                    continue;
                }
                model[offset..offset + length].fill(turn);
                let bytes = full(length, turn);
                if random.bool() {
                    device.write_at(offset as u64, &bytes).expect("written");
                } else {
                    device.write_durable(offset as u64, &bytes).expect("written");
                }
            }
            assert!(clients[0].cache_statistics().expect("there is a cache").hits > 0);
        }
    });
}

/// A block of one number.
fn number(number: u64) -> AlignedBuffer {
    let mut block = AlignedBuffer::zeroed(512);
    block.chunks_mut(8).for_each(|bytes| bytes.copy_from_slice(&number.to_le_bytes()));
    block
}

#[test]
fn nobody_reads_an_older_number_than_anybody_has_read_or_written_before() {
    for mode in MODES {
        let (place, writer, device) = with_pages(mode, 65536);
        let clients = [caching(&place.node, 1), caching(&place.node, 2)];
        let (written, seen, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let hits = || clients[0].cache_statistics().expect("there is a cache").hits;
        std::thread::scope(|scope| {
            for client in &clients {
                let (written, seen, done) = (&written, &seen, &done);
                for _ in 0..2 {
                    let copy = client.directory("").open("pages").expect("opened");
                    scope.spawn(move || {
                        while !done.load(Ordering::SeqCst) {
                            // Whatever is known to anybody before the read begins.
                            let known = seen.load(Ordering::SeqCst).max(written.load(Ordering::SeqCst));
                            let block = read(copy.as_ref(), 512, 512);
                            let found = u64::from_le_bytes(block[..8].try_into().expect("a number"));
                            assert!(block[..] == number(found)[..], "{mode}: a torn block");
                            assert!(found >= known, "{mode}: {found} after {known}");
                            seen.fetch_max(found, Ordering::SeqCst);
                        }
                    });
                }
            }
            // One of the readers' clients writes, too.
            let own = clients[1].directory("").open("pages").expect("opened");
            let (written, done, hits, device) = (&written, &done, &hits, &device);
            scope.spawn(move || {
                let deadline = Instant::now() + Duration::from_secs(20);
                for turn in 1.. {
                    if (turn > 60 && hits() > 100) || Instant::now() > deadline {
                        break;
                    }
                    let device = if turn % 3 == 0 { &own } else { device };
                    device.write_at(512, &number(turn)).expect("written");
                    written.store(turn, Ordering::SeqCst);
                    if turn % 5 == 0 {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
                done.store(true, Ordering::SeqCst);
            });
        });
        assert!(hits() > 100 && written.load(Ordering::SeqCst) > 20, "{mode}: {} hits", hits());
        drop(writer);
    }
}

#[test]
fn a_client_that_is_gone_holds_a_write_up_for_its_lease_and_no_longer() {
    for mode in MODES {
        let (place, writer, device) = with_pages(mode, 65536);
        let address = place.node.address().to_string();
        let endpoint = |message: &[u8]| {
            let endpoint = connect(&address, &Settings::default(), &Security::Open).expect("connected");
            endpoint.send(&[Outgoing::Request { id: 0, bytes: message }]).expect("sent");
            let mut events = Vec::new();
            endpoint.receive(&mut events, Wait::Until(Instant::now() + Duration::from_secs(5))).expect("answered");
            let Some(Event::Reply { bytes, .. }) = events.pop() else { panic!("a reply") };
            (endpoint, bytes)
        };
        device.write_at(0, &full(512, 0)).expect("written");
        let more = writer.directory("").create("other", 65536).expect("created");
        let (open, opened) = endpoint(&[&[2, 0, 0, 5, 0][..], b"pages"].concat());
        open.send(&[Outgoing::Request { id: 1, bytes: &[&[2, 0, 0, 5, 0][..], b"other"].concat() }]).expect("sent");
        let answers = |count: usize| {
            let mut answers = Vec::new();
            while answers.len() < count {
                let mut events = Vec::new();
                open.receive(&mut events, Wait::Until(Instant::now() + Duration::from_secs(5))).expect("answered");
                answers.extend(events.into_iter().map(|event| match event {
                    Event::Reply { bytes, .. } => bytes,
                    other => panic!("{other:?}"),
                }));
            }
            answers
        };
        let handles = [opened, answers(1).remove(0)];
        for is_silent in [true, false] {
            // It watches and keeps copies of both files, and then it says nothing any more; or its connection is lost.
            let since = Instant::now();
            let (watch, watching) = endpoint(&[18]);
            for (id, handle) in (2..).zip(&handles) {
                let keep = [&[19], &handle[1..5], &watching[1..9]].concat();
                open.send(&[Outgoing::Request { id, bytes: &keep }]).expect("sent");
            }
            assert!(answers(2).iter().all(|answer| answer[..] == [0]));
            let _watch = Some(watch).filter(|_| is_silent);
            std::thread::scope(|scope| {
                scope.spawn(|| device.write_at(0, &full(512, 1)).expect("written"));
                // The node finds the loss out by that write. Meanwhile another client begins to keep copies.
                std::thread::sleep(Duration::from_millis(50));
                let other = caching(&place.node, 1);
                read(other.directory("").open("other").expect("opened").as_ref(), 0, 512);
                more.write_at(0, &full(512, 1)).expect("written");
                let took = since.elapsed();
                assert!((Duration::from_millis(495)..Duration::from_secs(3)).contains(&took), "{mode}: {took:?}");
            });
            let took = since.elapsed();
            assert!((Duration::from_millis(495)..Duration::from_secs(3)).contains(&took), "{mode}: {took:?}");
        }
        let begin = Instant::now();
        device.write_at(0, &full(512, 2)).expect("written");
        assert!(begin.elapsed() < Duration::from_millis(400), "{mode}: it is forgotten");
    }
}

#[test]
fn after_the_node_was_started_again_no_old_copy_is_used() {
    seeded("after_the_node_was_started_again_no_old_copy_is_used", |seed| {
        let (place, writer, device) = with_pages(Mode::Ring, 65536);
        let address = place.node.address().to_string();
        device.write_durable(0, &full(65536, 1)).expect("written");
        let client = caching(&place.node, 1);
        let copy = client.directory("").open("pages").expect("opened");
        assert_eq!(read(copy.as_ref(), 0, 65536)[..], vec![1; 65536][..]);
        drop((device, writer));
        let Place { folder, node: first, .. } = place;
        drop(first);
        std::fs::write(folder.path().join("pages"), vec![2; 65536]).expect("written behind its back");
        let settings = NodeSettings { listen: address, ..leasing(Mode::Ring) };
        let _second = node(&Export::Folder(folder.path().to_owned()), settings);
        let (mut random, deadline) = (seed.generator(), Instant::now() + Duration::from_secs(10));
        let mut buffer = AlignedBuffer::zeroed(4096);
        // While the lease lasts, a copy may be used: the node that gave it did not change anything.
        std::thread::sleep(Duration::from_millis(500));
        loop {
            let outcome = copy.read_at(random.u64(0..16) * 4096, &mut buffer);
            assert!(outcome.is_err() || buffer[..] == [2; 4096], "an old copy");
            if outcome.is_ok() && client.cache_statistics().expect("there is a cache").hits > 20 {
                break;
            }
            assert!(Instant::now() < deadline, "{outcome:?}");
        }
    });
}

#[test]
fn a_node_changes_nothing_while_leases_of_the_one_before_may_last_and_waits_for_nothing_else() {
    for mode in MODES {
        let (place, writer, device) = with_pages(mode, 65536);
        let written = |device: &dyn Device| {
            let begin = Instant::now();
            device.write_at(0, &full(512, 1)).expect("written");
            begin.elapsed()
        };
        assert!(written(device.as_ref()) < Duration::from_millis(400), "{mode}: nobody was before it");
        let keeper = caching(&place.node, 1);
        let kept = keeper.directory("").open("pages").expect("opened");
        read(kept.as_ref(), 0, 512);
        let note = place.path().join("ishigaki-leases");
        assert!(note.exists(), "{mode}");
        drop((device, writer));
        let Place { folder, node: first, .. } = place;
        drop(first);
        let again = || node(&Export::Folder(folder.path().to_owned()), leasing(mode));
        let (second, begin) = (again(), Instant::now());
        let device = kit::client(&second).directory("").open("pages").expect("opened");
        read(device.as_ref(), 0, 512);
        assert!(begin.elapsed() < Duration::from_millis(400), "{mode}: reading waits for nothing");
        let took = begin.elapsed() + written(device.as_ref());
        assert!((Duration::from_millis(450)..Duration::from_secs(3)).contains(&took), "{mode}: {took:?}");
        assert!(!note.exists(), "{mode}: nobody can have a lease any more");
        drop((device, second));
        let third = again();
        let device = kit::client(&third).directory("").open("pages").expect("opened");
        assert!(written(device.as_ref()) < Duration::from_millis(400), "{mode}: nobody had a lease");
    }
}

#[test]
fn no_client_gets_at_the_nodes_own_note() {
    let (place, writer, _device) = with_pages(Mode::Ring, 65536);
    let _keeper = caching(&place.node, 1);
    let directory = writer.directory("");
    assert!(place.path().join("ishigaki-leases").exists());
    assert_eq!(directory.list().expect("listed"), ["pages"]);
    assert!(directory.open("ishigaki-leases").is_err() && directory.create("ishigaki-leases", 512).is_err());
    assert!(directory.remove("ishigaki-leases").is_err());
    assert!(directory.rename("ishigaki-leases", "x").is_err() && directory.rename("pages", "ishigaki-leases").is_err());
    writer.directory("below").create("ishigaki-leases", 512).expect("elsewhere it is a name like others");
}

/// Sums up the first bytes of 64 pages of 16 KiB, with all reads in flight at once.
fn sum(device: &Arc<RemoteDevice>, offset: u64, length: usize) -> u64 {
    let (mut queue, mut sum, mut count) = (ReadQueue::new(device).expect("a queue"), 0, 0);
    for page in 0..64 {
        queue.begin(page * 16384 + offset, length, page).expect("begun");
    }
    while queue.in_flight() > 0 {
        queue
            .wait(|_, bytes| {
                let bytes = bytes?;
                assert_eq!(bytes.len(), length);
                count += 1;
                sum += u64::from(bytes[0]);
                Ok(())
            })
            .expect("waited");
    }
    assert_eq!(count, 64);
    sum
}

#[test]
fn reads_in_flight_use_copies_and_make_them() {
    for mode in MODES {
        let (place, _writer, device) = with_pages(mode, (1 << 20) + 4096);
        device.write_durable(0, &full(1 << 20, 1)).expect("written");
        let client = caching(&place.node, 1);
        let copy = Arc::new(client.directory("").open_device("pages").expect("opened"));
        let read_by_node = || client.status().expect("told").bytes_read;
        assert_eq!(sum(&copy, 0, 512), 64);
        assert_eq!(client.cache_statistics().expect("there is a cache").pages, 0, "{mode}: no whole pages");
        assert_eq!(sum(&copy, 0, 16384), 64);
        let before = read_by_node();
        assert_eq!((sum(&copy, 512, 4096), sum(&copy, 0, 16384)), (64, 64));
        assert_eq!(read_by_node(), before, "{mode}: all were there");
        let statistics = client.cache_statistics().expect("there is a cache");
        assert_eq!((statistics.hits, statistics.misses), (128, 128), "{mode}");
        // Its last page is there, and not as long as others.
        read(copy.as_ref(), 1 << 20, 4096);
        let mut queue = ReadQueue::new(&copy).expect("a queue");
        queue.begin(1 << 20, 8192, 0).expect("begun");
        queue
            .wait(|_, bytes| {
                assert!(bytes.is_err(), "{mode}: bytes behind the end");
                Ok(())
            })
            .expect("waited");
        let before = read_by_node();
        device.write_at(16384, &full(32768, 5)).expect("written");
        assert_eq!(
            (sum(&copy, 0, 16384), read_by_node()),
            (62 + 10, before + 32768),
            "{mode}: others' writes are seen"
        );
    }
}
