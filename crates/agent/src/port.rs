//! A port of the machine that leads to its host (virtio-serial): a character device, which is open as long as a message and its answer take.
//!
//! The way has no beginning and no end: what is in it may be the rest of a message that another process was writing, and an answer that none was waiting for.
//! So what waits to be read is passed over first, and a message begins on a new line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// Bytes of the longest answer.
const ANSWER: usize = 1 << 16;

/// Says a line, and hears the one that answers it.
pub(crate) fn converse(path: &Path, line: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let mut port = OpenOptions::new().read(true).write(true).custom_flags(flags.cast_signed()).open(path)?;
    let until = Instant::now() + patience;
    let mut piece = [0; 4096];
    while or_none(port.read(&mut piece))?.is_some_and(|length| length > 0) {}
    for part in [b"\n", line] {
        let mut rest = part;
        while !rest.is_empty() {
            match or_none(port.write(rest))? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(length) => rest = &rest[length..],
                None => wait(&port, PollFlags::OUT, until)?,
            }
        }
    }
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n") && answer.len() < ANSWER {
        match or_none(port.read(&mut piece))? {
            Some(0) => return Err(unconnected()),
            Some(length) => answer.extend_from_slice(&piece[..length]),
            None => wait(&port, PollFlags::IN, until)?,
        }
    }
    Ok(answer)
}

/// `None` where there is nothing at the moment.
fn or_none(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(length) => Ok(Some(length)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

fn unconnected() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the host is not connected to this port")
}

fn wait(port: &File, what: PollFlags, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    let mut ready = [PollFd::new(port, what)];
    match poll(&mut ready, Some(&timeout)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) if !ready[0].revents().intersects(what) => Err(unconnected()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::path::PathBuf;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

    use super::*;

    /// The host's end of a port, and the machine's.
    fn port() -> (File, PathBuf) {
        let host = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&host).unwrap();
        unlockpt(&host).unwrap();
        let path = PathBuf::from(ptsname(&host, Vec::new()).unwrap().into_string().unwrap());
        let mut modes = tcgetattr(&host).unwrap();
        modes.make_raw();
        tcsetattr(&host, OptionalActions::Now, &modes).unwrap();
        (File::from(host), path)
    }

    #[test]
    fn a_line_is_said_whole_and_the_answer_is_the_one_that_follows_it() {
        let (host, path) = port();
        // An answer that comes to a process that has gone.
        (&host).write_all(b"of another time\n").unwrap();
        let mut line = vec![b'x'; 1 << 18];
        line.push(b'\n');
        let said = line.clone();
        let hears = std::thread::spawn(move || {
            let mut lines = BufReader::new(&host);
            let mut heard = Vec::new();
            lines.read_until(b'\n', &mut heard).unwrap();
            assert_eq!(heard, b"\n");
            heard.clear();
            lines.read_until(b'\n', &mut heard).unwrap();
            assert!(heard == said);
            (&host).write_all(b"taken\n").unwrap();
            host
        });
        let answer = converse(&path, &line, Duration::from_mins(1)).unwrap();
        assert_eq!(answer, b"taken\n");
        drop(hears.join().unwrap());
    }

    #[test]
    fn a_host_that_says_nothing_is_waited_for_and_one_that_is_not_there_is_not() {
        let (host, path) = port();
        let began = Instant::now();
        let error = converse(&path, b"hello\n", Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= Duration::from_millis(50));
        drop(host);
        converse(&path, b"hello\n", Duration::from_mins(1)).unwrap_err();
    }
}
