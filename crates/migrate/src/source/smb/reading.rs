//! Bytes of files: many pieces of one, or many files at a time.
//!
//! Each piece is a chain: open, read, ask for attributes, close. So nothing is open between two pieces, and a restart of the server loses nothing.

use super::SmbSource;
use super::answer::{self, About, Answer, Trouble};
use super::flight::Flight;
use super::request::{self, Aim, OPENED, Request};
use crate::source::multiplex::{PIECES, Pieces};
use crate::source::{Attributes, Cancel, Location, Result};

/// Files that are under way.
const FILES: usize = 256;

/// How many bytes were read, and what the file says of itself behind that.
type Read = (usize, Option<Attributes>);

/// What all answers for a file say of it.
#[derive(Default)]
struct Told {
    about: Option<About>,
    /// The file changed between two answers.
    is_unsure: bool,
}

impl Told {
    fn add(&mut self, told: About) {
        let version = |about: About| (about.id, about.size, about.modified, about.changed);
        self.is_unsure |= self.about.is_some_and(|about| version(about) != version(told));
        self.about = Some(told);
    }

    /// `None` if the answers are not of one version of the file: a caller that asks again then learns the newest.
    fn finish(self, source: &SmbSource) -> Option<Attributes> {
        self.about.filter(|_| !self.is_unsure).map(|about| source.attributes_of(&about))
    }
}

fn chain(path: &[u8], offset: u64, size: usize) -> Vec<Request> {
    let read = request::read(&OPENED, offset, size as u32);
    vec![request::create(path, Aim::Read), read, request::query_all(&OPENED), request::close(&OPENED)]
}

/// The bytes of a piece, and what the file says behind them.
fn piece(answers: &[Answer], most: usize) -> Result<(&[u8], About), Trouble> {
    answer::opened(&answers[0])?;
    let bytes = answer::have_read(&answers[1], most)?;
    Ok((bytes, answer::all(&answers[2])?))
}

/// Fills the buffer from one file.
pub(super) fn read(
    source: &SmbSource,
    path: &[u8],
    offset: u64,
    buffer: &mut [u8],
    cancel: &Cancel,
) -> Result<Read, Trouble> {
    let mut told = Told::default();
    let mut flight = Flight::new(&source.pool, cancel);
    let mut pieces = Pieces::new(buffer.len(), source.read_size);
    loop {
        while flight.len() < PIECES
            && let Some((from, to)) = pieces.next()
        {
            let ticket = flight.send(chain(path, offset.saturating_add(from as u64), to - from));
            pieces.sent(ticket, (from, to));
        }
        if flight.len() == 0 {
            return Ok((pieces.filled(), told.finish(source)));
        }
        let (ticket, answers) = flight.next()?;
        let Some((from, to)) = pieces.answered(ticket) else { continue };
        let answers = answers?;
        let (bytes, about) = piece(&answers, to - from)?;
        told.add(about);
        let reached = from + bytes.len();
        buffer[from..reached].copy_from_slice(bytes);
        if reached < to {
            if bytes.is_empty() || offset.saturating_add(reached as u64) >= about.size {
                pieces.ends(reached);
            } else {
                pieces.again((reached, to));
            }
        }
    }
}

/// Fills a buffer from the beginning of each file.
pub(super) fn read_files(
    source: &SmbSource,
    files: &mut [(&Location, &mut [u8])],
    cancel: &Cancel,
) -> Vec<Result<Read>> {
    let paths: Vec<_> = files.iter().map(|(location, _)| source.path(&location.path)).collect();
    let chains = paths.iter().zip(&*files).map(|(path, (_, buffer))| {
        // What takes several pieces has enough under way by itself.
        let is_one_piece = (1..=source.read_size).contains(&buffer.len());
        path.as_ref().ok().filter(|_| is_one_piece).map(|path| chain(path, 0, buffer.len()))
    });
    let results = Flight::ask_many(&source.pool, cancel, FILES, chains.collect(), |number, answers| {
        let (location, buffer) = &mut files[number];
        let outcome = answers.and_then(|answers| {
            let (bytes, about) = piece(&answers, buffer.len())?;
            buffer[..bytes.len()].copy_from_slice(bytes);
            let is_whole = bytes.is_empty() || bytes.len() == buffer.len() || bytes.len() as u64 >= about.size;
            Ok(is_whole.then(|| (bytes.len(), Some(source.attributes_of(&about)))))
        });
        outcome.map_err(|trouble| trouble.into_error(&source.name, "read", &location.path))
    });
    let each = results.into_iter().zip(files).map(|(result, (location, buffer))| match result {
        Some(Ok(Some(read))) => Ok(read),
        Some(Err(error)) => Err(error),
        Some(Ok(None)) | None => source.read_one(location, 0, buffer, cancel),
    });
    each.collect()
}
