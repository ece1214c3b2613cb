//! What the server answers: messages taken apart, and what stands in them.

use std::sync::Arc;

use super::bytes::{Fields, Malformed};
use super::name;
use super::request::{FileId, HEADER};
use super::status::{BUFFER_OVERFLOW, END_OF_FILE, NO_MORE_FILES, PENDING, SUCCESS, Status};
use crate::source::multiplex::Lost;
use crate::source::{Error, ErrorKind};

/// Flags of a header.
const FROM_SERVER: u32 = 1;
pub(super) const RELATED: u32 = 4;
pub(super) const SIGNED: u32 = 8;
/// What begins a message.
pub(super) const PLAIN: [u8; 4] = *b"\xfeSMB";

/// What is told of a request that came to nothing.
#[derive(Debug)]
pub(super) enum Trouble {
    /// By the server.
    Status(Status),
    /// The answer breaks the protocol.
    Malformed(Malformed),
    /// By the way to the server.
    Error(Error),
    /// The connection on which something was open is no more.
    Lost(Lost),
}

impl From<Malformed> for Trouble {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Trouble {
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Status(status) if status.kind() == ErrorKind::Gone)
    }

    /// The error that says what failed on what.
    pub(super) fn into_error(self, source: &str, action: &str, path: &std::path::Path) -> Error {
        let (kind, why) = match self {
            Self::Status(status) => (status.kind(), status.to_string()),
            Self::Malformed(Malformed(why)) => {
                (ErrorKind::Broken, format!("the server's answer breaks the protocol: {why}"))
            }
            Self::Error(error) if error.kind == ErrorKind::Cancelled => return error,
            Self::Error(error) => (error.kind, error.message),
            Self::Lost(lost) => (ErrorKind::Unavailable, lost.reason.to_string()),
        };
        let separator = if path.as_os_str().is_empty() { "" } else { "/" };
        Error::new(kind, format!("can not {action} {source}{separator}{}: {why}", path.display()))
    }
}

/// An answer to one request: its part of a message.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    message: Arc<Vec<u8>>,
    from: usize,
    to: usize,
}

impl Answer {
    /// The answers in a message, each with its header checked.
    pub(super) fn split(message: Vec<u8>) -> Result<Vec<Self>, Malformed> {
        let message = Arc::new(message);
        let mut answers = Vec::new();
        let mut from = 0;
        loop {
            let fields = Fields(&message).from(from)?;
            if fields.bytes(0, 4)? != PLAIN || fields.bytes(0, HEADER)?[4] != HEADER as u8 {
                return Err(Malformed("a message does not begin as one"));
            }
            if fields.u32(16)? & FROM_SERVER == 0 {
                return Err(Malformed("a message is not from a server"));
            }
            let next = fields.u32(20)? as usize;
            let to = if next == 0 { message.len() } else { from.saturating_add(next) };
            if to > message.len() || next != 0 && next < HEADER {
                return Err(Malformed("a message is shorter than it says"));
            }
            answers.push(Self { message: Arc::clone(&message), from, to });
            if next == 0 {
                return Ok(answers);
            }
            from = to;
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.message[self.from..self.to]
    }

    fn header(&self) -> Fields<'_> {
        Fields(&self.bytes()[..HEADER])
    }

    pub(super) fn status(&self) -> Status {
        self.header().u32(8).map_or(SUCCESS, Status)
    }

    pub(super) fn credits(&self) -> u16 {
        self.header().u16(14).unwrap_or(0)
    }

    pub(super) fn command(&self) -> u16 {
        self.header().u16(12).unwrap_or(u16::MAX)
    }

    pub(super) fn is_signed(&self) -> bool {
        self.header().u32(16).is_ok_and(|flags| flags & SIGNED != 0)
    }

    pub(super) fn number(&self) -> u64 {
        self.header().u64(24).unwrap_or(u64::MAX)
    }

    pub(super) fn tree(&self) -> u32 {
        self.header().u32(36).unwrap_or(0)
    }

    pub(super) fn session(&self) -> u64 {
        self.header().u64(40).unwrap_or(0)
    }

    pub(super) fn body(&self) -> Fields<'_> {
        Fields(&self.bytes()[HEADER..])
    }

    /// The part of the answer at an offset that counts from its header.
    pub(super) fn part(&self, offset: usize, size: usize) -> Result<&[u8], Malformed> {
        if size == 0 {
            return Ok(&[]);
        }
        if offset < HEADER {
            return Err(Malformed("a part of an answer stands in its header"));
        }
        Fields(self.bytes()).bytes(offset, size)
    }

    pub(super) fn is_interim(&self) -> bool {
        self.status() == PENDING
    }

    fn succeeded(&self) -> Result<(), Trouble> {
        match self.status() {
            SUCCESS => Ok(()),
            status => Err(Trouble::Status(status)),
        }
    }
}

/// What the answer to an opening says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    pub(super) file: FileId,
    pub(super) created: u64,
    pub(super) attributes: u32,
}

pub(super) fn opened(answer: &Answer) -> Result<Opened, Trouble> {
    answer.succeeded()?;
    let body = answer.body();
    Ok(Opened { file: body.array(64)?, created: body.u64(8)?, attributes: body.u32(56)? })
}

/// The bytes of a read; none at the end of the file.
pub(super) fn have_read(answer: &Answer, most: usize) -> Result<&[u8], Trouble> {
    if answer.status() == END_OF_FILE {
        return Ok(&[]);
    }
    answer.succeeded()?;
    let (offset, size) = (usize::from(answer.body().bytes(2, 1)?[0]), answer.body().u32(4)? as usize);
    if size > most {
        return Err(Malformed("it has more bytes than were asked for").into());
    }
    Ok(answer.part(offset, size)?)
}

/// What a question for information brings; it may be cut.
fn information(answer: &Answer) -> Result<Fields<'_>, Trouble> {
    if answer.status() != BUFFER_OVERFLOW {
        answer.succeeded()?;
    }
    let body = answer.body();
    Ok(Fields(answer.part(usize::from(body.u16(2)?), body.u32(4)? as usize)?))
}

/// What the server tells of an object. Times are in units of 100 ns since 1601.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) created: u64,
    pub(super) accessed: u64,
    pub(super) modified: u64,
    pub(super) changed: u64,
    pub(super) attributes: u32,
    /// The kind of link, of an object that is marked as one.
    pub(super) tag: u32,
    pub(super) size: u64,
    pub(super) links: u32,
    pub(super) id: u64,
}

pub(super) fn all(answer: &Answer) -> Result<About, Trouble> {
    let fields = information(answer)?;
    Ok(About {
        created: fields.u64(0)?,
        accessed: fields.u64(8)?,
        modified: fields.u64(16)?,
        changed: fields.u64(24)?,
        attributes: fields.u32(32)?,
        tag: 0,
        size: fields.u64(48)?,
        links: fields.u32(56)?,
        id: fields.u64(64)?,
    })
}

pub(super) fn tag(answer: &Answer) -> Result<u32, Trouble> {
    Ok(information(answer)?.u32(4)?)
}

pub(super) fn descriptor(answer: &Answer) -> Result<&[u8], Trouble> {
    answer.succeeded()?;
    Ok(information(answer)?.0)
}

/// What an order to the server brings.
pub(super) fn controlled(answer: &Answer) -> Result<&[u8], Trouble> {
    answer.succeeded()?;
    Ok(answer.part(answer.body().u32(32)? as usize, answer.body().u32(36)? as usize)?)
}

/// Names and what is told of them.
pub(super) type Page = Vec<(Vec<u8>, About)>;

/// The entries of a page, without `.` and `..`; `None` if there are no more.
pub(super) fn page(answer: &Answer) -> Result<Option<Page>, Trouble> {
    if answer.status() == NO_MORE_FILES {
        return Ok(None);
    }
    answer.succeeded()?;
    let mut rest = information(answer)?;
    let mut entries = Vec::new();
    loop {
        let next = rest.u32(0)? as usize;
        let name = rest.bytes(104, rest.u32(60)? as usize)?;
        let name = name::from_wide(name::units(name));
        if name != b"." && name != b".." {
            if !name::is_one(&name) {
                return Err(Malformed("a listing has a name that no object can have").into());
            }
            let about = About {
                created: rest.u64(8)?,
                accessed: rest.u64(16)?,
                modified: rest.u64(24)?,
                changed: rest.u64(32)?,
                size: rest.u64(40)?,
                attributes: rest.u32(56)?,
                tag: rest.u32(64)?,
                links: 1,
                id: rest.u64(96)?,
            };
            entries.push((name, about));
        }
        if next == 0 {
            return Ok(Some(entries));
        }
        if next < 104 {
            return Err(Malformed("an entry of a listing lies in another one").into());
        }
        rest = rest.from(next)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::smb::bytes::Body;

    /// A message with a header and a body.
    fn message(status: u32, next: u32, body: &[u8]) -> Vec<u8> {
        let header = Body::default().bytes(&PLAIN).u16(64).u16(1).u32(status).u16(14).u16(1).u32(1).u32(next);
        header.u64(7).zeros(32).bytes(body).0
    }

    fn one(status: u32, body: &[u8]) -> Answer {
        Answer::split(message(status, 0, body)).expect("one").remove(0)
    }

    fn entry(next: u32, name: &[u8]) -> Vec<u8> {
        Body::default().u32(next).zeros(56).u32(name.len() as u32).zeros(40).bytes(name).0
    }

    fn listed(entries: &[u8]) -> Result<usize, Trouble> {
        let body = Body::default().u16(9).u16(72).u32(entries.len() as u32).bytes(entries).0;
        page(&one(0, &body)).map(|page| page.map_or(0, |page| page.len()))
    }

    #[test]
    fn messages_that_lie_about_their_sizes_are_refused() {
        let chain = [message(0, 72, &[0; 8]), message(0, 0, &[])].concat();
        assert_eq!(Answer::split(chain.clone()).expect("two").len(), 2);
        for (at, value) in [(20, 1), (20, 63), (20, 0xffff_ffff), (20, 100), (0, 0), (16, 0), (4, 0)] {
            let mut wrong = chain.clone();
            wrong[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            assert!(Answer::split(wrong).is_err(), "{value} at {at}");
        }
        for size in [0, 63, 72 + 63] {
            let mut cut = chain.clone();
            cut.truncate(size);
            assert!(Answer::split(cut).is_err(), "{size}");
        }
    }

    #[test]
    fn bytes_that_were_not_asked_for_or_are_not_there_are_refused() {
        let read = |offset: u8, size: u32, most: usize| {
            let body = Body::default().u16(17).u8(offset).u8(0).u32(size).zeros(8).bytes(b"abcd").0;
            have_read(&one(0, &body), most).map(<[u8]>::to_vec)
        };
        assert_eq!(read(80, 4, 4).expect("reads"), b"abcd");
        for (offset, size, most) in [(80, 5, 5), (80, 4, 3), (10, 4, 4), (255, 4, 4), (80, u32::MAX, usize::MAX)] {
            assert!(read(offset, size, most).is_err(), "{offset} {size}");
        }
        assert_eq!(have_read(&one(END_OF_FILE.0, &[]), 4).expect("the end").len(), 0);
    }

    #[test]
    fn a_listing_that_lies_is_refused() {
        let two = [entry(106, b"a\0"), entry(0, b"b\0")].concat();
        assert_eq!(listed(&two).expect("lists"), 2);
        assert_eq!(listed(&entry(0, b".\0.\0")).expect("lists"), 0);
        // A name that can not be asked for hides no other.
        assert_eq!(listed(&entry(0, b"\\\0")).expect("lists"), 1);
        for wrong in [
            entry(0, b""),
            entry(0, b"/\0"),
            entry(0, b"\0\0"),
            entry(1, b"a\0"),
            entry(500, b"a\0"),
            two[..150].to_vec(),
        ] {
            assert!(listed(&wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(page(&one(NO_MORE_FILES.0, &[])).expect("the end"), None);
    }
}
