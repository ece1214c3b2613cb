//! A client of `PostgreSQL` over its Unix socket: the simple query protocol, version 3, with values as text.
//!
//! One statement goes out, its rows or its error come back. Nothing is encrypted and no password is sent: the server runs on
//! this host, for the tester alone, and trusts its socket.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// What a statement gave.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The types of the columns, by their numbers in `pg_type`, and the rows.
    Rows { types: Vec<u32>, rows: Vec<Vec<Option<String>>> },
    /// The command's tag, as in `UPDATE 3`.
    Done { tag: String },
    /// The error's SQLSTATE and message.
    Failed { state: String, message: String },
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<UnixStream>,
    /// As the server said last: `I` idle, `T` in a transaction, `E` in one that has failed.
    status: u8,
}

impl Connection {
    /// Connects to the server whose socket is in `folder`.
    pub(crate) fn open(folder: &Path, user: &str, database: &str) -> io::Result<Self> {
        let stream = UnixStream::connect(folder.join(".s.PGSQL.5432"))?;
        let mut connection = Self { stream: BufReader::new(stream), status: b'I' };
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        for word in ["user", user, "database", database, "client_encoding", "UTF8", ""] {
            body.extend_from_slice(word.as_bytes());
            body.push(0);
        }
        let mut message = length_of(&body).to_vec();
        message.extend_from_slice(&body);
        connection.stream.get_mut().write_all(&message)?;
        match connection.answer()? {
            Reply::Failed { state, message } => Err(io::Error::other(format!("{state}: {message}"))),
            _ => Ok(connection),
        }
    }

    /// Whether a transaction is open.
    pub(crate) fn in_transaction(&self) -> bool {
        self.status != b'I'
    }

    /// Runs one statement.
    pub(crate) fn run(&mut self, statement: &str) -> io::Result<Reply> {
        let mut body = statement.as_bytes().to_vec();
        body.push(0);
        let mut message = vec![b'Q'];
        message.extend_from_slice(&length_of(&body));
        message.extend_from_slice(&body);
        self.stream.get_mut().write_all(&message)?;
        self.answer()
    }

    /// Reads until the server is ready for the next statement.
    fn answer(&mut self) -> io::Result<Reply> {
        let mut reply = Reply::Done { tag: String::new() };
        loop {
            let (kind, body) = self.message()?;
            let mut body = Fields(&body);
            match kind {
                b'Z' => {
                    self.status = body.skip(1)?[0];
                    return Ok(reply);
                }
                b'R' if body.number()? != 0 => {
                    return Err(io::Error::other("the server asks for a password, which the tester does not have"));
                }
                b'T' => {
                    let mut types = Vec::new();
                    for _ in 0..body.short()? {
                        body.text()?;
                        body.skip(6)?;
                        types.push(body.number()?);
                        body.skip(8)?;
                    }
                    reply = Reply::Rows { types, rows: Vec::new() };
                }
                b'D' => {
                    let mut row = Vec::new();
                    for _ in 0..body.short()? {
                        row.push(match body.number()? {
                            u32::MAX => None,
                            length => Some(String::from_utf8_lossy(body.skip(length as usize)?).into_owned()),
                        });
                    }
                    if let Reply::Rows { rows, .. } = &mut reply {
                        rows.push(row);
                    }
                }
                b'C' if matches!(reply, Reply::Done { .. }) => reply = Reply::Done { tag: body.text()? },
                b'E' => reply = failure(body)?,
                _ => {}
            }
        }
    }

    fn message(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length.checked_sub(4).ok_or_else(cut)?];
        self.stream.read_exact(&mut body)?;
        Ok((head[0], body))
    }
}

fn failure(mut body: Fields<'_>) -> io::Result<Reply> {
    let (mut state, mut message) = (String::new(), String::new());
    loop {
        match body.skip(1)?[0] {
            0 => return Ok(Reply::Failed { state, message }),
            b'C' => state = body.text()?,
            b'M' => message = body.text()?,
            _ => drop(body.text()?),
        }
    }
}

fn length_of(body: &[u8]) -> [u8; 4] {
    (body.len() as u32 + 4).to_be_bytes()
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message of the server's is cut off")
}

/// The rest of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn skip(&mut self, bytes: usize) -> io::Result<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(bytes).ok_or_else(cut)?;
        self.0 = rest;
        Ok(first)
    }

    fn number(&mut self) -> io::Result<u32> {
        Ok(self.skip(4)?.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn short(&mut self) -> io::Result<u32> {
        Ok(self.skip(2)?.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn text(&mut self) -> io::Result<String> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or_else(cut)?;
        let text = String::from_utf8_lossy(self.skip(end)?).into_owned();
        self.skip(1)?;
        Ok(text)
    }
}
