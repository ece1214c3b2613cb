//! The socket of a thread that reads answers.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A socket that waits for bytes while nothing is asked, and for so long while something is.
pub(in crate::source) struct Patient<'a, W> {
    stream: &'a TcpStream,
    silence: Duration,
    /// Since when something is asked; `None` while nothing is.
    waiting_since: W,
    heard: Instant,
}

impl<'a, W: Fn() -> Option<Instant>> Patient<'a, W> {
    pub(in crate::source) fn new(stream: &'a TcpStream, silence: Duration, waiting_since: W) -> Self {
        Self { stream, silence, waiting_since, heard: Instant::now() }
    }
}

impl<W: Fn() -> Option<Instant>> Read for Patient<'_, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut stream = self.stream;
            match stream.read(buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Ok(0) if !buffer.is_empty() => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
                }
                read => {
                    self.heard = Instant::now();
                    return read;
                }
            }
            let Some(since) = (self.waiting_since)() else { continue };
            let silent = self.heard.max(since).elapsed();
            if silent >= self.silence {
                let reason = format!("the server has not answered for {} s", silent.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
        }
    }
}
