//! What stands for something else: symbolic links, junctions, and files whose data lies on other media.
//!
//! | At the server | Here |
//! |---|---|
//! | relative symbolic link of Windows | symbolic link, with slashes |
//! | symbolic link of WSL, or of Windows' NFS server | symbolic link |
//! | absolute symbolic link, junction, volume mounted in a folder, DFS link | symbolic link whose target is an error: it leads out of the share |
//! | pipe and socket of WSL | pipe, socket |
//! | all else (deduplicated, compressed, in a cloud, on a tape) | what it stands for: the server fetches the data |

use super::answer::Trouble;
use super::bytes::{Fields, Malformed};
use super::name;
use crate::source::{Error, ErrorKind, FileType};

/// A file is marked as one that stands for something else.
pub(super) const REPARSE_POINT: u32 = 0x400;
pub(super) const READ_ONLY: u32 = 0x1;
const DIRECTORY: u32 = 0x10;

const SYMLINK: u32 = 0xa000_000c;
const MOUNT_POINT: u32 = 0xa000_0003;
const DFS: u32 = 0x8000_000a;
const WSL_SYMLINK: u32 = 0xa000_001d;
const WSL_PIPE: u32 = 0x8000_0024;
const SOCKET: u32 = 0x8000_0023;
const NFS: u32 = 0x8000_0014;
/// Where a link of Windows' NFS server says that it is one: `LNK`.
const NFS_LINK: u64 = 0x014b_4e4c;

/// What an object with these attributes, and this tag if it is marked by one, is here.
pub(super) fn file_type(attributes: u32, tag: u32) -> FileType {
    if attributes & REPARSE_POINT != 0 {
        match tag {
            SYMLINK | MOUNT_POINT | DFS | WSL_SYMLINK | NFS => return FileType::Symlink,
            WSL_PIPE => return FileType::Fifo,
            SOCKET => return FileType::Socket,
            _ => {}
        }
    }
    if attributes & DIRECTORY != 0 { FileType::Directory } else { FileType::Regular }
}

/// The target of a symbolic link, from what the server says of it. `None` if it is none.
pub(super) fn target(data: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
    let fields = Fields(data);
    let out = |target: Vec<u8>| {
        let message =
            format!("it leads out of the share, to {}; make that link by hand", String::from_utf8_lossy(&target));
        Err(Error::new(ErrorKind::Broken, message).into())
    };
    let tag = fields.u32(0)?;
    let target = match tag {
        SYMLINK | MOUNT_POINT => {
            let buffer = if tag == SYMLINK { 20 } else { 16 };
            let at = buffer + usize::from(fields.u16(8)?);
            let target = name::from_wide(name::units(fields.bytes(at, usize::from(fields.u16(10)?))?));
            if tag == MOUNT_POINT || fields.u32(16)? & 1 == 0 {
                return out(target);
            }
            target.into_iter().map(|byte| if byte == b'\\' { b'/' } else { byte }).collect()
        }
        WSL_SYMLINK => fields.bytes(12, usize::from(fields.u16(4)?).saturating_sub(4))?.to_vec(),
        NFS if fields.u64(8)? == NFS_LINK => {
            name::from_wide(name::units(fields.bytes(16, usize::from(fields.u16(4)?).saturating_sub(8))?))
        }
        DFS => return out(b"another server (DFS)".to_vec()),
        _ => return Ok(None),
    };
    if target.is_empty() || target.contains(&0) {
        return Err(Malformed("a symbolic link has no target").into());
    }
    Ok(Some(target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::smb::bytes::Body;

    fn windows(tag: u32, flags: u32, text: &str) -> Vec<u8> {
        let wide = name::bytes_of(&text.encode_utf16().collect::<Vec<_>>());
        let size = wide.len() as u16;
        let body = Body::default().u32(tag).u16(size + 12).u16(0).u16(0).u16(size).u16(size).u16(0);
        if tag == SYMLINK { body.u32(flags).bytes(&wide).0 } else { body.bytes(&wide).0 }
    }

    #[test]
    fn a_relative_link_has_slashes_and_others_are_errors() {
        let found = target(&windows(SYMLINK, 1, "..\\a\\\u{e4}")).expect("a target");
        assert_eq!(found.as_deref(), Some("../a/\u{e4}".as_bytes()));
        for (tag, flags) in [(SYMLINK, 0), (MOUNT_POINT, 1)] {
            let error = target(&windows(tag, flags, "\\??\\C:\\a")).expect_err("out");
            assert!(matches!(&error, Trouble::Error(error) if error.message.contains("\\??\\C:\\a")), "{error:?}");
        }
        let wsl = Body::default().u32(WSL_SYMLINK).u16(7).u16(0).u32(2).bytes(b"a/b").0;
        assert_eq!(target(&wsl).expect("a target").as_deref(), Some(&b"a/b"[..]));
        let nfs = Body::default().u32(NFS).u16(10).u16(0).u64(NFS_LINK).u16(u16::from(b'x')).0;
        assert_eq!(target(&nfs).expect("a target").as_deref(), Some(&b"x"[..]));
        assert_eq!(target(&Body::default().u32(0x8000_0013).zeros(8).0).expect("none"), None);
    }

    #[test]
    fn a_link_that_is_cut_is_refused() {
        let whole = windows(SYMLINK, 1, "abc");
        for size in 0..whole.len() {
            assert!(target(&whole[..size]).is_err(), "{size}");
        }
        assert!(target(&windows(SYMLINK, 1, "")).is_err());
        assert!(target(&windows(SYMLINK, 1, "a\0b")).is_err());
    }

    #[test]
    fn what_the_server_fetches_is_an_ordinary_file() {
        assert_eq!(file_type(REPARSE_POINT, 0x8000_0013), FileType::Regular);
        assert_eq!(file_type(REPARSE_POINT | DIRECTORY, 0x9000_001a), FileType::Directory);
        assert_eq!(file_type(REPARSE_POINT | DIRECTORY, SYMLINK), FileType::Symlink);
        // Without the mark it is the size of extended attributes.
        assert_eq!(file_type(DIRECTORY, SYMLINK), FileType::Directory);
    }
}
