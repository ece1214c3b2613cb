//! A migration from its check to its end, as a person runs it.

mod copies;
mod devices;
mod disk;
mod folder;
mod full;
mod hung;
mod moved;
mod process;
mod seed;
mod stage;
mod takeover;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ishigaki_base::ErrorKind;
use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::check::{Check, Opened};
use ishigaki_migrate_service::config::{Minute, SourceConfig, Windows};
use ishigaki_migrate_service::control::{Keep, Reply, Request, ask};
use ishigaki_migrate_service::status::Phase;
use ishigaki_migrate_service::verify::{Kind, Progress, verify};
use ishigaki_migrate_service::{Error, Serving};
use rustix::fs::{FlockOperation, flock, listxattr};
use stage::Stage;

const HIDDEN: &str = ".ishigaki-migrate";

/// No object has an attribute of the migration, and no directory of it is there.
fn nothing_is_left(below: &Path) {
    assert!(!below.join(HIDDEN).exists());
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_symlink() {
            continue;
        }
        let mut names = Vec::with_capacity(4096);
        listxattr(&path, rustix::buffer::spare_capacity(&mut names)).unwrap();
        assert!(!String::from_utf8_lossy(&names).contains("trusted"), "{}", path.display());
        if metadata.is_dir() {
            nothing_is_left(&path);
        }
    }
}

#[test]
fn a_migration_is_checked_served_verified_and_finished() {
    let Some(stage) = Stage::new("a_migration_is_checked_served_verified_and_finished") else { return };
    let serving = stage.start();
    assert!(!stage.at.join(HIDDEN).exists());
    let socket = fs::metadata(stage.new.join(HIDDEN).join("control")).unwrap();
    assert_eq!((socket.permissions().mode() & 0o7777, socket.uid()), (0o600, 0));

    // A client reads while the crawler is at work.
    for number in 0..30 {
        let name = format!("a/b/file-{number}");
        assert!(fs::read(stage.at.join(&name)).unwrap() == fs::read(stage.old.join(&name)).unwrap(), "{name}");
    }
    let status = stage.until_done();
    assert_eq!((status.directories, status.listed, status.problems), (5, 5, 0));
    assert_eq!((status.files, status.whole, status.bytes), (32, 32, status.here));
    assert!(status.is_mounted && status.trouble.is_none(), "{status:?}");
    let report = verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap();
    assert!(report.is_equal(), "{:?}", report.differences);

    // What a client has changed is the only difference.
    fs::write(stage.at.join("a/small"), b"changed").unwrap();
    fs::write(stage.at.join("empty/made"), b"made").unwrap();
    let report = verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap();
    let found: Vec<_> = report.differences.iter().map(|it| (it.path.as_str(), it.kind)).collect();
    let expected = [
        ("a/b/c/linked", Kind::Size),
        ("a/b/c/linked", Kind::Modified),
        ("a/small", Kind::Size),
        ("a/small", Kind::Modified),
        ("empty", Kind::Modified),
        ("empty/made", Kind::OnlyHere),
    ];
    assert_eq!(found, expected);

    stage.order(&Request::Finish {});
    nothing_is_left(&stage.new);
    assert!(serving.is_finished() && serving.status().phase == Phase::Finished);
    let gone = ask(&stage.new, &Request::Status {}).unwrap_err();
    assert!(matches!(gone, Error::NoMigration(_)), "{gone}");
    // The folder goes on until the service ends.
    assert_eq!(fs::read(stage.at.join("a/b/c/linked")).unwrap(), b"changed");
    fs::write(stage.at.join("late"), b"late").unwrap();
    serving.stop().unwrap();
    assert!(fs::read_dir(&stage.at).unwrap().next().is_none());
    nothing_is_left(&stage.new);
    assert_eq!(fs::read(stage.new.join("late")).unwrap(), b"late");
}

#[test]
fn a_pause_holds_the_crawler_and_not_the_clients_and_a_restart_goes_on() {
    let Some(mut stage) = Stage::new("a_pause_holds_the_crawler_and_not_the_clients_and_a_restart_goes_on") else {
        return;
    };
    stage.config.paused = true;
    let serving = stage.start();
    assert_eq!(stage.status().phase, Phase::Paused);
    let wanted = fs::read(stage.old.join("a/b/file-29")).unwrap();
    assert!(fs::read(stage.at.join("a/b/file-29")).unwrap() == wanted);
    let refused = stage.refused(&Request::Finish {});
    assert!(refused.contains("can not be finished") && refused.contains("the crawler has not ended"), "{refused}");

    // No other process may serve it, and none may go on from elsewhere.
    let second = Serving::start(&stage.config, &Cancel::new()).err().unwrap();
    assert!(matches!(second, Error::InUse(_)) && second.kind() == ErrorKind::Unavailable, "{second}");
    let check = Check::run(&stage.config, &Cancel::new()).unwrap();
    assert!(!check.is_fit() && check.findings[0].message.contains("another service"), "{check:?}");
    serving.stop().unwrap();
    // A program that was just starting when a service ended has what that one had, for a moment.
    let lock = File::open(&stage.new).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(lock);
    });
    stage.start().stop().unwrap();
    ending.join().unwrap();
    assert!(matches!(ask(&stage.new, &Request::Status {}), Err(Error::NotServed(_))));
    let mut other = stage.config.clone();
    let from = stage.held.path().to_str().unwrap().to_owned() + "/other";
    fs::create_dir(&from).unwrap();
    other.sources[0] = SourceConfig { from: from.parse().unwrap(), into: "".into() };
    let error = Serving::start(&other, &Cancel::new()).err().unwrap();
    assert!(matches!(&error, Error::OtherSources { .. }) && error.to_string().contains(&from), "{error}");

    let check = Check::run(&other, &Cancel::new()).unwrap();
    assert!(!check.is_fit() && check.findings[0].message.contains(&from), "{check:?}");

    // The check knows that it goes on.
    let check = Check::run(&stage.config, &Cancel::new()).unwrap();
    assert!(check.is_fit() && check.findings.iter().any(|it| it.message.contains("goes on")), "{check:?}");
    let serving = stage.start();
    stage.order(&Request::Throttle { bandwidth: Some(1 << 40), parallel: Some(2) });
    stage.order(&Request::Resume {});
    let status = stage.until_done();
    assert_eq!((status.bandwidth, status.parallel), (Some(1 << 40), 2));
    stage.order(&Request::Throttle { bandwidth: Some(0), parallel: None });
    assert_eq!((stage.status().bandwidth, stage.status().parallel), (None, 2));
    let refused = stage.refused(&Request::Throttle { bandwidth: None, parallel: Some(0) });
    assert!(refused.contains("`parallel`"), "{refused}");
    assert!(verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap().is_equal());
    serving.finish().unwrap();
    drop(serving);
    nothing_is_left(&stage.new);
}

#[test]
fn the_crawler_stops_at_a_pause_and_goes_on() {
    let Some(mut stage) = Stage::new("the_crawler_stops_at_a_pause_and_goes_on") else { return };
    // So slow that it is told to pause before it ends, and so fast that a crawler that passes the pause over ends by itself.
    fs::remove_file(stage.old.join("sparse")).unwrap();
    stage.config.bandwidth = Some(100_000);
    let _serving = stage.start();
    stage.order(&Request::Pause {});
    let status = stage.status();
    assert_eq!(status.phase, Phase::Paused);
    assert!(status.here < status.bytes || status.listed < status.directories, "{status:?}");
    stage.order(&Request::Throttle { bandwidth: Some(0), parallel: None });
    assert_eq!(stage.status().phase, Phase::Paused);
    stage.order(&Request::Resume {});
    stage.until_done();
}

#[test]
fn a_file_that_changed_at_the_source_is_decided_on() {
    let Some(mut stage) = Stage::new("a_file_that_changed_at_the_source_is_decided_on") else { return };
    stage.config.paused = true;
    let serving = stage.start();
    for name in ["a/b/file-10", "a/b/file-11", "a/b/file-13"] {
        fs::metadata(stage.at.join(name)).unwrap();
        fs::write(stage.old.join(name), b"other bytes").unwrap();
    }
    fs::remove_file(stage.old.join("a/b/file-13")).unwrap();
    stage.order(&Request::Resume {});
    let status = stage.until(|status| status.phase == Phase::Done);
    assert_eq!((status.problems, status.conflicts), (3, 3), "{status:?}");
    let Reply::Conflicts(conflicts) = ask(&stage.new, &Request::Conflicts {}).unwrap() else { panic!() };
    let paths: Vec<_> = conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
    assert_eq!(paths, ["a/b/file-10", "a/b/file-11", "a/b/file-13"]);
    // The path stands beside the message.
    assert!(conflicts.iter().all(|conflict| !conflict.message.contains(&conflict.path)), "{conflicts:?}");
    let refused = stage.refused(&Request::Finish {});
    assert!(refused.contains("3 objects could not be copied: a/b/file-10: it changed"), "{refused}");
    let report = verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap();
    let missing = report.differences.iter().filter(|it| it.kind == Kind::NotYetHere);
    assert_eq!(missing.map(|it| it.path.as_str()).collect::<Vec<_>>(), ["a/b/file-10", "a/b/file-11"]);
    let gone = Request::Resolve { path: "a/b/file-13".to_owned(), keep: Keep::Source };
    let error = ask(&stage.new, &gone).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("--keep here"), "{error}");
    stage.order(&Request::Resolve { path: "a/b/file-13".to_owned(), keep: Keep::Here });

    for path in ["a/b/file-12", "nothing", "a/b", "../old/a", "a/small/x", ""] {
        let refused = stage.refused(&Request::Resolve { path: path.to_owned(), keep: Keep::Source });
        assert!(refused.contains("is not in conflict"), "{refused}");
    }
    stage.order(&Request::Resolve { path: "a/b/file-10".to_owned(), keep: Keep::Source });
    assert_eq!(fs::read(stage.at.join("a/b/file-10")).unwrap(), b"other bytes");
    stage.order(&Request::Resolve { path: "a/b/file-11".to_owned(), keep: Keep::Here });
    assert_eq!(fs::read(stage.at.join("a/b/file-11")).unwrap(), vec![0; 11 * 20_011]);
    stage.until(|status| status.phase == Phase::Done && status.problems == 0);
    stage.order(&Request::Finish {});
    nothing_is_left(&stage.new);
    serving.stop().unwrap();
    assert_eq!(fs::read(stage.new.join("a/b/file-10")).unwrap(), b"other bytes");
}

#[test]
fn several_sources_go_each_into_its_directory() {
    let Some(mut stage) = Stage::new("several_sources_go_each_into_its_directory") else { return };
    let other = stage.held.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), b"of the other").unwrap();
    stage.config.sources[0].into = "deep/first".into();
    let second = SourceConfig { from: other.to_str().unwrap().parse().unwrap(), into: "second".into() };
    stage.config.sources.push(second);
    let serving = stage.start();
    assert_eq!(fs::read(stage.at.join("second/file")).unwrap(), b"of the other");
    assert_eq!(fs::read(stage.at.join("deep/first/a/small")).unwrap(), b"small");
    let status = stage.until_done();
    assert_eq!(status.sources.len(), 2);
    let report = verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap();
    assert!(report.is_equal(), "{:?}", report.differences);
    serving.finish().unwrap();
    drop(serving);
    nothing_is_left(&stage.new);
}

#[test]
fn a_source_that_is_away_at_a_start_is_named_and_waited_for() {
    let Some(mut stage) = Stage::new("a_source_that_is_away_at_a_start_is_named_and_waited_for") else { return };
    stage.config.paused = true;
    let serving = stage.start();
    let wanted = fs::read(stage.old.join("a/b/file-29")).unwrap();
    assert!(fs::read(stage.at.join("a/b/file-29")).unwrap() == wanted);
    serving.stop().unwrap();

    let away = stage.held.path().join("away");
    fs::rename(&stage.old, &away).unwrap();
    let check = Check::run(&stage.config, &Cancel::new()).unwrap();
    assert!(check.is_fit() && check.findings[0].message.contains("the rest waits"), "{check:?}");
    stage.config.paused = false;
    let serving = stage.start();
    assert!(fs::read(stage.at.join("a/b/file-29")).unwrap() == wanted, "what is here is served");
    let status = stage.until(|status| status.trouble.is_some());
    let trouble = status.trouble.unwrap();
    assert!(trouble.contains(stage.old.to_str().unwrap()) && trouble.contains("does not answer"), "{trouble}");
    let reader = {
        let file = stage.at.join("a/b/file-3");
        std::thread::spawn(move || fs::read(file).unwrap())
    };
    stage.until(|status| status.waiting >= 2);
    assert!(!reader.is_finished());
    fs::rename(&away, &stage.old).unwrap();
    assert!(reader.join().unwrap() == fs::read(stage.old.join("a/b/file-3")).unwrap());
    let status = stage.until_done();
    assert_eq!((status.trouble, status.waiting, status.problems), (None, 0, 0));

    // It is away for good when nothing needs it any more.
    serving.stop().unwrap();
    fs::rename(&stage.old, &away).unwrap();
    let serving = stage.start();
    stage.until_done();
    stage.order(&Request::Finish {});
    serving.stop().unwrap();
    nothing_is_left(&stage.new);
}

#[test]
fn a_start_does_not_ask_a_source_with_which_the_migration_goes_on() {
    let Some(mut stage) = Stage::new("a_start_does_not_ask_a_source_with_which_the_migration_goes_on") else { return };
    stage.config.paused = true;
    let serving = stage.start();
    let wanted = fs::read(stage.old.join("a/b/file-29")).unwrap();
    assert!(fs::read(stage.at.join("a/b/file-29")).unwrap() == wanted);
    serving.stop().unwrap();
    // It was a server of the network, which takes calls now and answers none.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = mute.local_addr().unwrap().port();
    let old: SourceConfig = SourceConfig {
        from: format!("nfs://127.0.0.1:{port}/old?mountport={port}&timeout=60").parse().unwrap(),
        into: Path::new("").into(),
    };
    let begun = format!("{{\"from\":\"{}\",\"into\":\"\"}}\n", old.from);
    fs::write(stage.new.join(HIDDEN).join("sources"), begun).unwrap();
    stage.config.sources = vec![old];
    let start = std::time::Instant::now();
    let (check, opened) = Check::open(&stage.config, &Cancel::new()).unwrap();
    assert!(check.is_fit(), "{check:?}");
    let serving = Serving::start_with(&stage.config, opened, &Cancel::new()).unwrap();
    assert!(fs::read(stage.at.join("a/b/file-29")).unwrap() == wanted, "what is here is served");
    serving.stop().unwrap();
    assert!(start.elapsed() < Duration::from_secs(30), "it was waited for: {:?}", start.elapsed());
}

#[test]
fn a_second_service_is_told_of_the_first_one_and_not_to_touch_its_folder() {
    let Some(stage) = Stage::new("a_second_service_is_told_of_the_first_one_and_not_to_touch_its_folder") else {
        return;
    };
    let _serving = stage.start();
    let check = Check::run(&stage.config, &Cancel::new()).unwrap();
    assert!(!check.is_fit());
    let of_folder = check.findings.iter().find(|finding| finding.about == "at");
    assert!(of_folder.is_none(), "{check:?}");
    assert!(check.findings.iter().any(|finding| finding.message.contains("another service migrates")), "{check:?}");
}

#[test]
fn a_source_that_is_added_to_the_configuration_joins() {
    let Some(mut stage) = Stage::new("a_source_that_is_added_to_the_configuration_joins") else { return };
    let serving = stage.start();
    stage.until_done();
    serving.stop().unwrap();
    let other = stage.held.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), b"of the other").unwrap();
    let second = SourceConfig { from: other.to_str().unwrap().parse().unwrap(), into: "a".into() };
    stage.config.sources.push(second);
    let refused = Serving::start(&stage.config, &Cancel::new()).err().unwrap();
    assert!(refused.to_string().contains("`a` is there already"), "{refused}");
    stage.config.sources[1].into = "second".into();
    let serving = stage.start();
    assert_eq!(fs::read(stage.at.join("second/file")).unwrap(), b"of the other");
    assert_eq!(stage.until_done().sources.len(), 2);
    serving.stop().unwrap();
    let alone = stage.config.sources.pop().unwrap();
    let refused = Serving::start(&stage.config, &Cancel::new()).err().unwrap();
    assert!(matches!(refused, Error::OtherSources { .. }), "{refused}");
    stage.config.sources.push(alone);
    let serving = stage.start();
    stage.until_done();
    serving.finish().unwrap();
    drop(serving);
    nothing_is_left(&stage.new);
}

#[test]
fn what_was_left_out_keeps_the_migration_from_ending_until_it_is_accepted() {
    let Some(stage) = Stage::new("what_was_left_out_keeps_the_migration_from_ending_until_it_is_accepted") else {
        return;
    };
    // The name of the migration's own directory can not be taken.
    fs::create_dir(stage.old.join(HIDDEN)).unwrap();
    let check = Check::run(&stage.config, &Cancel::new()).unwrap();
    assert!(check.findings.iter().any(|finding| finding.message.contains("keeps that name for itself")), "{check:?}");
    let serving = stage.start();
    assert_eq!(stage.until_done().problems, 1);
    serving.stop().unwrap();
    let serving = stage.start();
    let status = stage.until_done();
    assert_eq!((status.problems, status.first_problems[0].path.as_str()), (1, HIDDEN), "after a restart, too");
    let refused = stage.refused(&Request::Finish {});
    assert!(refused.contains("1 object could not be copied") && refused.contains(HIDDEN), "{refused}");
    stage.order(&Request::Resolve { path: HIDDEN.to_owned(), keep: Keep::Here });
    stage.until(|status| status.phase == Phase::Done && status.problems == 0);
    stage.order(&Request::Finish {});
    nothing_is_left(&stage.new);
    serving.stop().unwrap();
}

#[test]
fn the_crawler_keeps_its_hours_and_clients_do_not_wait_for_them() {
    let Some(mut stage) = Stage::new("the_crawler_keeps_its_hours_and_clients_do_not_wait_for_them") else { return };
    stage.config.windows = Windows::read(&["22:00-06:00"]).unwrap();
    let hour = Arc::new(Mutex::new("12:00"));
    let shown = hour.clone();
    let clock = Arc::new(move || shown.lock().unwrap().parse::<Minute>().unwrap());
    let serving = Serving::start_by(&stage.config, Opened::default(), &Cancel::new(), clock).unwrap();
    let wanted = fs::read(stage.old.join("a/b/file-29")).unwrap();
    assert!(fs::read(stage.at.join("a/b/file-29")).unwrap() == wanted);
    let status = stage.status();
    assert_eq!(status.phase, Phase::Waiting);
    assert!(status.trouble.as_ref().is_some_and(|why| why.contains("at 22:00")), "{status:?}");
    assert!(status.listed < status.directories, "{status:?}");
    // What a person asks for does not open a window, and does not change what the status says.
    stage.order(&Request::Resume {});
    assert_eq!(stage.status().phase, Phase::Waiting);
    *hour.lock().unwrap() = "22:00";
    assert!(stage.until_done().trouble.is_none());
    assert!(verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap().is_equal());
    serving.stop().unwrap();
}

#[test]
fn prometheus_and_the_status_are_told_the_same() {
    let Some(mut stage) = Stage::new("prometheus_and_the_status_are_told_the_same") else { return };
    stage.config.metrics = Some("127.0.0.1:0".to_owned());
    let serving = stage.start();
    let status = stage.until_done();
    let address = serving.metrics().unwrap();
    assert_eq!(status.metrics, Some(format!("http://{address}/metrics")));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let expected = [
        "migrate_files 32".to_owned(),
        "migrate_files_whole 32".to_owned(),
        format!("migrate_bytes_here {}", status.bytes),
        "migrate_directories 5".to_owned(),
        "migrate_done 1".to_owned(),
        "migrate_problems 0".to_owned(),
        format!("migrate_source_answers{{source=\"{}\"}} 1", stage.old.display()),
    ];
    for figure in expected {
        assert!(text.lines().any(|line| line == format!("ishigaki_{figure}")), "{figure}: {text}");
    }
    serving.stop().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn parts_of_the_tree_are_said_to_come_first() {
    let Some(mut stage) = Stage::new("parts_of_the_tree_are_said_to_come_first") else { return };
    stage.config.paused = true;
    stage.config.first = vec!["a/b/c".into()];
    let serving = stage.start();
    stage.order(&Request::First { path: "empty".to_owned() });
    let refused = stage.refused(&Request::First { path: "empty/nothing".to_owned() });
    assert!(refused.contains("is not at the source"), "{refused}");
    let refused = stage.refused(&Request::First { path: "../a".to_owned() });
    assert!(refused.contains("`first`"), "{refused}");
    stage.order(&Request::Resume {});
    stage.until_done();
    serving.finish().unwrap();
}
