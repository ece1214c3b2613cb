//! The beginning and the end of a migration: sources that are away or join later, an end that is cut off.

mod door;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use door::{Door, Model, Op, draw_source, no_trace, settings};
use ishigaki_base::random::Seed;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::destination::{Destination, Make};
use ishigaki_migrate::engine::{Crawl, Engine, Error, Origin, Passes};
use ishigaki_migrate::source::deferred::Deferred;
use ishigaki_migrate::source::simulated::Simulated as Source;
use ishigaki_migrate::source::{self, Cancel, ErrorKind, FileType};

/// A test that takes longer hangs, however busy the machine is.
const LONGEST: Duration = Duration::from_mins(5);

fn until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONGEST, "it does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn opened(destination: &Simulated, sources: &[(&Source, &str)]) -> Result<Door, Error> {
    let origins = sources.iter().map(|(source, at)| Origin { source: Arc::new((*source).clone()), at: at.into() });
    let cancel = Cancel::new();
    let engine = Engine::open(destination.clone(), origins.collect(), settings(), &cancel)?;
    Ok(Door { engine, destination: destination.clone(), cancel })
}

fn small(names: &[&str]) -> Source {
    let source = Source::new();
    for name in names {
        let path = Path::new(name);
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            if source.objects().iter().all(|(known, _)| known != above) {
                source.add(above, FileType::Directory, Vec::new());
            }
        }
        source.add(path, FileType::Regular, name.as_bytes().to_vec());
    }
    source
}

#[test]
fn a_source_that_is_away_at_the_start_is_waited_for_and_what_is_here_is_served() {
    let source = small(&["here", "late", "deep/file"]);
    let destination = Simulated::new();
    let door = Door::open(&destination, &source).expect("begins");
    door.read(Path::new("here")).expect("reads");
    door.engine.settle().expect("settles");
    drop(door);

    let (is_back, behind) = (Arc::new(AtomicBool::new(false)), source.clone());
    let back = is_back.clone();
    let away = Deferred::new("old", move |_| {
        if back.load(Ordering::Acquire) {
            return Ok(Arc::new(behind.clone()) as Arc<dyn source::Source>);
        }
        Err(source::Error::new(ErrorKind::Invalid, "no such export"))
    });
    let origin = Origin { source: Arc::new(away), at: PathBuf::new() };
    let cancel = Cancel::new();
    let engine = Engine::open(destination.clone(), vec![origin], settings(), &cancel).expect("needs no source");
    let door = Door { engine, destination, cancel };
    assert_eq!(door.read(Path::new("here")).expect("is here"), b"here");
    assert!(door.engine.absences().is_empty(), "nothing was asked for");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| door.read(Path::new("late")).expect("waits"));
        let crawler = scope.spawn(|| door.engine.crawl(&Crawl::default(), &door.cancel).expect("waits"));
        until(|| door.engine.progress().waiting >= 2);
        let absences = door.engine.absences();
        assert_eq!(absences.len(), 1);
        assert_eq!((absences[0].source, absences[0].message.as_str()), (0, "no such export"));
        // An impatient caller ends, and others go on waiting.
        let impatient = Cancel::new();
        let other = Door { engine: door.engine.clone(), destination: door.destination.clone(), cancel: impatient };
        other.cancel.cancel();
        other.read(Path::new("late")).expect_err("is cancelled");
        assert_eq!(door.read(Path::new("here")).expect("is here"), b"here");
        assert!(!reader.is_finished() && !crawler.is_finished());
        is_back.store(true, Ordering::Release);
        assert_eq!(reader.join().expect("ends"), b"late");
        crawler.join().expect("ends");
    });
    assert!(door.engine.absences().is_empty());
    door.check(&Model::of(&source), true).expect("looks");
    door.engine.finish().expect("nothing is missing");
    no_trace(&door.destination);
}

#[test]
fn an_end_that_fails_at_any_step_is_repeated_by_the_same_process() {
    let source = draw_source(&mut Seed(11).generator(), 20, false);
    let ended = |stop: u64| {
        let destination = Simulated::new();
        let door = Door::open(&destination, &source).expect("begins");
        let how = Crawl { threads: 1, ..Crawl::default() };
        door.engine.crawl(&how, &door.cancel).expect("ends");
        let began = destination.changes();
        destination.stop_at(began.saturating_add(stop));
        let first = door.engine.finish();
        destination.go_on();
        if first.is_err() {
            // As the service does: the crawler looks once more.
            door.engine.look_again();
            door.engine.crawl(&how, &door.cancel).expect("ends");
            door.engine.finish().unwrap_or_else(|error| panic!("stopped at {stop}: {error}"));
        }
        no_trace(&destination);
        door.check(&Model::of(&source), true).expect("looks");
        first.is_err()
    };
    let steps = (0..1000).take_while(|stop| ended(*stop)).count();
    assert!(steps > 6, "{steps}");
}

#[test]
fn an_end_that_is_cut_off_at_any_step_is_ended_by_the_next_start() {
    let source = draw_source(&mut Seed(12).generator(), 20, false);
    let ended = |stop: u64| {
        let destination = Simulated::perishable(Seed(stop));
        let door = Door::open(&destination, &source).expect("begins");
        let how = Crawl { threads: 1, ..Crawl::default() };
        door.engine.crawl(&how, &door.cancel).expect("ends");
        destination.stop_at(destination.changes().saturating_add(stop));
        let first = door.engine.finish();
        drop(door);
        destination.cut_power();
        // The old server is switched off by now.
        let gone = Deferred::new("old", |_| Err(source::Error::new(ErrorKind::Unavailable, "it is switched off")));
        let origin = Origin { source: Arc::new(gone), at: PathBuf::new() };
        match Engine::open(destination.clone(), vec![origin], settings(), &Cancel::new()) {
            Ok(engine) => {
                engine.crawl(&how, &Cancel::new()).expect("needs no source");
                engine.finish().expect("ends");
            }
            Err(Error::Ended | Error::NotEmpty(_)) => {}
            Err(error) => panic!("stopped at {stop}: {error}"),
        }
        no_trace(&destination);
        let again = Door::open(&destination, &source).map(drop);
        assert!(matches!(again, Err(Error::NotEmpty(_))), "stopped at {stop}: {again:?}");
        first.is_err()
    };
    let steps = (0..1000).take_while(|stop| ended(*stop)).count();
    assert!(steps > 6, "{steps}");
}

#[test]
fn a_source_joins_a_migration_that_has_begun() {
    let (first, second) = (small(&["a", "deep/b"]), small(&["c", "wide/d"]));
    let destination = Simulated::new();
    let door = opened(&destination, &[(&first, "")]).expect("begins");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    door.perform(&Op::Create("made".into(), FileType::Regular)).expect("creates");
    drop(door);

    let door = opened(&destination, &[(&first, ""), (&second, "other/place")]).expect("joins");
    assert_eq!(door.read(Path::new("other/place/wide/d")).expect("reads"), b"wide/d");
    assert_eq!(door.read(Path::new("deep/b")).expect("reads"), b"deep/b");
    door.engine.settle().expect("settles");
    drop(door);
    // From now on it belongs to the migration.
    let fewer = opened(&destination, &[(&first, "")]).map(drop);
    assert!(matches!(fewer, Err(Error::FewerSources { begun: 2, given: 1 })), "{fewer:?}");
    let door = opened(&destination, &[(&first, ""), (&second, "other/place")]).expect("goes on");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    assert_eq!(door.read(Path::new("other/place/c")).expect("reads"), b"c");
    assert_eq!(door.read(Path::new("made")).expect("a client's stays"), b"");
    assert_eq!(door.engine.problems(), []);
    door.engine.finish().expect("nothing is missing");
    no_trace(&destination);
}

#[test]
fn a_source_that_would_hide_what_is_there_can_not_join() {
    let (first, second) = (small(&["taken/a"]), small(&["b"]));
    let destination = Simulated::new();
    let door = opened(&destination, &[(&first, "")]).expect("begins");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    door.perform(&Op::Create("file".into(), FileType::Regular)).expect("creates");
    drop(door);
    for at in ["taken", "file", "file/below", ""] {
        let refused = opened(&destination, &[(&first, ""), (&second, at)]).map(drop);
        assert!(
            matches!(&refused, Err(error @ Error::Taken { number: 1, .. }) if error.to_string().contains("`into`")),
            "{at}: {refused:?}"
        );
    }
    // It is not begun by that.
    let door = opened(&destination, &[(&first, "")]).expect("goes on");
    assert_eq!(door.read(Path::new("taken/a")).expect("reads"), b"taken/a");
    destination.make(&destination.root(), "empty".as_ref(), Make::Directory).expect("makes");
    drop(door);
    opened(&destination, &[(&first, ""), (&second, "empty")]).expect("nothing is lost in an empty directory");
}

#[test]
fn a_join_that_is_cut_off_at_any_step_is_made_by_the_next_start() {
    let (first, second) = (small(&["a", "deep/b"]), small(&["c", "wide/d"]));
    let sources = [(&first, ""), (&second, "other/place")];
    let joined = |stop: u64| {
        let destination = Simulated::perishable(Seed(stop));
        let door = opened(&destination, &sources[..1]).expect("begins");
        door.engine.crawl(&Crawl { passes: Passes::Bulk, threads: 1, ..Crawl::default() }, &door.cancel).expect("ends");
        drop(door);
        destination.stop_at(destination.changes() + stop);
        let joined = opened(&destination, &sources).is_ok();
        destination.cut_power();
        let door = opened(&destination, &sources).unwrap_or_else(|error| panic!("stopped at {stop}: {error}"));
        door.engine.crawl(&Crawl { threads: 1, ..Crawl::default() }, &door.cancel).expect("ends");
        assert_eq!(door.read(Path::new("other/place/wide/d")).expect("reads"), b"wide/d");
        door.engine.finish().expect("nothing is missing");
        no_trace(&destination);
        !joined
    };
    let steps = (0..1000).take_while(|stop| joined(*stop)).count();
    assert!(steps > 8, "{steps}");
}

#[test]
fn what_was_left_out_is_known_after_a_restart_until_a_person_accepts_it() {
    let source = small(&["good", "deep/good"]);
    for name in ["bad", "deep/worse"] {
        // The link's target is refused: nothing stands for it here.
        source.add(Path::new(name), FileType::Symlink, Vec::new());
        source.change(Path::new(name), |object| object.fails = Some(ErrorKind::Denied));
    }
    let destination = Simulated::perishable(Seed(1));
    let mut door = Door::open(&destination, &source).expect("begins");
    for _ in 0..3 {
        door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on");
        let problems: Vec<_> = door.engine.problems().into_iter().map(|it| (it.path, it.left_out)).collect();
        assert_eq!(problems, [("bad".into(), true), ("deep/worse".into(), true)]);
        assert!(matches!(door.engine.finish(), Err(Error::LeftOut { .. })));
        drop(door);
        destination.cut_power();
        door = Door::open(&destination, &source).expect("goes on");
        assert_eq!(door.engine.progress().problems, 2, "before anything is looked at");
        assert!(matches!(door.engine.finish(), Err(Error::LeftOut { .. })));
    }
    assert!(door.engine.accept(0, Path::new("bad")) && !door.engine.accept(0, Path::new("good")));
    assert!(matches!(door.engine.finish(), Err(Error::LeftOut { path, .. }) if path == Path::new("deep/worse")));
    drop(door);
    let door = Door::open(&destination, &source).expect("goes on");
    assert!(door.engine.accept(0, Path::new("deep/worse")));
    door.engine.finish().expect("all is accepted");
    no_trace(&destination);
}

#[test]
fn a_refused_file_that_a_client_removes_is_no_problem_any_more() {
    let source = small(&["good", "bad"]);
    source.change(Path::new("bad"), |object| object.fails = Some(ErrorKind::Denied));
    let destination = Simulated::new();
    let door = Door::open(&destination, &source).expect("begins");
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("goes on");
    assert_eq!(door.engine.progress().problems, 1);
    assert!(!door.engine.accept(0, Path::new("bad")), "it is a stub, which the end would not leave out");
    drop(door);
    let door = Door::open(&destination, &source).expect("goes on");
    assert_eq!(door.engine.progress().problems, 1);
    door.perform(&Op::Unlink("bad".into())).expect("removes");
    door.engine.look_again();
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    assert_eq!(door.engine.problems(), []);
    door.engine.finish().expect("nothing is missing");
}

#[test]
fn the_log_stays_short_while_much_is_copied() {
    let source = Source::new();
    for number in 0..400 {
        source.add(Path::new(&format!("directory-{number}")), FileType::Directory, Vec::new());
        source.add(Path::new(&format!("directory-{number}/file")), FileType::Regular, vec![1]);
    }
    let destination = Simulated::new();
    let door = Door::open(&destination, &source).expect("begins");
    let hidden = destination.lookup(&destination.root(), ".ishigaki-migrate".as_ref()).expect("looks").expect("there");
    let length = || {
        let log = destination.lookup(&hidden, "log".as_ref()).expect("looks").expect("there");
        destination.status(&log).expect("a status").size
    };
    door.engine.crawl(&Crawl { passes: Passes::Bulk, ..Crawl::default() }, &door.cancel).expect("ends");
    for number in 0..200 {
        door.perform(&Op::Create(format!("directory-{number}/made").into(), FileType::Regular)).expect("creates");
        door.engine.look_again();
        door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    }
    assert!(length() < 2_000, "{}", length());
    let progress = door.engine.progress();
    drop(door);
    let door = Door::open(&destination, &source).expect("goes on");
    let again = door.engine.progress();
    assert_eq!((again.directories, again.listed, again.files), (progress.directories, progress.listed, progress.files));
    door.engine.crawl(&Crawl::default(), &door.cancel).expect("ends");
    door.engine.finish().expect("nothing is missing");
    no_trace(&destination);
}

#[test]
fn a_crawler_that_waits_for_its_bandwidth_holds_up_no_client() {
    let source = Source::new();
    source.add(Path::new("large"), FileType::Regular, vec![1; 300 << 10]);
    let door = Door::open(&Simulated::new(), &source).expect("begins");
    let crawling = Cancel::new();
    let how = Crawl { bandwidth: Some(1), threads: 1, ..Crawl::default() };
    std::thread::scope(|scope| {
        let crawler = scope.spawn(|| door.engine.crawl(&how, &crawling));
        let client = scope.spawn(|| {
            let file = door.find(Path::new("large")).expect("lists");
            let stub = door.engine.file(&file).expect("opens").expect("a stub");
            // The crawler begins to wait for its first piece meanwhile.
            for _ in 0..500 {
                stub.status().expect("looks");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(door.read(Path::new("large")).expect("reads").len(), 300 << 10);
        });
        let began = Instant::now();
        while !client.is_finished() && began.elapsed() < Duration::from_mins(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let came = client.is_finished();
        crawling.cancel();
        client.join().expect("ends");
        assert!(came, "the client waited for the crawler");
        assert!(matches!(crawler.join().expect("ends"), Err(Error::Cancelled)));
    });
}
