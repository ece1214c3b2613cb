//! Many threads at once, in every way of waiting.

mod stage;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_device::{ModelledDirectory, Pace, SimDirectory};
use ishigaki_logpool::{Durability, File, Pool, Profile, Settings, Waiting};
use ishigaki_testkit::seeded_runs;

use stage::{Apart, Gate, member, memory, small};

const WAYS: [Waiting; 5] = [
    Waiting::SLEEP,
    Waiting::POLL,
    Waiting::Fixed { polling: false, delay: Duration::from_micros(300) },
    Waiting::Fixed { polling: true, delay: Duration::from_micros(50) },
    Waiting::Auto,
];

/// Bytes of a record; they lie across blocks.
const RECORD: usize = 700;

/// What record `number` of writer `writer` looks like.
fn record(writer: usize, number: usize) -> Vec<u8> {
    let mut bytes = vec![(number * 7 + writer) as u8 | 1; RECORD];
    bytes[..8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
    bytes
}

/// How many records of a writer are there, one after the other. Nothing else may be there.
fn records(file: &File, writer: usize) -> usize {
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read(0, &mut bytes).unwrap();
    assert!(bytes.len().is_multiple_of(RECORD));
    for (number, bytes) in bytes.chunks(RECORD).enumerate() {
        assert!(bytes == record(writer, number), "record {number} of {writer} is torn or was never written");
    }
    bytes.len() / RECORD
}

#[test]
fn what_many_threads_were_told_is_durable_is_there_after_a_power_cut_and_nothing_is_torn() {
    const WRITERS: usize = 6;
    seeded_runs("what_many_threads_were_told_is_durable_is_there_after_a_power_cut_and_nothing_is_torn", 4, |seed| {
        for waiting in WAYS {
            let medium = SimDirectory::with_seed(seed);
            let settings = Settings { waiting, ..small(true) };
            // Slow before it writes, so that whoever is answered too early is caught.
            let slow = Gate::slow(Arc::new(medium.clone()), Duration::from_micros(200));
            let pool = Pool::open_together(Arc::new(slow), settings).unwrap();
            let durable: Vec<AtomicUsize> = (0..WRITERS).map(|_| AtomicUsize::new(0)).collect();
            let file = |writer: usize| {
                let name = format!("m{}", writer / 2);
                let of = pool.member(&name).or_else(|_| pool.add(&name, member(Profile::GENERIC))).unwrap();
                of.create(&format!("log{writer}")).unwrap()
            };
            let files: Vec<File> = (0..WRITERS).map(file).collect();
            pool.member("m0").unwrap().sync().unwrap();
            thread::scope(|scope| {
                for (writer, (file, durable)) in files.iter().zip(&durable).enumerate() {
                    scope.spawn(move || {
                        let mut random = seed.derive(writer as u64).generator();
                        for number in 0..1300 {
                            let durability = if random.bool() { Durability::Now } else { Durability::Later };
                            let at = (number * RECORD) as u64;
                            if file.write(at, &record(writer, number), durability).is_err() {
                                return;
                            }
                            if durability == Durability::Now {
                                durable.store(number + 1, Ordering::SeqCst);
                            }
                        }
                    });
                }
                thread::sleep(Duration::from_micros(seed.generator().u64(3000..60_000)));
                medium.power_cut_now();
            });
            drop((files, pool));
            let pool = Pool::open_together(Arc::new(medium.survivors(seed)), small(false)).unwrap();
            for (writer, durable) in durable.iter().enumerate() {
                let file = pool.member(&format!("m{}", writer / 2)).unwrap().open(&format!("log{writer}"));
                let found = file.map_or(0, |file| records(&file, writer));
                let promised = durable.load(Ordering::SeqCst);
                assert!(found >= promised, "{waiting:?}: {promised} were promised to {writer}, {found} are there");
            }
        }
    });
}

#[test]
fn members_that_commit_together_share_their_syncs() {
    for waiting in WAYS {
        let slow = ModelledDirectory::in_memory("nvm:2ms".parse().unwrap(), Pace::Real);
        let homes = Arc::new(Apart((0..8).map(|number| (format!("m{number}"), memory())).collect()));
        let settings = Settings { waiting, ..small(true) };
        let pool = Pool::open(Arc::new(slow), homes, Settings { log: settings.log * 4_u64, ..settings }).unwrap();
        let make = |number| pool.add(&format!("m{number}"), member(Profile::GENERIC)).unwrap().create("log").unwrap();
        let files: Vec<File> = (0..8).map(make).collect();
        let before = pool.statistics();
        let together = Barrier::new(files.len());
        thread::scope(|scope| {
            for file in &files {
                scope.spawn(|| {
                    together.wait();
                    for commit in 0..12_u64 {
                        file.write(commit * 512, &[commit as u8 + 1; 512], Durability::Now).unwrap();
                    }
                });
            }
        });
        let log = pool.statistics();
        let (requests, writes) = (log.requests - before.requests, log.writes - before.writes);
        assert!(requests <= 96 && writes <= 40, "{waiting:?}: {requests} requests, {writes} writes");
        let members: Vec<_> = (0..8).map(|number| pool.member(&format!("m{number}")).unwrap().statistics()).collect();
        assert!(members.iter().all(|member| member.durable_requests == 12 && member.latencies.len() == 12));
        assert!(members.iter().map(|member| member.syncs_saved).sum::<u64>() >= 48, "{waiting:?}");
    }
}

#[test]
fn a_lone_member_is_never_made_to_wait_for_others() {
    let slow = ModelledDirectory::in_memory("nvm:500us".parse().unwrap(), Pace::Real);
    let pool = Pool::open_together(Arc::new(slow), small(true)).unwrap();
    pool.add("idle", member(Profile::GENERIC))
        .unwrap()
        .create("log")
        .unwrap()
        .write(0, b"once", Durability::Now)
        .unwrap();
    let file = pool.add("a", member(Profile::GENERIC)).unwrap().create("log").unwrap();
    thread::sleep(Duration::from_millis(20));
    let before = pool.statistics();
    for commit in 0..50_u64 {
        file.write(commit * 512, &[1; 512], Durability::Now).unwrap();
    }
    let after = pool.statistics();
    assert_eq!((after.delayed - before.delayed, after.requests - before.requests), (0, 50));
}

#[test]
fn a_pool_without_requests_closes_in_every_way_of_waiting() {
    for waiting in WAYS {
        for background in [false, true] {
            let settings = Settings { waiting, ..small(background) };
            let pool = Pool::open_together(memory(), settings).unwrap();
            let file = pool.add("a", member(Profile::GENERIC)).unwrap().create("f").unwrap();
            file.write(0, b"before", Durability::Later).unwrap();
            pool.close().unwrap();
            assert!(file.write(0, b"after", Durability::Now).is_err() && file.sync(true).is_err());
            assert!(pool.add("b", member(Profile::GENERIC)).is_err());
        }
    }
}

#[test]
fn readers_beside_writers_and_rounds_see_whole_blocks_that_were_written() {
    let pool = Pool::open_together(memory(), Settings { cache: ByteSize(0), ..small(true) }).unwrap();
    let file = pool.add("a", member(Profile::GENERIC)).unwrap().create("f").unwrap();
    let blocks = 100;
    file.truncate(blocks * 4096, Durability::Now).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for turn in 1..40_u8 {
                for block in 0..blocks {
                    file.write(block * 4096, &[turn; 4096], Durability::Later).unwrap();
                }
                if turn % 8 == 0 {
                    file.truncate(50 * 4096, Durability::Later).unwrap();
                    file.truncate(blocks * 4096, Durability::Later).unwrap();
                }
            }
        });
        let mut seen = vec![0; blocks as usize];
        let mut bytes = [0; 4096];
        while !writer.is_finished() {
            for block in 0..blocks {
                if file.read(block * 4096, &mut bytes).unwrap() == 0 {
                    continue;
                }
                let turn = bytes[0];
                assert!(bytes.iter().all(|&byte| byte == turn), "block {block} is torn");
                assert!(turn == 0 || turn >= seen[block as usize], "block {block} went back");
                seen[block as usize] = turn;
            }
            pool.bring_home().unwrap();
        }
    });
}
