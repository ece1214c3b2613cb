//! Whether what the sources hold has room at the destination, where they say how much that is.

use ishigaki_base::ByteSize;
use ishigaki_migrate::engine::HIDDEN;
use rustix::fs::statvfs;

use super::Finding;
use super::paths::Told;
use crate::Config;

pub(super) fn look(config: &Config, told: &[Option<Told>], findings: &mut Vec<Finding>) {
    // What is wrong with the destination itself is found elsewhere.
    let Ok(room) = statvfs(&config.to) else { return };
    let is_begun = config.to.join(HIDDEN).exists();
    let (free, nodes) = (room.f_bavail.saturating_mul(room.f_frsize), room.f_favail);
    let (mut bytes, mut files, mut known) = (0_u64, 0_u64, true);
    for (source, told) in config.sources.iter().zip(told) {
        let Some(used) = told.as_ref().and_then(|told| told.room.as_ref()) else {
            known = false;
            let message = format!("how much {} holds is not known", source.from);
            findings.push(Finding::warning("from", message, "compare it with the room at the destination yourself"));
            continue;
        };
        bytes = bytes.saturating_add(used.f_blocks.saturating_sub(used.f_bfree).saturating_mul(used.f_frsize));
        files = files.saturating_add(used.f_files.saturating_sub(used.f_ffree));
    }
    if is_begun {
        findings.push(Finding::note("to", format!("{} are free; a part has arrived already", ByteSize(free))));
        return;
    }
    if bytes > free {
        let message =
            format!("the sources' file systems hold up to {}, and {} are free", ByteSize(bytes), ByteSize(free));
        findings.push(Finding::warning(
            "to",
            message,
            "look how much of it is migrated (`du -s`), or take a larger disk",
        ));
    }
    // A file system that makes inodes as it needs them tells of none.
    if room.f_files > 0 && files > nodes {
        let message = format!("the sources' file systems hold up to {files} files, and {nodes} inodes are free");
        let remedy = "make the file system with more inodes (`mkfs.ext4 -N`, `mkfs.xfs -i maxpct=`)";
        findings.push(Finding::warning("to", message, remedy));
    }
    if known && bytes <= free && (room.f_files == 0 || files <= nodes) {
        let message = format!("all that the sources' file systems hold ({}) has room", ByteSize(bytes));
        findings.push(Finding::note("to", message));
    }
}
