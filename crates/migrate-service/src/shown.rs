//! Paths as text from which their bytes can be told: names need not be UTF-8, and reports and questions are.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

fn escaped(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

/// A path as text from which its bytes can be told.
pub(crate) fn shown(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter == '\\' || letter.is_control() {
                let mut bytes = [0; 4];
                text.extend(letter.encode_utf8(&mut bytes).bytes().map(escaped));
            } else {
                text.push(letter);
            }
        }
        text.extend(chunk.invalid().iter().copied().map(escaped));
    }
    text
}

/// The path of such a text; also of one that a person wrote, whose backslashes are meant as they are where no byte follows.
pub(crate) fn read(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escape = rest.strip_prefix(b"\\x").and_then(|digits| digits.split_at_checked(2));
        let byte = escape.and_then(|(digits, after)| {
            let digits =
                str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit()))?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        let (byte, after) = byte.unwrap_or((first, after));
        bytes.push(byte);
        rest = after;
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_path_is_told_by_its_bytes_whatever_they_are() {
        for (bytes, text) in [
            ("a/ä b".as_bytes(), "a/ä b"),
            (b"a\\b\n\xff\xfe", "a\\x5cb\\x0a\\xff\\xfe"),
            (b"\\x41", "\\x5cx41"),
            (b"", ""),
        ] {
            let path = Path::new(OsStr::from_bytes(bytes));
            assert_eq!((shown(path).as_str(), read(text).as_path()), (text, path));
        }
        for text in ["a\\b", "\\x", "\\x4", "\\x+4", "\\xä"] {
            assert_eq!(read(text), Path::new(text));
        }
    }
}
