//! A destination without room, and what clients can do about it.

mod door;

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use door::{Door, Model, Op, add_far_below, no_trace};
use ishigaki_migrate::destination::Destination;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Error, HIDDEN};
use ishigaki_migrate::source::FileType;
use ishigaki_migrate::source::simulated::Simulated as Source;

/// How many files of records there are.
fn records(destination: &Simulated) -> usize {
    let hidden = destination.lookup(&destination.root(), OsStr::new(HIDDEN)).expect("looks").expect("is there");
    let records = destination.lookup(&hidden, OsStr::new("records")).expect("looks").expect("is there");
    destination.names(&records).expect("looks").len()
}

fn is_about_room(error: &(dyn std::error::Error + 'static)) -> bool {
    match error.downcast_ref::<Error>() {
        Some(Error::Destination { error, .. }) => error.kind() == io::ErrorKind::StorageFull,
        _ => error.source().is_some_and(is_about_room),
    }
}

fn end(door: &Door, model: &Model) {
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    assert_eq!(door.engine.problems(), []);
    door.engine.finish().expect("nothing is missing");
    no_trace(&door.destination);
    door.check(model, true).expect("looks");
}

#[test]
fn what_is_tried_again_without_room_does_not_take_the_last_of_it() {
    let source = Source::new();
    let path = add_far_below(&source, vec![1; 100]);
    let destination = Simulated::new();
    let door = Door::open(&destination, &source).expect("begins");
    destination.set_room(0);
    for _ in 0..5 {
        let error = door.read(&path).expect_err("has no room");
        assert!(is_about_room(&*error), "{error:?}");
        assert_eq!(records(&destination), 0);
    }
    destination.set_room(u64::MAX);
    end(&door, &Model::of(&source));
}

/// Directories whose names alone fill several blocks of the log.
fn add_many(source: &Source, at: &str) {
    source.add(Path::new(at), FileType::Directory, Vec::new());
    for number in 0..50 {
        let path = format!("{at}/{number:0200}");
        source.add(Path::new(&path), FileType::Directory, Vec::new());
        source.add(Path::new(&format!("{path}/file")), FileType::Regular, vec![2; 5000]);
    }
}

#[test]
fn files_can_be_removed_where_the_log_has_no_room_to_tell_of_a_listing() {
    for (is_long, is_killed) in [(false, false), (false, true), (true, false), (true, true)] {
        println!("a log that is to be written anew: {is_long}, a kill: {is_killed}");
        let source = Source::new();
        source.add(Path::new("file"), FileType::Regular, vec![1; 100]);
        add_many(&source, "first");
        add_many(&source, "second");
        let destination = Simulated::new();
        let mut door = Door::open(&destination, &source).expect("begins");
        let mut model = Model::of(&source);
        let list = |door: &Door, directory: &str| {
            door.find(&Path::new(directory).join("nothing")).expect_err("lists, and finds no such name");
        };
        if is_long {
            list(&door, "first");
            door.engine.settle().expect("has room");
        }
        destination.set_room(0);
        list(&door, "second");
        let gone = Op::Unlink("file".into());
        door.perform(&gone).expect("removes");
        model.apply(&gone);
        if is_killed {
            drop(door);
            door = Door::open(&destination, &source).expect("goes on");
        }
        destination.set_room(u64::MAX);
        end(&door, &model);
    }
}
