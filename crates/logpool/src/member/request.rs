//! The way of a request: checked against the limits, compared, appended as an entry, made in the image, in this order and
//! under one hold of the lock. Where something is lacking (room in the log, in the share, at home; a block that is only at
//! home), the lock is let go, what lacks is seen to, and the request tries again.

use std::time::{Duration, Instant};

use ishigaki_base::ErrorKind;
use ishigaki_wal::{Dependencies, Error as LogError};

use super::state::Refusal;
use super::{Resident, State};
use crate::format::{Change, LONGEST_FILE};
use crate::home::EXTENT;
use crate::image::{BLOCK, Piece, Unreadable, changed_runs};
use crate::{Area, Error, FileId, Result};

/// The longest piece of a request that is one entry.
const LONGEST_PIECE: u64 = 256 << 10;

/// How often a request looks again for room that there was not.
const LOOK: Duration = Duration::from_millis(10);

/// What a request may take beside its bytes.
const OVERHEAD: u64 = 4 << 10;

impl Resident {
    /// Tries until it is taken or refused for good. Gives the bytes of entries that it took.
    fn accept(&self, mut attempt: impl FnMut(&mut State) -> Result<u64, Refusal>) -> Result<()> {
        let began = Instant::now();
        let mut trials = 0;
        loop {
            let mut state = self.state()?;
            let rounds = state.rounds;
            let outcome = attempt(&mut state);
            let is_half_full = state.not_home() + state.image.dirty_bytes() > self.quota().share.0 / 2;
            drop(state);
            match outcome {
                Ok(bytes) => {
                    if is_half_full && self.core.settings.background {
                        self.ask_home();
                    }
                    self.core.appended(bytes);
                    return Ok(());
                }
                Err(Refusal::Error(error)) => return Err(error),
                Err(Refusal::Unknown(file, pieces)) => self.learn(file, &pieces, rounds)?,
                Err(Refusal::HomeGrows(extents)) => self.grow(extents)?,
                Err(Refusal::ShareFull) => {
                    trials += 1;
                    if trials > 3 && (!self.core.settings.background || began.elapsed() >= self.core.settings.patience)
                    {
                        let what = "files without a name, or other requests, have used up its share";
                        return Err(self.full_for_now(what.to_owned()));
                    }
                    self.make_share(rounds, began)?;
                }
                Err(Refusal::LogFull(payload)) => self.make_room(payload)?,
            }
        }
    }

    /// Reads blocks at home, if they still are where they were.
    fn learn(&self, file: FileId, pieces: &[Piece], rounds: u64) -> Result<()> {
        let read = pieces.iter().map(|piece| Ok((*piece, piece.read(&self.home)?)));
        let read: Vec<_> = match read.collect::<Result<_, Unreadable>>() {
            Ok(read) => read,
            // Something else may be in its place by now: then the request looks for it again.
            Err(unreadable) => {
                let is_there = self.state()?.rounds == rounds;
                return if is_there { self.mend(file, &unreadable) } else { Ok(()) };
            }
        };
        let mut state = self.state()?;
        if state.rounds == rounds {
            let contents = state.image.contents_mut(file)?;
            for (piece, bytes) in read {
                contents.learn(piece, &bytes);
            }
        }
        Ok(())
    }

    fn grow(&self, extents: u64) -> Result<()> {
        self.home.reserve(extents).map_err(|error| match error {
            Error::Device(cause) if cause.kind() == ErrorKind::Exhausted => {
                self.full(format!("the medium of its home is full ({cause})"))
            }
            error => self.fail(error),
        })
    }

    fn make_room(&self, payload: usize) -> Result<()> {
        if let Some(keeper) = self.core.keeper() {
            keeper.relieve(true);
        }
        self.core.stream.wait_for_room(&Dependencies::default(), payload).map_err(|error| match error {
            LogError::Full { .. } => {
                self.full_for_now("the log has no room, and none of it can be given free".to_owned())
            }
            error => error.into(),
        })
    }

    /// Tries a request again for so long while it finds no room for now. Without threads of the pool nothing makes room
    /// meanwhile, and it is tried once.
    pub(crate) fn patiently<R>(&self, patience: Duration, mut request: impl FnMut() -> Result<R>) -> Result<R> {
        let began = Instant::now();
        let mut is_told = false;
        loop {
            match request() {
                Err(error) if error.passes() && self.core.settings.background && began.elapsed() < patience => {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(%error, member = self.name(), "an engine waits for room");
                    }
                    std::thread::sleep(LOOK);
                }
                outcome => return outcome,
            }
        }
    }

    /// Whether the share has room for another entry of so many bytes that changes so many blocks.
    pub(super) fn check_share(&self, state: &State, bytes: u64, blocks: u64) -> Result<(), Refusal> {
        let share = self.quota().share.0;
        let fits = state.not_home() + bytes + OVERHEAD <= share && state.image.dirty_bytes() + blocks * BLOCK <= share;
        if fits { Ok(()) } else { Err(Refusal::ShareFull) }
    }

    /// Whether the home has room for the file when it is so long.
    fn check_home(&self, state: &State, file: FileId, length: u64) -> Result<(), Refusal> {
        let old = state.image.contents(file)?.length();
        if length <= old {
            return Ok(());
        }
        let extents = state.image.extents() + length.div_ceil(EXTENT) - old.div_ceil(EXTENT);
        let quota = self.quota().home;
        if extents * EXTENT > quota.0 {
            return Err(self.full(format!("its files may take {quota}; remove some, or give it more")).into());
        }
        if extents * EXTENT > self.home.bytes() { Err(Refusal::HomeGrows(extents)) } else { Ok(()) }
    }

    /// Writes bytes, in pieces.
    pub(crate) fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<()> {
        check_range(offset, bytes.len() as u64)?;
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let mut taken = 0;
            self.accept(|state| {
                taken = self.piece_length(state, file, at, rest.len() as u64)? as usize;
                self.write_piece(state, file, at, &rest[..taken])
            })?;
            at += taken as u64;
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// How much of a request is one piece: a whole checkpoint area's part, or what lies before the next one.
    fn piece_length(&self, state: &State, file: FileId, at: u64, length: u64) -> Result<u64> {
        let end = at + length;
        let area = self.areas_of(state, file, at, length)?.map(|(_, area)| area).min_by_key(|area| area.offset);
        let end = match area {
            Some(area) if area.offset <= at => end.min(area.offset + Area::LENGTH),
            Some(area) => area.offset,
            None => end,
        };
        // As many whole blocks as fit.
        let longest = LONGEST_PIECE.min(self.quota().share.0 / 4) / BLOCK * BLOCK;
        Ok((end - at).min(longest - at % BLOCK))
    }

    /// The checkpoint areas that a request touches. One that the file is to grow into goes into the log, as its growth does.
    fn areas_of(
        &self,
        state: &State,
        file: FileId,
        at: u64,
        length: u64,
    ) -> Result<impl Iterator<Item = (usize, Area)> + use<>> {
        let areas = self.settings.profile.areas;
        let path = if areas.is_empty() { None } else { state.image.names.path_of(file) };
        let end = state.image.contents(file)?.length();
        let touched = path.map(|path| self.settings.profile.areas_in(path, at, length));
        Ok(touched.into_iter().flatten().filter(move |(_, area)| area.offset + Area::LENGTH <= end))
    }

    fn write_piece(&self, state: &mut State, file: FileId, at: u64, bytes: &[u8]) -> Result<u64, Refusal> {
        let length = bytes.len() as u64;
        let contents = state.image.contents(file)?;
        let unknown = contents.unknown_edges(at, length);
        if !unknown.is_empty() {
            return Err(Refusal::Unknown(file, unknown));
        }
        let grows = contents.length() < at + length;
        let runs = changed_runs(contents, at, bytes);
        let changed: u64 = runs.iter().map(|run| run.bytes.map_or(0, <[u8]>::len) as u64 + 8).sum();
        self.check_share(state, changed, length / BLOCK + 2)?;
        self.check_home(state, file, at + length)?;
        let area = self.areas_of(state, file, at, length)?.next();
        let mut logged = 0;
        match area {
            _ if runs.is_empty() && !grows => {}
            Some((area, _)) => {
                state.dirty_areas.insert(area, file);
                state.counters.area_bytes += length;
            }
            None if state.image.has_name(file) => {
                let change = Change::Data { file, offset: at, length, runs: runs.clone() };
                logged = state.append(&self.core, self.id, change)?;
            }
            None => {}
        }
        state.image.write(file, at, bytes, &runs)?;
        state.counters.written += length;
        Ok(logged)
    }

    pub(crate) fn zero(&self, file: FileId, offset: u64, length: u64, keep_length: bool) -> Result<()> {
        check_range(offset, length)?;
        self.change(file, &Change::Zero { file, offset, length, keep_length })
    }

    pub(crate) fn truncate(&self, file: FileId, length: u64) -> Result<()> {
        check_range(length, 0)?;
        self.change(file, &Change::Truncate { file, length })
    }

    /// A change of a file's length or zeros.
    fn change(&self, file: FileId, change: &Change<'_>) -> Result<()> {
        self.accept(|state| {
            let contents = state.image.contents(file)?;
            let end = match change {
                Change::Zero { offset, length, keep_length: false, .. } => offset + length,
                Change::Truncate { length, .. } => *length,
                _ => 0,
            };
            let old = contents.length();
            let mut blocks = 0;
            if let Some((_, from, length)) = state.image.zeroed(change)? {
                let unknown = contents.unknown_edges(from, length);
                if !unknown.is_empty() {
                    return Err(Refusal::Unknown(file, unknown));
                }
                // Whole blocks of zeros take no memory to speak of.
                blocks = 2;
            }
            self.check_share(state, 0, blocks)?;
            self.check_home(state, file, end)?;
            let changes_nothing = matches!(change, Change::Truncate { length, .. } if *length == old);
            if changes_nothing {
                return Ok(0);
            }
            let mut logged = 0;
            if state.image.has_name(file) {
                logged = self.log_areas(state, change)?;
                logged += state.append(&self.core, self.id, change.clone())?;
            }
            state.image.apply(&self.home, change)?;
            Ok(logged)
        })
    }

    /// A change of names, decided under the lock; `None` if there is nothing to change. Who makes a file is its user.
    pub(crate) fn change_names(&self, mut decide: impl FnMut(&State) -> Result<Option<Change<'static>>>) -> Result<()> {
        self.accept(|state| {
            let Some(change) = decide(state)? else { return Ok(0) };
            self.check_share(state, OVERHEAD, 0)?;
            let mut logged = self.log_areas(state, &change)?;
            logged += state.append(&self.core, self.id, change.clone())?;
            state.image.apply(&self.home, &change)?;
            if let Change::Create { file: Some(file), .. } = change {
                state.image.take(file);
            }
            Ok(logged)
        })
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.change_names(|state| {
            let changes = state.image.names.check_rename(from, to)?;
            Ok(changes.then(|| Change::Rename { from: from.to_owned(), to: to.to_owned() }))
        })
    }

    /// Reads bytes; what is only at home is read without the lock.
    pub(crate) fn read(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let state = self.state()?;
            let contents = state.image.contents(file)?;
            let length = contents.length().saturating_sub(offset).min(buffer.len() as u64) as usize;
            let buffer = &mut buffer[..length];
            let (unknown, rounds) = (contents.read_known(offset, buffer), state.rounds);
            drop(state);
            if unknown.is_empty() {
                return Ok(length);
            }
            let read = Piece::read_all(&unknown, &self.home, offset, buffer);
            // Where a place was given away meanwhile, anything may have been read, or nothing.
            let state = self.state()?;
            let contents = state.image.contents(file)?;
            let is_new = |piece: &Piece| contents.unknown(piece.block()) == Some(*piece);
            if state.rounds == rounds && unknown.iter().all(is_new) {
                drop(state);
                match read {
                    Ok(()) => return Ok(length),
                    Err(unreadable) => self.mend(file, &unreadable)?,
                }
            }
        }
    }

    /// Returns when everything that the member has had accepted is durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let began = Instant::now();
        let state = self.state()?;
        let (last, has_areas) = (state.last, !state.dirty_areas.is_empty() || state.writing_areas);
        drop(state);
        let own_sync =
            if has_areas { self.sync_areas().map(|()| true) } else { self.core.process.commit(self.id, last) }?;
        self.commits.lock().record(began.elapsed(), own_sync);
        Ok(())
    }

    /// Holds somebody back whose requests are not durable yet, while the log can not keep up.
    pub(crate) fn pace(&self) {
        self.core.stream.pace();
    }
}

/// Refuses what lies beyond the longest file.
fn check_range(offset: u64, length: u64) -> Result<()> {
    match offset.checked_add(length) {
        Some(end) if end < LONGEST_FILE => Ok(()),
        _ => Err(Error::invalid(format!("a file has less than 1 TiB; {length} bytes at {offset} go beyond"))),
    }
}
