//! A service that its service manager starts again under programs that have their files open.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_logpool_service::{Config, Kept, Serving};
use rustix::io::Errno;

use super::manager::Manager;
use super::stage::{Site, can_mount};
use super::{DURABLE, bytes, members, open};

/// A service that goes on with what its manager has kept.
fn start(config: &Config, manager: &Manager) -> Serving {
    Serving::start_again(config, manager.kept(), Some(manager.supervisor())).unwrap()
}

fn is_cut_off(file: &fs::File) -> bool {
    file.write_all_at(b"x", 0).is_err_and(|error| error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()))
}

#[test]
fn programs_go_on_with_all_that_they_have_open_when_the_service_is_started_again() {
    if !can_mount("programs_go_on_with_all_that_they_have_open_when_the_service_is_started_again") {
        return;
    }
    let site = Site::new(&["one", "two"]);
    let (config, manager) = (site.config(), Manager::new(&site.path("notify"), 16));
    // Of another program of the unit.
    manager.put(vec![("http".to_owned(), OwnedFd::from(fs::File::open("/dev/null").unwrap()))]);
    let mut serving = start(&config, &manager);
    let one = site.path("one");
    fs::create_dir(one.join("folder")).unwrap();
    let log = open(&one.join("folder/log"), DURABLE);
    log.write_all_at(&[1; 10_000], 0).unwrap();
    let gone = open(&one.join("gone"), 0);
    gone.write_all_at(&[2; 5000], 100_000).unwrap();
    fs::remove_file(one.join("gone")).unwrap();
    let twos = open(&site.path("two").join("log"), 0);
    twos.write_all_at(b"of two", 0).unwrap();
    for turn in 0..3_u8 {
        serving.keep(manager.supervisor()).unwrap();
        assert_eq!(manager.names(), ["http", "ishigaki-mount-0", "ishigaki-mount-1", "ishigaki-table"]);
        // What a program asks meanwhile is answered by the next one.
        let meanwhile = log.try_clone().unwrap();
        let writer = std::thread::spawn(move || meanwhile.write_all_at(&[turn], 10_000 + u64::from(turn)));
        std::thread::sleep(Duration::from_millis(50));
        serving = start(&config, &manager);
        writer.join().unwrap().unwrap();
        assert_eq!(manager.names(), ["http"], "{turn}");
        assert_eq!(members(&config), 2, "{turn}");
        assert_eq!(bytes(&log), [vec![1; 10_000], (0..=turn).collect()].concat(), "{turn}");
        assert!(bytes(&gone)[100_000..] == [2; 5000], "without a name, and with all bytes");
        assert_eq!(bytes(&twos), b"of two");
        twos.sync_all().unwrap();
        fs::write(one.join(format!("folder/{turn}")), [turn; 10]).unwrap();
    }
    drop((log, gone, twos));
    serving.stop().unwrap();
    assert_eq!(fs::read_dir(&one).unwrap().count(), 0, "a stop unmounts");
    assert!(!config.data.join("restart-ticket").exists());
}

#[test]
fn programs_that_write_all_the_time_wait_and_get_no_error_when_the_service_is_started_again() {
    if !can_mount("programs_that_write_all_the_time_wait_and_get_no_error_when_the_service_is_started_again") {
        return;
    }
    let site = Site::new(&["one", "two"]);
    let (config, manager) = (site.config(), Manager::new(&site.path("notify"), 16));
    let mut serving = Some(start(&config, &manager));
    let (is_over, longest) = (AtomicBool::new(false), AtomicU64::new(0));
    let turns: Vec<u64> = std::thread::scope(|scope| {
        // Some write durably, the others write and sync.
        let write = |folder: &str, flags: i32| {
            let file = open(&site.path(folder).join(flags.to_string()), flags);
            let (is_over, longest) = (&is_over, &longest);
            scope.spawn(move || {
                let mut turn = 0_u64;
                while !is_over.load(Ordering::SeqCst) {
                    let began = Instant::now();
                    file.write_all_at(&turn.to_le_bytes(), turn * 8).unwrap();
                    if flags == 0 {
                        file.sync_data().unwrap();
                    }
                    longest.fetch_max(began.elapsed().as_micros() as u64, Ordering::SeqCst);
                    turn += 1;
                }
                turn
            })
        };
        let writers: Vec<_> =
            [0, DURABLE].into_iter().flat_map(|flags| [write("one", flags), write("two", flags)]).collect();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(100));
            serving.take().unwrap().keep(manager.supervisor()).unwrap();
            serving = Some(start(&config, &manager));
        }
        is_over.store(true, Ordering::SeqCst);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let longest = Duration::from_micros(longest.load(Ordering::SeqCst));
    println!("longest wait over 5 restarts: {longest:?}; writes: {turns:?}");
    // Below a second where the machine has nothing else to do.
    assert!(longest < Duration::from_secs(20) && turns.iter().all(|&turns| turns > 10), "{longest:?} {turns:?}");
    serving.unwrap().stop().unwrap();
    // All that was acknowledged is there, also for a service that has rebuilt it.
    let serving = Serving::start(&config).unwrap();
    let files = [("one", 0), ("two", 0), ("one", DURABLE), ("two", DURABLE)];
    for ((folder, flags), turns) in files.into_iter().zip(turns) {
        let shown = fs::read(site.path(folder).join(flags.to_string())).unwrap();
        let wanted: Vec<u8> = (0..turns).flat_map(u64::to_le_bytes).collect();
        assert!(shown == wanted, "{folder} {flags}: {} of {} bytes", shown.len(), wanted.len());
    }
    serving.stop().unwrap();
}

#[test]
fn what_a_service_manager_has_of_an_earlier_stop_is_never_used() {
    if !can_mount("what_a_service_manager_has_of_an_earlier_stop_is_never_used") {
        return;
    }
    let site = Site::new(&["one"]);
    let (config, manager) = (site.config(), Manager::new(&site.path("notify"), 16));
    let serving = start(&config, &manager);
    let log = open(&site.path("one").join("log"), DURABLE);
    log.write_all_at(b"before", 0).unwrap();
    serving.keep(manager.supervisor()).unwrap();
    let old = manager.kept();
    // The next one goes on, changes the files, and is killed before its manager has closed anything.
    let serving = start(&config, &manager);
    fs::rename(site.path("one").join("log"), site.path("one").join("other")).unwrap();
    fs::write(site.path("one").join("log"), b"another").unwrap();
    serving.keep(manager.supervisor()).unwrap();
    drop(manager.take());
    fs::remove_file(config.data.join("restart-ticket")).unwrap();
    manager.put(old.into_descriptors());
    let serving = start(&config, &manager);
    // Its folder answers again, by a mount of its own; who had files open there must open them again.
    assert!(is_cut_off(&log));
    assert_eq!(manager.names(), [""; 0], "the manager has closed them");
    assert_eq!(members(&config), 1);
    assert_eq!(fs::read(site.path("one").join("other")).unwrap(), b"before");
    assert_eq!(fs::read(site.path("one").join("log")).unwrap(), b"another");
    drop(log);

    // Descriptors of one stop do not fit the ticket of the next.
    let log = open(&site.path("one").join("log"), DURABLE);
    serving.keep(manager.supervisor()).unwrap();
    let old = manager.kept();
    let serving = start(&config, &manager);
    serving.keep(manager.supervisor()).unwrap();
    drop(manager.take());
    manager.put(old.into_descriptors());
    assert!(config.data.join("restart-ticket").exists());
    let serving = start(&config, &manager);
    assert!(is_cut_off(&log));
    assert_eq!(members(&config), 1);
    drop(log);

    // A service that was started by hand in between has taken the ticket.
    let log = open(&site.path("one").join("log"), DURABLE);
    serving.keep(manager.supervisor()).unwrap();
    let elsewhere = Config { members: Vec::new(), ..config.clone() };
    Serving::start(&elsewhere).unwrap().stop().unwrap();
    let serving = start(&config, &manager);
    assert!(is_cut_off(&log));
    assert_eq!(fs::read(site.path("one").join("log")).unwrap(), b"another");
    drop(log);
    serving.stop().unwrap();
}

#[test]
fn what_a_start_that_fails_has_not_used_is_there_for_the_next_one() {
    if !can_mount("what_a_start_that_fails_has_not_used_is_there_for_the_next_one") {
        return;
    }
    let site = Site::new(&["one", "two"]);
    let (config, manager) = (site.config(), Manager::new(&site.path("notify"), 16));
    let serving = start(&config, &manager);
    let log = open(&site.path("one").join("log"), DURABLE);
    log.write_all_at(b"before", 0).unwrap();
    serving.keep(manager.supervisor()).unwrap();
    let again = |config: &Config| Serving::start_again(config, manager.kept(), Some(manager.supervisor()));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = Config { metrics: Some(taken.local_addr().unwrap().to_string()), ..config.clone() };
    drop(again(&metrics).unwrap_err());
    // One member in the folder of another, for whose mount no process answers.
    let mut moved = config.clone();
    let place = moved.members[0].place.clone();
    moved.members.remove(0);
    moved.members[0].place = place;
    let began = Instant::now();
    let error = again(&moved).unwrap_err().to_string();
    assert!(error.contains("where the mount of member `one` still is"), "{error}");
    // One whose folder is not empty.
    fs::create_dir(site.path("full")).unwrap();
    fs::write(site.path("full").join("file"), b"").unwrap();
    let full = site.config_with("[[member]]\nname = \"more\"\nprofile = \"generic\"\nmount = \"full\"\n");
    let error = again(&full).unwrap_err().to_string();
    assert!(error.contains("can not be mounted on"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(8), "nothing was asked of a mount that does not answer");
    assert_eq!(manager.names().len(), 3);

    let serving = start(&config, &manager);
    log.write_all_at(b" and after", 6).unwrap();
    assert_eq!(bytes(&log), b"before and after");
    drop(log);
    serving.stop().unwrap();
}

#[test]
fn a_mount_that_the_service_manager_had_no_room_for_is_made_anew() {
    if !can_mount("a_mount_that_the_service_manager_had_no_room_for_is_made_anew") {
        return;
    }
    let site = Site::new(&["one", "two"]);
    let (config, manager) = (site.config(), Manager::new(&site.path("notify"), 2));
    let serving = start(&config, &manager);
    let (log, lost) = (open(&site.path("one").join("log"), DURABLE), open(&site.path("two").join("log"), DURABLE));
    lost.write_all_at(b"there", 0).unwrap();
    serving.keep(manager.supervisor()).unwrap();
    assert_eq!(manager.names(), ["ishigaki-mount-0", "ishigaki-table"]);
    let serving = start(&config, &manager);
    log.write_all_at(b"goes on", 0).unwrap();
    assert!(is_cut_off(&lost));
    assert_eq!(fs::read(site.path("two").join("log")).unwrap(), b"there");
    assert_eq!(members(&config), 2);
    drop((log, lost));
    serving.stop().unwrap();
}

#[test]
fn a_service_whose_manager_hears_nothing_unmounts_and_says_so() {
    if !can_mount("a_service_whose_manager_hears_nothing_unmounts_and_says_so") {
        return;
    }
    let site = Site::new(&["one"]);
    let config = site.config();
    let gone = Manager::new(&site.path("notify"), 16).supervisor().clone();
    let serving = Serving::start(&config).unwrap();
    fs::write(site.path("one").join("log"), b"before").unwrap();
    let error = serving.keep(&gone).unwrap_err().to_string();
    assert!(error.contains("the folders are not kept for the next start, and are unmounted"), "{error}");
    assert_eq!(fs::read_dir(site.path("one")).unwrap().count(), 0);
    assert!(!config.data.join("restart-ticket").exists());
    let serving = Serving::start_again(&config, Kept::default(), Some(&gone)).unwrap();
    assert_eq!(fs::read(site.path("one").join("log")).unwrap(), b"before");
    serving.stop().unwrap();
}
