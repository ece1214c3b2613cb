//! A service that takes the place of another one under working clients, and what comes of it when one of the two dies.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::control::Request;
use ishigaki_migrate_service::status::Phase;
use ishigaki_migrate_service::verify::{Progress, verify};
use ishigaki_migrate_service::{Error, Serving};
use rustix::fs::{FlockOperation, fcntl_lock, flock};

use crate::process::{Process, is_locked_to_others};
use crate::stage::Stage;

/// A test that takes longer hangs, however busy the machine is.
const LONGEST: Duration = Duration::from_mins(5);
/// No request waits longer, however busy the machine is: a hand-over that hangs takes two minutes.
const BOUND: Duration = Duration::from_mins(1);
const HAND_OVERS: usize = 3;

/// Four clients: rounds of each, and the longest one of their requests.
#[derive(Default)]
struct Clients {
    end: AtomicBool,
    rounds: [AtomicU64; 4],
    longest: AtomicU64,
}

impl Clients {
    fn timed<T>(&self, request: impl FnOnce() -> io::Result<T>) -> T {
        let began = Instant::now();
        let done = request().unwrap();
        self.longest.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        done
    }

    /// Does rounds until the end; how many.
    fn go_round(&self, number: usize, mut round: impl FnMut(u64)) -> u64 {
        let mut count = 0;
        while !self.end.load(Ordering::Relaxed) {
            round(count);
            count += 1;
            self.rounds[number].store(count, Ordering::Relaxed);
        }
        count
    }

    /// Waits until every client has gone on for a round.
    fn go_on(&self) {
        let now = || self.rounds.each_ref().map(|rounds| rounds.load(Ordering::Relaxed));
        let (before, began) = (now(), Instant::now());
        // The round that is under way may have begun before.
        while now().iter().zip(before).any(|(now, before)| *now < before + 2) {
            assert!(began.elapsed() < LONGEST, "clients stand still");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Ends the clients, also when the test fails.
struct Ending<'a>(&'a Clients);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end.store(true, Ordering::Relaxed);
    }
}

/// Reads files of the old server, whether they are here or not.
fn reads(stage: &Stage, clients: &Clients) {
    clients.go_round(0, |round| {
        let name = format!("a/b/file-{}", round % 30);
        let wanted = fs::read(stage.old.join(&name)).unwrap();
        assert!(clients.timed(|| fs::read(stage.at.join(&name))) == wanted, "{name}");
    });
}

/// Appends to a file that stays open, and writes one that has no name any more.
fn writes(stage: &Stage, clients: &Clients) -> u64 {
    let mut open = OpenOptions::new().append(true).create(true).open(stage.at.join("open")).unwrap();
    let path = stage.at.join("nameless");
    let mut nameless = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let number = nameless.metadata().unwrap().ino();
    let rounds = clients.go_round(1, |round| {
        let bytes = round.to_le_bytes();
        clients.timed(|| open.write_all(&bytes));
        clients.timed(|| nameless.seek(SeekFrom::Start(0)));
        clients.timed(|| nameless.write_all(&bytes));
        clients.timed(|| nameless.seek(SeekFrom::Start(0)));
        let mut found = [0; 8];
        clients.timed(|| nameless.read_exact(&mut found));
        assert_eq!(found, bytes);
    });
    // What the disk takes is no matter of a hand-over.
    open.sync_all().unwrap();
    let metadata = nameless.metadata().unwrap();
    assert_eq!((metadata.ino(), metadata.nlink()), (number, 0));
    rounds
}

/// Makes, renames and removes, in directories that come from the old server, too.
fn renames(stage: &Stage, clients: &Clients) {
    clients.go_round(2, |round| {
        let (made, moved) = (stage.at.join("empty/made"), stage.at.join("a/b/moved"));
        clients.timed(|| fs::write(&made, round.to_le_bytes()));
        clients.timed(|| fs::rename(&made, &moved));
        assert_eq!(clients.timed(|| fs::read(&moved)), round.to_le_bytes());
        clients.timed(|| fs::remove_file(&moved));
    });
}

/// Lists, asks for attributes, and locks.
fn looks(stage: &Stage, clients: &Clients) {
    let path = stage.at.join("looked-at");
    fs::write(&path, b"x").unwrap();
    clients.go_round(3, |_| {
        let names = clients.timed(|| fs::read_dir(stage.at.join("a/b"))).map(|entry| entry.unwrap().file_name());
        assert!(names.count() >= 31);
        let wanted = fs::metadata(stage.old.join("sparse")).unwrap();
        let found = clients.timed(|| fs::metadata(stage.at.join("sparse")));
        assert_eq!((found.len(), found.mtime()), (wanted.len(), wanted.mtime()));
        let file = clients.timed(|| File::open(&path));
        clients.timed(|| Ok(flock(&file, FlockOperation::NonBlockingLockExclusive)?));
    });
}

#[test]
fn services_follow_each_other_and_no_client_gets_an_error() {
    let Some(mut stage) = Stage::new("services_follow_each_other_and_no_client_gets_an_error") else { return };
    // The crawler is at work all the time.
    stage.config.bandwidth = Some(1 << 20);
    let mut serving = Process::start(&stage, false);
    stage.order(&Request::Throttle { bandwidth: None, parallel: Some(3) });
    stage.order(&Request::First { path: "a/b/c".to_owned() });
    // Held by this process, all the time. It must not open the second one again: to close it would end that kind of lock.
    let [locked, locked_too] = ["locked", "locked-too"].map(|name| stage.at.join(name));
    let [lock, lock_too] = [&locked, &locked_too].map(|path| {
        fs::write(path, b"locked").unwrap();
        OpenOptions::new().read(true).write(true).open(path).unwrap()
    });
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    fcntl_lock(&lock_too, FlockOperation::NonBlockingLockExclusive).unwrap();
    let clients = Clients::default();
    let rounds = std::thread::scope(|scope| {
        let ending = Ending(&clients);
        scope.spawn(|| reads(&stage, &clients));
        let writer = scope.spawn(|| writes(&stage, &clients));
        scope.spawn(|| renames(&stage, &clients));
        scope.spawn(|| looks(&stage, &clients));
        for _ in 0..HAND_OVERS {
            clients.go_on();
            let next = Process::start(&stage, true);
            let mut before = std::mem::replace(&mut serving, next);
            assert!(before.wait().success(), "the one before ends by itself");
            let other = File::open(&locked).unwrap();
            assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
            assert!(is_locked_to_others(&locked_too));
            assert!(stage.status().is_mounted);
        }
        clients.go_on();
        drop(ending);
        writer.join().unwrap()
    });
    let longest = Duration::from_micros(clients.longest.load(Ordering::Relaxed));
    let _ = writeln!(io::stderr(), "{HAND_OVERS} hand-overs; the longest request took {longest:?}");
    assert!(longest < BOUND, "{longest:?}");
    let expected: Vec<u8> = (0..rounds).flat_map(u64::to_le_bytes).collect();
    assert!(fs::read(stage.at.join("open")).unwrap() == expected);
    // What a person has ordered goes along.
    assert_eq!(stage.status().parallel, 3);
    stage.order(&Request::Throttle { bandwidth: Some(0), parallel: None });
    stage.until_done();
    drop((lock, lock_too));
    for made in ["open", "looked-at", "locked", "locked-too"] {
        fs::remove_file(stage.at.join(made)).unwrap();
    }
    let differences = verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap().differences;
    // The times of these directories are the clients'.
    let theirs = |path: &str| [".", "a/b", "empty"].contains(&path);
    assert!(differences.iter().all(|difference| theirs(&difference.path)), "{differences:?}");
    stage.order(&Request::Finish {});
    drop(serving);
    assert!(!stage.at.join("a").exists() && stage.new.join("a/b/file-29").exists());
}

#[test]
fn a_service_goes_on_when_its_successor_does_not() {
    let Some(mut stage) = Stage::new("a_service_goes_on_when_its_successor_does_not") else { return };
    stage.config.paused = true;
    let serving = stage.start();
    let mut file = File::create(stage.at.join("open")).unwrap();
    file.write_all(b"before ").unwrap();

    let mut other = stage.config.clone();
    other.at = stage.held.path().join("elsewhere");
    fs::create_dir(&other.at).unwrap();
    let refused = Serving::take_over(&other, &Cancel::new()).err().unwrap();
    assert!(matches!(&refused, Error::Setting { field: "at", .. }), "{refused}");

    // It hangs up before it has got anything, and behind that.
    for is_sent in [false, true] {
        let control = stage.new.join(".ishigaki-migrate/control");
        let mut stream = UnixStream::connect(control).unwrap();
        stream.write_all(b"{\"hand_over\":{}}\n").unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert!(line.contains("handing_over"), "{line}");
        if is_sent {
            stream.write_all(b"go\n").unwrap();
        }
    }
    // It fails when it has got everything.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut other = stage.config.clone();
    other.metrics = Some(taken.local_addr().unwrap().to_string());
    let failed = Serving::take_over(&other, &Cancel::new()).err().unwrap();
    assert!(matches!(&failed, Error::Metrics { .. }), "{failed}");
    // The folder answers by the same process.
    file.write_all(b"after").unwrap();
    assert_eq!(fs::read(stage.at.join("open")).unwrap(), b"before after");
    assert!(stage.until(|status| status.is_mounted).phase == Phase::Paused);
    assert!(!serving.is_replaced() && serving.is_alive());
    let wanted = fs::read(stage.old.join("a/b/file-7")).unwrap();
    assert!(fs::read(stage.at.join("a/b/file-7")).unwrap() == wanted);
    stage.order(&Request::Resume {});
    stage.until_done();
    drop(file);
    serving.finish().unwrap();
    serving.stop().unwrap();
}

#[test]
fn a_successor_that_is_killed_at_any_moment_leaves_one_that_serves() {
    let Some(stage) = Stage::new("a_successor_that_is_killed_at_any_moment_leaves_one_that_serves") else { return };
    let mut serving = stage.start();
    let mut replaced = 0;
    for round in 0..10 {
        let mut file = File::create(stage.at.join("open")).unwrap();
        file.write_all(b"before ").unwrap();
        let next = Process::spawn(&stage, true);
        std::thread::sleep(Duration::from_millis(round * 60));
        next.kill();
        // An answer comes from one that serves, as soon as it does; without one, the successor had taken over before it died.
        let written = file.write_all(b"after");
        if serving.is_replaced() {
            serving.stop().unwrap();
            serving = stage.start();
            replaced += 1;
        } else {
            written.unwrap();
            assert_eq!(fs::read(stage.at.join("open")).unwrap(), b"before after");
        }
        let wanted = fs::read(stage.old.join("a/b/file-9")).unwrap();
        assert!(fs::read(stage.at.join("a/b/file-9")).unwrap() == wanted);
    }
    let _ = writeln!(io::stderr(), "10 successors were killed, {replaced} of them behind the hand-over");
    stage.until_done();
    serving.finish().unwrap();
    serving.stop().unwrap();
}

#[test]
fn a_successor_serves_whenever_its_predecessor_is_killed() {
    let Some(stage) = Stage::new("a_successor_serves_whenever_its_predecessor_is_killed") else { return };
    let config = stage.config.clone();
    for round in 0..10 {
        let before = Process::start(&stage, false);
        let taking = {
            let config = config.clone();
            std::thread::spawn(move || Serving::take_over(&config, &Cancel::new()))
        };
        std::thread::sleep(Duration::from_millis(round * 20));
        before.kill();
        let serving = taking.join().unwrap().unwrap();
        assert!(serving.is_alive() && !serving.is_replaced());
        let wanted = fs::read(stage.old.join("a/b/file-9")).unwrap();
        assert!(fs::read(stage.at.join("a/b/file-9")).unwrap() == wanted);
        assert!(stage.status().is_mounted);
        serving.stop().unwrap();
    }
    let serving = stage.start();
    stage.until_done();
    serving.finish().unwrap();
    serving.stop().unwrap();
}

#[test]
fn a_service_that_takes_over_from_none_starts() {
    let Some(stage) = Stage::new("a_service_that_takes_over_from_none_starts") else { return };
    let serving = Serving::take_over(&stage.config, &Cancel::new()).unwrap();
    stage.until_done();
    serving.stop().unwrap();
}
