//! A service that takes the place of another one under programs that have their files open. Both are in this process, and speak
//! as two processes do.
//!
//! Takes root and `/dev/fuse`, as mounting does.

mod manager;
mod restart;
mod stage;

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_device::{Directory, FileDirectory};
use ishigaki_logpool_service::{Config, Error, Reply, Request, Serving, Status, ask};

use stage::{Site, can_mount};

/// `O_DSYNC`: each write is durable when it returns.
const DURABLE: i32 = 0o10_000;

fn open(path: &Path, flags: i32) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(flags).open(path).unwrap()
}

fn bytes(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn status(config: &Config) -> Status {
    let Reply::Status(status) = ask(&config.data, &Request::Status {}).unwrap() else { panic!("another question") };
    *status
}

/// Whether a machine is connected.
fn connected(config: &Config) -> Option<bool> {
    status(config).members.iter().find_map(|member| member.connected)
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what}, within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How many members it serves.
fn members(config: &Config) -> usize {
    let status = status(config);
    status.members.iter().filter(|member| member.mounted && member.problem.is_none()).count()
}

#[test]
fn programs_go_on_with_all_that_they_have_open_when_another_service_takes_over() {
    let name = "programs_go_on_with_all_that_they_have_open_when_another_service_takes_over";
    if !can_mount(name) {
        return;
    }
    let site = Site::new(&["one", "two"]);
    let config = site.config();
    let mut serving = Serving::start(&config).unwrap();
    let one = site.path("one");
    fs::create_dir(one.join("folder")).unwrap();
    let log = open(&one.join("folder/log"), DURABLE);
    log.write_all_at(&[1; 10_000], 0).unwrap();
    let gone = open(&one.join("gone"), 0);
    gone.write_all_at(&[2; 5000], 100_000).unwrap();
    fs::remove_file(one.join("gone")).unwrap();
    let replaced = open(&one.join("replaced"), 0);
    replaced.write_all_at(&vec![3; 300_000], 0).unwrap();
    open(&one.join("new"), 0).write_all_at(b"new", 0).unwrap();
    fs::rename(one.join("new"), one.join("replaced")).unwrap();
    fs::hard_link(one.join("folder/log"), one.join("second")).unwrap();
    let twos = open(&site.path("two").join("log"), DURABLE);
    twos.write_all_at(b"of two", 0).unwrap();
    let (number, changed) = (log.metadata().unwrap().ino(), log.metadata().unwrap().mtime_nsec());
    let mut listing = fs::read_dir(&one).unwrap();

    for turn in 0..3_u8 {
        let next = Serving::take_over(&config).unwrap();
        assert!(serving.is_replaced() && !next.is_replaced());
        serving.stop().unwrap();
        serving = next;
        assert_eq!(members(&config), 2, "the next one is asked, {turn}");
        assert_eq!(bytes(&log), [vec![1; 10_000], (0..turn).collect()].concat(), "{turn}");
        log.write_all_at(&[turn], 10_000 + u64::from(turn)).unwrap();
        // Without a name, and with all bytes.
        let shown = bytes(&gone);
        assert!(shown[..100_000].iter().all(|&byte| byte == 0) && shown[100_000..] == [2; 5000], "{turn}");
        gone.write_all_at(&[2; 5000], 100_000).unwrap();
        assert_eq!((bytes(&replaced), fs::read(one.join("replaced")).unwrap()), (vec![3; 300_000], b"new".to_vec()));
        assert_eq!(log.metadata().unwrap().ino(), number);
        assert!(turn > 0 || log.metadata().unwrap().mtime_nsec() != changed, "it was written since");
        // Names, known to the kernel before and new ones.
        assert_eq!(fs::metadata(one.join("second")).unwrap().ino(), number);
        fs::write(one.join(format!("folder/{turn}")), [turn; 10]).unwrap();
        fs::rename(one.join("folder"), one.join("other")).unwrap();
        fs::rename(one.join("other"), one.join("folder")).unwrap();
        twos.sync_all().unwrap();
        assert_eq!(bytes(&twos), b"of two");
    }
    let mut names: Vec<_> = listing.by_ref().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["folder", "replaced", "second"], "an open folder is read on");
    drop((log, gone, replaced, twos, listing));
    serving.stop().unwrap();
    assert_eq!(fs::read_dir(&one).unwrap().count(), 0, "the last one unmounts");

    let serving = Serving::start(&config).unwrap();
    assert_eq!(fs::read(one.join("second")).unwrap()[10_000..], [0, 1, 2]);
    assert_eq!(fs::read(one.join("folder/2")).unwrap(), [2; 10]);
    serving.stop().unwrap();
}

#[test]
fn programs_that_write_all_the_time_wait_and_get_no_error() {
    if !can_mount("programs_that_write_all_the_time_wait_and_get_no_error") {
        return;
    }
    let site = Site::new(&["one", "two"]);
    let config = site.config();
    let mut serving = Some(Serving::start(&config).unwrap());
    let (is_over, longest) = (AtomicBool::new(false), AtomicU64::new(0));
    let turns: Vec<u64> = std::thread::scope(|scope| {
        let write = |folder: &str, number: u32| {
            let file = open(&site.path(folder).join(number.to_string()), DURABLE);
            let (is_over, longest) = (&is_over, &longest);
            scope.spawn(move || {
                let mut turn = 0_u64;
                while !is_over.load(Ordering::SeqCst) {
                    let began = Instant::now();
                    file.write_all_at(&turn.to_le_bytes(), turn % 4096 * 8).unwrap();
                    let mut shown = [0; 8];
                    file.read_exact_at(&mut shown, turn % 4096 * 8).unwrap();
                    assert_eq!(u64::from_le_bytes(shown), turn);
                    longest.fetch_max(began.elapsed().as_micros() as u64, Ordering::SeqCst);
                    turn += 1;
                }
                turn
            })
        };
        let writers: Vec<_> = (0..2).flat_map(|number| [write("one", number), write("two", number)]).collect();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(100));
            let before = serving.replace(Serving::take_over(&config).unwrap());
            before.unwrap().stop().unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let longest = Duration::from_micros(longest.load(Ordering::SeqCst));
    println!("longest wait over 5 takeovers: {longest:?}; writes: {turns:?}");
    // Below a second where the machine has nothing else to do.
    assert!(longest < Duration::from_secs(20) && turns.iter().all(|&turns| turns > 10), "{longest:?} {turns:?}");
    for (number, folder) in [(0_u32, "one"), (1, "two")] {
        let file = fs::read(site.path(folder).join(number.to_string())).unwrap();
        assert!(!file.is_empty());
    }
    serving.unwrap().stop().unwrap();
}

#[test]
fn a_service_that_can_not_take_over_leaves_the_other_one_at_work() {
    if !can_mount("a_service_that_can_not_take_over_leaves_the_other_one_at_work") {
        return;
    }
    let site = Site::new(&["one"]);
    let mut config = site.config();
    config.metrics = Some("127.0.0.1:0".to_owned());
    let serving = Serving::start(&config).unwrap();
    let log = open(&site.path("one").join("log"), DURABLE);
    log.write_all_at(b"before", 0).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let wrong = Config { metrics: Some(taken.local_addr().unwrap().to_string()), ..config.clone() };
    for turn in 0..3_u8 {
        if turn == 0 {
            drop(Serving::take_over(&wrong).unwrap_err());
        } else {
            // One that dies when all was answered for and nothing has been sent, and one that says something else.
            let mut stream = UnixStream::connect(config.data.join("service.sock")).unwrap();
            std::io::Write::write_all(&mut stream, b"{\"hand_over\":{}}\n").unwrap();
            let mut head = [0; 16];
            stream.read_exact(&mut head).unwrap();
            assert_eq!(&head, b"{\"handing_over\":", "{}", String::from_utf8_lossy(&head));
            if turn == 2 {
                std::io::Write::write_all(&mut stream, b"no!\n").unwrap();
            }
        }
        log.write_all_at(&[b'0' + turn], 6 + u64::from(turn)).unwrap();
        assert!(!serving.is_replaced());
        assert_eq!(members(&config), 1, "{turn}");
    }
    assert_eq!(bytes(&log), b"before012");
    assert!(UnixStream::connect(config.data.join("service.sock")).is_ok());
    let metrics = serving.metrics().unwrap();
    assert!(std::net::TcpStream::connect(metrics).is_ok(), "Prometheus comes in again");
    drop(log);
    serving.stop().unwrap();
    assert_eq!(fs::read_dir(site.path("one")).unwrap().count(), 0);
}

#[test]
fn what_would_be_cut_off_is_not_handed_over_and_what_is_no_more_configured_is_ended() {
    if !can_mount("what_would_be_cut_off_is_not_handed_over_and_what_is_no_more_configured_is_ended") {
        return;
    }
    let site = Site::new(&["one"]);
    let config =
        site.config_with("[[member]]\nname = \"machine\"\nprofile = \"generic\"\nsocket = \"machine.socket\"\n");
    let serving = Serving::start(&config).unwrap();
    let log = open(&site.path("one").join("log"), DURABLE);
    let machine = UnixStream::connect(site.path("machine.socket")).unwrap();
    wait_until("the machine is seen", || connected(&config) == Some(true));
    let refused = Serving::take_over(&config).unwrap_err();
    assert!(refused.to_string().contains("member `machine` is at socket "), "{refused}");
    assert!(matches!(refused, Error::Refused { .. }));
    log.write_all_at(b"goes on", 0).unwrap();
    drop(machine);
    wait_until("it has gone", || connected(&config) == Some(false));
    // The next one is to serve no member.
    let no_members = Config { members: Vec::new(), ..config.clone() };
    let next = Serving::take_over(&no_members).unwrap();
    assert!(log.write_all_at(b"x", 0).is_err(), "no process answers");
    drop(log);
    assert_eq!(fs::read_dir(site.path("one")).unwrap().count(), 0);
    assert_eq!(members(&config), 0);
    drop(serving);
    next.stop().unwrap();
}

#[test]
fn a_service_that_can_not_go_on_after_a_hand_over_says_so_and_why() {
    if !can_mount("a_service_that_can_not_go_on_after_a_hand_over_says_so_and_why") {
        return;
    }
    let site = Site::new(&["one"]);
    let config = site.config();
    let serving = Serving::start(&config).unwrap();
    fs::write(site.path("one").join("log"), b"before").unwrap();
    assert!(serving.failure().is_none());
    // The one that takes over damages the pool, and is gone.
    let mut stream = UnixStream::connect(config.data.join("service.sock")).unwrap();
    std::io::Write::write_all(&mut stream, b"{\"hand_over\":{}}\n").unwrap();
    stream.read_exact(&mut [0; 16]).unwrap();
    for name in ["pool-roster", "pool-roster-1"] {
        fs::rename(config.data.join(name), config.data.join(format!("{name}.kept"))).unwrap();
    }
    drop(stream);
    wait_until("it knows", || serving.failure().is_some());
    let failure = serving.failure().unwrap();
    assert_eq!(failure.kind(), ishigaki_base::ErrorKind::Corrupt, "{failure}");
    for words in ["nothing is served any more", "there is no roster", "start the service again"] {
        assert!(failure.to_string().contains(words), "{failure}");
    }
    // A client hears the same, and not that all is in order.
    let refused = ask(&config.data, &Request::Status {}).unwrap_err();
    assert_eq!(refused.to_string(), failure.to_string());
    serving.stop().unwrap();
    for name in ["pool-roster", "pool-roster-1"] {
        fs::rename(config.data.join(format!("{name}.kept")), config.data.join(name)).unwrap();
    }
    let serving = Serving::start(&config).unwrap();
    assert_eq!(fs::read(site.path("one").join("log")).unwrap(), b"before");
    serving.stop().unwrap();
}

#[test]
fn a_service_goes_on_once_a_successor_that_was_killed_has_let_go_of_the_directory() {
    if !can_mount("a_service_goes_on_once_a_successor_that_was_killed_has_let_go_of_the_directory") {
        return;
    }
    let site = Site::new(&["one"]);
    let config = site.config();
    let serving = Serving::start(&config).unwrap();
    let log = open(&site.path("one").join("log"), DURABLE);
    log.write_all_at(b"before", 0).unwrap();
    let mut stream = UnixStream::connect(config.data.join("service.sock")).unwrap();
    std::io::Write::write_all(&mut stream, b"{\"hand_over\":{}}\n").unwrap();
    stream.read_exact(&mut [0; 16]).unwrap();
    // The kernel ends a process one descriptor after the other.
    let lock = FileDirectory::open(&config.data).unwrap().lock().unwrap();
    drop(stream);
    std::thread::sleep(Duration::from_millis(300));
    drop(lock);
    log.write_all_at(b" and after", 6).unwrap();
    assert_eq!((members(&config), serving.failure().is_none()), (1, true));
    drop(log);
    serving.stop().unwrap();
}

/// The directory of which a process of this test takes over, and hangs then.
const HANGS: &str = "ISHIGAKI_TEST_HANGS";

/// Asks for everything, and hears the whole line that says what follows.
fn ask_for_everything(data: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(data.join("service.sock")).unwrap();
    std::io::Write::write_all(&mut stream, b"{\"hand_over\":{}}\n").unwrap();
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte).unwrap();
    }
    stream
}

#[test]
#[ignore = "a process of another test's"]
fn a_process_that_takes_over_and_hangs() {
    let Some(data) = std::env::var_os(HANGS) else { return };
    let mut stream = ask_for_everything(Path::new(&data));
    let _lock = FileDirectory::open(Path::new(&data)).unwrap().lock().unwrap();
    std::io::Write::write_all(&mut stream, b"go\n").unwrap();
    std::thread::sleep(Duration::from_mins(2));
}

#[test]
fn a_service_goes_on_when_the_one_that_takes_over_hangs_and_ends_that_one() {
    use std::os::unix::process::ExitStatusExt;
    if !can_mount("a_service_goes_on_when_the_one_that_takes_over_hangs_and_ends_that_one") {
        return;
    }
    let site = Site::new(&["one"]);
    let config = Config { takeover: Some(Duration::from_secs(1)), ..site.config() };
    let serving = Serving::start(&config).unwrap();
    let log = open(&site.path("one").join("log"), DURABLE);
    log.write_all_at(b"before", 0).unwrap();
    // One that does not even say `go`.
    let silent = ask_for_everything(&config.data);
    log.write_all_at(b" and", 6).unwrap();
    assert_eq!((members(&config), serving.failure().is_none()), (1, true));
    drop(silent);
    // One that has the directory's lock, and what was sent.
    let mut hanging = std::process::Command::new(std::env::current_exe().unwrap());
    let hanging =
        hanging.args(["--exact", "a_process_that_takes_over_and_hangs", "--ignored"]).env(HANGS, &config.data);
    let mut hanging = hanging.stdout(std::process::Stdio::null()).spawn().unwrap();
    assert_eq!(hanging.wait().unwrap().signal(), Some(9));
    log.write_all_at(b" after", 10).unwrap();
    assert_eq!(bytes(&log), b"before and after");
    // One that is heard to be at work is waited for, for as long as it takes, and no longer.
    let mut working = ask_for_everything(&config.data);
    std::io::Write::write_all(&mut working, b"go\n").unwrap();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(300));
        std::io::Write::write_all(&mut working, b"working\n").unwrap();
    }
    working.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let error = working.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "the first one has not hung up");
    log.write_all_at(b" all", 16).unwrap();
    assert_eq!((members(&config), serving.failure().is_none()), (1, true));
    drop(working);
    assert_eq!((members(&config), serving.failure().is_none()), (1, true));
    drop(log);
    // A whole one still can.
    let next = Serving::take_over(&config).unwrap();
    assert!(serving.is_replaced());
    drop(serving);
    next.stop().unwrap();
}
