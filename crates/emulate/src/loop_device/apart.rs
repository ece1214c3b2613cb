//! Work at a loop device whose file this process serves, in a thread with a table of descriptors of its own.
//!
//! Such work waits for this process' own answers: `LOOP_CONFIGURE` syncs the file, and the last `close` of a device writes back what is dirty. A process that is killed
//! meanwhile would wait for itself for ever: the threads that answer are gone, and the one that waits can not be killed and keeps `/dev/fuse` open. With a table of its
//! own it does not: `/dev/fuse` closes with the others, the kernel fails what was asked for, and the process is gone.

#![allow(unsafe_code, reason = "rustix has `unshare`, as what concerns all threads, and no `close_range`")]

use std::io;
use std::thread::Builder;

use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The first descriptor that is none of the standard ones.
const FIRST: u32 = 3;

/// Does work that opens what it needs by itself: it has none of this process' descriptors but the standard ones.
pub(super) fn apart<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = Builder::new().name("loop-device".to_owned()).spawn_scoped(scope, || {
            // SAFETY: this thread is new, and has been given nothing that owns or borrows a descriptor.
            unsafe { unshare_unsafe(UnshareFlags::FILES)? };
            // SAFETY: the table is this thread's alone, so these are no other thread's.
            if unsafe { libc::close_range(FIRST, u32::MAX, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
            work()
        })?;
        thread.join().map_err(|_| io::Error::from(Errno::IO))?
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;

    #[test]
    fn work_has_no_descriptor_of_the_others_and_takes_none_of_theirs_away() {
        let mut file = tempfile::tempfile().expect("a file");
        let open = || fs::read_dir("/proc/thread-self/fd").map(Iterator::count);
        let before = open().expect("is told");
        // The standard ones, and the folder itself.
        assert!(apart(open).expect("is done") <= 4);
        assert!(before > 4);
        apart(|| File::open("/proc/self/stat").map(drop)).expect("is done");
        file.write_all(b"still there").expect("is written");
        let error = apart(|| Err::<(), _>(io::Error::from(Errno::BUSY))).expect_err("is told");
        assert_eq!(error.raw_os_error(), Some(Errno::BUSY.raw_os_error()));
    }
}
