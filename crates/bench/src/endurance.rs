//! `endurance`: the one log at full speed for a long time. Is its space bounded, is its memory, and is it as fast at the end as in
//! the beginning?
//!
//! ```text
//!  member ─▶ a mount ─┐
//!   one thread for    ├─ `PROGRAM log serve` ─ log and homes in one folder ─ ext4 ─ a disk, emulated by
//!   each, one commit  │        ▲                                                  `PROGRAM media emulate`, or a folder
//!   after the other ──┘        └ every few seconds: status, resident memory, what the disk was asked for ─▶ Sample
//! ```
//!
//! A member does what a database server does to its log: it writes whole blocks with few fresh bytes in them, asks for a sync,
//! and begins the next one when that is answered; it goes round in a file, and says from time to time in one of two blocks at
//! its beginning how far it is. There is no server behind it: nothing but the pool takes time, so it has as many commits to
//! do as the disk allows.
//!
//! The log is small beside what is written, so that its space is used again and again, and so are members' files. In the end the
//! service is killed, started again, and each file must have what was acknowledged, byte for byte. Then [`Verdict`] judges the
//! samples: the last twelfth of the time beside the second one, of an hour five minutes each.
//!
//! Rooms: `member` commits and checks, `watch` takes samples, `verdict` judges them.

mod member;
mod verdict;
mod watch;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_logpool::Waiting;

use crate::one_log::disk::{SIZE, Standing, folder};
use crate::one_log::{Disk, Host};
use crate::serving::Serving;
use crate::site::Site;
use crate::{Error, Progress, Result};

use member::Member;
pub use verdict::{Judged, Verdict};
pub use watch::Sample;
use watch::Watch;

/// The workload's name in figures.
const NAME: &str = "endurance";

/// The most members; more than that are no figures of one host.
const MOST_MEMBERS: usize = 64;

/// How long a folder may take to be there.
const PATIENCE: Duration = Duration::from_mins(1);

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the log and the homes are.
    pub disk: Disk,
    /// Members that commit.
    pub members: usize,
    /// For how long.
    pub duration: Duration,
    /// Time between samples.
    pub interval: Duration,
    /// How the log process waits.
    pub waiting: Waiting,
    /// What the log may take.
    pub log: ByteSize,
    /// What each member's file takes.
    pub file: ByteSize,
    /// Where it is done.
    pub host: Host,
}

impl Settings {
    fn check(&self) -> Result<()> {
        if !(1..=MOST_MEMBERS).contains(&self.members) {
            return Err(Error::invalid("members", "there are 1 to 64 members"));
        }
        if self.interval.is_zero() || self.duration < self.interval * verdict::PARTS {
            return Err(Error::invalid("seconds", "twelve samples are needed at least, such as 120 s, one each 10 s"));
        }
        if self.file < ByteSize::mib(1) || self.log < ByteSize::mib(64) {
            return Err(Error::invalid(
                "log",
                "a member's file takes 1 MiB at least, and the log 64 MiB, as a pool's does",
            ));
        }
        Ok(())
    }

    fn go_on(&self) -> Result<()> {
        if self.host.stop.load(Ordering::Acquire) { Err(ishigaki_servers::Error::Stopped.into()) } else { Ok(()) }
    }
}

/// What was seen.
#[derive(Clone, Debug)]
pub struct Endured {
    /// In the order of time.
    pub samples: Vec<Sample>,
    /// What they show.
    pub verdict: Verdict,
    /// Whether the emulated disk's threads came before all others; `None` if it is no emulated one.
    pub real_time: Option<bool>,
}

/// Has all members commit for so long; `tell` hears of each sample.
pub fn run(settings: &Settings, progress: &mut dyn Progress, tell: &mut dyn FnMut(&Sample)) -> Result<Endured> {
    settings.check()?;
    let steps = settings.duration.as_secs();
    progress.step("a disk and a pool on it", 0, steps);
    let scratch = Site::new(&settings.host.scratch, NAME)?;
    scratch.used_by(|scratch| {
        let disk = Standing::new(NAME, &settings.disk, SIZE, &settings.host.program, scratch)?;
        let mut service = Service::start(settings, scratch, &disk)?;
        let members = service.members(settings)?;
        disk.settle()?;
        let samples = together(settings, &members, &disk, &service, &mut |sample| {
            progress.step(&format!("{:.0} commits a second", sample.rate), sample.seconds as u64, steps);
            tell(sample);
        })?;
        progress.step("the service is killed, and everything must be there", steps, steps);
        service.kill_and_start(settings)?;
        for member in &members {
            settings.go_on()?;
            member.check().map_err(|reason| Error::Wrong { workload: NAME, reason, path: service.data.clone() })?;
        }
        let verdict = Verdict::of(&samples, settings.duration);
        Ok(Endured { samples, verdict, real_time: disk.is_real_time() })
    })
}

/// Members commit until the time is over or one has failed; meanwhile samples are taken.
fn together(
    settings: &Settings,
    members: &[Member],
    disk: &Standing,
    service: &Service,
    tell: &mut dyn FnMut(&Sample),
) -> Result<Vec<Sample>> {
    let over = AtomicBool::new(false);
    let mut watch = Watch::new(members, disk, &service.data)?;
    thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .map(|member| {
                scope.spawn(|| {
                    let outcome = member.commit_until(&over);
                    // The others need not go on where one has failed.
                    over.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    outcome
                })
            })
            .collect();
        let mut seen = || {
            let (begun, mut samples) = (Instant::now(), Vec::new());
            while begun.elapsed() < settings.duration && !over.load(Ordering::Relaxed) {
                settings.go_on()?;
                thread::sleep(settings.interval.min(settings.duration.saturating_sub(begun.elapsed())));
                samples.push(watch.sample()?);
                samples.last().into_iter().for_each(&mut *tell);
            }
            Ok(samples)
        };
        let seen: Result<Vec<Sample>> = seen();
        over.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("a member returns its errors")?;
        }
        seen
    })
}

/// The pool's process, with a mount for each member.
struct Service {
    process: Option<Serving>,
    config: PathBuf,
    data: PathBuf,
    mounts: Vec<PathBuf>,
}

impl Service {
    /// As a person would start it: by a configuration in a file.
    fn start(settings: &Settings, scratch: &Site, disk: &Standing) -> Result<Self> {
        let (data, config) = (disk.root().join("pool"), scratch.join("pool.toml"));
        let share = settings.log.0 / 4 / settings.members as u64;
        let mut text = format!(
            "data = {:?}\nlog = \"{}B\"\nwaiting = \"{}\"\n",
            data.display().to_string(),
            settings.log.0,
            settings.waiting
        );
        let mut mounts = Vec::new();
        for number in 0..settings.members {
            let mount = folder(scratch, &format!("member-{number}"))?;
            let _ = write!(
                text,
                "\n[[member]]\nname = \"member-{number}\"\nprofile = \"mariadb\"\nmount = {:?}\nshare = \"{share}B\"\n",
                mount.display().to_string()
            );
            mounts.push(mount);
        }
        fs::write(&config, text).map_err(|source| Error::Io {
            path: config.clone(),
            operation: "writing the service's configuration",
            source,
        })?;
        let mut service = Self { process: None, config, data, mounts };
        service.process = Some(service.serve(settings)?);
        Ok(service)
    }

    fn serve(&self, settings: &Settings) -> Result<Serving> {
        let mut command = Command::new(&settings.host.program);
        command.args(["log", "serve", "--json", "--config"]).arg(&self.config).process_group(0);
        Serving::start(command).map_err(|reason| Error::Process { what: "the pool", reason })
    }

    fn members(&self, settings: &Settings) -> Result<Vec<Member>> {
        let seed = settings.host.origin.seed;
        let member = |(number, mount): (usize, &PathBuf)| {
            settings.go_on()?;
            Member::create(mount, settings.file, seed.derive(number as u64))
        };
        self.mounts.iter().enumerate().map(member).collect()
    }

    /// Nothing in memory is of help to it any more.
    fn kill_and_start(&mut self, settings: &Settings) -> Result<()> {
        self.process
            .take()
            .into_iter()
            .try_for_each(Serving::kill)
            .map_err(|reason| Error::Process { what: "the pool", reason })?;
        self.process = Some(self.serve(settings)?);
        let began = Instant::now();
        while !self.mounts.iter().all(|mount| member::log_of(mount).exists()) {
            if began.elapsed() > PATIENCE {
                return Err(missing(&self.data));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn missing(data: &Path) -> Error {
    let reason = "a member's file is not there after the service was killed and started again".to_owned();
    Error::Wrong { workload: NAME, reason, path: data.to_owned() }
}
