//! Files that are copied ahead from a source that clients still change: the migration shows what the source has when it begins.

mod door;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use door::{Door, Model, draw_source, no_trace, settings};
use fastrand::Rng;
use ishigaki_base::random::Seed;
use ishigaki_migrate::destination::Destination;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{AHEAD, Crawl, Engine, Error, HIDDEN, Origin, Passes, STATE, Settings};
use ishigaki_migrate::source::{self, Attributes, Cancel, Capabilities, Entry, FileType, Location, Source, simulated};
use ishigaki_testkit::seeded_runs;

/// Opens an engine that copies ahead, from a source whose changes all bear different times.
fn open(destination: &Simulated, source: &simulated::Simulated) -> Result<Arc<Engine<Simulated>>, Error> {
    open_with(destination, Arc::new(source.clone()), Duration::ZERO)
}

fn open_with(
    destination: &Simulated,
    source: Arc<dyn Source>,
    tick: Duration,
) -> Result<Arc<Engine<Simulated>>, Error> {
    let origin = Origin { source, at: PathBuf::new() };
    Engine::open(destination.clone(), vec![origin], Settings { ahead: Some(tick), ..settings() }, &Cancel::new())
}

fn crawl(engine: &Arc<Engine<Simulated>>, random: &mut Rng) -> Result<(), Error> {
    let passes = if random.bool() { Passes::Bulk } else { Passes::MetadataFirst };
    engine.crawl(&Crawl { threads: random.usize(1..4), passes, ..Crawl::default() }, &Cancel::new())
}

/// A later change of an object, as its times tell it.
fn touch(source: &simulated::Simulated, path: &Path, data: bool) {
    source.change(path, |object| {
        object.attributes.changed.seconds += 100;
        object.attributes.modified.seconds += if data { 100 } else { 0 };
    });
}

fn touch_above(source: &simulated::Simulated, path: &Path) {
    if let Some(above) = path.parent() {
        touch(source, above, true);
    }
}

/// Removes a name, and what is below it.
fn remove(source: &simulated::Simulated, path: &Path) {
    for (name, _) in source.objects() {
        if name.starts_with(path) {
            source.change(&name, |object| object.attributes.links -= 1);
            touch(source, &name, false);
            source.remove(&name);
        }
    }
    touch_above(source, path);
}

/// What clients do at the source. Bytes change before the times do, as a server's do at the latest.
fn change(source: &simulated::Simulated, random: &mut Rng, number: usize) {
    let all = source.objects();
    let (path, object) = &all[random.usize(..all.len())];
    let is_file = object.attributes.file_type == FileType::Regular;
    let is_root = path.as_os_str().is_empty();
    match random.u8(..9) {
        // Other bytes of the same length, whose time of change a program has put back.
        0 if is_file => {
            source.change(path, |object| object.data.iter_mut().for_each(|byte| *byte ^= 0x55));
            touch(source, path, false);
        }
        1 if is_file => {
            source.change(path, |object| {
                object.data.truncate(object.data.len() / 2);
                object.data.extend([7; 5000]);
                object.attributes.size = object.data.len() as u64;
            });
            touch(source, path, true);
        }
        2 => {
            source.change(path, |object| object.attributes.mode ^= 0o011);
            touch(source, path, false);
        }
        3 if !is_root => remove(source, path),
        // Another object under the same name, perhaps of another kind.
        4 if !is_root => {
            remove(source, path);
            let kind = if random.bool() { FileType::Directory } else { FileType::Regular };
            let data = if kind == FileType::Regular { vec![number as u8; random.usize(..9000)] } else { Vec::new() };
            source.add(path, kind, data);
        }
        5 if is_file => {
            let other = path.with_file_name(format!("linked{number}"));
            source.link(path, &other);
            touch(source, path, false);
            touch_above(source, &other);
        }
        6 if object.attributes.file_type == FileType::Directory && source.capabilities().extras => {
            source.change(path, |object| {
                object.extras.attributes = vec![("user.note".into(), number.to_string().into_bytes())];
            });
            touch(source, path, false);
        }
        // A directory's files do not change by that.
        7 if !is_root => {
            let directories = all.iter().filter(|(other, object)| {
                object.attributes.file_type == FileType::Directory && !other.starts_with(path)
            });
            let directories: Vec<&PathBuf> = directories.map(|(path, _)| path).collect();
            // Perhaps to a name that had another object.
            let name = format!("moved{}", random.u8(..3));
            let to = directories[random.usize(..directories.len())].join(name);
            if all.iter().any(|(path, _)| *path == to) {
                remove(source, &to);
            }
            if source.objects().iter().any(|(other, _)| other == path) {
                source.rename(path, &to);
                touch(source, &to, false);
                touch_above(source, path);
                touch_above(source, &to);
            }
        }
        _ if object.attributes.file_type == FileType::Directory => {
            source.add(
                &path.join(format!("added{number}")),
                FileType::Regular,
                vec![number as u8; random.usize(..9000)],
            );
            touch(source, path, true);
        }
        _ => {}
    }
}

/// The migration begins, shows what the source has, and leaves nothing of itself.
fn is_served_to_the_end(destination: &Simulated, source: &simulated::Simulated, random: &mut Rng) {
    let door = Door::open(destination, source).expect("begins");
    let model = Model::of(source);
    if random.bool() {
        door.check(&model, false).expect("looks");
    }
    crawl(&door.engine, random).expect("crawls");
    assert_eq!(door.engine.problems(), []);
    door.check(&model, true).expect("looks");
    let now = door.engine.progress();
    assert_eq!((now.whole, now.here), (now.files, now.bytes));
    door.engine.finish().expect("nothing is missing");
    no_trace(destination);
    door.check(&model, true).expect("looks");
}

fn copies_ahead(seed: Seed) {
    let mut random = seed.generator();
    let (objects, plain) = (random.usize(1..40), random.bool());
    let source = draw_source(&mut random, objects, plain);
    let destination = Simulated::perishable(Seed(random.u64(..)));
    let destination = if random.bool() { destination } else { destination.unordered() };
    let destination = if random.bool() { destination.zeroing() } else { destination };
    let mut number = 0;
    for _ in 0..random.usize(1..4) {
        // Some are killed, or lose power.
        let is_cut_off = random.bool();
        if is_cut_off {
            destination.stop_at(destination.changes() + random.u64(1..400));
        }
        let mut clients = random.fork();
        let changes = if random.bool() { random.usize(1..30) } else { 0 };
        let is_over = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            let (source, is_over) = (&source, &is_over);
            scope.spawn(move || {
                for _ in 0..changes {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let number = clients.usize(1000..1_000_000_000);
                    change(source, &mut clients, number);
                    std::thread::yield_now();
                }
            });
            let ended = open(&destination, source).and_then(|engine| crawl(&engine, &mut random));
            is_over.store(true, Ordering::Relaxed);
            ended
        });
        assert!(is_cut_off || ended.is_ok(), "{ended:?}");
        if is_cut_off && random.bool() {
            destination.cut_power();
        } else {
            destination.go_on();
        }
        for _ in 0..random.usize(..12) {
            number += 1;
            change(&source, &mut random, number);
        }
    }
    is_served_to_the_end(&destination, &source, &mut random);
}

#[test]
fn what_changed_at_the_source_after_it_was_copied_ahead_is_never_shown() {
    seeded_runs("what_changed_at_the_source_after_it_was_copied_ahead_is_never_shown", 400, copies_ahead);
}

#[test]
#[ignore = "takes minutes"]
fn what_changed_at_the_source_after_it_was_copied_ahead_is_never_shown_in_5000_runs() {
    seeded_runs("what_changed_at_the_source_after_it_was_copied_ahead_is_never_shown_in_5000_runs", 5000, copies_ahead);
}

/// A tree is copied ahead, changes, is copied ahead again, changes and is served; at the destination's change of that number the machine stands still.
fn ended_at(seed: Seed, stop: u64) -> u64 {
    let mut random = seed.generator();
    let (objects, plain) = (random.usize(1..8), random.bool());
    let source = draw_source(&mut random, objects, plain);
    let destination = Simulated::perishable(seed.derive(stop));
    let destination = if random.u8(..4) > 0 { destination } else { destination.unordered().zeroing() };
    let is_killed = stop.is_multiple_of(4);
    destination.stop_at(stop);
    let end = |is_over: bool| match is_over {
        true => {}
        false if is_killed => destination.go_on(),
        false => destination.cut_power(),
    };
    let how = Crawl { threads: 1, ..Crawl::default() };
    for round in 0..2 {
        let ended = open(&destination, &source).and_then(|engine| engine.crawl(&how, &Cancel::new()));
        end(ended.is_ok());
        for number in 0..random.usize(1..5) {
            change(&source, &mut random, round * 10 + number);
        }
    }
    let served = Door::open(&destination, &source).and_then(|door| door.engine.crawl(&how, &door.cancel));
    end(served.is_ok());
    let changes = destination.changes();
    destination.go_on();
    is_served_to_the_end(&destination, &source, &mut random);
    changes
}

fn at_every_change(seed: Seed) {
    for stop in 0..ended_at(seed, u64::MAX) {
        ended_at(seed, stop);
    }
}

#[test]
fn nothing_old_is_shown_after_an_end_at_any_change() {
    seeded_runs("nothing_old_is_shown_after_an_end_at_any_change", 25, at_every_change);
}

#[test]
#[ignore = "takes minutes"]
fn nothing_old_is_shown_after_an_end_at_any_change_of_1000_scripts() {
    seeded_runs("nothing_old_is_shown_after_an_end_at_any_change_of_1000_scripts", 1000, at_every_change);
}

/// A source, and what was asked of it.
struct Watched {
    source: simulated::Simulated,
    bytes: AtomicU64,
    listed: Mutex<Option<Instant>>,
    /// Between a listing and what was read next.
    shortest: Mutex<Option<Duration>>,
}

impl Watched {
    fn of(source: &simulated::Simulated) -> Arc<Self> {
        let source = source.clone();
        Arc::new(Self { source, bytes: AtomicU64::new(0), listed: Mutex::default(), shortest: Mutex::default() })
    }

    fn is_read(&self) {
        let since = self.listed.lock().unwrap_or_else(PoisonError::into_inner).map(|listed| listed.elapsed());
        let mut shortest = self.shortest.lock().unwrap_or_else(PoisonError::into_inner);
        *shortest = shortest.into_iter().chain(since).min();
    }
}

impl Source for Watched {
    fn name(&self) -> String {
        self.source.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.source.capabilities()
    }

    fn root(&self, cancel: &Cancel) -> source::Result<(Location, Attributes)> {
        self.source.root(cancel)
    }

    fn list(
        &self,
        directory: &Location,
        cancel: &Cancel,
        take: &mut dyn FnMut(Vec<Entry>) -> source::Result<()>,
    ) -> source::Result<()> {
        let listed = self.source.list(directory, cancel, take);
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        listed
    }

    fn attributes(&self, object: &Location, cancel: &Cancel) -> source::Result<Attributes> {
        self.source.attributes(object, cancel)
    }

    fn extras_told(&self, object: &Location, cancel: &Cancel) -> source::Result<source::ToldExtras> {
        if self.source.attributes(object, cancel)?.file_type == FileType::Regular {
            self.is_read();
        }
        self.source.extras_told(object, cancel)
    }

    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> source::Result<usize> {
        self.is_read();
        let read = self.source.read(file, offset, buffer, cancel)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn next_data(&self, file: &Location, offset: u64, cancel: &Cancel) -> source::Result<Option<Range<u64>>> {
        self.source.next_data(file, offset, cancel)
    }
}

#[test]
fn no_byte_is_read_of_what_has_not_changed() {
    seeded_runs("no_byte_is_read_of_what_has_not_changed", 100, |seed| {
        let mut random = seed.generator();
        let plain = random.bool();
        let source = draw_source(&mut random, 60, plain);
        let destination = Simulated::new();
        crawl(&open(&destination, &source).expect("begins"), &mut random).expect("crawls");
        let watched = Watched::of(&source);
        let second = open_with(&destination, watched.clone(), Duration::ZERO).expect("goes on");
        crawl(&second, &mut random).expect("crawls");
        assert_eq!(watched.bytes.load(Ordering::Relaxed), 0);
        let now = second.progress();
        assert_eq!((now.whole, now.here, now.copied), (now.files, now.bytes, 0));
        // A directory's name, and its names, change nothing in its files.
        source.add(Path::new("later"), FileType::Regular, vec![1; 10_000]);
        touch(&source, Path::new(""), true);
        let watched = Watched::of(&source);
        let third = open_with(&destination, watched.clone(), Duration::ZERO).expect("goes on");
        crawl(&third, &mut random).expect("crawls");
        assert_eq!(watched.bytes.load(Ordering::Relaxed), 10_000, "what is new, and no more");

        let door = Door::open(&destination, &source).expect("begins");
        crawl(&door.engine, &mut random).expect("crawls");
        assert_eq!(door.engine.progress().copied, 0);
        assert!(matches!(open(&destination, &source), Err(Error::Begun)));
        door.check(&Model::of(&source), true).expect("looks");
        door.engine.finish().expect("nothing is missing");
        no_trace(&destination);
    });
}

/// Otherwise a file that changed just before it was listed could change once more within the same step of the source's clock, after it was read.
#[test]
fn nothing_is_read_before_the_clock_of_the_source_has_ticked_since_it_was_listed() {
    let tick = Duration::from_millis(300);
    let mut random = Seed(1).generator();
    let source = draw_source(&mut random, 40, false);
    let destination = Simulated::new();
    let watched = Watched::of(&source);
    crawl(&open_with(&destination, watched.clone(), tick).expect("begins"), &mut random).expect("crawls");
    let shortest = watched.shortest.lock().expect("held").expect("read after a listing");
    assert!(shortest >= tick, "{shortest:?}");
    assert!(watched.bytes.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_file_that_changes_while_it_is_copied_ahead_is_left_for_the_next_time() {
    let source = simulated::Simulated::new();
    let paths = ["changes", "stays"].map(Path::new);
    for path in paths {
        source.add(path, FileType::Regular, vec![1; 100_000]);
    }
    let destination = Simulated::new();
    let engine = open(&destination, &source).expect("begins");
    engine.look_into(&destination.root(), &Cancel::new()).expect("lists");
    source.change(paths[0], |object| object.data.fill(2));
    touch(&source, paths[0], true);
    crawl(&engine, &mut Seed(2).generator()).expect("crawls");
    let problems = engine.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].conflict && problems[0].path == paths[0]);
    assert!(problems[0].message.contains("the next `ishigaki migrate seed` takes it"), "{}", problems[0].message);
    assert_eq!((engine.progress().whole, engine.progress().copied), (1, 100_000));
    drop(engine);
    let next = open(&destination, &source).expect("goes on");
    crawl(&next, &mut Seed(3).generator()).expect("crawls");
    assert_eq!((next.problems(), next.progress().copied), (vec![], 100_000));
    is_served_to_the_end(&destination, &source, &mut Seed(4).generator());
}

/// Makes a tree with one file and copies it ahead.
fn copied() -> (Simulated, simulated::Simulated) {
    let source = simulated::Simulated::new();
    source.add(Path::new("file"), FileType::Regular, vec![1; 10_000]);
    let destination = Simulated::new();
    crawl(&open(&destination, &source).expect("begins"), &mut Seed(1).generator()).expect("crawls");
    (destination, source)
}

#[test]
fn what_another_program_has_written_to_a_file_that_was_copied_ahead_is_not_taken_for_the_sources() {
    let (destination, source) = copied();
    let file = destination.lookup(&destination.root(), "file".as_ref()).expect("looks").expect("is there");
    destination.write_at(&file, 100, b"another program's").expect("written");
    is_served_to_the_end(&destination, &source, &mut Seed(2).generator());
}

/// Whatever reads it finds that it is not a plain directory: each file and directory has its record, and nothing can end the migration.
#[test]
fn a_migration_that_has_begun_behind_a_copy_is_not_taken_for_the_copy() {
    let (source, destination) = (simulated::Simulated::new(), Simulated::new());
    source.add(Path::new("file"), FileType::Regular, vec![1; 9000]);
    let seeded = open(&destination, &source).expect("begins");
    crawl(&seeded, &mut Rng::with_seed(1)).expect("ends");
    drop(seeded);
    drop(Door::open(&destination, &source).expect("begins"));
    let hidden = destination.lookup(&destination.root(), HIDDEN.as_ref()).unwrap().expect("there");
    destination.unlink(&hidden, STATE.as_ref()).unwrap();
    assert!(matches!(Door::open(&destination, &source), Err(Error::State)));
    assert!(matches!(open(&destination, &source), Err(Error::State)));
    // As its message says.
    destination.unlink(&hidden, AHEAD.as_ref()).unwrap();
    assert!(matches!(Door::open(&destination, &source), Err(Error::NotEmpty(_))));
}

#[test]
fn what_was_copied_ahead_is_no_finished_migration() {
    let (destination, source) = copied();
    let names = destination.names(&destination.root()).expect("listed");
    for node in names.iter().filter(|name| name.name == "file").map(|name| name.node).chain([destination.root()]) {
        assert!(destination.xattr(&node, "trusted.ishigaki.stub".as_ref()).expect("read").is_some());
    }
    let engine = open(&destination, &source).expect("goes on");
    crawl(&engine, &mut Seed(2).generator()).expect("crawls");
    assert!(matches!(engine.finish(), Err(Error::Unfinished(_))));
    drop(engine);
    is_served_to_the_end(&destination, &source, &mut Seed(3).generator());
}

#[test]
fn a_directory_that_holds_anything_else_is_refused() {
    let source = simulated::Simulated::new();
    let destination = Simulated::new();
    let root = destination.root();
    destination.make(&root, "own".as_ref(), ishigaki_migrate::destination::Make::File).expect("made");
    assert!(matches!(open(&destination, &source), Err(Error::NotEmpty(_))));
}
