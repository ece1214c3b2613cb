//! Zeros that a file system writes by itself pass for nothing that a client or the engine has written.

mod door;

use std::path::Path;

use door::{BLOCK, Door, Model, Op, no_trace};
use ishigaki_base::random::Seed;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Error};
use ishigaki_migrate::source::FileType;
use ishigaki_migrate::source::simulated::Simulated as Source;
use ishigaki_testkit::seeded_runs;

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 100 % 251) as u8 + 1).collect()
}

/// Ends the migration, in another process, and compares.
fn end(destination: &Simulated, source: &Source, model: &Model) {
    let door = Door::open(destination, source).expect("goes on");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    door.check(model, true).expect("looks");
    door.engine.finish().expect("nothing is missing");
    no_trace(destination);
    door.check(model, true).expect("looks");
}

#[test]
fn a_file_that_becomes_larger_keeps_the_block_in_which_it_ended() {
    let file = || Path::new("file").to_owned();
    for length in [3, 900, 4095, 4096, 15_234, 40_000_u64] {
        let beyond = length + 3 * BLOCK;
        let ops: [Vec<Op>; 7] = [
            vec![Op::Truncate(file(), length + 1)],
            vec![Op::Truncate(file(), length + 100_000)],
            vec![Op::Truncate(file(), length / 2), Op::Truncate(file(), length * 2)],
            vec![Op::Truncate(file(), length + 9_000), Op::Truncate(file(), length)],
            vec![Op::Write(file(), length + 10, vec![7])],
            vec![Op::Write(file(), beyond, vec![7; 5000])],
            vec![Op::Punch(file(), beyond..beyond + 9_000), Op::Truncate(file(), beyond)],
        ];
        for ops in ops {
            for cuts in [false, true] {
                let source = Source::new();
                source.add(&file(), FileType::Regular, bytes(length as usize));
                let destination = Simulated::perishable(Seed(length)).unordered().zeroing();
                let door = Door::open(&destination, &source).expect("begins");
                let mut model = Model::of(&source);
                for op in &ops {
                    door.perform(op).unwrap_or_else(|error| panic!("{length}, {op:?}: {error}"));
                    model.apply(op);
                }
                drop(door);
                if cuts {
                    use ishigaki_migrate::destination::Destination;
                    destination.sync_all().expect("syncs");
                    destination.cut_power();
                }
                println!("{length}, {ops:?}, cut {cuts}");
                end(&destination, &source, &model);
            }
        }
    }
}

fn full(seed: Seed) {
    let mut random = seed.generator();
    let source = Source::new();
    let blocks = random.u64(1..40);
    for number in 0..12 {
        let length = blocks * BLOCK - random.u64(..BLOCK);
        source.add(Path::new(&format!("file-{number}")), FileType::Regular, bytes(length as usize));
    }
    let destination = Simulated::new();
    let door = Door::open(&destination, &source).expect("begins");
    let mut model = Model::of(&source);
    destination.set_room(random.u64(2..blocks * 12));
    let how = Crawl { threads: random.usize(1..4), ..Crawl::default() };
    let ended = door.engine.crawl(&how, &door.cancel);
    assert!(matches!(ended, Ok(()) | Err(Error::Destination { .. })), "{ended:?}");
    // Clients write what there is no room for, and are told so.
    for _ in 0..random.usize(..6) {
        let (at, length) = (random.u64(..blocks * BLOCK), random.usize(1..4 * BLOCK as usize));
        let path = format!("file-{}", random.u8(..12));
        let op = match random.u8(..3) {
            0 => Op::Write(path.into(), at, vec![7; length]),
            1 => Op::Write(path.into(), at / BLOCK * BLOCK, vec![7; length.next_multiple_of(BLOCK as usize)]),
            _ => Op::Punch(path.into(), at..at + length as u64),
        };
        if door.perform(&op).is_ok() {
            model.apply(&op);
        }
    }
    for number in 0..random.usize(1..4) {
        let op = Op::Unlink(format!("file-{number}").into());
        door.perform(&op).expect("removes");
        model.apply(&op);
    }
    // The room is enough for some more, and then for all.
    let _ = door.engine.crawl(&how, &door.cancel);
    let door = if random.bool() { door } else { Door::open(&destination, &source).expect("goes on") };
    let _ = door.engine.crawl(&how, &door.cancel);
    destination.set_room(u64::MAX);
    end(&destination, &source, &model);
}

#[test]
fn a_destination_that_was_full_has_no_zeros_of_its_own() {
    seeded_runs("a_destination_that_was_full_has_no_zeros_of_its_own", 150, full);
}
