//! The kernel's table of what is mounted where.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::{fs, io};

/// A file system that is mounted, as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The folder it is mounted on, absolute and without links.
    pub at: PathBuf,
    /// The kind of the file system, such as `ext4` or `fuse`.
    pub kind: OsString,
    /// Its device; of one by FUSE, the name that it was given.
    pub name: OsString,
}

/// All that is mounted, in the order in which it was.
///
/// # Errors
///
/// What reading `/proc/self/mountinfo` fails with.
pub fn mounted() -> io::Result<Vec<Mounted>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(Mounted::of).collect())
}

impl Mounted {
    /// What a line of the table says.
    pub(crate) fn of(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        // The fifth word; then some more to a hyphen, the kind and the name.
        let at = unescaped(words.nth(4)?).into();
        words.find(|word| *word == b"-")?;
        Some(Self { at, kind: unescaped(words.next()?), name: unescaped(words.next()?) })
    }
}

/// The kernel writes a blank and the like as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> OsString {
    let (mut bytes, mut rest) = (Vec::new(), text);
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
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_digits_are_letters_and_a_backslash_without_them_is_one() {
        assert_eq!(unescaped(br"/tmp/a\040b\134c"), r"/tmp/a b\c");
        assert_eq!(unescaped(br"/plain\04"), r"/plain\04");
    }
}
