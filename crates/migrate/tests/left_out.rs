//! What could not be made when its directory was listed is made later.

mod door;

use std::path::Path;

use door::{Door, Model, Op, bytes, no_trace};
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Problem};
use ishigaki_migrate::source::simulated::Simulated as Source;
use ishigaki_migrate::source::{ErrorKind, FileType};
use ishigaki_testkit::seeded;

/// Of which the source refuses the attributes at first: their numbers are such that it lists them without.
const REFUSED: [(&str, FileType); 3] =
    [("d/file", FileType::Regular), ("d/below", FileType::Directory), ("link", FileType::Symlink)];

fn tree() -> Source {
    let source = Source::new();
    let mut number = 1;
    let mut fill = |name: &str, until: u32| {
        while number + 1 < until {
            source.add(Path::new(&format!("{name}{number}")), FileType::Regular, bytes(100));
            number += 1;
        }
        number += 1;
    };
    fill("a", 4);
    source.add(Path::new("d"), FileType::Directory, Vec::new());
    for (at, (path, file_type)) in REFUSED.into_iter().enumerate() {
        fill("b", 5 * (at as u32 + 1));
        let data = if file_type == FileType::Regular { bytes(20_000) } else { Vec::new() };
        source.add(Path::new(path), file_type, data);
        source.change(Path::new(path), |object| object.fails = Some(ErrorKind::Broken));
    }
    source.change(Path::new("link"), |object| object.extras.target = Some("a1".into()));
    source.add(Path::new("d/below/file"), FileType::Regular, bytes(5_000));
    source
}

fn mend(source: &Source) {
    for (path, _) in REFUSED {
        source.change(Path::new(path), |object| object.fails = None);
    }
}

fn left_out(door: &Door) -> Vec<String> {
    let problems = door.engine.problems();
    assert!(problems.iter().all(|Problem { left_out, .. }| *left_out), "{problems:?}");
    problems.into_iter().map(|problem| problem.path.display().to_string()).collect()
}

fn end(door: &Door, model: &Model, destination: &Simulated) {
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    assert_eq!(left_out(door), [] as [&str; 0]);
    door.engine.finish().expect("nothing is missing");
    no_trace(destination);
    door.check(model, true).expect("looks");
}

#[test]
fn what_a_source_gives_later_is_brought_then() {
    let (source, destination) = (tree(), Simulated::new());
    let door = Door::open(&destination, &source).expect("begins");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
    assert_eq!(left_out(&door), ["d/below", "d/file", "link"]);
    assert_eq!(door.engine.bring_left_out(&door.cancel).expect("tries"), []);
    assert_eq!(left_out(&door), ["d/below", "d/file", "link"]);
    mend(&source);
    let appeared = door.engine.bring_left_out(&door.cancel).expect("brings");
    let names: Vec<_> = appeared.iter().map(|(_, name)| name.to_str().expect("a text")).collect();
    assert_eq!(names, ["below", "file", "link"]);
    assert_eq!(door.engine.bring_left_out(&door.cancel).expect("nothing is left"), []);
    end(&door, &Model::of(&source), &destination);
}

#[test]
fn what_has_gone_since_it_was_listed_is_told() {
    let (source, destination) = (tree(), Simulated::new());
    source.change(Path::new("d/file"), |object| object.fails = Some(ErrorKind::Gone));
    let door = Door::open(&destination, &source).expect("begins");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
    assert_eq!(left_out(&door), ["d/below", "d/file", "link"]);
    mend(&source);
    door.engine.bring_left_out(&door.cancel).expect("brings");
    end(&door, &Model::of(&source), &destination);
}

#[test]
fn what_clients_have_made_meanwhile_stays() {
    let (source, destination) = (tree(), Simulated::new());
    let door = Door::open(&destination, &source).expect("begins");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
    door.perform(&Op::Create("link".into(), FileType::Directory)).expect("makes");
    door.perform(&Op::Rename("d".into(), "e".into())).expect("moves");
    mend(&source);
    assert_eq!(door.engine.bring_left_out(&door.cancel).expect("tries"), []);
    assert_eq!(left_out(&door), ["d/below", "d/file", "link"]);
    door.perform(&Op::Rename("e".into(), "d".into())).expect("moves");
    assert_eq!(door.engine.bring_left_out(&door.cancel).expect("brings").len(), 2);
    assert_eq!(left_out(&door), ["link"]);
}

/// Cut at each change: nothing passes for whole that is not, and what was brought is whole.
#[test]
fn power_cuts_leave_the_whole_stub_or_none() {
    seeded("power_cuts_leave_the_whole_stub_or_none", |seed| {
        for (change, ordered) in (0..60).flat_map(|change| [(change, true), (change, false)]) {
            let seed = seed.derive(change);
            let destination = Simulated::perishable(seed);
            let destination = if ordered { destination } else { destination.unordered() };
            let source = tree();
            let door = Door::open(&destination, &source).expect("begins");
            door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
            mend(&source);
            destination.stop_at(destination.changes() + change);
            let _ = door.engine.bring_left_out(&door.cancel).and_then(|_| door.engine.settle());
            drop(door);
            if seed.generator().bool() {
                destination.go_on();
            } else {
                destination.cut_power();
            }
            let door = Door::open(&destination, &source).expect("goes on");
            for _ in 0..2 {
                door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on with others");
                door.engine.bring_left_out(&door.cancel).expect("brings");
            }
            let told = left_out(&door);
            // A name whose Mended event was lost stands for itself: a person sees that it is there.
            for path in told {
                assert!(door.find(Path::new(&path)).is_ok(), "{path}");
                assert!(door.engine.accept(0, Path::new(&path)));
            }
            let mut model = Model::of(&source);
            // A cut may come before the directory has its times again.
            let directory = model.names[Path::new("d")];
            model.objects.get_mut(&directory).expect("known").untouched = None;
            end(&door, &model, &destination);
        }
    });
}
