//! What clients see of files and directories that change at their source during a migration.

mod door;

use std::ffi::OsStr;
use std::path::Path;

use door::{BLOCK, Door, Op, UNIT, bytes, no_trace, with_file};
use ishigaki_migrate::destination::Destination;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Error, Resolution};
use ishigaki_migrate::source::simulated::Simulated as Source;
use ishigaki_migrate::source::{ErrorKind, FileType, Timestamp};

fn overwrite_at_source(source: &Source) {
    source.change(Path::new("file"), |object| {
        object.data.fill(0xee);
        object.attributes.changed = Timestamp { seconds: 9_999, nanos: 0 };
    });
}

#[test]
fn a_file_that_changes_at_the_source_is_told_and_never_mixed() {
    let (source, _, door) = with_file(bytes(3 * UNIT));
    let file = door.find(Path::new("file")).expect("there");
    let stub = door.engine.file(&file).expect("opens").expect("a stub");
    stub.read_needed(0..1, &door.cancel).expect("reads");
    overwrite_at_source(&source);
    assert!(matches!(stub.read_needed(UNIT as u64..UNIT as u64 + 1, &door.cancel), Err(Error::Conflict(_))));
    // What is here stays readable, and whole blocks can be written.
    stub.read_needed(0..UNIT as u64, &door.cancel).expect("it is here");
    let write = Op::Write("file".into(), UNIT as u64, vec![5; BLOCK as usize]);
    door.perform(&write).expect("writes");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
    let problems = door.engine.problems();
    assert!(problems.len() == 1 && problems[0].conflict, "{problems:?}");
    assert!(matches!(door.engine.finish(), Err(Error::Unfinished(path)) if path == Path::new("file")));
    assert!(stub.is_in_conflict());

    // Also in the next process.
    drop(stub);
    let door = Door::open(&door.destination, &source).expect("goes on");
    let stub = door.engine.file(&file).expect("opens").expect("a stub");
    assert!(stub.is_in_conflict());
    stub.resolve(Resolution::KeepHere, &door.cancel).expect("keeps");
    let mut want = bytes(3 * UNIT);
    want[UNIT..UNIT + BLOCK as usize].fill(5);
    want[UNIT + BLOCK as usize..].fill(0);
    assert!(door.read(Path::new("file")).expect("reads") == want);
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    door.engine.finish().expect("nothing is missing");
    no_trace(&door.destination);
}

#[test]
fn what_needs_nothing_of_a_file_that_is_gone_at_the_source_is_done() {
    let (source, _, door) = with_file(bytes(3 * UNIT));
    let file = door.find(Path::new("file")).expect("there");
    let stub = door.engine.file(&file).expect("opens").expect("a stub");
    source.remove(Path::new("file"));
    drop(stub.before_attributes_change(&door.cancel).expect("a mode can be set"));
    let problems = door.engine.problems();
    assert!(problems.len() == 1 && problems[0].conflict && problems[0].message.contains("not at the source any more"));
    assert!(matches!(stub.read_needed(0..1, &door.cancel), Err(Error::Conflict(_))));
    door.perform(&Op::Write("file".into(), 0, vec![5; UNIT])).expect("whole blocks can be written");
    stub.truncate(UNIT as u64, &door.cancel).expect("cuts off");
    assert!(door.read(Path::new("file")).expect("reads") == vec![5; UNIT]);
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    // The attributes that it had are lost, and that is told until a person has decided.
    assert!(stub.is_in_conflict() && door.engine.problems().len() == 1);
    assert!(matches!(door.engine.finish(), Err(Error::Unfinished(path)) if path == Path::new("file")));
    stub.resolve(Resolution::KeepHere, &door.cancel).expect("keeps");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    door.engine.finish().expect("nothing is missing");
    assert!(door.read(Path::new("file")).expect("reads") == vec![5; UNIT]);
}

#[test]
fn a_conflict_ends_by_itself_where_the_source_has_the_file_again_as_it_was() {
    let (source, _, door) = with_file(bytes(3 * UNIT));
    let file = door.find(Path::new("file")).expect("there");
    let stub = door.engine.file(&file).expect("opens").expect("a stub");
    source.rename(Path::new("file"), Path::new("elsewhere"));
    stub.read_needed(0..1, &door.cancel).expect_err("it is gone");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
    assert!(stub.is_in_conflict() && door.engine.problems().len() == 1);
    source.rename(Path::new("elsewhere"), Path::new("file"));
    door.engine.look_again();
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    assert_eq!(door.engine.problems(), []);
    assert!(door.read(Path::new("file")).expect("reads") == bytes(3 * UNIT));
    door.engine.finish().expect("nothing is missing");
}

#[test]
fn a_conflict_ends_with_the_file_that_a_client_removes() {
    let (source, destination, door) = with_file(bytes(3 * UNIT));
    door.find(Path::new("file")).expect("there");
    source.remove(Path::new("file"));
    door.read(Path::new("file")).expect_err("it is gone");
    assert!(matches!(door.engine.finish(), Err(Error::Unfinished(_))));
    door.perform(&Op::Unlink("file".into())).expect("removes");
    assert_eq!(door.engine.problems().len(), 1);
    door.engine.finish().expect("nothing is missing, whether the crawler has looked again or not");
    no_trace(&destination);
}

#[test]
fn a_directory_that_changed_before_it_was_listed_is_listed_as_it_is_now() {
    let source = Source::new();
    source.add(Path::new("directory"), FileType::Directory, Vec::new());
    source.add(Path::new("directory/before"), FileType::Regular, bytes(100));
    let door = Door::open(&Simulated::new(), &source).expect("begins");
    door.find(Path::new("directory")).expect("there");
    source.add(Path::new("directory/later"), FileType::Regular, bytes(200));
    source.change(Path::new("directory"), |object| {
        object.attributes.modified = Timestamp { seconds: 9_999, nanos: 0 };
        object.attributes.changed = Timestamp { seconds: 9_999, nanos: 0 };
    });
    assert!(door.read(Path::new("directory/before")).expect("reads") == bytes(100));
    assert!(door.read(Path::new("directory/later")).expect("reads") == bytes(200));
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    assert_eq!(door.engine.problems(), []);
    door.engine.finish().expect("nothing is missing");
}

#[test]
fn attributes_of_another_version_do_not_come_though_a_client_needs_no_byte_of_it() {
    let name = OsStr::new("user.kept");
    let (source, destination, door) = with_file(bytes(3 * UNIT));
    let file = door.find(Path::new("file")).expect("there");
    let stub = door.engine.file(&file).expect("opens").expect("a stub");
    source.change(Path::new("file"), |object| {
        object.extras.attributes.push((name.to_owned(), b"later".to_vec()));
        object.attributes.changed = Timestamp { seconds: 9_999, nanos: 0 };
    });
    stub.truncate(0, &door.cancel).expect("cuts off");
    assert_eq!(destination.xattr(&file, name).expect("looks"), None);
    door.perform(&Op::Write("file".into(), 0, vec![5; UNIT])).expect("writes");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
    assert!(stub.is_in_conflict() && door.engine.problems().len() == 1);
    assert_eq!(destination.xattr(&file, name).expect("looks"), None);
    assert!(matches!(door.engine.finish(), Err(Error::Unfinished(path)) if path == Path::new("file")));
    stub.resolve(Resolution::KeepHere, &door.cancel).expect("keeps");
    assert!(door.read(Path::new("file")).expect("reads") == vec![5; UNIT]);
    door.engine.look_again();
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    door.engine.finish().expect("nothing is missing");
}

#[test]
fn attributes_of_a_file_without_bytes_to_come_are_those_of_the_file_that_is_known() {
    let name = OsStr::new("user.kept");
    for by_crawler in [false, true] {
        let (source, destination, door) = with_file(Vec::new());
        let file = door.find(Path::new("file")).expect("there");
        let stub = door.engine.file(&file).expect("opens").expect("a stub");
        source.change(Path::new("file"), |object| {
            object.extras.attributes.push((name.to_owned(), b"later".to_vec()));
            object.attributes.changed = Timestamp { seconds: 9_999, nanos: 0 };
        });
        if by_crawler {
            door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
        } else {
            stub.attributes_needed(&door.cancel).expect("a conflict has what is here");
        }
        assert!(stub.is_in_conflict() && door.engine.problems().len() == 1, "by the crawler: {by_crawler}");
        assert_eq!(destination.xattr(&file, name).expect("looks"), None);
        let of_client = OsStr::new("user.client");
        destination.set_xattr(&file, of_client, b"here").expect("sets");
        stub.resolve(Resolution::TakeSource, &door.cancel).expect("takes");
        assert_eq!(destination.xattr(&file, of_client).expect("looks"), None, "what is here is lost");
        door.engine.look_again();
        door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
        assert_eq!(destination.xattr(&file, name).expect("looks").as_deref(), Some(&b"later"[..]));
        door.engine.finish().expect("nothing is missing");
    }
}

#[test]
fn the_sources_version_can_be_taken_in_a_conflict() {
    let (source, _, door) = with_file(bytes(3 * UNIT));
    let file = door.find(Path::new("file")).expect("there");
    let stub = door.engine.file(&file).expect("opens").expect("a stub");
    stub.read_needed(0..1, &door.cancel).expect("reads");
    overwrite_at_source(&source);
    stub.read_needed(0..u64::MAX, &door.cancel).expect_err("a conflict");
    stub.resolve(Resolution::TakeSource, &door.cancel).expect("takes");
    assert!(door.read(Path::new("file")).expect("reads") == vec![0xee; 3 * UNIT]);
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    door.engine.finish().expect("nothing is missing");
}

#[test]
fn the_sources_version_is_whole_after_a_restart() {
    let length = UNIT + 5;
    let (source, _, door) = with_file(bytes(length));
    let file = door.find(Path::new("file")).expect("there");
    let stub = door.engine.file(&file).expect("opens").expect("a stub");
    // The last block is here, in part.
    stub.read_needed(UNIT as u64..length as u64, &door.cancel).expect("reads");
    overwrite_at_source(&source);
    stub.read_needed(0..u64::MAX, &door.cancel).expect_err("a conflict");
    stub.resolve(Resolution::TakeSource, &door.cancel).expect("takes");
    door.engine.settle().expect("settles");
    drop(stub);
    let destination = door.destination.clone();
    drop(door);
    let door = Door::open(&destination, &source).expect("goes on");
    assert!(door.read(Path::new("file")).expect("reads") == vec![0xee; length]);
}

#[test]
fn what_is_no_file_any_more_is_not_taken_for_one() {
    for (file_type, kind) in [(FileType::Directory, "directory"), (FileType::Symlink, "symbolic link")] {
        let (source, _, door) = with_file(bytes(3 * UNIT));
        let file = door.find(Path::new("file")).expect("there");
        let stub = door.engine.file(&file).expect("opens").expect("a stub");
        stub.read_needed(0..1, &door.cancel).expect("reads");
        source.remove(Path::new("file"));
        source.add(Path::new("file"), file_type, Vec::new());
        stub.read_needed(0..u64::MAX, &door.cancel).expect_err("a conflict");
        let refused = stub.resolve(Resolution::TakeSource, &door.cancel).expect_err("no file");
        assert!(refused.to_string().starts_with("file: it is no file"), "{refused}");
        assert!(refused.to_string().contains(kind), "{refused}");
        assert!(stub.is_in_conflict());
        stub.resolve(Resolution::KeepHere, &door.cancel).expect("keeps");
        let mut want = bytes(3 * UNIT);
        want[UNIT..].fill(0);
        assert!(door.read(Path::new("file")).expect("reads") == want);
    }
}

/// A client knows the directory's name, and no more, when the source has no such directory any more.
#[test]
fn a_directory_that_can_not_be_listed_any_more_is_left_empty_where_a_person_says_so() {
    for (other, denies) in [(None, false), (Some(FileType::Regular), false), (Some(FileType::Directory), true)] {
        let (source, destination) = (Source::new(), Simulated::new());
        for (path, file_type) in [("d", FileType::Directory), ("d/file", FileType::Regular), ("e", FileType::Directory)]
        {
            source.add(Path::new(path), file_type, Vec::new());
        }
        let door = Door::open(&destination, &source).expect("begins");
        let directory = door.find(Path::new("d")).expect("lists the root");
        let decide =
            |door: &Door, how| door.engine.resolve(Path::new("d"), how, &door.cancel).map(|found| found.is_some());
        assert!(!decide(&door, Resolution::KeepHere).expect("nothing is wrong yet"));
        for path in ["d/file", "d"] {
            source.remove(Path::new(path));
        }
        if let Some(other) = other {
            source.add(Path::new("d"), other, Vec::new());
        }
        if denies {
            source.change(Path::new("d"), |object| object.fails = Some(ErrorKind::Denied));
        }
        door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
        assert_eq!(door.engine.problems().len(), 1, "{other:?}");
        assert!(matches!(door.engine.finish(), Err(Error::Unfinished(path)) if path == Path::new("d")));
        match (decide(&door, Resolution::TakeSource), other) {
            (Err(Error::NoVersion(_)), None)
            | (Err(Error::OtherKind { was: "directory", kind: "file", .. }), Some(FileType::Regular))
            | (Err(Error::Source { .. }), Some(FileType::Directory)) => {}
            (told, other) => panic!("{other:?}: {told:?}"),
        }
        // Another directory in no trouble, and the root.
        for path in ["e", ""] {
            door.find(Path::new(path)).expect("there");
            assert_eq!(door.engine.resolve(Path::new(path), Resolution::KeepHere, &door.cancel).expect("looks"), None);
        }
        assert!(decide(&door, Resolution::KeepHere).expect("keeps"));
        assert!(!decide(&door, Resolution::KeepHere).expect("it is decided"));
        assert_eq!(door.engine.problems(), []);
        // Also in the next process.
        let door = Door::open(&destination, &source).expect("goes on");
        door.perform(&Op::Create("d/new".into(), FileType::Regular)).expect("makes");
        door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
        door.engine.finish().expect("nothing is missing");
        assert_eq!(destination.names(&directory).expect("reads").len(), 1);
        no_trace(&destination);
    }
}

#[test]
fn a_directory_that_the_source_has_again_is_taken_in_a_conflict() {
    let (source, destination) = (Source::new(), Simulated::new());
    source.add(Path::new("d"), FileType::Directory, Vec::new());
    let door = Door::open(&destination, &source).expect("begins");
    let directory = door.find(Path::new("d")).expect("lists the root");
    source.remove(Path::new("d"));
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
    source.add(Path::new("d"), FileType::Directory, Vec::new());
    source.add(Path::new("d/file"), FileType::Regular, bytes(10));
    let taken = door.engine.resolve(Path::new("d"), Resolution::TakeSource, &door.cancel).expect("takes");
    assert_eq!(taken, Some(door.destination.id(&directory)));
    assert!(door.read(Path::new("d/file")).expect("reads") == bytes(10));
    door.engine.look_again();
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    door.engine.finish().expect("nothing is missing");
    no_trace(&destination);
}

#[test]
fn the_sources_version_is_taken_by_another_of_its_names() {
    let (source, destination) = (Source::new(), Simulated::new());
    source.add(Path::new("a"), FileType::Regular, bytes(3 * UNIT));
    source.link(Path::new("a"), Path::new("b"));
    source.add(Path::new("c"), FileType::Regular, bytes(10));
    let door = Door::open(&destination, &source).expect("begins");
    door.find(Path::new("b")).expect("lists the root");
    source.remove(Path::new("a"));
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
    assert!(door.engine.problems().iter().any(|problem| problem.conflict), "{:?}", door.engine.problems());
    let take = |path| door.engine.resolve(Path::new(path), Resolution::TakeSource, &door.cancel);
    assert!(matches!(take("a"), Err(Error::NoVersion(_))));
    // Neither where the source has another file, nor where it has nothing.
    door.perform(&Op::Unlink("c".into())).expect("removes");
    for (from, path) in [("b", "c"), ("c", "nothing")] {
        door.perform(&Op::Rename(from.into(), path.into())).expect("moves");
        assert!(matches!(take(path), Err(Error::NoVersion(_))), "{path}");
    }
    door.perform(&Op::Rename("nothing".into(), "b".into())).expect("moves");
    assert!(take("b").expect("takes").is_some());
    assert!(door.read(Path::new("b")).expect("reads") == bytes(3 * UNIT));
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    assert_eq!(door.engine.problems(), []);
    door.engine.finish().expect("nothing is missing");
    no_trace(&destination);
}
