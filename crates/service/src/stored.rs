//! Small files that a service keeps for its next process, each replaced as a whole: the old one is there or the new one, whatever
//! dies.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes `content` what the file at `path` has, durably, for its owner alone. Beside it a name that ends with `.new` is taken.
///
/// # Errors
///
/// What the file system says. The file is the old one then, or, where the last sync failed, perhaps the new one.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().map(OsStr::to_owned).ok_or(io::ErrorKind::InvalidInput)?;
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    settle(path)
}

/// Makes the names beside the file durable, its own among them: a process that was killed may have left them to the page cache, and what
/// was read must not be another thing after a power cut.
///
/// # Errors
///
/// What the file system says.
pub fn settle(path: &Path) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_file_is_replaced_as_a_whole_also_after_a_process_that_was_killed_at_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("members.toml");
        fs::write(directory.path().join("members.toml.new"), "what a killed process has left, and longer")
            .expect("writes");
        for content in [&b"one"[..], b"", b"two\n"] {
            replace(&path, content).expect("replaces");
            assert_eq!(fs::read(&path).expect("is there"), content);
        }
        assert_eq!(fs::metadata(&path).expect("is there").mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).expect("lists").count(), 1, "nothing else stays");
    }

    #[test]
    fn a_file_that_can_not_be_replaced_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("members.toml");
        replace(&path, b"old").expect("replaces");
        fs::create_dir(directory.path().join("members.toml.new")).expect("makes");
        replace(&path, b"new").expect_err("a directory has the name beside it");
        assert_eq!(fs::read(&path).expect("is there"), b"old");
    }
}
