//! A share that is migrated by the engine, and how fast one is read.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{Crawl, Engine, Origin, Settings};
use ishigaki_migrate::source::{Cancel, Location, Source};

use crate::samba::Samba;

#[test]
fn a_share_arrives_with_its_lists_and_links() {
    let Some(server) = Samba::start() else { return };
    let (from, to) = (server.tree.path(), server.copy.path());
    fs::create_dir_all(from.join("a/b")).expect("makes");
    for number in 0..100_usize {
        fs::write(from.join(format!("a/{number}")), vec![number as u8; number * 1000]).expect("writes");
    }
    fs::write(from.join("a/b/large"), vec![7; 5_000_000]).expect("writes");
    fs::hard_link(from.join("a/5"), from.join("a/b/linked")).expect("links");
    server.client("smbcacls", &[&server.share("share"), "a/5", "--add", "ACL:S-1-5-21-1-2-3-1001:ALLOWED/0x0/READ"]);
    server.client("smbcacls", &[&server.share("share"), "a/b", "-I", "copy"]);
    server.client("smbclient", &[&server.share("share"), "-c", "setmode a/7 +hs"]);

    let cancel = Cancel::new();
    let origin = Origin { source: Arc::new(server.source()), at: PathBuf::new() };
    let engine =
        Engine::open(Local::open(to).expect("opens"), vec![origin], Settings::default(), &cancel).expect("begins");
    engine.crawl(&Crawl::default(), &cancel).expect("crawls");
    assert_eq!(engine.problems(), []);
    engine.finish().expect("nothing is missing");
    drop(engine);

    let numbers = |name: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(to.join(name)).expect("is there"));
    assert_eq!(numbers("a/5"), numbers("a/b/linked"));
    for number in 0..100_usize {
        let name = format!("a/{number}");
        assert!(fs::read(to.join(&name)).expect("reads") == vec![number as u8; number * 1000], "{name}");
        let time =
            |place: &std::path::Path| fs::metadata(place.join(&name)).and_then(|it| it.modified()).expect("has one");
        let lost = time(from).duration_since(time(to)).expect("not later");
        assert!(lost.as_nanos() < 100, "{name}: {lost:?}");
    }
    for name in ["a/5", "a/7", "a/b", "a/b/large"] {
        let lists =
            ["share", "copy"].map(|share| server.client("smbcacls", &[&server.share(share), name, "--numeric"]));
        assert_eq!(lists[0], lists[1], "{name}");
    }
    let hidden = server.client("smbclient", &[&server.share("copy"), "-c", "allinfo a/7"]);
    assert!(hidden.contains("attributes: HS"), "{hidden}");
}

#[test]
fn a_name_that_can_not_be_asked_for_is_left_out_and_the_others_arrive() {
    let Some(server) = Samba::start() else { return };
    let (from, to) = (server.tree.path(), server.copy.path());
    for name in ["plain", "a:b", "back\\slash"] {
        fs::write(from.join(name), name).expect("writes");
    }
    let cancel = Cancel::new();
    let origin = Origin { source: Arc::new(server.source_of("unmangled")), at: PathBuf::new() };
    let engine =
        Engine::open(Local::open(to).expect("opens"), vec![origin], Settings::default(), &cancel).expect("begins");
    engine.crawl(&Crawl::default(), &cancel).expect("crawls");
    let problems = engine.problems();
    assert_eq!(problems.len(), 2, "{problems:?}");
    for problem in problems {
        assert!(problem.left_out && !problem.conflict && problem.message.contains("a colon"), "{problem:?}");
    }
    assert_eq!(fs::read(to.join("plain")).expect("is there"), b"plain");
    assert!(!to.join("a:b").exists() && !to.join("back\\slash").exists());
}

#[test]
#[ignore = "a measurement: run it by name, with --release"]
fn how_fast_a_share_is_read() {
    let Some(server) = Samba::start() else { return };
    let (files, large) = (10_000, 256 << 20);
    for number in 0..files {
        fs::write(server.tree.path().join(number.to_string()), [1; 4096]).expect("writes");
    }
    fs::write(server.tree.path().join("large"), vec![1; large]).expect("writes");
    let at = |path: &str| Location { path: path.into(), handle: Box::default() };
    let locations: Vec<_> = (0..files).map(|number| at(&number.to_string())).collect();
    let cancel = Cancel::new();
    for share in ["share", "sealed", "share?connections=1"] {
        let source = server.source_of(share);
        let began = Instant::now();
        source.list(&at(""), &cancel, &mut |_| Ok(())).expect("lists");
        println!("{share}: {files} entries listed in {:?}", began.elapsed());
        let mut buffers = vec![[0; 4096]; 1000];
        let began = Instant::now();
        for batch in locations.chunks(buffers.len()) {
            let mut asked: Vec<_> = batch.iter().zip(buffers.iter_mut().map(|buffer| &mut buffer[..])).collect();
            assert!(source.read_files(&mut asked, &cancel).iter().all(|read| *read == Ok(4096)));
        }
        println!("{share}: {:.0} files of 4 KiB a second", f64::from(files) / began.elapsed().as_secs_f64());
        for size in [1 << 20, 16 << 20] {
            let mut buffer = vec![0; size];
            let began = Instant::now();
            for offset in (0..large).step_by(size) {
                assert_eq!(source.read(&at("large"), offset as u64, &mut buffer, &cancel), Ok(size));
            }
            let rate = large as f64 / 1e6 / began.elapsed().as_secs_f64();
            println!("{share}: {rate:.0} MB/s in reads of {} MiB", size >> 20);
        }
    }
}
