//! Clients at work while everything is copied: at the end the destination is what a model says.

mod door;

use std::time::Duration;

use door::{Door, Model, Op, draw_op, draw_source, no_trace};
use ishigaki_base::random::Seed;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Depth, Passes};
use ishigaki_migrate::source::FileType;
use ishigaki_testkit::seeded_runs;

fn clients_at_work(seed: Seed) {
    clients_of(seed, Duration::ZERO);
}

/// So far away that the crawler lists with more threads than it has.
fn clients_of_a_distant_source(seed: Seed) {
    clients_of(seed, Duration::from_millis(3));
}

fn clients_of(seed: Seed, distance: Duration) {
    let mut random = seed.generator();
    let objects = random.usize(1..40);
    let plain = random.bool();
    let source = draw_source(&mut random, objects, plain);
    source.delay(distance);
    let destination = if random.bool() { Simulated::new() } else { Simulated::new().unordered() };
    let destination = if random.bool() { destination.zeroing() } else { destination };
    let door = Door::open(&destination, &source).expect("begins");
    if random.bool() {
        source.fail(random.u32(..20_000));
    }
    let mut model = Model::of(&source);
    let how = Crawl {
        threads: random.usize(1..4),
        depth: if random.bool() { Depth::BreadthFirst } else { Depth::DepthFirst },
        passes: if random.bool() { Passes::MetadataFirst } else { Passes::Bulk },
        bandwidth: None,
    };
    std::thread::scope(|scope| {
        // Half of the runs crawl while clients work, the others afterwards, so that all is done on stubs.
        let crawler = random.bool().then(|| scope.spawn(|| door.engine.crawl(&how, &door.cancel).expect("crawls")));
        for number in 0..random.usize(1..60) {
            let Some(op) = draw_op(&mut random, &model, number) else { continue };
            door.perform(&op).unwrap_or_else(|error| panic!("{op:?}: {error}"));
            model.apply(&op);
            if random.u8(..4) == 0 {
                let files = model.paths(|known| known.file_type == FileType::Regular);
                if !files.is_empty() {
                    let path = &files[random.usize(..files.len())];
                    assert!(door.read(path).expect("reads") == model.at(path).data, "{}", path.display());
                }
            }
        }
        if let Some(crawler) = crawler {
            crawler.join().expect("ends");
        }
    });
    if random.bool() {
        door.check(&model, false).expect("looks");
    }
    door.engine.crawl(&how, &door.cancel).expect("crawls");
    assert_eq!(door.engine.problems(), []);
    door.check(&model, true).expect("looks");
    door.engine.finish().expect("nothing is missing");
    no_trace(&destination);
    door.check(&model, true).expect("looks");
}

#[test]
fn clients_that_work_while_all_is_copied_find_what_they_left() {
    seeded_runs("clients_that_work_while_all_is_copied_find_what_they_left", 250, clients_at_work);
}

#[test]
fn clients_that_work_while_all_is_copied_from_far_away_find_what_they_left() {
    let name = "clients_that_work_while_all_is_copied_from_far_away_find_what_they_left";
    seeded_runs(name, 15, clients_of_a_distant_source);
}

#[test]
#[ignore = "takes minutes"]
fn clients_that_work_while_all_is_copied_from_far_away_find_what_they_left_in_300_runs() {
    let name = "clients_that_work_while_all_is_copied_from_far_away_find_what_they_left_in_300_runs";
    seeded_runs(name, 300, clients_of_a_distant_source);
}

#[test]
#[ignore = "takes minutes"]
fn clients_that_work_while_all_is_copied_find_what_they_left_in_1000_runs() {
    seeded_runs("clients_that_work_while_all_is_copied_find_what_they_left_in_1000_runs", 1000, clients_at_work);
}

#[test]
fn what_clients_do_is_really_checked() {
    let mut random = Seed(7).generator();
    let source = draw_source(&mut random, 20, false);
    let door = Door::open(&Simulated::new(), &source).expect("begins");
    let model = Model::of(&source);
    door.check(&model, false).expect("looks");
    let path = &model.paths(|known| known.file_type == FileType::Regular && !known.data.is_empty())[0];
    door.perform(&Op::Write(path.clone(), 0, vec![0xee])).expect("writes");
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| door.check(&model, false))).is_err());
}
