//! What clients and administrators see of a migration.

mod door;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use door::{BLOCK, Door, Model, Op, UNIT, add_far_below, bytes, draw_source, no_trace, settings, with_file};
use ishigaki_base::random::Seed;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::destination::{CAPABILITIES, Destination, Make};
use ishigaki_migrate::engine::{Crawl, Engine, Error, HIDDEN, Origin, Passes, STATE, Settings};
use ishigaki_migrate::source::simulated::Simulated as Source;
use ishigaki_migrate::source::{
    Attributes, Cancel, Capabilities, Entry, ErrorKind, FileType, Location, Result, Source as Seam, ToldExtras,
};

/// A source whose reads are slow and counted.
struct Slow {
    source: Source,
    reads: AtomicUsize,
}

impl Seam for Slow {
    fn name(&self) -> String {
        self.source.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.source.capabilities()
    }

    fn root(&self, cancel: &Cancel) -> Result<(Location, Attributes)> {
        self.source.root(cancel)
    }

    fn list(&self, at: &Location, cancel: &Cancel, take: &mut dyn FnMut(Vec<Entry>) -> Result<()>) -> Result<()> {
        self.source.list(at, cancel, take)
    }

    fn attributes(&self, object: &Location, cancel: &Cancel) -> Result<Attributes> {
        self.source.attributes(object, cancel)
    }

    fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
        self.source.extras_told(object, cancel)
    }

    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        cancel.wait(Duration::from_millis(30));
        self.source.read(file, offset, buffer, cancel)
    }

    fn next_data(&self, file: &Location, offset: u64, cancel: &Cancel) -> Result<Option<Range<u64>>> {
        self.source.next_data(file, offset, cancel)
    }
}

fn slow(source: &Source, destination: &Simulated) -> (Arc<Slow>, Arc<Engine<Simulated>>) {
    let slow = Arc::new(Slow { source: source.clone(), reads: AtomicUsize::new(0) });
    let origin = Origin { source: slow.clone(), at: PathBuf::new() };
    (slow, Engine::open(destination.clone(), vec![origin], settings(), &Cancel::new()).expect("begins"))
}

#[test]
fn readers_of_one_block_wait_for_one_copy() {
    let source = Source::new();
    source.add(Path::new("file"), FileType::Regular, bytes(UNIT));
    let destination = Simulated::new();
    let (slow, engine) = slow(&source, &destination);
    engine.look_into(&destination.root(), &Cancel::new()).expect("lists");
    let file = destination.lookup(&destination.root(), "file".as_ref()).expect("looks").expect("a stub");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let stub = engine.file(&file).expect("opens").expect("a stub");
                stub.read_needed(0..10, &Cancel::new()).expect("reads");
                let mut seen = [0; 10];
                destination.read_at(&file, 0, &mut seen).expect("reads");
                assert_eq!(seen, bytes(10)[..]);
            });
        }
    });
    assert_eq!(slow.reads.load(Ordering::Relaxed), 1);
}

#[test]
fn a_client_that_overwrites_whole_blocks_does_not_wait_for_their_copy() {
    let source = Source::new();
    source.add(Path::new("file"), FileType::Regular, bytes(UNIT));
    let destination = Simulated::new();
    let (_, engine) = slow(&source, &destination);
    engine.look_into(&destination.root(), &Cancel::new()).expect("lists");
    let file = destination.lookup(&destination.root(), "file".as_ref()).expect("looks").expect("a stub");
    let stub = engine.file(&file).expect("opens").expect("a stub");
    stub.attributes_needed(&Cancel::new()).expect("brings");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| stub.read_needed(0..1, &Cancel::new()));
        std::thread::sleep(Duration::from_millis(10));
        let changing = stub.before_write(0..BLOCK, &Cancel::new()).expect("may");
        assert!(!reader.is_finished(), "the copy takes 30 ms");
        destination.write_at(&file, 0, &[7; BLOCK as usize]).expect("writes");
        assert_eq!(changing.wrote(0..BLOCK), BLOCK);
        reader.join().expect("ends").expect("reads");
    });
    let mut seen = vec![0; UNIT];
    destination.read_at(&file, 0, &mut seen).expect("reads");
    assert!(seen[..BLOCK as usize].iter().all(|&byte| byte == 7), "the copy came later and left it");
    assert_eq!(seen[BLOCK as usize..], bytes(UNIT)[BLOCK as usize..]);
}

#[test]
fn a_block_that_was_written_in_part_is_not_told_as_written() {
    let (_, destination, door) = with_file(bytes(3 * BLOCK as usize));
    let file = door.find(Path::new("file")).expect("there");
    let stub = door.engine.file(&file).expect("opens").expect("a stub");
    let changing = stub.before_write(0..2 * BLOCK, &door.cancel).expect("may");
    destination.write_at(&file, 0, &vec![9; BLOCK as usize + 100]).expect("writes");
    assert_eq!(changing.wrote(0..BLOCK + 100), BLOCK);
    let mut want = bytes(3 * BLOCK as usize);
    want[..BLOCK as usize].fill(9);
    assert!(door.read(Path::new("file")).expect("reads") == want);
}

#[test]
fn an_absent_source_makes_readers_wait_until_it_is_back() {
    let (source, _, door) = with_file(bytes(100));
    door.find(Path::new("file")).expect("there");
    source.fail(65536);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| door.read(Path::new("file")).expect("reads"));
        while door.engine.progress().waiting == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!reader.is_finished());
        source.fail(0);
        assert_eq!(reader.join().expect("ends"), bytes(100));
    });
    assert_eq!(door.engine.progress().waiting, 0);
}

#[test]
fn a_source_that_makes_no_sense_at_all_is_waited_for() {
    for kind in [ErrorKind::Broken, ErrorKind::Invalid, ErrorKind::Denied, ErrorKind::Gone] {
        let (source, _, door) = with_file(bytes(3 * UNIT));
        door.find(Path::new("file")).expect("there");
        let nonsense = |fails| {
            for path in ["", "file"] {
                source.change(Path::new(path), |object| object.fails = fails);
            }
        };
        nonsense(Some(kind));
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| door.read(Path::new("file")).expect("reads"));
            let began = std::time::Instant::now();
            while door.engine.absences().is_empty() {
                if began.elapsed() > Duration::from_mins(1) || reader.is_finished() {
                    // The reader would go on for ever.
                    nonsense(None);
                    panic!("it is not waited for: {kind:?}");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            nonsense(None);
            assert!(reader.join().expect("ends") == bytes(3 * UNIT), "{kind:?}");
        });
    }
    // Of one object alone it is told.
    let (source, _, door) = with_file(bytes(3 * UNIT));
    source.change(Path::new("file"), |object| object.fails = Some(ErrorKind::Broken));
    let file = door.find(Path::new("file")).expect("there");
    let stub = door.engine.file(&file).expect("opens").expect("a stub");
    let refused = stub.read_needed(0..1, &door.cancel).expect_err("refused");
    assert!(matches!(&refused, Error::Source { error, .. } if error.kind == ErrorKind::Broken), "{refused}");
}

#[test]
fn a_wait_for_an_absent_source_ends_when_it_is_cancelled_or_at_the_limit() {
    let source = Source::new();
    source.add(Path::new("file"), FileType::Regular, bytes(100));
    let origin = Origin { source: Arc::new(source.clone()), at: PathBuf::new() };
    let settings = Settings { give_up: Some(Duration::from_millis(20)), ..settings() };
    let destination = Simulated::new();
    let engine = Engine::open(destination.clone(), vec![origin], settings, &Cancel::new()).expect("begins");
    source.fail(65536);
    assert!(matches!(engine.look_into(&destination.root(), &Cancel::new()), Err(Error::GivenUp { .. })));
    assert!(matches!(engine.crawl(&Crawl::default(), &Cancel::new()), Err(Error::GivenUp { .. })));

    let (source, _, door) = with_file(bytes(100));
    source.fail(65536);
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| door.engine.look_into(&door.destination.root(), &door.cancel));
        while door.engine.progress().waiting == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        door.cancel.cancel();
        assert!(matches!(looker.join().expect("ends"), Err(Error::Cancelled)));
    });
}

#[test]
fn a_source_that_was_given_up_is_away_until_it_answers_again() {
    let source = Source::new();
    source.add(Path::new("file"), FileType::Regular, bytes(100));
    let origin = Origin { source: Arc::new(source.clone()), at: PathBuf::new() };
    let destination = Simulated::new();
    // The first call without an answer is the last one that it waits for.
    let settings = Settings { give_up: Some(Duration::ZERO), ..settings() };
    let engine = Engine::open(destination.clone(), vec![origin], settings, &Cancel::new()).expect("begins");
    source.fail(65536);
    for _ in 0..2 {
        assert!(matches!(engine.look_into(&destination.root(), &Cancel::new()), Err(Error::GivenUp { .. })));
        assert_eq!(engine.absences().iter().map(|absence| absence.source).collect::<Vec<_>>(), [0]);
        assert_eq!(engine.progress().waiting, 0);
    }
    source.fail(0);
    engine.look_into(&destination.root(), &Cancel::new()).expect("is answered");
    assert!(engine.absences().is_empty());
}

#[test]
fn a_crawl_that_is_paused_goes_on_within_the_file_in_another_process() {
    let source = Source::new();
    source.add(Path::new("file"), FileType::Regular, bytes(64 * UNIT));
    let destination = Simulated::new();
    let (slow_source, engine) = slow(&source, &destination);
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let crawler = scope.spawn(|| engine.crawl(&Crawl { threads: 1, ..Crawl::default() }, &cancel));
        while engine.progress().copied < 3 * UNIT as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
        cancel.cancel();
        assert!(matches!(crawler.join().expect("ends"), Err(Error::Cancelled)));
    });
    let read = slow_source.reads.load(Ordering::Relaxed);
    assert!((3..20).contains(&read), "{read}");
    drop(engine);
    let (slow_source, engine) = slow(&source, &destination);
    engine.crawl(&Crawl::default(), &Cancel::new()).expect("ends");
    // The read that was under way is made again.
    assert!((64..=65).contains(&(slow_source.reads.load(Ordering::Relaxed) + read)));
    engine.finish().expect("nothing is missing");
}

#[test]
fn capabilities_come_with_a_file_whenever_its_bytes_do() {
    let source = Source::new();
    source.add(Path::new("file"), FileType::Regular, bytes(3 * UNIT));
    source.change(Path::new("file"), |file| file.extras.attributes.push((CAPABILITIES.into(), b"all".to_vec())));
    let destination = Simulated::new();
    let held = |file| destination.xattr(file, CAPABILITIES.as_ref()).expect("looks");
    let (_, engine) = slow(&source, &destination);
    engine.look_into(&destination.root(), &Cancel::new()).expect("lists");
    let file = destination.lookup(&destination.root(), "file".as_ref()).expect("looks").expect("a stub");
    let stub = engine.file(&file).expect("opens").expect("a stub");
    stub.read_needed(0..1, &Cancel::new()).expect("reads");
    stub.attributes_needed(&Cancel::new()).expect("brings");
    assert!(held(&file).is_some());
    stub.read_needed(UNIT as u64..UNIT as u64 + 1, &Cancel::new()).expect("reads");
    assert!(held(&file).is_some());
    // A client changes attributes, so that another process does not bring them again.
    drop(stub.before_attributes_change(&Cancel::new()).expect("is let"));
    drop((stub, engine));
    let (_, engine) = slow(&source, &destination);
    engine.crawl(&Crawl::default(), &Cancel::new()).expect("ends");
    engine.finish().expect("nothing is missing");
    assert!(held(&file).is_some());
}

#[test]
fn a_restart_asks_the_source_for_no_directory_again() {
    let mut random = Seed(3).generator();
    let source = draw_source(&mut random, 60, true);
    let destination = Simulated::new();
    let door = Door::open(&destination, &source).expect("begins");
    door.engine.crawl(&Crawl { passes: Passes::MetadataFirst, ..Crawl::default() }, &door.cancel).expect("ends");
    let (before, progress) = (source.requests(), door.engine.progress());
    assert_eq!(
        (progress.directories, progress.files, progress.bytes),
        (progress.listed, progress.whole, progress.here)
    );
    drop(door);
    let door = Door::open(&destination, &source).expect("goes on");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    assert_eq!(source.requests(), before);
    let again = door.engine.progress();
    assert_eq!((again.directories, again.files, again.whole), (progress.directories, progress.files, progress.whole));
    door.check(&Model::of(&source), true).expect("looks");
}

#[test]
fn each_of_several_sources_goes_into_its_directory() {
    let (mut random, destination) = (Seed(5).generator(), Simulated::new());
    let sources: Vec<Source> = (0..3).map(|_| draw_source(&mut random, 12, false)).collect();
    let at = ["homes", "projects/old", "projects/new"];
    let origins: Vec<Origin> =
        sources.iter().zip(at).map(|(source, at)| Origin { source: Arc::new(source.clone()), at: at.into() }).collect();
    let engine = Engine::open(destination.clone(), origins, settings(), &Cancel::new()).expect("begins");
    let door = Door { engine, destination, cancel: Cancel::new() };
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    for (source, at) in sources.iter().zip(at) {
        for (path, object) in source.objects() {
            let found = door.find(&Path::new(at).join(&path)).expect("there");
            assert_eq!(door.destination.status(&found).expect("a status").modified, object.attributes.modified);
        }
    }
    door.engine.finish().expect("nothing is missing");
    no_trace(&door.destination);
}

#[test]
fn a_name_of_a_source_that_hides_behind_another_source_is_told() {
    let (outer, inner, destination) = (Source::new(), Source::new(), Simulated::new());
    outer.add(Path::new("archive"), FileType::Directory, Vec::new());
    outer.add(Path::new("file"), FileType::Regular, bytes(10));
    inner.add(Path::new("old"), FileType::Regular, bytes(20));
    let origin = |source: &Source, at: &str| Origin { source: Arc::new(source.clone()), at: at.into() };
    let origins = vec![origin(&outer, ""), origin(&inner, "archive")];
    let engine = Engine::open(destination.clone(), origins, settings(), &Cancel::new()).expect("begins");
    let door = Door { engine, destination, cancel: Cancel::new() };
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    assert_eq!(door.read(Path::new("file")).expect("reads"), bytes(10));
    assert_eq!(door.read(Path::new("archive/old")).expect("reads"), bytes(20));
    let problems = door.engine.problems();
    assert!(problems.len() == 1 && problems[0].message.contains("another source"), "{problems:?}");
}

#[test]
fn a_record_that_an_inode_has_no_room_for_lies_elsewhere() {
    let source = Source::new();
    let path = add_far_below(&source, bytes(3 * UNIT));
    let destination = Simulated::perishable(Seed(1));
    let door = Door::open(&destination, &source).expect("begins");
    door.perform(&Op::Truncate(path.clone(), 2 * UNIT as u64 + 7)).expect("truncates");
    door.perform(&Op::Punch(path.clone(), 0..BLOCK)).expect("punches");
    destination.sync_all().expect("syncs");
    destination.cut_power();
    let door = Door::open(&destination, &source).expect("goes on");
    let mut want = bytes(2 * UNIT + 7);
    want[..BLOCK as usize].fill(0);
    assert!(door.read(&path).expect("reads") == want);
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    door.engine.finish().expect("nothing is missing");
    no_trace(&destination);
}

#[test]
fn more_holes_than_a_record_takes_are_zeros_all_the_same() {
    let length = 400 * BLOCK as usize;
    let (source, destination, door) = with_file(bytes(length));
    let mut want = bytes(length);
    for hole in 0..150 {
        let at = 2 * hole * BLOCK;
        door.perform(&Op::Punch("file".into(), at..at + BLOCK)).expect("punches");
        want[at as usize..(at + BLOCK) as usize].fill(0);
    }
    drop(door);
    let door = Door::open(&destination, &source).expect("goes on");
    assert!(door.read(Path::new("file")).expect("reads") == want);
}

#[test]
fn what_the_source_refuses_is_told_and_others_go_on() {
    let source = draw_source(&mut Seed(8).generator(), 10, true);
    source.add(Path::new("secret"), FileType::Regular, bytes(100));
    source.change(Path::new("secret"), |object| object.fails = Some(ErrorKind::Denied));
    source.add(Path::new("closed"), FileType::Directory, Vec::new());
    source.change(Path::new("closed"), |object| object.fails = Some(ErrorKind::Denied));
    let door = Door::open(&Simulated::new(), &source).expect("begins");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on");
    let problems = door.engine.problems();
    assert!(problems.iter().all(|problem| !problem.message.contains("not at the source")), "{problems:?}");
    let problems: Vec<PathBuf> = problems.into_iter().map(|problem| problem.path).collect();
    assert_eq!(problems, [Path::new("closed"), Path::new("secret")]);
    assert!(matches!(door.engine.finish(), Err(Error::Unfinished(_))));
    for path in ["secret", "closed"] {
        source.change(Path::new(path), |object| object.fails = None);
    }
    let door = Door::open(&door.destination, &source).expect("goes on");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    assert_eq!(door.engine.problems(), []);
    door.check(&Model::of(&source), true).expect("looks");
    door.engine.finish().expect("nothing is missing");
}

#[test]
fn a_migration_of_which_the_beginning_is_not_known_is_refused() {
    let (source, destination, door) = with_file(bytes(100));
    drop(door);
    let open = || Door::open(&destination, &source);
    let hidden = destination.lookup(&destination.root(), HIDDEN.as_ref()).unwrap().expect("there");
    let state = destination.lookup(&hidden, STATE.as_ref()).unwrap().expect("there");
    let mut whole = [0; 64];
    let length = destination.read_at(&state, 0, &mut whole).unwrap();
    let whole = &whole[..length];
    let mut damages = vec![Vec::new(), vec![0; length], b"begun 00000\n".to_vec(), [whole, b"\n"].concat()];
    damages.extend((1..length).map(|cut| whole[..cut].to_vec()));
    damages.extend((0..length * 8).map(|bit| {
        let mut flipped = whole.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    }));
    for damage in damages.iter().filter(|damage| damage[..] != b"begun 00001\n"[..]) {
        destination.truncate(&state, 0).unwrap();
        destination.write_at(&state, 0, damage).unwrap();
        assert!(matches!(open(), Err(Error::State)), "{:?}", damage.escape_ascii().to_string());
    }
    // As its message says, and as versions before have written it.
    destination.truncate(&state, 0).unwrap();
    destination.write_at(&state, 0, b"begun 00001\n").unwrap();
    assert_eq!(open().expect("goes on").read(Path::new("file")).expect("reads"), bytes(100));
}

#[test]
fn a_migration_begins_in_an_empty_directory_only() {
    let destination = Simulated::new();
    destination.make(&destination.root(), "mine".as_ref(), Make::Directory).expect("makes");
    let refused = Door::open(&destination, &Source::new());
    assert!(matches!(refused.map(drop), Err(Error::NotEmpty(name)) if name == Path::new("mine")));
    assert_eq!(destination.names(&destination.root()).expect("names").len(), 1, "nothing was made");
}

#[test]
fn what_is_not_here_is_no_hole_to_a_client() {
    let mut data = bytes(4 * UNIT);
    data[UNIT..2 * UNIT].fill(0);
    let (_, _, door) = with_file(data);
    let file = door.find(Path::new("file")).expect("there");
    let stub = door.engine.file(&file).expect("opens").expect("a stub");
    assert_eq!(stub.next_data(5).expect("looks"), Some(5..4 * UNIT as u64));
    stub.read_needed(0..u64::MAX, &door.cancel).expect("reads");
    assert_eq!(stub.next_data(5).expect("looks"), Some(5..UNIT as u64));
    assert_eq!(stub.next_data(UNIT as u64).expect("looks"), Some(2 * UNIT as u64..4 * UNIT as u64));
    assert_eq!(stub.next_data(4 * UNIT as u64).expect("looks"), None);
}
