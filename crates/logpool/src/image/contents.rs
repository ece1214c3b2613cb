//! The bytes of one file: blocks in memory over extents at home.
//!
//! A block in memory hides what is at home. It is *dirty* until a round has brought it home, and stays a while longer, so
//! that later writes can be compared with it. Home counts only up to [`Contents::valid`]: what a truncation cut off is zero,
//! although the extent still has it.
//!
//! Every block that is read at home is compared with its checksum. One that does not fit is never shown. Recovery may find
//! such a block when an entry changes a part of it; then the block is *lost*: it lacks the entry's changes, and stays lost
//! until it is written as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use ishigaki_base::crc32c;

use super::compare::{BLOCK, Known};
use crate::format::{BLOCKS, Extent};
use crate::home::{Base, EXTENT};
use crate::{Error, Result};

/// A moment in the life of an image; each change has a larger one.
pub(crate) type Version = u64;

/// A block in memory.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// `None`: all zero.
    pub(crate) bytes: Option<Arc<[u8]>>,
    /// Of its last change; 0 if it is as at home.
    version: Version,
}

/// So many blocks are read at once, a mebibyte.
const ROW: usize = 256;

/// A block at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    block: u64,
    /// The extent.
    place: u32,
    /// Where the block begins in it.
    offset: u64,
    /// CRC-32C of what was written there.
    sum: u32,
    /// It lacks changes, and is not to be shown.
    lost: bool,
}

/// A block that can not be had from home.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) piece: Piece,
    /// The medium's word for it; `None` when the bytes do not fit their checksum, or lack changes.
    pub(crate) cause: Option<Error>,
}

impl Piece {
    /// Its index in the file.
    pub(crate) fn block(self) -> u64 {
        self.block
    }

    /// Its extent.
    pub(crate) fn place(self) -> u32 {
        self.place
    }

    /// Where it begins in its extent.
    pub(crate) fn offset(self) -> u64 {
        self.offset
    }

    /// Whether it lacks changes.
    pub(crate) fn is_lost(self) -> bool {
        self.lost
    }

    /// Whether these are the bytes that were written there.
    pub(crate) fn fits(self, bytes: &[u8]) -> bool {
        crc32c(bytes) == self.sum
    }

    /// Its bytes, which are those that were written.
    pub(crate) fn read(self, base: &dyn Base) -> Result<Vec<u8>, Unreadable> {
        let mut bytes = vec![0; BLOCK as usize];
        self.read_row(base, &mut bytes)?;
        if self.lost || !self.fits(&bytes) { Err(Unreadable { piece: self, cause: None }) } else { Ok(bytes) }
    }

    /// The bytes of a row of blocks that begins here, whatever they are.
    fn read_row(self, base: &dyn Base, bytes: &mut [u8]) -> Result<(), Unreadable> {
        base.read(self.place, self.offset, bytes).map_err(|error| match error {
            // It has no place any more.
            Error::Corrupt { .. } => Unreadable { piece: self, cause: None },
            error => Unreadable { piece: self, cause: Some(error) },
        })
    }

    /// Whether the next block lies behind this one, in the file and at home.
    fn goes_on(self, next: Self) -> bool {
        let at = |piece: Self| u64::from(piece.place) * EXTENT + piece.offset;
        next.block == self.block + 1 && at(next) == at(self) + BLOCK
    }

    /// Reads blocks into the buffer of a request that begins at `from`: those that lie in a row at home, at once, up to [`ROW`].
    pub(crate) fn read_all(pieces: &[Self], base: &dyn Base, from: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        for row in pieces.chunk_by(|piece, next| piece.goes_on(*next)).flat_map(|row| row.chunks(ROW)) {
            let mut bytes = vec![0; row.len() * BLOCK as usize];
            row[0].read_row(base, &mut bytes)?;
            let mut blocks = row.iter().zip(bytes.chunks(BLOCK as usize));
            if let Some((piece, _)) = blocks.find(|(piece, bytes)| piece.lost || !piece.fits(bytes)) {
                return Err(Unreadable { piece: *piece, cause: None });
            }
            let begin = row[0].block * BLOCK;
            let (first, end) = (begin.max(from), (begin + bytes.len() as u64).min(from + buffer.len() as u64));
            let wanted = &bytes[(first - begin) as usize..(end - begin) as usize];
            buffer[(first - from) as usize..(end - from) as usize].copy_from_slice(wanted);
        }
        Ok(())
    }
}

/// A buffer taken apart by blocks, with the place where each part begins.
fn parts(offset: u64, buffer: &mut [u8]) -> impl Iterator<Item = (u64, &mut [u8])> {
    let (mut at, mut rest) = (offset, buffer);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = rest.len().min((BLOCK - at % BLOCK) as usize);
        let (part, behind) = std::mem::take(&mut rest).split_at_mut(length);
        rest = behind;
        at += length as u64;
        Some((at - length as u64, part))
    })
}

/// The bytes of one file.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    /// In bytes.
    length: u64,
    /// Where they are at home, as the newest ledger says.
    extents: Vec<Option<Extent>>,
    /// From here on home means nothing; whole blocks.
    valid: u64,
    /// The same for what the round under way will leave at home.
    valid_next: u64,
    blocks: BTreeMap<u64, Block>,
    /// Blocks that lack changes, since what is at home was damaged when these came. None of them is in memory.
    lost: BTreeSet<u64>,
    /// Blocks that did not fit their checksum, and the one that they must have when a round's entries are made.
    unproven: BTreeMap<u64, u32>,
    /// Changes up to here are home.
    home: Version,
    /// Blocks with a later change.
    dirty: u64,
}

impl Contents {
    /// As it is at home.
    pub(crate) fn at_home(length: u64, extents: Vec<Option<Extent>>, home: Version) -> Self {
        let (valid, valid_next) = (u64::MAX, u64::MAX);
        let (blocks, lost, unproven) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { length, extents, valid, valid_next, blocks, lost, unproven, home, dirty: 0 }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Where it is at home.
    pub(crate) fn extents(&self) -> &[Option<Extent>] {
        &self.extents
    }

    /// Up to where home counts.
    pub(crate) fn valid(&self) -> u64 {
        self.valid
    }

    /// Bytes in memory of blocks that are not home.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty * BLOCK
    }

    /// The place at home of that block, if it counts.
    fn place(&self, block: u64) -> Option<Piece> {
        let at = block * BLOCK;
        let extent = self.extents.get((at / EXTENT) as usize)?.as_ref()?;
        let (offset, within) = (at % EXTENT, (block as usize) % BLOCKS);
        let lost = extent.lost >> within & 1 == 1 || self.lost.contains(&block);
        (at < self.valid).then_some(Piece { block, place: extent.place, offset, sum: extent.sums[within], lost })
    }

    /// What is known of a block without asking home.
    pub(super) fn known(&self, block: u64) -> Known<'_> {
        match self.blocks.get(&block) {
            Some(Block { bytes: Some(bytes), .. }) => Known::Bytes(bytes),
            Some(Block { bytes: None, .. }) => Known::Zero,
            None if self.place(block).is_none() => Known::Zero,
            None => Known::Nothing,
        }
    }

    /// The blocks that a change of these bytes covers in part, and of which nothing is known.
    pub(crate) fn unknown_edges(&self, offset: u64, length: u64) -> Vec<Piece> {
        let end = offset + length;
        if length == 0 {
            return Vec::new();
        }
        let edges = [(offset, !offset.is_multiple_of(BLOCK)), (end - 1, !end.is_multiple_of(BLOCK))];
        let mut blocks: Vec<u64> = edges.iter().filter(|(_, in_part)| *in_part).map(|(at, _)| at / BLOCK).collect();
        blocks.dedup();
        blocks.into_iter().filter_map(|block| self.unknown(block)).collect()
    }

    /// Where a block is at home, if nothing is known of it in memory.
    pub(crate) fn unknown(&self, block: u64) -> Option<Piece> {
        if self.blocks.contains_key(&block) {
            return None;
        }
        self.place(block)
    }

    /// Brings such blocks into memory. One that is damaged at home is lost from now on.
    pub(crate) fn prepare(&mut self, base: &dyn Base, offset: u64, length: u64) -> Result<()> {
        for piece in self.unknown_edges(offset, length) {
            match piece.read(base) {
                Ok(bytes) => self.learn(piece, &bytes),
                Err(Unreadable { cause: Some(error), .. }) => return Err(error),
                Err(Unreadable { cause: None, .. }) => {
                    match base.intended(piece.place, piece.block as usize % BLOCKS) {
                        // A round that was cut off may have left it so. Whether it has, is seen when its entries are made.
                        Some(sum) if !piece.lost => {
                            let mut bytes = vec![0; BLOCK as usize];
                            base.read(piece.place, piece.offset, &mut bytes)?;
                            self.learn(piece, &bytes);
                            self.unproven.insert(piece.block, sum);
                        }
                        _ => {
                            self.lost.insert(piece.block);
                        }
                    }
                }
            }
        }
        // What is covered as a whole is not needed, damaged or not.
        let whole = offset.div_ceil(BLOCK)..((offset + length) / BLOCK).max(offset.div_ceil(BLOCK));
        let found: Vec<u64> = self.lost.range(whole).copied().collect();
        for block in found {
            self.make_whole(block);
        }
        Ok(())
    }

    /// The entries of a round that was cut off are made: blocks that do not have the checksum that it gave them are lost.
    pub(crate) fn prove(&mut self) {
        for (index, sum) in std::mem::take(&mut self.unproven) {
            let Some(block) = self.blocks.get(&index) else { continue };
            let found = block.bytes.as_ref().map_or_else(|| Extent::zeros(0).sums[0], |bytes| crc32c(bytes));
            if found != sum {
                self.dirty -= u64::from(block.version > self.home);
                self.blocks.remove(&index);
                self.lost.insert(index);
            }
        }
    }

    /// A block that was lost is about to be written as a whole: until then it is as good as zero.
    fn make_whole(&mut self, block: u64) {
        self.lost.remove(&block);
        self.blocks.insert(block, Block { bytes: None, version: 0 });
    }

    /// The block can not be had, and what came for it neither.
    pub(crate) fn give_up(&mut self, block: u64) {
        if !self.blocks.contains_key(&block) && self.place(block).is_some() {
            self.lost.insert(block);
        }
    }

    /// Blocks that are lost, of those that the file has. Looks at extents, not at every block.
    pub(crate) fn lost_blocks(&self) -> Vec<Piece> {
        let mut lost = self.lost.clone();
        for (index, extent) in self.extents.iter().enumerate() {
            let Some(extent) = extent.as_ref().filter(|extent| extent.lost != 0) else { continue };
            let within = (0..BLOCKS).filter(|block| extent.lost >> block & 1 == 1);
            lost.extend(within.map(|block| (index * BLOCKS + block) as u64));
        }
        lost.into_iter().filter_map(|block| self.unknown(block)).collect()
    }

    /// Those of them that the ledger does not say to be lost: changes have met damage at home, and the log may mend it.
    pub(crate) fn newly_lost(&self) -> Vec<Piece> {
        let is_new = |block: &u64| {
            let extent = self.extents.get(*block as usize / BLOCKS).copied().flatten();
            extent.is_some_and(|extent| extent.lost >> (*block as usize % BLOCKS) & 1 == 0)
        };
        self.lost.iter().copied().filter(is_new).filter_map(|block| self.unknown(block)).collect()
    }

    /// A block was read at home.
    pub(crate) fn learn(&mut self, piece: Piece, bytes: &[u8]) {
        if self.unknown(piece.block) == Some(piece) {
            self.blocks.insert(piece.block, Block { bytes: Some(bytes.into()), version: 0 });
        }
    }

    /// A block of a file that has no home: it is in memory alone, and stays there.
    pub(super) fn hold(&mut self, block: u64, bytes: &[u8]) {
        self.blocks.insert(block, Block { bytes: Some(bytes.into()), version: 0 });
    }

    /// Reads bytes, zeros behind the end. Blocks of which nothing is known are left out, and said.
    pub(crate) fn read_known(&self, offset: u64, buffer: &mut [u8]) -> Vec<Piece> {
        let mut unknown = Vec::new();
        for (at, part) in parts(offset, buffer) {
            let within = (at % BLOCK) as usize;
            match self.known(at / BLOCK) {
                _ if at >= self.length => part.fill(0),
                Known::Bytes(bytes) => part.copy_from_slice(&bytes[within..within + part.len()]),
                Known::Zero => part.fill(0),
                Known::Nothing => unknown.extend(self.unknown(at / BLOCK)),
            }
        }
        unknown
    }

    /// Reads bytes, zeros behind the end.
    pub(crate) fn read(&self, base: &dyn Base, offset: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        let unknown = self.read_known(offset, buffer);
        Piece::read_all(&unknown, base, offset, buffer)
    }

    /// Changes bytes, which were [prepared](Self::prepare). The length stays.
    pub(crate) fn put(&mut self, offset: u64, bytes: &[u8], version: Version) {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (block, within) = (at / BLOCK, (at % BLOCK) as usize);
            let (part, behind) = rest.split_at(rest.len().min(BLOCK as usize - within));
            let is_whole = part.len() as u64 == BLOCK;
            self.change(block, is_whole, version, |memory| {
                let memory = memory.get_or_insert_with(|| Arc::from(vec![0; BLOCK as usize]));
                Arc::make_mut(memory)[within..within + part.len()].copy_from_slice(part);
            });
            at += part.len() as u64;
            rest = behind;
        }
    }

    /// Makes bytes zero, which were [prepared](Self::prepare). The length stays. However long the run is, this takes as long
    /// as there are blocks in memory and extents at home.
    pub(crate) fn zero(&mut self, offset: u64, length: u64, version: Version) {
        let end = offset + length;
        let whole = offset.div_ceil(BLOCK)..end / BLOCK;
        if whole.start > whole.end {
            self.zero_within(offset, end, version);
            return;
        }
        self.zero_within(offset, whole.start * BLOCK, version);
        for block in self.present(whole.clone()) {
            self.change(block, true, version, |memory| *memory = None);
        }
        self.zero_within(whole.end * BLOCK, end, version);
    }

    /// A part of one block.
    fn zero_within(&mut self, from: u64, to: u64, version: Version) {
        if from < to {
            let within = (from % BLOCK) as usize;
            self.change(from / BLOCK, false, version, |memory| {
                if let Some(memory) = memory {
                    Arc::make_mut(memory)[within..within + (to - from) as usize].fill(0);
                }
            });
        }
    }

    /// Blocks of which there is something, in memory or at home.
    fn present(&self, within: Range<u64>) -> BTreeSet<u64> {
        const IN_EXTENT: u64 = EXTENT / BLOCK;
        let mut present: BTreeSet<u64> = self.blocks.range(within.clone()).map(|(&block, _)| block).collect();
        let first = within.start / IN_EXTENT;
        let extents = self.extents.iter().enumerate().skip(first as usize).take_while(|(index, _)| {
            let block = *index as u64 * IN_EXTENT;
            block < within.end && block * BLOCK < self.valid
        });
        for (index, _) in extents.filter(|(_, extent)| extent.is_some()) {
            let block = index as u64 * IN_EXTENT;
            let end = within.end.min(block + IN_EXTENT);
            present.extend((block.max(within.start)..end).filter(|&block| self.place(block).is_some()));
        }
        present
    }

    /// Changes a block, as a whole or in part. Of one that is lost a part can not be changed.
    fn change(&mut self, block: u64, is_whole: bool, version: Version, how: impl FnOnce(&mut Option<Arc<[u8]>>)) {
        if self.lost.contains(&block) {
            if !is_whole {
                return;
            }
            self.lost.remove(&block);
        }
        let entry = self.blocks.entry(block).or_insert(Block { bytes: None, version: 0 });
        self.dirty += u64::from(entry.version <= self.home);
        entry.version = version;
        how(&mut entry.bytes);
    }

    /// Makes it at least so long.
    pub(crate) fn extend(&mut self, length: u64) {
        self.length = self.length.max(length);
    }

    /// Gives it another length. The last block, if it is cut in part, was [prepared](Self::prepare).
    pub(crate) fn truncate(&mut self, length: u64, version: Version) {
        if length < self.length {
            let whole = length.next_multiple_of(BLOCK);
            self.zero(length, whole.min(self.length) - length, version);
            for (_, block) in self.blocks.split_off(&(whole / BLOCK)) {
                self.dirty -= u64::from(block.version > self.home);
            }
            self.lost.split_off(&(whole / BLOCK));
            self.valid = self.valid.min(whole);
            self.valid_next = self.valid_next.min(whole);
        }
        self.length = length;
    }

    /// The blocks that are not home, ascending.
    pub(crate) fn dirty_blocks(&self) -> impl Iterator<Item = (u64, &Option<Arc<[u8]>>)> {
        let home = self.home;
        self.blocks.iter().filter(move |(_, block)| block.version > home).map(|(&index, block)| (index, &block.bytes))
    }

    /// Runs of bytes within the file that home still has, that do not count any more, and that no block in memory hides.
    pub(crate) fn voids(&self) -> Vec<(u64, u64)> {
        let end = self.length.min(self.extents.len() as u64 * EXTENT);
        let mut voids: Vec<(u64, u64)> = Vec::new();
        let mut at = self.valid;
        while at < end {
            let next = end.min((at / BLOCK + 1) * BLOCK);
            if !self.blocks.contains_key(&(at / BLOCK)) {
                match voids.last_mut() {
                    Some((_, last)) if *last == at => *last = next,
                    _ => voids.push((at, next)),
                }
            }
            at = next;
        }
        voids
    }

    /// A round begins: what is changed from now on will not be in it.
    pub(crate) fn round_begins(&mut self) {
        self.valid_next = u64::MAX;
    }

    /// A round has brought home everything up to that version, into these extents. Gives the blocks that are now as at home.
    pub(crate) fn round_ended(&mut self, home: Version, extents: Vec<Option<Extent>>) -> Vec<u64> {
        self.extents = extents;
        self.valid = self.valid_next;
        let before = std::mem::replace(&mut self.home, home);
        self.dirty = self.blocks.values().filter(|block| block.version > home).count() as u64;
        // Zero blocks that home has no place for need not be kept: it says the same.
        let is_void = |block: &u64| self.extents.get((block * BLOCK / EXTENT) as usize).copied().flatten().is_none();
        let gone: Vec<u64> = self
            .blocks
            .iter()
            .filter(|(index, block)| block.version <= home && block.bytes.is_none() && is_void(index))
            .map(|(&index, _)| index)
            .collect();
        for index in gone {
            self.blocks.remove(&index);
        }
        let clean = self.blocks.iter().filter(|(_, block)| block.version > before && block.version <= home);
        clean.map(|(&index, _)| index).collect()
    }

    /// Lets go of a block in memory if home has the same.
    pub(crate) fn forget(&mut self, block: u64) {
        if self.blocks.get(&block).is_some_and(|block| block.version <= self.home) {
            self.blocks.remove(&block);
        }
    }

    /// The blocks of an extent that are at home as the file is, those in memory as well: their checksums must fit.
    pub(crate) fn home_pieces(&self, index: u64) -> Vec<Piece> {
        let blocks = index * BLOCKS as u64..(index + 1) * BLOCKS as u64;
        let is_home = |block: &u64| self.blocks.get(block).is_none_or(|block| block.version <= self.home);
        blocks.filter(is_home).filter_map(|block| self.place(block)).collect()
    }

    /// What home has of that block is damaged, and memory has it: it goes home once more.
    pub(crate) fn freshen(&mut self, piece: Piece, version: Version) -> bool {
        if self.place(piece.block) != Some(piece) || !self.blocks.contains_key(&piece.block) {
            return false;
        }
        self.change(piece.block, true, version, |_| {});
        true
    }

    /// Extents, as a snapshot of the file has them: with what is lost.
    pub(crate) fn extents_with_losses(&self) -> Vec<Option<Extent>> {
        let mut extents = self.extents.clone();
        for block in &self.lost {
            if let Some(Some(extent)) = extents.get_mut(*block as usize / BLOCKS) {
                extent.lost |= 1 << (*block as usize % BLOCKS);
            }
        }
        extents
    }
}
