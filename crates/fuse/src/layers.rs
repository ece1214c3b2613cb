//! Mounts on one another, of which programs see the uppermost.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};

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
    let Ok(table) = fs::read("/proc/self/mountinfo") else { return 0 };
    table.split(|byte| *byte == b'\n').filter(|line| is_on(line, place.as_os_str().as_bytes(), name)).count()
}

/// Whether a line of the table is about a mount of FUSE of that name on that folder.
fn is_on(line: &[u8], place: &[u8], name: &str) -> bool {
    let mut words = line.split(|byte| *byte == b' ');
    // The fifth word, in which blanks are octal numbers; then some more to a hyphen, the kind and the name.
    let is_there = words.nth(4).is_some_and(|point| unescaped(point) == place);
    let is_fuse = words.by_ref().find(|word| *word == b"-").is_some() && words.next() == Some(b"fuse");
    is_there && is_fuse && words.next() == Some(name.as_bytes())
}

fn unescaped(point: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), point);
    while let Some((&first, after)) = rest.split_first() {
        let digits =
            after.get(..3).filter(|digits| first == b'\\' && digits.iter().all(|it| (b'0'..b'8').contains(it)));
        if let Some(digits) = digits {
            bytes.push(digits.iter().fold(0_u8, |byte, digit| byte.wrapping_mul(8).wrapping_add(digit - b'0')));
            rest = &after[3..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_told_from_others_by_its_folder_kind_and_name() {
        let line = b"77 28 0:51 / /srv/a\\040b rw,nosuid shared:3 - fuse ishigaki-migrate rw,user_id=0";
        assert!(is_on(line, b"/srv/a b", "ishigaki-migrate"));
        assert!(!is_on(line, b"/srv/a", "ishigaki-migrate") && !is_on(line, b"/srv/a b", "other"));
        let line = b"28 1 254:0 / / rw,relatime - ext4 ishigaki-migrate rw";
        assert!(!is_on(line, b"/", "ishigaki-migrate") && !is_on(b"", b"/", "ishigaki-migrate"));
    }
}
