//! Bytes of files: many pieces of one, or many files at a time.

use std::collections::{HashMap, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::NfsSource;
use super::flight::Flight;
use super::protocol::{self, Trouble};
use super::rpc::Call;
use crate::source::multiplex::{PIECES, Pieces};
use crate::source::{Attributes, Cancel, Error, ErrorKind, Location, Result};

/// Files that are under way.
const FILES: usize = 256;

/// How many bytes were read, and what the file says of itself behind that.
type Read = (usize, Option<Attributes>);

/// What all answers for a file say of it.
#[derive(Default)]
struct Told {
    attributes: Option<Attributes>,
    /// The file changed between two answers, or one does not say.
    is_unsure: bool,
}

impl Told {
    fn add(&mut self, told: Option<Attributes>) {
        let stamp = |attributes: Attributes| attributes.stamp();
        self.is_unsure |=
            told.is_none() || (self.attributes.is_some() && self.attributes.map(stamp) != told.map(stamp));
        self.attributes = told;
    }

    /// `None` if the answers are not of one version of the file: a caller that asks again then learns the newest.
    fn finish(self) -> Option<Attributes> {
        if self.is_unsure { None } else { self.attributes }
    }
}

/// Fills the buffer from one file, by one handle.
pub(super) fn read(
    source: &NfsSource,
    handle: &[u8],
    offset: u64,
    buffer: &mut [u8],
    cancel: &Cancel,
) -> Result<Read, Trouble> {
    let mut told = Told::default();
    let mut flight = Flight::new(&source.nfs, cancel);
    let mut pieces = Pieces::new(buffer.len(), source.read_size);
    loop {
        while flight.len() < PIECES
            && let Some((from, to)) = pieces.next()
        {
            let ticket = flight.send(protocol::read(handle, offset.saturating_add(from as u64), to - from));
            pieces.sent(ticket, (from, to));
        }
        if flight.len() == 0 {
            return Ok((pieces.filled(), told.finish()));
        }
        let (ticket, answer) = flight.next()?;
        let Some((from, to)) = pieces.answered(ticket) else { continue };
        let answer = answer?;
        let piece = protocol::have_read(answer.results(), offset.saturating_add(from as u64), to - from)?;
        told.add(piece.attributes);
        let reached = from + piece.bytes.len();
        buffer[from..reached].copy_from_slice(piece.bytes);
        if piece.is_last {
            pieces.ends(reached);
        } else if reached < to {
            pieces.again((reached, to));
        }
    }
}

/// Fills each buffer from the beginning of its file.
pub(super) fn read_files(
    source: &NfsSource,
    files: &mut [(&Location, &mut [u8])],
    cancel: &Cancel,
) -> Vec<Result<Read>> {
    let states = files.iter().map(|(location, _)| State::new(location)).collect();
    let batch = Batch { source, cancel, flight: Flight::new(&source.nfs, cancel), parents: HashMap::new(), states };
    batch.run(files)
}

/// How far a file is.
struct State {
    /// Empty until it is known.
    handle: Box<[u8]>,
    filled: usize,
    /// The handle was stale, and the file is looked up again.
    was_stale: bool,
    told: Told,
    result: Option<Result<Read>>,
}

impl State {
    fn new(location: &Location) -> Self {
        Self { handle: location.handle.clone(), filled: 0, was_stale: false, told: Told::default(), result: None }
    }
}

struct Batch<'a> {
    source: &'a NfsSource,
    cancel: &'a Cancel,
    flight: Flight<'a>,
    /// Handles of the directories of files that have none.
    parents: HashMap<PathBuf, Result<Box<[u8]>>>,
    states: Vec<State>,
}

impl Batch<'_> {
    fn run(mut self, files: &mut [(&Location, &mut [u8])]) -> Vec<Result<Read>> {
        let mut waiting: VecDeque<usize> = (0..files.len()).collect();
        let mut asked: HashMap<u64, usize> = HashMap::new();
        loop {
            while self.flight.len() < FILES
                && let Some(number) = waiting.pop_front()
            {
                let (location, buffer) = &files[number];
                if let Some(call) = self.next_call(number, location, buffer.len()) {
                    asked.insert(self.flight.send(call), number);
                }
            }
            if self.flight.len() == 0 {
                break;
            }
            let (ticket, answer) = match self.flight.next() {
                Ok(next) => next,
                Err(error) => {
                    for state in &mut self.states {
                        state.result.get_or_insert_with(|| Err(error.clone()));
                    }
                    break;
                }
            };
            let Some(number) = asked.remove(&ticket) else { continue };
            let (location, buffer) = &mut files[number];
            let outcome = answer.map_err(Trouble::from).and_then(|answer| self.states[number].take(&answer, buffer));
            if let Err(trouble) = outcome {
                self.failed(number, location, trouble);
            }
            if self.states[number].result.is_none() {
                waiting.push_front(number);
            }
        }
        let unfinished = || Err(Error::cancelled());
        self.states.into_iter().map(|state| state.result.unwrap_or_else(unfinished)).collect()
    }

    /// What is asked next for a file; `None` if it is done.
    fn next_call(&mut self, number: usize, location: &Location, size: usize) -> Option<Call> {
        let state = &mut self.states[number];
        if state.filled == size {
            state.result = Some(Ok((size, std::mem::take(&mut state.told).finish())));
            return None;
        }
        if !state.handle.is_empty() {
            let count = (size - state.filled).min(self.source.read_size);
            return Some(protocol::read(&state.handle, state.filled as u64, count));
        }
        let was_stale = state.was_stale;
        let call = match (location.path.parent(), location.path.file_name()) {
            (Some(parent), Some(name)) => {
                self.parent(parent, was_stale).map(|parent| protocol::lookup(&parent, name.as_bytes()))
            }
            _ => Err(Error::new(ErrorKind::Gone, "the root of a source is no file")),
        };
        call.map_err(|error| self.states[number].result = Some(Err(error))).ok()
    }

    fn parent(&mut self, path: &Path, anew: bool) -> Result<Box<[u8]>> {
        if let Some(known) = self.parents.get(path) {
            return known.clone();
        }
        let found = if anew { self.source.find_anew(path, self.cancel) } else { self.source.find(path, self.cancel) };
        let found = found.map_err(|trouble| trouble.into_error(&self.source.name, "find", path));
        self.parents.insert(path.to_owned(), found.clone());
        found
    }

    fn failed(&mut self, number: usize, location: &Location, trouble: Trouble) {
        let state = &mut self.states[number];
        if trouble.is_stale() && !state.was_stale {
            // All of it anew, by its path: the bytes so far may be another file's.
            let anew = Location { path: PathBuf::new(), handle: Box::default() };
            *state = State { was_stale: true, ..State::new(&anew) };
            if let Some(parent) = location.path.parent() {
                self.parents.remove(parent);
            }
        } else {
            state.result = Some(Err(trouble.into_error(&self.source.name, "read", &location.path)));
        }
    }
}

impl State {
    /// Takes the answer to what [`Batch::next_call`] asked.
    fn take(&mut self, answer: &super::flight::Answer, buffer: &mut [u8]) -> Result<(), Trouble> {
        if self.handle.is_empty() {
            (self.handle, _) = protocol::looked_up(answer.results())?;
            return Ok(());
        }
        let piece = protocol::have_read(answer.results(), self.filled as u64, buffer.len() - self.filled)?;
        let reached = self.filled + piece.bytes.len();
        buffer[self.filled..reached].copy_from_slice(piece.bytes);
        self.filled = reached;
        self.told.add(piece.attributes);
        if piece.is_last || reached == buffer.len() {
            self.result = Some(Ok((reached, std::mem::take(&mut self.told).finish())));
        }
        Ok(())
    }
}
