//! What a client and a storage node say to each other, in messages of the fabric. Pictured in `docs/format/remote.md`.
//!
//! A request begins with its kind, an answer with its status. Decoding allocates no more than the message is long.
//!
//! Parts: [`request`], [`answer`].

use ishigaki_fabric::MAX_WRITE;

mod answer;
mod request;

pub use answer::Status;
pub(crate) use answer::{Answer, Failure, Opened};
pub(crate) use request::{Notice, Request};

/// The longest read, in bytes.
pub const MAX_READ: usize = MAX_WRITE;

/// The longest write, in bytes: what one staging slot of a node's holds.
pub(crate) const MAX_WRITTEN: usize = 128 << 10;

/// The longest order for work, in bytes.
pub const MAX_ORDER: usize = 512 << 10;

/// The longest path of a directory below a node's folder, in bytes.
pub(crate) const MAX_PATH: usize = 1024;

/// Takes numbers and texts from the front of a message. What is missing makes it `None`.
#[derive(Debug)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn run(&mut self, length: usize) -> Option<&'a [u8]> {
        let (run, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(run)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.run(N).and_then(|run| run.try_into().ok())
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// A text of at most so many bytes.
    fn text(&mut self, most: usize) -> Option<&'a str> {
        let length = usize::from(self.u16()?);
        if length > most { None } else { std::str::from_utf8(self.run(length)?).ok() }
    }

    /// Nothing may be left.
    fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// Puts a text behind what is there; the length must fit.
fn put_text(to: &mut Vec<u8>, text: &str) {
    let text = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
    to.extend_from_slice(&(text.len() as u16).to_le_bytes());
    to.extend_from_slice(text);
}

#[cfg(test)]
mod tests;
