//! What `statfs` answers before a file system fills it in.

use std::io;

use fuse_backend_rs::abi::fuse_abi::statvfs64;
use fuse_backend_rs::api::filesystem::{Context, FileSystem};

/// All zeros: what the library answers for a file system that says nothing of itself. Its type can not be made safely otherwise.
///
/// # Errors
///
/// None; the library's signature has them.
pub fn empty_statvfs() -> io::Result<statvfs64> {
    struct Silent;
    impl FileSystem for Silent {
        type Inode = u64;
        type Handle = u64;
    }
    Silent.statfs(&Context::default(), 0)
}
