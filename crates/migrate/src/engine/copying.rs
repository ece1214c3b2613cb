//! Brings data from the source.
//!
//! One thread copies a piece: it takes the piece for itself, reads it without any lock, sees whether the file is still the one that the
//! record speaks of, and writes what is still missing of it. Others that need it wait. A client that overwrites whole blocks
//! meanwhile waits for nothing: its blocks are no longer missing when the copy comes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::MutexGuard;

use super::file::File;
use super::node::{Node, Stub};
use super::progress::{Counters, Problem};
use super::{Doing, Engine, Error, Result};
use crate::destination::Destination;
use crate::ranges::RangeSet;
use crate::record::{Record, State};
use crate::source::{self, Attributes, Cancel, ErrorKind, Location};

/// What was read of a piece.
pub(super) struct Piece {
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
    /// Up to there, from behind the bytes, are only zeros.
    pub(super) zeros_to: u64,
}

/// A small file, its piece, and its record.
type Small<'a, D> = (&'a Arc<Node<D>>, Range<u64>, Record);

/// Whether the file is still the one that the record speaks of.
pub(super) fn same(record: &Record, now: &Attributes) -> Result<()> {
    if now.stamp().is_same(&record.stamp) { Ok(()) } else { Err(Error::Conflict(record.location.path.clone())) }
}

/// Whether all was read that there must be.
fn whole(record: &Record, read: usize, asked: usize) -> Result<()> {
    if read == asked {
        return Ok(());
    }
    let message = format!("{}: the source gave {read} of {asked} bytes and no error", record.location.path.display());
    let error = source::Error::new(ErrorKind::Broken, message);
    Err(Error::Source { path: record.location.path.clone(), error })
}

impl<D: Destination> Engine<D> {
    /// Copies until nothing of `range` is missing.
    pub(super) fn bring_data(&self, node: &Arc<Node<D>>, range: Range<u64>, cancel: &Cancel) -> Result<()> {
        loop {
            let mut stub = node.lock();
            let Some(first) = stub.missing.within(range.clone()).next() else { return Ok(()) };
            let Some(piece) = self.take_piece(&mut stub, first.start..range.end) else {
                node.wait(&mut stub, cancel)?;
                continue;
            };
            self.bring_piece(node, stub, piece, cancel)?;
        }
    }

    /// Copies one piece that no other thread copies; whether there was one.
    pub(super) fn bring_any(&self, node: &Arc<Node<D>>, cancel: &Cancel) -> Result<bool> {
        let mut stub = node.lock();
        let Some(piece) = self.take_piece(&mut stub, 0..u64::MAX) else { return Ok(false) };
        self.bring_piece(node, stub, piece, cancel)?;
        Ok(true)
    }

    /// A piece of which something is missing in `range`, and that no thread copies: it is the caller's then.
    fn take_piece(&self, stub: &mut Stub, range: Range<u64>) -> Option<Range<u64>> {
        let free = |run: Range<u64>| {
            let mut free = RangeSet::from(run);
            for taken in &stub.fetching {
                free.remove(taken.clone());
            }
            free
        };
        let wanted = stub.missing.within(range).find_map(|run| free(run).iter().next())?.start;
        let unit = self.settings.unit;
        let aligned = wanted / unit * unit..(wanted / unit + 1) * unit;
        let run = stub.missing.within(aligned).find(|run| run.contains(&wanted))?;
        let piece = free(run).iter().find(|piece| piece.contains(&wanted))?;
        stub.fetching.push(piece.clone());
        Some(piece)
    }

    /// Copies small files, by one call for all from the same source.
    pub(super) fn bring_small(&self, files: &[File<D>], cancel: &Cancel) -> Vec<Result<()>> {
        let mut lots: BTreeMap<u32, Vec<Small<'_, D>>> = BTreeMap::new();
        let mut done = Vec::new();
        for file in files {
            let stub = &mut *file.node.lock();
            let first = stub.missing.iter().next();
            let alone = stub.record.conflict || first.as_ref().is_none_or(|first| first.start != 0);
            let piece = if alone { None } else { self.take_piece(stub, 0..1) };
            match piece {
                Some(piece) => {
                    let record = stub.record.clone();
                    lots.entry(record.source).or_default().push((&file.node, piece, record));
                }
                None => done.push(&file.node),
            }
        }
        let mut results = Vec::new();
        for (source, lot) in lots {
            let mut buffers: Vec<Vec<u8>> =
                lot.iter().map(|(_, piece, _)| vec![0; (piece.end - piece.start) as usize]).collect();
            let mut asked: Vec<(&Location, &mut [u8])> = lot
                .iter()
                .zip(&mut buffers)
                .map(|((_, _, record), buffer)| (&record.location, &mut buffer[..]))
                .collect();
            let told = match self.origins.get(source as usize) {
                Some(origin) => origin.source.read_files_told(&mut asked, cancel),
                None => Vec::new(),
            };
            let mut told = told.into_iter();
            for ((node, piece, record), bytes) in lot.iter().zip(buffers) {
                let read = self.small_read(record, piece, bytes, told.next(), cancel);
                let mut stub = node.lock();
                stub.fetching.retain(|taken| taken != piece);
                node.changed();
                match read {
                    Ok(Some(read)) => {
                        node.alone(&mut stub);
                        let placed = self.place(node, &mut stub, &read);
                        results.push(placed.inspect_err(|error| self.note(node, &mut stub, error)));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        self.note(node, &mut stub, &error);
                        results.push(Err(error));
                        continue;
                    }
                }
                drop(stub);
                done.push(node);
            }
        }
        // What is still missing of them is copied as that of others is; that waits for absent sources.
        results.extend(done.into_iter().map(|node| self.bring_data(node, 0..u64::MAX, cancel)));
        results
    }

    /// One of many that were read; `None` if it is to be asked for again.
    fn small_read(
        &self,
        record: &Record,
        piece: &Range<u64>,
        bytes: Vec<u8>,
        told: Option<source::Result<(usize, Option<Attributes>)>>,
        cancel: &Cancel,
    ) -> Result<Option<Piece>> {
        let (read, now) = match told {
            Some(Ok(told)) => told,
            Some(Err(error)) if error.kind == ErrorKind::Cancelled => return Err(Error::Cancelled),
            // It may be the source that is away, which is seen when it is asked again.
            Some(Err(_)) | None => return Ok(None),
        };
        self.is_same(record, now, cancel)?;
        whole(record, read, bytes.len())?;
        Ok(Some(Piece { at: piece.start, bytes, zeros_to: piece.end }))
    }

    fn bring_piece(
        &self,
        node: &Arc<Node<D>>,
        stub: MutexGuard<'_, Stub>,
        piece: Range<u64>,
        cancel: &Cancel,
    ) -> Result<()> {
        let record = stub.record.clone();
        drop(stub);
        let read = if record.conflict {
            Err(Error::Conflict(record.location.path.clone()))
        } else {
            self.fetch(&record, piece.clone(), cancel).map_err(|error| self.of_another(&record, error, cancel))
        };
        let mut stub = node.lock();
        let done = read.and_then(|read| {
            node.alone(&mut stub);
            self.place(node, &mut stub, &read)
        });
        stub.fetching.retain(|taken| *taken != piece);
        node.changed();
        done.inspect_err(|error| self.note(node, &mut stub, error))
    }

    /// Whether the file is still the one that the record speaks of, by what it has told of itself, or is asked if it has not.
    pub(super) fn is_same(&self, record: &Record, told: Option<Attributes>, cancel: &Cancel) -> Result<()> {
        let location = &record.location;
        let now = match told {
            Some(now) => now,
            None => self.ask(record.source, &location.path, cancel, |source| source.attributes(location, cancel))?,
        };
        same(record, &now)
    }

    /// A conflict, if what the source refused is of an object that is another one by now, as a symbolic link in the file's place.
    fn of_another(&self, record: &Record, error: Error, cancel: &Cancel) -> Error {
        // One that does not answer was waited for as long as it may be.
        if !matches!(&error, Error::Source { error, .. } if error.kind != ErrorKind::Unavailable) {
            return error;
        }
        match self.is_same(record, None, cancel) {
            Err(conflict @ Error::Conflict(_)) => conflict,
            _ => error,
        }
    }

    /// Reads a piece, of the file that the record speaks of.
    fn fetch(&self, record: &Record, piece: Range<u64>, cancel: &Cancel) -> Result<Piece> {
        let (number, location) = (record.source, &record.location);
        let length = (piece.end - piece.start) as usize;
        let mut bytes = vec![0; length];
        let (mut zeros_to, mut end) = (piece.end, piece.end);
        if self.origins.get(number as usize).is_some_and(|origin| origin.source.capabilities().holes) {
            let data =
                self.ask(number, &location.path, cancel, |source| source.next_data(location, piece.start, cancel))?;
            let next = data.map_or(record.stamp.size, |data| data.start);
            if next >= piece.end {
                let block = self.destination.block_size();
                let whole = next.min(record.stamp.size);
                zeros_to = if whole >= record.stamp.size { whole } else { whole / block * block }.max(piece.end);
                end = piece.start;
            }
        }
        bytes.truncate((end - piece.start) as usize);
        let (read, told) = if bytes.is_empty() {
            (0, None)
        } else {
            self.ask(number, &location.path, cancel, |source| {
                source.read_told(location, piece.start, &mut bytes, cancel)
            })?
        };
        self.is_same(record, told, cancel)?;
        whole(record, read, bytes.len())?;
        Ok(Piece { at: piece.start, bytes, zeros_to })
    }

    /// Writes what is still missing of a piece. Blocks of zeros stay holes. Times stay as clients see them.
    pub(super) fn place(&self, node: &Arc<Node<D>>, stub: &mut Stub, piece: &Piece) -> Result<()> {
        let end = piece.at + piece.bytes.len() as u64;
        let parts: Vec<Range<u64>> = stub.missing.within(piece.at..end).collect();
        if !parts.is_empty() {
            let before = self.destination.status(&node.object).doing("looking at a stub")?;
            // Attributes that have not come yet are set behind the bytes.
            let has_attributes = stub.record.state == State::Partial;
            let write = || {
                for part in parts {
                    let bytes = &piece.bytes[(part.start - piece.at) as usize..(part.end - piece.at) as usize];
                    let written = self.write_data(&node.object, part.start, bytes);
                    if written.is_err() {
                        self.make_holes(node, stub, piece.at..end);
                    }
                    self.arrived(stub, part.clone(), written?);
                    Counters::add(&self.counters.copied, part.end - part.start);
                }
                Ok(())
            };
            let written = if has_attributes { self.keeping_capabilities(&node.object, write) } else { write() };
            let times = self.destination.set_times(&node.object, before.accessed, before.modified);
            times.doing("setting the times of a stub")?;
            written?;
        }
        self.arrived(stub, end..piece.zeros_to.max(end), u64::MAX);
        self.check_complete(node, stub);
        Ok(())
    }

    /// Writes bytes at a block's beginning, leaving out blocks of zeros; how many bytes it left out.
    fn write_data(&self, object: &D::Object, at: u64, bytes: &[u8]) -> Result<u64> {
        let block = self.destination.block_size() as usize;
        let zeros = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        let (mut from, mut written) = (0, 0);
        while from < bytes.len() {
            let mut to = from;
            while to < bytes.len() && !zeros(&bytes[to..bytes.len().min(to + block)]) {
                to = bytes.len().min(to + block);
            }
            if to > from {
                let part = &bytes[from..to];
                self.destination.write_at(object, at + from as u64, part).doing("writing a stub's data")?;
                written += part.len() as u64;
            }
            from = to + block;
        }
        Ok(bytes.len() as u64 - written)
    }

    /// Ends a conflict if the source has the file again as it was: it may have been away with all that it has, as where it had started before its disk was
    /// mounted. Errors of the source change nothing.
    pub(super) fn look_at_conflict(&self, node: &Node<D>, cancel: &Cancel) -> Result<()> {
        let record = {
            let stub = node.lock();
            if !stub.record.conflict || stub.settled {
                return Ok(());
            }
            stub.record.clone()
        };
        let Some(origin) = self.origins.get(record.source as usize) else { return Ok(()) };
        let Ok(now) = origin.source.attributes(&record.location, cancel) else { return Ok(()) };
        if same(&record, &now).is_err() {
            return Ok(());
        }
        let mut stub = node.lock();
        if stub.record.conflict && stub.record.stamp == record.stamp {
            stub.record.conflict = false;
            if let Err(error) = self.store_stub(node, &mut stub) {
                stub.record.conflict = true;
                return Err(error);
            }
            self.no_problem(record.source, &record.location.path);
        }
        Ok(())
    }

    /// A conflict that only the record tells of: the account of problems is not written where no room is left.
    pub(super) fn note_again(&self, node: &Node<D>, stub: &mut Stub) {
        let Record { source, location, .. } = &stub.record;
        if !self.queue.has_problem(*source, &location.path) {
            let path = location.path.clone();
            self.note(node, stub, &Error::Conflict(path));
        }
    }

    /// A conflict goes into the record; what is told stays told until the object is whole.
    pub(super) fn note(&self, node: &Node<D>, stub: &mut Stub, error: &Error) {
        let path = stub.record.location.path.clone();
        let conflict = match error {
            Error::Conflict(_) => true,
            Error::Source { error, .. } => error.kind == ErrorKind::Gone,
            _ => return,
        };
        if conflict && !stub.record.conflict {
            stub.record.conflict = true;
            if let Err(error) = self.store_stub(node, stub) {
                tracing::error!(path = %path.display(), %error, "a conflict could not be recorded");
            }
        }
        let message = match error {
            Error::Source { .. } if conflict => {
                "it is not at the source any more; keep what is here, or remove it through the folder".to_owned()
            }
            error => error.to_string(),
        };
        self.problem(stub.record.source, Problem { path, message, conflict, left_out: false });
    }
}
