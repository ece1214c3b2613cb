//! Work at a loop device whose file this process serves, in a thread with a table of descriptors of its own.
//!
//! Such work waits for this process' own answers: `LOOP_CONFIGURE` syncs the file, and the last `close` of a device writes back what is dirty. A process that is killed
//! meanwhile would wait for itself for ever: the threads that answer are gone, and the one that waits can not be killed and keeps `/dev/fuse` open. With a table of its
//! own it does not: `/dev/fuse` closes with the others, the kernel fails what was asked for, and the process is gone.
//!
//! Such a table begins as a copy of the process' own, and to empty it closes files. Those of some file systems wait for a server then, which may not answer. So there is one,
//! made [early](prepare), for all such work: one thread has it, and begins the others, which share it.

#![allow(unsafe_code, reason = "rustix has `unshare`, as what concerns all threads, and no `close_range`")]

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The first descriptor that is none of the standard ones.
const FIRST: u32 = 3;

/// The name of a thread that works so.
const NAME: &str = "loop-device";

type Work = Box<dyn FnOnce() + Send>;

/// To the thread that begins the others, once there is one.
static BEGINNER: Mutex<Option<Sender<Work>>> = Mutex::new(None);

/// Makes the table. The first work does so, too; but a file that the process has open by then may keep it waiting.
///
/// # Errors
///
/// The system's, where a thread can not have a table of its own.
pub(crate) fn prepare() -> io::Result<()> {
    beginner().map(drop)
}

/// Does work that opens what it needs by itself: it has none of this process' descriptors but the standard ones.
pub(super) fn apart<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let (told, heard) = channel();
    let work = move || {
        // It is waited for below.
        let _ = told.send(work());
    };
    let gone = |_| io::Error::from(Errno::IO);
    beginner()?.send(Box::new(work)).map_err(|_| Errno::IO)?;
    heard.recv().map_err(gone)?
}

fn beginner() -> io::Result<Sender<Work>> {
    let mut known = BEGINNER.lock();
    if let Some(beginner) = &*known {
        return Ok(beginner.clone());
    }
    let (beginner, asked) = channel::<Work>();
    let (told, heard) = channel();
    let begin = move || {
        let emptied = empty();
        let is_empty = emptied.is_ok();
        // It is waited for below.
        let _ = told.send(emptied);
        while is_empty && let Ok(work) = asked.recv() {
            if let Err(error) = Builder::new().name(NAME.to_owned()).spawn(work) {
                tracing::warn!(%error, "there is no thread for work at a loop device");
            }
        }
    };
    Builder::new().name(NAME.to_owned()).spawn(begin)?;
    heard.recv().map_err(|_| Errno::IO)??;
    *known = Some(beginner.clone());
    Ok(beginner)
}

/// Gives a new thread a table of its own, with nothing in it but the standard descriptors.
fn empty() -> io::Result<()> {
    // SAFETY: this thread is new, and has been given nothing that owns or borrows a descriptor.
    unsafe { unshare_unsafe(UnshareFlags::FILES)? };
    // SAFETY: the table is this thread's alone, so these are no other thread's.
    if unsafe { libc::close_range(FIRST, u32::MAX, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn work_has_no_descriptor_of_the_others_and_takes_none_of_theirs_away() {
        let mut file = tempfile::tempfile().expect("a file");
        let open = || fs::read_dir("/proc/thread-self/fd").map(Iterator::count);
        let before = open().expect("is told");
        // The standard ones, and the folder itself.
        assert!(apart(open).expect("is done") <= 4);
        assert!(before > 4);
        // What came later is not there either.
        let _later = [(); 8].map(|()| tempfile::tempfile().expect("a file"));
        assert!(apart(open).expect("is done") <= 4);
        apart(|| File::open("/proc/self/stat").map(drop)).expect("is done");
        file.write_all(b"still there").expect("is written");
        let error = apart(|| Err::<(), _>(io::Error::from(Errno::BUSY))).expect_err("is told");
        assert_eq!(error.raw_os_error(), Some(Errno::BUSY.raw_os_error()));
    }

    #[test]
    fn work_that_waits_keeps_no_other_waiting() {
        let barrier: &'static Barrier = Box::leak(Box::new(Barrier::new(2)));
        let waits = std::thread::spawn(|| apart(|| Ok(barrier.wait().is_leader())));
        apart(|| Ok(barrier.wait().is_leader())).expect("is done");
        waits.join().expect("no panic").expect("is done");
    }
}
