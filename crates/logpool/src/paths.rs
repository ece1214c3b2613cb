//! Names of members and of their files: what is taken, and what is refused.

use crate::{Error, Result};

/// The longest path of a file, in bytes.
pub(crate) const LONGEST: usize = 255;

/// Refuses a member's name that could not be part of a device's.
pub(crate) fn check_member(name: &str) -> Result<()> {
    let fits = (1..=32).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if fits {
        return Ok(());
    }
    Err(Error::invalid(format!("`{name}` can not be a member's name: 1 to 32 ASCII letters, digits, `_` and `-`")))
}

/// Refuses a path that is not made of plain names.
pub(crate) fn check(path: &str) -> Result<()> {
    let fault = if path.is_empty() || path.len() > LONGEST {
        "a path has 1 to 255 bytes"
    } else if path.contains('\0') {
        "a path has no zero byte"
    } else if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        "a path is made of names with one slash between them, none of them `.` or `..`"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("`{}`: {fault}", path.escape_default())))
}

/// The directory that a path lies in, if it is not the member's own.
pub(crate) fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_pass_and_others_do_not() {
        for path in ["ib_logfile0", "archive_status/000.done", "a b"] {
            assert!(check(path).is_ok(), "{path}");
        }
        for path in ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a\0b", &"x".repeat(256)] {
            assert!(check(path).is_err(), "{path}");
        }
        assert!(check_member("db-1_a").is_ok());
        for name in ["", "a/b", "a.b", &"x".repeat(33)] {
            assert!(check_member(name).is_err(), "{name}");
        }
    }
}
