//! Blocks at home that are not what was written: made anew from the log where that has them, refused where it does not.
//!
//! A block is compared with its checksum whenever it is read: for a request, by the scrubber, and by a round that writes
//! what lies beside it. The file is refused there, and nowhere else; a request that writes the whole block makes it whole.

use super::{Resident, State};
use crate::format::{Entry, unpack};
use crate::healing::Candidates;
use crate::image::{BLOCK, Piece, Unreadable};
use crate::statistics::DamagedFile;
use crate::{Error, FileId, Result};

/// How often an extent that goes home just then is looked at.
const LOOKS: usize = 3;

/// What a look at some of a home has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes compared with their checksums.
    pub bytes: u64,
    /// Blocks of 4 KiB that did not fit, or lack changes.
    pub damaged: u64,
    /// How many of these were made anew.
    pub repaired: u64,
}

impl Scrubbed {
    pub(crate) fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.damaged += other.damaged;
        self.repaired += other.repaired;
    }
}

impl Resident {
    /// A block of a file can not be had from home. It is made anew if the log has its bytes.
    pub(super) fn mend(&self, file: FileId, unreadable: &Unreadable) -> Result<()> {
        let piece = unreadable.piece;
        let is_known = self.state()?.damaged.get(&(file, piece.block())) == Some(&piece);
        if !is_known && self.heal(&[(file, piece)])?.is_empty() {
            return Ok(());
        }
        let error = self.damaged(&*self.state()?, file, piece, unreadable.cause.as_ref());
        if !is_known {
            tracing::error!(%error, "a file is damaged");
        }
        Err(error)
    }

    /// What is said of such a block.
    fn damaged(&self, state: &State, file: FileId, piece: Piece, cause: Option<&Error>) -> Error {
        let why = match cause {
            Some(cause) => format!("its home can not be read: {cause}"),
            None if piece.is_lost() => "it lacks changes that came when it was damaged".to_owned(),
            None => "its home does not fit its checksum".to_owned(),
        };
        let path = state.image.names.path_of(file).map_or_else(|| format!("file number {file}"), str::to_owned);
        Error::Damaged { member: self.name().to_owned(), file: path, offset: piece.block() * BLOCK, why }
    }

    /// Makes blocks anew from the log, and from the checkpoint files. Gives those that neither has, which are noted.
    pub(crate) fn heal(&self, wanted: &[(FileId, Piece)]) -> Result<Vec<(FileId, Piece)>> {
        // Nothing at home changes its place meanwhile.
        let _one = self.rounds.lock();
        let state = self.state()?;
        let is_there = |(file, piece): &&(FileId, Piece)| {
            state.image.contents(*file).is_ok_and(|contents| contents.unknown(piece.block()) == Some(*piece))
        };
        let wanted: Vec<_> = wanted.iter().filter(is_there).copied().collect();
        drop(state);
        let mut candidates = Candidates::new(self.id, self.home.entries());
        let (lost, damaged): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(_, piece)| piece.is_lost());
        for (file, piece) in &damaged {
            candidates.add(&self.home, *file, *piece);
        }
        if !candidates.is_empty()
            && let Err(error) = self.look_through_log(&mut candidates)
        {
            tracing::warn!(%error, member = self.name(), "the log could not be looked through for damaged blocks");
        }
        let (whole, mut others) = candidates.judged();
        for (file, piece, bytes) in whole {
            let mended = self.home.mend(piece, &bytes);
            if let Err(error) = &mended {
                tracing::warn!(%error, member = self.name(), "a damaged block could not be written over");
            }
            if mended.is_err() || piece.read(&self.home).is_err() {
                others.push((file, piece));
                continue;
            }
            tracing::warn!(member = self.name(), %file, offset = piece.block() * BLOCK, "a damaged block was made anew");
            let mut state = self.state()?;
            state.damaged.remove(&(file, piece.block()));
            state.counters.repaired += 1;
        }
        others.extend(lost);
        let mut state = self.state()?;
        state.damaged.extend(others.iter().map(|&(file, piece)| ((file, piece.block()), piece)));
        Ok(others)
    }

    fn look_through_log(&self, candidates: &mut Candidates) -> Result<()> {
        let _stays = self.core.hold_log();
        for record in self.core.log.changes(self.core.log.start().lsn)? {
            let (_, payload) = record?;
            candidates.take(&Entry::decode(&unpack(&payload)?)?);
        }
        self.areas.lock().slots().iter().for_each(|slot| candidates.take_slot(&self.settings.profile, slot));
        Ok(())
    }

    /// A round has met these blocks, which do not fit, and left them as they were.
    pub(super) fn met_damage(&self, blocks: &[(FileId, u64)]) {
        let Ok(state) = self.state() else { return };
        let piece = |(file, block): &(FileId, u64)| Some((*file, state.image.contents(*file).ok()?.unknown(*block)?));
        let pieces: Vec<_> = blocks.iter().filter_map(piece).collect();
        drop(state);
        match self.heal(&pieces) {
            Ok(others) if others.is_empty() => {}
            Ok(others) => {
                tracing::error!(member = self.name(), blocks = others.len(), "the home has damaged blocks");
            }
            Err(error) => tracing::warn!(%error, member = self.name(), "damaged blocks stay as they are"),
        }
    }

    /// What is to be looked at: each file and how many extents it has at home.
    pub(crate) fn extents_at_home(&self) -> Result<Vec<(FileId, u64)>> {
        let state = self.state()?;
        let count = |file| Ok((file, state.image.contents(file)?.extents().len() as u64));
        state.image.all_files().map(count).collect()
    }

    /// Compares an extent with its checksums, and makes anew what does not fit.
    pub(crate) fn scrub(&self, file: FileId, index: u64) -> Result<Scrubbed> {
        for _ in 0..LOOKS {
            let state = self.state()?;
            // It may be gone by now.
            let Ok(contents) = state.image.contents(file) else { return Ok(Scrubbed::default()) };
            let (pieces, rounds) = (contents.home_pieces(index), state.rounds);
            drop(state);
            let Some(first) = pieces.first() else { return Ok(Scrubbed::default()) };
            let raw = self.home.raw(first.place());
            let fits = |piece: &Piece| {
                let within = piece.offset() as usize..(piece.offset() + BLOCK) as usize;
                !piece.is_lost() && raw.as_ref().is_ok_and(|raw| piece.fits(&raw[within]))
            };
            let (sound, bad): (Vec<Piece>, Vec<Piece>) = pieces.into_iter().partition(fits);
            let mut state = self.state()?;
            if state.rounds != rounds {
                continue;
            }
            for piece in &sound {
                state.damaged.remove(&(file, piece.block()));
            }
            let bytes = (sound.len() + bad.len()) as u64 * BLOCK;
            let damaged = bad.len() as u64;
            let at_home: Vec<_> =
                bad.into_iter().filter(|piece| !state.image.freshen(file, *piece)).map(|piece| (file, piece)).collect();
            drop(state);
            let others = if at_home.is_empty() { Vec::new() } else { self.heal(&at_home)? };
            return Ok(Scrubbed { bytes, damaged, repaired: damaged - others.len() as u64 });
        }
        Ok(Scrubbed::default())
    }
}

impl State {
    /// Files with blocks that can not be had, in the order of their numbers.
    pub(super) fn damaged_files(&self) -> Vec<DamagedFile> {
        let mut files: Vec<(FileId, DamagedFile)> = Vec::new();
        for ((file, block), piece) in &self.damaged {
            if !self.image.contents(*file).is_ok_and(|contents| contents.unknown(*block) == Some(*piece)) {
                continue;
            }
            match files.last_mut() {
                // The blocks of a file follow one another.
                Some((last, found)) if last == file => found.blocks += 1,
                _ => {
                    let Some(path) = self.image.names.path_of(*file) else { continue };
                    files.push((*file, DamagedFile { path: path.to_owned(), blocks: 1, first: block * BLOCK }));
                }
            }
        }
        files.into_iter().map(|(_, found)| found).collect()
    }
}
