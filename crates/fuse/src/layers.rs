//! Mounts on one another, of which programs see the uppermost.

use std::fs;
use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};

use crate::mounted::{Mounted, mounted};

/// Of several dead mounts of that name on one folder, takes away all but the lowest: what is below them stays covered.
pub(crate) fn keep_one(path: &Path, name: &str, is_dead: impl Fn(&Path) -> bool) {
    let Ok(place) = fs::canonicalize(path) else { return };
    while count(&place, name) > 1 && is_dead(path) {
        if let Err(error) = unmount(path, UnmountFlags::DETACH) {
            tracing::debug!(path = %path.display(), %error, "a dead mount stays below the new one");
            return;
        }
    }
}

/// How many mounts of that name are on a folder.
fn count(place: &Path, name: &str) -> usize {
    mounted().unwrap_or_default().iter().filter(|mounted| is_on(mounted, place, name)).count()
}

/// Whether it is a mount of FUSE of that name on that folder.
fn is_on(mounted: &Mounted, place: &Path, name: &str) -> bool {
    mounted.at == place && mounted.kind == "fuse" && mounted.name == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_told_from_others_by_its_folder_kind_and_name() {
        let is_on = |line: &[u8], place: &str, name: &str| {
            Mounted::of(line).is_some_and(|mounted| is_on(&mounted, Path::new(place), name))
        };
        let line = b"77 28 0:51 / /srv/a\\040b rw,nosuid shared:3 - fuse ishigaki-migrate rw,user_id=0";
        assert!(is_on(line, "/srv/a b", "ishigaki-migrate"));
        assert!(!is_on(line, "/srv/a", "ishigaki-migrate") && !is_on(line, "/srv/a b", "other"));
        let line = b"28 1 254:0 / / rw,relatime - ext4 ishigaki-migrate rw";
        assert!(!is_on(line, "/", "ishigaki-migrate") && !is_on(b"", "/", "ishigaki-migrate"));
    }
}
