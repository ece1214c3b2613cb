//! What a process leaves that is killed, and what the next one makes of it.

mod door;

use std::path::Path;

use door::{Door, Model, Op, no_trace};
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Passes};
use ishigaki_migrate::source::FileType;
use ishigaki_migrate::source::simulated::Simulated as Source;

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
