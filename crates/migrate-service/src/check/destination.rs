//! Whether the destination can take a migration, or goes on with this one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{AHEAD, Engine, HIDDEN, LOST_AND_FOUND, STATE};
use rustix::fs::{Mode, OFlags};

use super::Finding;
use super::paths::Told;
use crate::serving::begun;
use crate::{Config, Error, control};

/// File systems that the door serves.
const KINDS: [u64; 3] = [0xEF53, 0x5846_5342, 0x9123_683E];
/// Any owner that is not this process'.
const OTHER: u32 = 12_345;

pub(super) fn look(config: &Config, told: &[Option<Told>], findings: &mut Vec<Finding>) {
    let to = &config.to;
    match fs::symlink_metadata(to) {
        Err(error) => {
            let message = format!("{}: {error}", to.display());
            return findings.push(Finding::problem("to", message, "make the directory"));
        }
        Ok(metadata) if !metadata.is_dir() => {
            let message = format!("{} is no directory", to.display());
            return findings.push(Finding::problem("to", message, "name a directory"));
        }
        Ok(_) => {}
    }
    apart(config, told, findings);
    if let Err(error) = look_into(config, findings) {
        let message = format!("{}: {error}", to.display());
        findings.push(Finding::problem("to", message, "run it as root, on a directory that can be written"));
    }
}

/// The destination and the sources do not lie in each other, whatever symbolic links their paths go through.
fn apart(config: &Config, told: &[Option<Told>], findings: &mut Vec<Finding>) {
    let Ok(to) = fs::canonicalize(&config.to) else { return };
    for path in told.iter().flatten().map(|told| &told.path) {
        if path.starts_with(&to) || to.starts_with(path) {
            let message =
                format!("the source {} and the destination {} lie in each other", path.display(), to.display());
            findings.push(Finding::problem("from", message, "a source lies outside of the destination"));
        }
    }
}

fn look_into(config: &Config, findings: &mut Vec<Finding>) -> io::Result<()> {
    let to = &config.to;
    let names: Vec<_> =
        fs::read_dir(to)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()?;
    let is_begun = to.join(HIDDEN).join(STATE).exists();
    let is_ahead = !is_begun && to.join(HIDDEN).join(AHEAD).exists();
    if let Some(other) = names.iter().find(|name| *name != HIDDEN && *name != LOST_AND_FOUND)
        && !is_begun
        && !is_ahead
    {
        let message = format!("{} is not empty: it holds {}", to.display(), other.display());
        findings.push(Finding::problem("to", message, "choose an empty directory"));
    }
    if is_ahead {
        findings.push(match begun::check(config) {
            Ok(()) => Finding::note("to", format!("{} holds what was copied ahead of the migration", to.display())),
            Err(error) => Finding::problem("to", error.to_string(), "or choose another destination"),
        });
    }
    if is_begun {
        let state = Local::open(to).map(|to| Engine::begun(&to))?;
        findings.push(match state.map_err(Error::from).and_then(|_| begun::check(config)) {
            Ok(()) => Finding::note("to", format!("{} holds a migration, which goes on", to.display())),
            Err(error) => Finding::problem("to", error.to_string(), "or choose another destination"),
        });
    }
    if control::is_answered(to) {
        let message = format!("another service migrates into {}", to.display());
        let remedy = "ask that one by `ishigaki migrate status`, or have this one take its place by `--takeover`";
        findings.push(Finding::problem("to", message, remedy));
    }
    for inside in mounted_below(to)? {
        let message = format!("{} is mounted inside of the destination", inside.display());
        findings.push(Finding::problem("to", message, "unmount it: the destination is one file system"));
    }
    let kind = rustix::fs::statfs(to)?.f_type as u64;
    if !KINDS.contains(&kind) {
        let message = format!("{} lies on a file system of kind {kind:#x}", to.display());
        findings.push(Finding::problem("to", message, "take a directory on ext4, xfs or btrfs"));
    }
    let room = rustix::fs::statvfs(to)?;
    if room.f_namemax < 255 {
        let message = format!("names may have {} bytes there, and elsewhere 255", room.f_namemax);
        findings.push(Finding::warning("to", message, "look for longer names at the source, and shorten them"));
    }
    // A migration has proved it, and goes on where no room is left to try anything.
    if is_begun {
        return Ok(());
    }
    if let Err(error) = Local::open(to)?.check(&config.settings().attribute) {
        let remedy = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make the file system larger, or give it more inodes, or remove files from it"
            }
            _ => "run as root, on ext4, xfs or btrfs",
        };
        let message = format!("{}: {error}", to.display());
        findings.push(Finding::problem("to", message, remedy));
        return Ok(());
    }
    if let Err(error) = give_away(to) {
        let message = format!("files can not be given to other users there: {error}");
        findings.push(Finding::problem("to", message, "run as root, on a file system with owners"));
    }
    Ok(())
}

/// Tries to give a file without a name to another user.
fn give_away(to: &Path) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(to, flags, Mode::from_raw_mode(0o600))?;
    let (user, group) = (rustix::fs::Uid::from_raw(OTHER), rustix::fs::Gid::from_raw(OTHER));
    rustix::fs::fchown(&file, Some(user), Some(group))?;
    let found = rustix::fs::fstat(&file)?;
    if (found.st_uid, found.st_gid) == (OTHER, OTHER) { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Mount points below a directory.
fn mounted_below(to: &Path) -> io::Result<Vec<PathBuf>> {
    let to = fs::canonicalize(to)?;
    let points = ishigaki_fuse::mounted()?.into_iter().map(|mounted| mounted.at);
    Ok(points.filter(|point| point.starts_with(&to) && *point != to).collect())
}
