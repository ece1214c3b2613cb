//! What a process leaves that is killed, and what the next one makes of it.

mod door;

use std::path::Path;

use door::{BLOCK, Door, Model, Op, no_trace};
use ishigaki_migrate::destination::Destination;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Passes};
use ishigaki_migrate::source::simulated::Simulated as Source;
use ishigaki_migrate::source::{ErrorKind, FileType};

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 100 % 251) as u8 + 1).collect()
}

fn perform(door: &Door, model: &mut Model, op: &Op) {
    door.perform(op).unwrap_or_else(|error| panic!("{op:?}: {error}"));
    model.apply(op);
}

/// The migration ends by itself, and nothing is lost.
fn end(door: &Door, model: &Model) {
    for passes in [Passes::MetadataFirst, Passes::Bulk] {
        door.engine.crawl(&Crawl { passes, ..Crawl::default() }, &door.cancel).expect("ends");
    }
    assert_eq!(door.engine.problems(), []);
    door.engine.finish().expect("nothing is missing");
    no_trace(&door.destination);
    door.check(model, true).expect("looks");
}

/// A directory with a file, beside one that a client has made.
fn with_two_directories() -> (Source, Simulated, Door, Model) {
    let (source, destination) = (Source::new(), Simulated::new());
    source.add(Path::new("old"), FileType::Directory, Vec::new());
    source.add(Path::new("old/file"), FileType::Regular, bytes(20_000));
    let door = Door::open(&destination, &source).expect("begins");
    let mut model = Model::of(&source);
    perform(&door, &mut model, &Op::Create("new".into(), FileType::Directory));
    (source, destination, door, model)
}

#[test]
fn what_a_client_has_moved_before_a_kill_is_copied_after_it() {
    let (source, destination, door, mut model) = with_two_directories();
    perform(&door, &mut model, &Op::Rename("old/file".into(), "new/file".into()));
    drop(door);
    end(&Door::open(&destination, &source).expect("goes on"), &model);
}

#[test]
fn what_a_client_moves_by_a_link_is_copied_where_it_is_then() {
    for is_killed in [false, true] {
        let (source, destination, mut door, mut model) = with_two_directories();
        perform(&door, &mut model, &Op::Link("old/file".into(), "new/file".into()));
        perform(&door, &mut model, &Op::Unlink("old/file".into()));
        if is_killed {
            door = Door::open(&destination, &source).expect("goes on");
        }
        end(&door, &model);
    }
}

/// A process is killed while it makes a file smaller. The next one makes it larger, and is killed, too: what was cut off does not come back.
#[test]
fn what_was_cut_off_just_before_a_kill_does_not_come_back_when_the_file_becomes_larger() {
    let (size, small) = (10 * BLOCK + 77, 3 * BLOCK + 5);
    let grows = [
        Op::Truncate("file".into(), size),
        Op::Write("file".into(), size - 10, vec![7; 10]),
        Op::Punch("file".into(), size..size + BLOCK),
        Op::Write("file".into(), size + 2 * BLOCK, vec![7; BLOCK as usize]),
    ];
    let mut cut_off = 0;
    for (grow, change) in grows.iter().flat_map(|grow| (0..12).map(move |change| (grow, change))) {
        let (source, destination) = (Source::new(), Simulated::new());
        source.add(Path::new("file"), FileType::Regular, bytes(size as usize));
        let door = Door::open(&destination, &source).expect("begins");
        let mut model = Model::of(&source);
        perform(&door, &mut model, &Op::Mode("file".into(), 0o640));
        destination.stop_at(destination.changes() + change);
        let is_told = door.perform(&Op::Truncate("file".into(), small)).is_ok();
        destination.go_on();
        drop(door);
        if is_told {
            continue;
        }
        let door = Door::open(&destination, &source).expect("goes on");
        let file = door.find(Path::new("file")).expect("it is there");
        if destination.status(&file).expect("looks").size == small {
            cut_off += 1;
            model.apply(&Op::Truncate("file".into(), small));
        }
        perform(&door, &mut model, grow);
        if let Op::Punch(..) = grow {
            // A door makes the file larger behind the engine's hole.
            perform(&door, &mut model, &Op::Truncate("file".into(), size));
        }
        drop(door);
        let door = Door::open(&destination, &source).expect("goes on");
        door.check(&model, true).unwrap_or_else(|error| panic!("{grow:?}, stopped at {change}: {error}"));
        end(&door, &model);
    }
    assert!(cut_off > 0, "some kill came between the size and the record");
}

/// A power cut takes the listing of the root back, but not that of a directory below, where the file system keeps no order. What makes the root's again
/// may remove that directory, so nothing below is listed before.
#[test]
fn a_directory_is_listed_before_those_below_it_after_a_crash_too() {
    let (source, destination) = (Source::new(), Simulated::new());
    for (path, file_type) in [("a", FileType::Directory), ("a/b", FileType::Directory), ("a/b/file", FileType::Regular)]
    {
        source.add(Path::new(path), file_type, Vec::new());
    }
    let attribute = ishigaki_migrate::engine::Settings::default().attribute;
    let mark = |destination: &Simulated| destination.xattr(&destination.root(), &attribute).expect("looks");
    let door = Door::open(&destination, &source).expect("begins");
    let root = mark(&destination).expect("a stub");
    door.find(Path::new("a/b")).expect("lists the root and a directory");
    door.engine.settle().expect("settles");
    assert_eq!(mark(&destination), None);
    destination.set_xattr(&destination.root(), &attribute, &root).expect("writes");
    drop(door);
    // The crawler ends with an error there.
    source.change(Path::new("a/b"), |object| object.fails = Some(ErrorKind::Invalid));
    let door = Door::open(&destination, &source).expect("goes on");
    door.engine.crawl(&Crawl { threads: 1, ..Crawl::default() }, &door.cancel).expect_err("it is told");
    assert_eq!(mark(&destination), None, "the root is listed");
    source.change(Path::new("a/b"), |object| object.fails = None);
    end(&door, &Model::of(&source));
}

/// Another directory answers by the source's name than the one with which the migration began, and it is empty.
fn unmount(source: &Source) {
    source.change(Path::new(""), |root| root.attributes.id.1 += 1_000);
    source.rename(Path::new("file"), Path::new("hidden"));
}

fn mount(source: &Source) {
    source.rename(Path::new("hidden"), Path::new("file"));
    source.change(Path::new(""), |root| root.attributes.id.1 -= 1_000);
}

/// Reads the file, and mounts the source only when it is told as absent.
fn read_when_mounted(door: &Door, source: &Source) -> Vec<u8> {
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| door.read(Path::new("file")).expect("is read when the source is there"));
        while door.engine.absences().is_empty() && !reader.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let told = door.engine.absences();
        mount(source);
        let read = reader.join().expect("ends");
        assert!(told.iter().all(|absence| absence.message.contains("its disk mounted")), "{told:?}");
        read
    })
}

#[test]
fn a_source_whose_disk_is_not_mounted_is_waited_for() {
    let source = Source::new();
    source.add(Path::new("file"), FileType::Regular, bytes(20_000));
    for is_restarted in [false, true] {
        let destination = Simulated::new();
        let mut door = Door::open(&destination, &source).expect("begins");
        if is_restarted {
            drop(door);
            unmount(&source);
            door = Door::open(&destination, &source).expect("goes on");
        } else {
            door.find(Path::new("file")).expect("there");
            unmount(&source);
        }
        assert_eq!(read_when_mounted(&door, &source), bytes(20_000));
        end(&door, &Model::of(&source));
    }
}
