//! A connection to a `PostgreSQL` server: statements by its simple protocol, over its socket, without a password.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long a server may take for a statement.
const PATIENCE: Duration = Duration::from_mins(2);

/// Version 3.0 of the protocol.
const VERSION: u32 = 196_608;

/// A connection; *drop* closes it.
#[derive(Debug)]
pub(super) struct Session {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Session {
    /// To the server that has its socket in that folder.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(folder.join(".s.PGSQL.5432"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut session = Self { stream, buffer: Vec::new() };
        let words = b"user\0postgres\0database\0postgres\0\0";
        let mut begin = Vec::new();
        begin.extend((8 + words.len() as u32).to_be_bytes());
        begin.extend(VERSION.to_be_bytes());
        begin.extend(words);
        session.stream.write_all(&begin)?;
        session.until_ready()?;
        Ok(session)
    }

    /// Runs a statement. The first field of its last row; where it has no rows, how many it has changed.
    pub(super) fn ask(&mut self, statement: &str) -> io::Result<String> {
        let mut message = vec![b'Q'];
        message.extend((4 + statement.len() as u32 + 1).to_be_bytes());
        message.extend(statement.as_bytes());
        message.push(0);
        self.stream.write_all(&message)?;
        self.until_ready()
    }

    fn until_ready(&mut self) -> io::Result<String> {
        let (mut row, mut changed, mut failure) = (None, String::new(), None);
        loop {
            match self.next()? {
                b'D' => row = Some(field(&self.buffer)),
                b'C' => text(&self.buffer).rsplit(' ').next().unwrap_or_default().clone_into(&mut changed),
                b'E' => failure = Some(text(&self.buffer).replace('\0', " ")),
                b'Z' => {
                    return failure.map_or_else(|| Ok(row.unwrap_or(changed)), |told| Err(io::Error::other(told)));
                }
                _ => {}
            }
            // What refuses a connection says so and goes.
            if let Some(told) = failure.take_if(|told| told.contains("FATAL")) {
                return Err(io::Error::other(told));
            }
        }
    }

    /// The kind of the next message, which is in the buffer then.
    fn next(&mut self) -> io::Result<u8> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]).saturating_sub(4);
        self.buffer.resize(length as usize, 0);
        self.stream.read_exact(&mut self.buffer)?;
        Ok(head[0])
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

/// The first field of a row: how many there are, its length, and it.
fn field(row: &[u8]) -> String {
    let length = row.get(2..6).and_then(|length| length.try_into().ok()).map_or(0, i32::from_be_bytes);
    let end = 6 + usize::try_from(length).unwrap_or(0);
    row.get(6..end).map_or_else(String::new, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_of_a_row_is_found() {
        assert_eq!(field(b"\x00\x01\x00\x00\x00\x0242"), "42");
        assert_eq!(field(b"\x00\x01\xff\xff\xff\xff"), "", "null");
        assert_eq!(field(b""), "");
    }
}
