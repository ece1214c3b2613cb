//! `ishigaki media emulate`: a block device with the times of a drive that is not there, until somebody ends it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{DriveCounts, DriveSettings, HddSettings, Medium};
use ishigaki_emulate::{EmulatedDisk, Error, cut_power, restore_power};
use serde_json::json;

use crate::commands::ends::{Ends, say};
use crate::failure::Failure;
use crate::human;

const EXAMPLES: &str = "\
Examples:
  ishigaki media emulate hdd --size 2GiB --at /srv/disk      a hard disk; says where it is
  mkfs.ext4 /dev/loop0 && mount /dev/loop0 /mnt              as with any other
  ishigaki media emulate --power-cut --at /srv/disk          what was not flushed may be lost
  umount /mnt && ishigaki media emulate --power-on --at /srv/disk && mount /dev/loop0 /mnt
  ishigaki media emulate ssd --size 1TB --memory 4GiB --at DIR    large, and never full";

/// How often it is seen to whether the disk is still there, or still in use.
const GLANCE: Duration = Duration::from_millis(500);

/// Emulate a drive: a block device for any program, whose requests take the time of a modelled medium
///
/// All who use it share its one head, or its channels. Its bytes are in memory and go with it. Ctrl-C or SIGTERM takes it away
/// when nobody has it mounted any more; a second one at once, as a drive that is pulled out. Takes root.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The medium: hdd, ssd, or nvm:5us
    #[arg(value_name = "MEDIUM", required_unless_present_any = ["power_cut", "power_on"])]
    medium: Option<Medium>,

    /// Its size, as in 2GiB
    #[arg(long, value_name = "SIZE", required_unless_present_any = ["power_cut", "power_on"])]
    size: Option<ByteSize>,

    /// The folder for it, which is made if it is not there and else empty: the drive's bytes as the file `disk`, its `power`,
    /// its `status`
    #[arg(long, value_name = "DIR")]
    at: PathBuf,

    /// How much memory it may take; a write that would need more fails. Its size and its write cache if it is not given
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,

    /// For hdd: it is the first part of a drive of this size, whose arm moves less within it. Its own size if it is not given
    #[arg(long, value_name = "SIZE")]
    capacity: Option<ByteSize>,

    /// Print one JSON object when it is there and one when it is gone, and nothing else on stdout
    #[arg(long)]
    json: bool,

    /// Cut the power of the one at that folder: what was not flushed is lost or not, and every request fails
    #[arg(long, conflicts_with_all = ["medium", "size", "memory", "capacity", "json", "power_on"])]
    power_cut: bool,

    /// What a power cut leaves, as in 7 or 0x2a; drawn if it is not given
    #[arg(long, value_name = "NUMBER", requires = "power_cut")]
    seed: Option<Seed>,

    /// Turn the power on again, of the one at that folder; file systems on it are to be unmounted before
    #[arg(long, conflicts_with_all = ["medium", "size", "memory", "capacity", "json"])]
    power_on: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let at = &arguments.at;
    if arguments.power_cut {
        let seed = arguments.seed.unwrap_or_else(Seed::from_entropy);
        cut_power(at, seed).map_err(failed)?;
        return say(&format!(
            "The power is cut, seed {seed}. Unmount what is on the disk; `--power-on --at {}` brings it back.",
            at.display()
        ));
    }
    if arguments.power_on {
        restore_power(at).map_err(failed)?;
        return say("The power is on.");
    }
    let settings = settings(arguments)?;
    fs::create_dir_all(at).map_err(|error| Failure::file(at.display(), &error))?;
    // Before anybody can know of the disk, so that no signal finds it unprepared.
    let ends = Ends::new(2)?;
    let (medium, size) = (settings.medium.clone(), settings.size);
    let disk = EmulatedDisk::new(settings, at).map_err(failed)?;
    let device = disk.device().display().to_string();
    say(&if arguments.json {
        let (medium, at, pid) = (medium.to_string(), at.display().to_string(), std::process::id());
        json!({ "device": device, "medium": medium, "size": size.as_u64(), "at": at, "pid": pid }).to_string()
    } else {
        format!("{device} is {}.\n{}", described(&medium, size), advice(at))
    })?;
    while !ends.wait_for(GLANCE) {
        if !disk.is_alive() {
            let told = format!("{}: somebody has unmounted it, or detached {device}", at.display());
            return Err(Failure::of(ishigaki_base::ErrorKind::Unavailable, told).without_hint());
        }
    }
    if disk.is_in_use() {
        if !arguments.json {
            say(&format!("{device} is in use; unmount it. Once more pulls it out."))?;
        }
        while disk.is_in_use() && !ends.wait_for(GLANCE) {}
    }
    // Meanwhile the next one ends the process.
    ends.end_the_process();
    let counts = disk.drive().counts();
    drop(disk);
    say(&if arguments.json { ended_json(counts).to_string() } else { ended_text(counts) })
}

fn settings(arguments: &Arguments) -> Result<DriveSettings, Failure> {
    let Arguments { medium: Some(medium), size: Some(size), memory, capacity, .. } = arguments else {
        return Err(Failure::usage("which medium, and how large?"));
    };
    if size.as_u64() == 0 {
        return Err(Failure::usage("a disk of no bytes is none"));
    }
    let mut settings = DriveSettings::new(medium.clone(), *size);
    settings.memory = memory.unwrap_or(settings.memory);
    match (&mut settings.medium, capacity) {
        (_, None) => {}
        (Medium::Hdd(disk), Some(capacity)) if capacity >= size => disk.capacity = *capacity,
        (Medium::Hdd(_), Some(_)) => {
            return Err(Failure::usage("`--capacity` is that of the whole drive, not less than `--size`"));
        }
        (_, Some(_)) => return Err(Failure::usage("`--capacity` is for hdd: nothing else has an arm to move")),
    }
    Ok(settings)
}

fn failed(error: Error) -> Failure {
    let hint = match &error {
        Error::NotRoot => Some("run it by `sudo`"),
        Error::Memory { .. } => {
            Some("`--memory` limits what it may take: a disk that is never full needs less than its size")
        }
        Error::Mount(_) => {
            Some("`ls -l /dev/fuse` shows whether there is FUSE (`modprobe fuse`); the folder must be empty")
        }
        _ => None,
    };
    let failure = Failure::of(error.kind(), error).without_hint();
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// The medium's figures, for a person.
fn described(medium: &Medium, size: ByteSize) -> String {
    match medium {
        Medium::Hdd(HddSettings { rpm, seek_average, sustained, write_cache, capacity, .. }) => {
            let part = if *capacity > size { format!(" of a drive of {capacity}") } else { String::new() };
            format!(
                "a hard disk, {size}{part}: {rpm} rpm, {} average seek, {:.0} MB/s, {write_cache} of write cache",
                human::duration(*seek_average),
                sustained.as_u64() as f64 / 1e6,
            )
        }
        Medium::Ssd(ssd) => format!(
            "a solid-state drive, {size}: {} channels, {} written in {} and read in {}, a flush in {}",
            ssd.channels,
            ssd.page,
            human::duration(ssd.program),
            human::duration(ssd.read),
            human::duration(ssd.sync),
        ),
        Medium::Nvm(_) => format!("{medium}, {size}"),
    }
}

fn advice(at: &Path) -> String {
    format!("`ishigaki media emulate --power-cut --at {}` cuts its power; Ctrl-C takes it away.", at.display())
}

fn ended_text(counts: DriveCounts) -> String {
    format!(
        "Gone after {} ({}), {} ({}) and {}.",
        human::counted(counts.reads, "read"),
        ByteSize(counts.bytes_read),
        human::counted(counts.writes, "write"),
        ByteSize(counts.bytes_written),
        human::counted(counts.flushes, "sync"),
    )
}

fn ended_json(counts: DriveCounts) -> serde_json::Value {
    json!({
        "ended": true,
        "reads": counts.reads,
        "bytes_read": counts.bytes_read,
        "writes": counts.writes,
        "bytes_written": counts.bytes_written,
        "flushes": counts.flushes,
        "trims": counts.trims,
        "power_cuts": counts.power_cuts,
    })
}
