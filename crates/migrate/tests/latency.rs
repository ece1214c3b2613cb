//! A crawler whose source is far away, or does not answer.

mod distant;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use distant::{Distant, Trip, bytes, deep_tree};
use ishigaki_base::random::Seed;
use ishigaki_migrate::destination::Destination;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Engine, Error, Origin, Passes, Settings};
use ishigaki_migrate::source::simulated::Simulated as Tree;
use ishigaki_migrate::source::{Cancel, FileType};
use ishigaki_testkit::seeded_runs;

/// A busy host may make threads wait for as long as that, and so a trip of two.
const QUIET: Trip = Trip::EndsWhenQuiet(Duration::from_millis(50));

fn open(destination: &Simulated, source: Arc<Distant>) -> Result<Arc<Engine<Simulated>>, Error> {
    let origin = Origin { source, at: PathBuf::new() };
    Engine::open(destination.clone(), vec![origin], Settings::default(), &Cancel::new())
}

/// All files are there with the right bytes.
fn check(destination: &Simulated, paths: &[PathBuf]) {
    for (number, path) in paths.iter().enumerate() {
        let found = path.iter().try_fold(destination.root(), |at, name: &OsStr| destination.lookup(&at, name).ok()?);
        let file = found.unwrap_or_else(|| panic!("{} is there", path.display()));
        let mut read = vec![0; 8192];
        let length = destination.read_at(&file, 0, &mut read).expect("reads");
        assert_eq!(read[..length], bytes(number), "{}", path.display());
    }
}

/// The round trips of a whole migration, beside that of its beginning.
fn trips(directories: usize, files: usize, how: &Crawl) -> u64 {
    let (tree, paths) = deep_tree(directories, files);
    let (source, destination) = (Arc::new(Distant::new(tree, QUIET)), Simulated::new());
    let engine = open(&destination, source.clone()).expect("begins");
    let before = source.trips();
    engine.crawl(how, &Cancel::new()).expect("ends");
    let trips = source.trips() - before;
    engine.finish().expect("nothing is missing");
    check(&destination, &paths);
    trips
}

#[test]
fn many_small_files_deep_in_the_tree_take_few_round_trips() {
    for passes in [Passes::MetadataFirst, Passes::Bulk] {
        let trips = trips(400, 5, &Crawl { passes, ..Crawl::default() });
        println!("{passes:?}: {trips} round trips for 400 directories, ten deep, with 2,000 files");
        assert!(trips <= 50, "{passes:?}: {trips} round trips");
    }
}

#[test]
fn a_directory_of_many_takes_few_round_trips_for_any_number_of_threads() {
    for (threads, most) in [(1, 60), (4, 50), (64, 50)] {
        let trips = trips(100, 3, &Crawl { threads, ..Crawl::default() });
        assert!(trips <= most, "{threads} threads: {trips} round trips");
    }
}

#[test]
fn a_source_that_is_near_gets_no_more_calls_at_a_time_than_there_are_threads() {
    let (tree, paths) = deep_tree(100, 5);
    let source = Arc::new(Distant::new(tree, Trip::Takes(Duration::ZERO)));
    let destination = Simulated::new();
    let engine = open(&destination, source.clone()).expect("begins");
    engine.crawl(&Crawl { threads: 3, ..Crawl::default() }, &Cancel::new()).expect("ends");
    engine.finish().expect("nothing is missing");
    check(&destination, &paths);
    assert!(source.most() <= 3, "{}", source.most());
}

/// A crawler with many calls under way is cut off again and again.
fn cut_off(seed: Seed) {
    let mut random = seed.generator();
    let (tree, paths) = deep_tree(40, 4);
    let source = Arc::new(Distant::new(tree, Trip::Takes(Duration::from_millis(3))));
    let perishable = Simulated::perishable(seed);
    let destination = if random.bool() { perishable } else { perishable.unordered() };
    let passes = if random.bool() { Passes::Bulk } else { Passes::MetadataFirst };
    let how = Crawl { passes, ..Crawl::default() };
    for _ in 0..random.usize(1..12) {
        destination.stop_at(destination.changes() + random.u64(20..1200));
        if let Ok(engine) = open(&destination, source.clone())
            && engine.crawl(&how, &Cancel::new()).is_ok()
        {
            assert_eq!(engine.problems(), []);
        }
        if random.u8(..4) == 0 { destination.go_on() } else { destination.cut_power() }
    }
    let engine = open(&destination, source).expect("goes on");
    engine.crawl(&how, &Cancel::new()).expect("ends");
    assert_eq!(engine.problems(), []);
    engine.finish().expect("nothing is missing");
    check(&destination, &paths);
}

#[test]
fn nothing_is_lost_by_power_cuts_while_many_calls_are_under_way() {
    seeded_runs("nothing_is_lost_by_power_cuts_while_many_calls_are_under_way", 20, cut_off);
}

#[test]
fn a_source_that_is_away_does_not_hold_up_another_one() {
    let (there, away) = (Tree::new(), Tree::new());
    for number in 0..50 {
        for tree in [&there, &away] {
            tree.add(Path::new(&format!("d{number}")), FileType::Directory, Vec::new());
            tree.add(Path::new(&format!("d{number}/f")), FileType::Regular, vec![7; 3000]);
        }
    }
    let origins = [("a", away.clone()), ("b", there)];
    let origins = origins.map(|(at, source)| Origin { source: Arc::new(source), at: at.into() });
    let destination = Simulated::new();
    let engine = Engine::open(destination, origins.to_vec(), Settings::default(), &Cancel::new()).expect("begins");
    // Its directories stand before those of the other one then.
    let root = engine.destination().lookup(&engine.destination().root(), "a".as_ref()).expect("looks").expect("there");
    engine.look_into(&root, &Cancel::new()).expect("lists");
    away.fail(65_536);
    let cancel = Cancel::new();
    let how = Crawl { threads: 2, ..Crawl::default() };
    std::thread::scope(|scope| {
        let crawler = scope.spawn(|| engine.crawl(&how, &cancel));
        let began = Instant::now();
        while engine.progress().here < 50 * 3000 && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let here = engine.progress();
        assert!(!crawler.is_finished());
        away.fail(0);
        let ended = crawler.join().expect("ends");
        assert_eq!(here.here, 50 * 3000, "of the source that is there");
        assert!(here.waiting <= 4, "{here:?}");
        ended.expect("goes on when the source answers");
    });
    engine.finish().expect("nothing is missing");
}
