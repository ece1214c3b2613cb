//! Where visitors come in: a listener with a thread, and one more for each visitor.
//!
//! Nobody can keep the service busy: there are at most [`MOST`] visitors at a time (the next one is turned away), each says
//! what it wants within [`PATIENCE`] and within the bytes that it is allowed, and takes its answer within the same time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

/// Visitors at a time.
const MOST: usize = 16;

/// How long one may take to say what it wants, and to take the answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that are read, and the time that is taken, for who was not heard out to take its answer.
const LAST_WORDS: usize = 256 << 10;
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// After a visitor could not be let in, for want of descriptors perhaps.
const PAUSE: Duration = Duration::from_millis(100);

/// Something that visitors come to.
pub trait Listener: AsFd + Send + 'static {
    /// Who comes.
    type Stream: Stream;
    /// The next visitor.
    ///
    /// # Errors
    ///
    /// When it has gone, or for want of descriptors.
    fn admit(&self) -> io::Result<Self::Stream>;
}

/// A visitor.
#[expect(clippy::missing_errors_doc, reason = "they are the operating system's")]
pub trait Stream: Read + Write + Send + 'static {
    /// How long a read may take.
    fn limit_read(&self, time: Duration) -> io::Result<()>;
    /// How long a write may take.
    fn limit_write(&self, time: Duration) -> io::Result<()>;
    /// There will be nothing more to read for the other side.
    fn finish(&self) -> io::Result<()>;
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    fn admit(&self) -> io::Result<UnixStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn admit(&self) -> io::Result<TcpStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

impl Stream for UnixStream {
    fn limit_read(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }

    fn limit_write(&self, time: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(time))
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Stream for TcpStream {
    fn limit_read(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }

    fn limit_write(&self, time: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(time))
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// A listener at work. *Drop* ends it: nobody is let in any more. Visitors that are in get their answers.
#[derive(Debug)]
pub struct Door {
    /// Closed to end the thread.
    bell: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    /// Lets visitors in, and has each served in a thread of its own.
    ///
    /// # Errors
    ///
    /// When there is no thread, or no descriptor.
    pub fn open<L: Listener>(
        name: &'static str,
        listener: L,
        serve: impl Fn(L::Stream) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (bell, rings) = UnixStream::pair()?;
        let work = move || admit_all(name, &listener, rings.as_fd(), &Arc::new(serve));
        let thread = Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { bell: Some(bell), thread: Some(thread) })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        drop(self.bell.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a door of the service panicked");
        }
    }
}

/// One visitor fewer when dropped, however it ends.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn admit_all<L: Listener>(
    name: &'static str,
    listener: &L,
    bell: BorrowedFd<'_>,
    serve: &Arc<impl Fn(L::Stream) + Send + Sync + 'static>,
) {
    let inside = Arc::new(AtomicUsize::new(0));
    loop {
        let mut ready =
            [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN), PollFd::from_borrowed_fd(bell, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, name, "a door of the service is shut");
                return;
            }
        }
        if !ready[1].revents().is_empty() {
            return;
        }
        if ready[0].revents().is_empty() {
            continue;
        }
        let visitor = match listener.admit() {
            Ok(visitor) => visitor,
            Err(error) => {
                tracing::debug!(%error, name, "a visitor did not come in");
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        // Only this thread lets anybody in.
        if inside.load(Ordering::SeqCst) >= MOST {
            tracing::debug!(name, "a visitor was turned away: there are {MOST} already");
            continue;
        }
        inside.fetch_add(1, Ordering::SeqCst);
        let (place, serve) = (Place(inside.clone()), serve.clone());
        let work = move || {
            let _place = place;
            serve(visitor);
        };
        if let Err(error) = Builder::new().name(name.to_owned()).spawn(work) {
            tracing::warn!(%error, name, "no thread for a visitor");
        }
    }
}

/// Reads until `is_whole` says so, or the end; at most so many bytes, and not longer than so, however it comes.
///
/// # Errors
///
/// [`io::ErrorKind::FileTooLarge`], [`io::ErrorKind::TimedOut`], and the stream's.
pub fn hear(
    stream: &mut impl Stream,
    most: usize,
    time: Duration,
    is_whole: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let until = Instant::now() + time;
    let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
    while !is_whole(&heard) {
        if heard.len() >= most {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {most} bytes")));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.limit_read(left)?;
        let room = piece.len().min(most - heard.len());
        match stream.read(&mut piece[..room]) {
            Ok(0) => break,
            Ok(length) => heard.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
    }
    Ok(heard)
}

/// Writes an answer.
///
/// # Errors
///
/// [`io::ErrorKind::TimedOut`], and the stream's.
pub fn answer(stream: &mut impl Stream, bytes: &[u8]) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut rest = bytes;
    while !rest.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.limit_write(left)?;
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => rest = &rest[length..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.flush()
}

/// Ends a conversation with a visitor who was not heard out: what has arrived unread would have the answer taken back.
///
/// # Errors
///
/// As [`hear`].
pub fn dismiss(stream: &mut impl Stream) -> io::Result<()> {
    stream.finish()?;
    hear(stream, LAST_WORDS, LAST_MOMENT, |_| false).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visitors_are_served_up_to_a_limit_and_nobody_after_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let door = Door::open("test", listener, |mut stream: TcpStream| {
            if hear(&mut stream, 64, PATIENCE, |heard| heard.ends_with(b"\n")).is_ok() {
                answer(&mut stream, b"served").unwrap();
            }
        })
        .unwrap();
        let mut silent: Vec<_> = (0..MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
        // All are in once one more is turned away.
        let one_more = || {
            let mut stream = TcpStream::connect(address).unwrap();
            let mut text = String::new();
            let _ = stream.write_all(b"me\n").and_then(|()| stream.read_to_string(&mut text).map(drop));
            text
        };
        assert_eq!(one_more(), "");
        let mut text = String::new();
        silent[0].write_all(b"now\n").unwrap();
        silent[0].read_to_string(&mut text).unwrap();
        assert_eq!(text, "served");
        drop(silent);
        let began = Instant::now();
        while one_more() != "served" {
            assert!(began.elapsed() < PATIENCE, "there is room again");
        }
        drop(door);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn who_says_too_much_is_not_heard_out() {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        other.write_all(&[b'x'; 100]).unwrap();
        let error = hear(&mut one, 64, PATIENCE, |_| false).unwrap_err();
        assert!(error.to_string().contains("more than 64 bytes"), "{error}");
    }

    #[test]
    fn who_says_it_drop_by_drop_is_given_up_in_time() {
        const SHORT: Duration = Duration::from_millis(500);
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let began = Instant::now();
        let dripping = std::thread::spawn(move || {
            while began.elapsed() < PATIENCE && other.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let error = hear(&mut one, 1 << 20, SHORT, |_| false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() < PATIENCE / 2);
        drop(one);
        dripping.join().unwrap();
    }
}
