//! The names of the devices of which a page file consists.

use crate::error::{Error, Result};

/// The longest name of a page file, in bytes; a device's may have 100.
const LONGEST: usize = 80;
const ENDING: &str = ".pages";

/// Refuses a name that devices can not have.
pub(crate) fn check(file: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let fits = !file.is_empty() && file.len() <= LONGEST && !file.starts_with('.') && file.bytes().all(plain);
    // The manifest of `t-0000000001` would be called as the first segment of `t` is.
    if fits && !ends_as_a_segment(file) {
        return Ok(());
    }
    let reason = format!(
        "a page file's name has 1 to {LONGEST} ASCII letters, digits, '.', '-' and '_', no dot in front and not '-' and ten digits behind"
    );
    Err(Error::Invalid { file: file.to_owned(), reason })
}

/// Of the current manifest.
pub(crate) fn manifest(file: &str) -> String {
    format!("{file}{ENDING}")
}

/// Of the manifest that is about to become current.
pub(crate) fn new_manifest(file: &str) -> String {
    format!("{file}{ENDING}.new")
}

/// Of what a writer locks.
pub(crate) fn lock(file: &str) -> String {
    format!("{file}{ENDING}.lock")
}

/// Of a segment.
pub(crate) fn segment(file: &str, number: u32) -> String {
    format!("{file}-{number:010}{ENDING}")
}

/// The number of a segment of this file, if that is one's name.
pub(crate) fn segment_number(file: &str, name: &str) -> Option<u32> {
    let digits = name.strip_prefix(file)?.strip_prefix('-')?.strip_suffix(ENDING)?;
    let number = digits.parse().ok()?;
    (segment(file, number) == name).then_some(number)
}

/// The name of the page file whose manifest this is, if it is one's.
pub(crate) fn file_of(name: &str) -> Option<&str> {
    name.strip_suffix(ENDING).filter(|file| !ends_as_a_segment(file))
}

fn ends_as_a_segment(file: &str) -> bool {
    file.rsplit_once('-')
        .is_some_and(|(_, digits)| digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_manifests_and_segments_are_told_apart() {
        assert_eq!(segment_number("a", &segment("a", 7)), Some(7));
        assert_eq!(segment_number("a", &segment("a-b", 7)), None);
        assert_eq!(segment_number("a", "a-7.pages"), None);
        assert_eq!(file_of(&manifest("a-b")), Some("a-b"));
        for other in [segment("a", 7), new_manifest("a"), lock("a"), "wal".into()] {
            assert_eq!(file_of(&other), None, "{other}");
        }
        check("line-item_1.v2").expect("plain");
        for bad in ["", ".a", "a/b", "ä", &"x".repeat(81)] {
            check(bad).unwrap_err();
        }
        // What could be taken for another file's segment is no name.
        assert!(check("a-0000000007").is_err());
    }
}
