//! The folder while no service answers, and while the next one starts.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::check::{Check, Severity};
use ishigaki_migrate_service::control::Request;

use crate::process::Process;
use crate::stage::Stage;

/// Ends the clients, also when the test fails.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How many mounts are on a folder.
fn layers(at: &Path) -> usize {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().filter(|line| line.split(' ').nth(4) == at.to_str()).count()
}

#[test]
fn no_program_finds_the_bare_folder_while_services_follow_those_that_died() {
    let Some(stage) = Stage::new("no_program_finds_the_bare_folder_while_services_follow_those_that_died") else {
        return;
    };
    let mut serving = Some(Process::start(&stage, false));
    let (ends, found, made) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let ending = Ending(&ends);
        let client = scope.spawn(|| {
            for number in 0.. {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                if let Ok(mut names) = fs::read_dir(&stage.at) {
                    assert!(names.next().is_some(), "the bare folder");
                    found.fetch_add(1, Ordering::Relaxed);
                }
                if File::create(stage.at.join(format!("made-{number}"))).is_ok() {
                    made.store(number, Ordering::Relaxed);
                    assert!(stage.new.join(format!("made-{number}")).exists(), "made below the mount");
                }
            }
        });
        for _ in 0..5 {
            if let Some(serving) = serving.take() {
                serving.kill();
            }
            assert!(layers(&stage.at) > 0, "what died stays");
            serving = Some(Process::start(&stage, false));
            // It serves before what died is taken away.
            let until = Instant::now() + Duration::from_secs(20);
            while layers(&stage.at) != 1 {
                assert!(Instant::now() < until, "it takes the place of what died");
                std::thread::yield_now();
            }
            let before = found.load(Ordering::Relaxed);
            while found.load(Ordering::Relaxed) < before + 2 && !client.is_finished() {
                std::thread::yield_now();
            }
        }
        drop(ending);
    });
    assert!(made.load(Ordering::Relaxed) > 0);
    drop(serving);
    assert_eq!(layers(&stage.at), 0);
}

#[test]
fn the_bare_folder_takes_nothing_until_the_migration_has_ended() {
    let Some(stage) = Stage::new("the_bare_folder_takes_nothing_until_the_migration_has_ended") else { return };
    fs::set_permissions(&stage.at, PermissionsExt::from_mode(0o751)).unwrap();
    let mode = || fs::metadata(&stage.at).unwrap().permissions().mode() & 0o7777;
    stage.start().stop().unwrap();
    let folder = File::open(&stage.at).unwrap();
    let can_be_closed = rustix::fs::ioctl_getflags(&folder).is_ok();
    assert_eq!(mode(), 0, "users are refused");
    if can_be_closed {
        File::create(stage.at.join("lost")).unwrap_err();
    }
    // What was written there all the same is told with what to do.
    if let Ok(flags) = rustix::fs::ioctl_getflags(&folder) {
        rustix::fs::ioctl_setflags(&folder, flags - rustix::fs::IFlags::IMMUTABLE).unwrap();
    }
    fs::write(stage.at.join("lost"), b"").unwrap();
    let check = Check::run(&stage.config, &Cancel::new()).unwrap();
    let finding = check.findings.iter().find(|it| it.severity == Severity::Problem).unwrap();
    assert!(finding.about == "at" && finding.remedy.contains("move that away"), "{finding}");
    fs::remove_file(stage.at.join("lost")).unwrap();

    let serving = stage.start();
    stage.until_done();
    stage.order(&Request::Finish {});
    serving.stop().unwrap();
    assert_eq!(mode(), 0o751);
    fs::write(stage.at.join("own"), b"").unwrap();
}
