//! A pool with its members mounted: begun, ended, and begun again.

mod stage;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_device::{AlignedBuffer, Directory, MemoryDirectory};
use ishigaki_logpool::{MemberSettings, Pool, Profile};
use ishigaki_logpool_fs::{Error, Mount, Place, Served, Service};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use stage::{Watchdog, can_mount};

fn served(name: &str, profile: Profile, folder: &Path) -> Served {
    Served {
        name: name.to_owned(),
        member: MemberSettings { profile, quota: stage::quota() },
        place: Place::Mount(folder.to_owned()),
        mount: stage::mount_settings(),
    }
}

fn open(medium: &MemoryDirectory) -> Pool {
    Pool::open_together(Arc::new(medium.clone()), stage::settings()).unwrap()
}

/// Two folders to serve at.
fn folders(place: &Path) -> [PathBuf; 2] {
    ["one", "two"].map(|name| {
        let folder = place.join(name);
        fs::create_dir(&folder).unwrap();
        folder
    })
}

#[test]
fn every_member_has_its_own_files_and_has_them_again_after_a_stop() {
    if !can_mount("every_member_has_its_own_files_and_has_them_again_after_a_stop") {
        return;
    }
    let (medium, place) = (MemoryDirectory::new(), tempfile::tempdir().unwrap());
    let open = || open(&medium);
    let [one, two] = folders(place.path());
    let _watchdog = Watchdog::over(&[&one, &two]);
    let members = [served("a", Profile::POSTGRESQL, &one), served("b", Profile::MARIADB, &two)];

    let service = Service::start(open(), &members).unwrap();
    fs::write(one.join("log"), b"of a").unwrap();
    fs::write(two.join("log"), b"of b").unwrap();
    assert!(service.is_alive());
    assert_eq!(service.pool().members(), ["a", "b"]);
    // Nobody is served twice on one folder.
    let again = Mount::new(service.pool().member("a").unwrap(), &one, &stage::mount_settings()).unwrap_err();
    assert!(
        matches!(&again, Error::Mount(ishigaki_fuse::Error::Folder { reason, .. }) if reason.contains("serves it already")),
        "{again}"
    );
    service.stop().unwrap();
    assert_eq!(fs::read_dir(&one).unwrap().count(), 0);

    let service = Service::start(open(), &members[..1]).unwrap();
    assert_eq!(fs::read(one.join("log")).unwrap(), b"of a");
    assert_eq!(fs::read_dir(&two).unwrap().count(), 0);
    drop(service);

    let service = Service::start(open(), &members).unwrap();
    assert_eq!(fs::read(two.join("log")).unwrap(), b"of b");
    // Somebody else's unmounting is noticed.
    unmount(&two, UnmountFlags::DETACH).unwrap();
    let began = std::time::Instant::now();
    while service.is_alive() {
        assert!(began.elapsed().as_secs() < 20, "the mount that is gone still counts");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    service.stop().unwrap();
}

#[test]
fn a_service_that_can_not_serve_all_serves_nobody() {
    if !can_mount("a_service_that_can_not_serve_all_serves_nobody") {
        return;
    }
    let (medium, place) = (MemoryDirectory::new(), tempfile::tempdir().unwrap());
    let open = || {
        let medium: Arc<dyn Directory> = Arc::new(medium.clone());
        Pool::open_together(medium, stage::settings()).unwrap()
    };
    let one = place.path().join("one");
    fs::create_dir(&one).unwrap();
    let _watchdog = Watchdog::over(&[&one]);
    let nowhere = served("b", Profile::GENERIC, &place.path().join("nowhere"));
    let error = Service::start(open(), &[served("a", Profile::GENERIC, &one), nowhere]).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    fs::write(one.join("host's own"), b"").unwrap();
    fs::remove_file(one.join("host's own")).unwrap();
    assert_eq!(open().members(), Vec::<String>::new(), "nobody was taken in for that");

    Service::start(open(), &[served("a", Profile::GENERIC, &one)]).unwrap().stop().unwrap();
    let error = Service::start(open(), &[served("a", Profile::MARIADB, &one)]).unwrap_err();
    assert!(error.to_string().contains("has the profile generic, not mariadb"), "{error}");
}

#[test]
fn a_mount_that_nobody_answers_for_is_taken_away() {
    if !can_mount("a_mount_that_nobody_answers_for_is_taken_away") {
        return;
    }
    // By who mounts there next, after the process has died, and by its own end.
    for died in [true, false] {
        let mut stage = stage::Stage::in_memory();
        let log = stage.open("log", OFlags::DSYNC);
        log.write_all_at(b"of a", 0).unwrap();
        // The kernel knows the folder's attributes now, and will believe them for a while.
        fs::metadata(stage.root()).unwrap();
        // With a file open that ends the connection, and nothing else.
        assert_eq!(unmount(stage.root(), UnmountFlags::FORCE), Err(Errno::BUSY));
        assert!(fs::read_dir(stage.root()).is_err(), "nobody answers");
        drop(log);
        if died {
            stage.abandon();
        } else {
            stage.unmount();
            assert_eq!(fs::read_dir(stage.root()).unwrap().count(), 0);
        }
        stage.mount_again();
        assert_eq!(fs::read(stage.path("log")).unwrap(), b"of a", "{died}");
    }
}

#[test]
fn a_member_that_is_damaged_at_a_takeover_is_refused_alone_and_the_others_go_on() {
    if !can_mount("a_member_that_is_damaged_at_a_takeover_is_refused_alone_and_the_others_go_on") {
        return;
    }
    let (medium, place) = (MemoryDirectory::new(), tempfile::tempdir().unwrap());
    let open = || open(&medium);
    let [one, two] = folders(place.path());
    let _watchdog = Watchdog::over(&[&one, &two]);
    let members = [served("a", Profile::GENERIC, &one), served("b", Profile::GENERIC, &two)];
    let service = Service::start(open(), &members).unwrap();
    let file_of = |folder: &Path| {
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(folder.join("log")).unwrap();
        file.write_all_at(b"before", 0).unwrap();
        file
    };
    let (of_a, of_b) = (file_of(&one), file_of(&two));

    let inheritance = service.hand_over().unwrap();
    for name in ["m.a.ledger-0", "m.a.ledger-1"] {
        let device = medium.open(name).unwrap();
        let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
        device.read_at(0, &mut bytes).unwrap();
        bytes[30] ^= 1;
        device.write_at(0, &bytes).unwrap();
    }
    let service = Service::go_on(open(), &members, inheritance, || Ok::<_, Error>(())).unwrap();
    let served: Vec<_> = service.attached().iter().map(|attached| attached.member().name()).collect();
    assert_eq!(served, ["b"]);
    let (_, why) = service.pool().quarantined().remove(0);
    assert!(why.to_string().contains("member `a` is quarantined") && why.to_string().contains("ledger"), "{why}");
    // The program with b's file open has only waited.
    of_b.write_all_at(b"behind", 6).unwrap();
    assert_eq!(fs::read(two.join("log")).unwrap(), b"beforebehind");
    assert!(of_a.write_all_at(b"behind", 6).is_err(), "no process answers for a");
    drop((of_a, of_b));
    service.stop().unwrap();
}
