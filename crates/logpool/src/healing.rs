//! Blocks that are damaged at home, made anew from what the log still has of them.
//!
//! The log may still hold the entries that wrote a block, also those that are home, until their space is used again. They are
//! laid over the bytes that are there. The block's checksum decides whether that gives what was written; nothing else is ever
//! taken for it.

use std::collections::BTreeMap;

use crate::format::{Change, Entry, Run, Slot};
use crate::home::Home;
use crate::image::{BLOCK, Piece};
use crate::{Area, FileId, MemberId, Profile};

/// A block that was made anew.
pub(crate) type Made = (FileId, Piece, Vec<u8>);

/// Blocks at home that do not fit their checksums.
#[derive(Debug)]
pub(crate) struct Candidates {
    member: MemberId,
    /// Entries behind this one have changed what is at home no more.
    up_to: u64,
    blocks: BTreeMap<(FileId, u64), Candidate>,
}

#[derive(Debug)]
struct Candidate {
    piece: Piece,
    bytes: Vec<u8>,
    /// Fits; nothing more is laid over it.
    is_whole: bool,
}

impl Candidates {
    /// Of that member; the blocks are as after its entry `up_to`.
    pub(crate) fn new(member: MemberId, up_to: u64) -> Self {
        Self { member, up_to, blocks: BTreeMap::new() }
    }

    /// One more block. What is there of it is a beginning.
    pub(crate) fn add(&mut self, home: &Home, file: FileId, piece: Piece) {
        let within = piece.offset() as usize..(piece.offset() + BLOCK) as usize;
        let bytes = home.raw(piece.place()).map_or_else(|_| vec![0; BLOCK as usize], |bytes| bytes[within].to_vec());
        let is_whole = piece.fits(&bytes);
        self.blocks.insert((file, piece.block()), Candidate { piece, bytes, is_whole });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The next entry of the log, of whichever member.
    pub(crate) fn take(&mut self, entry: &Entry<'_>) {
        if entry.member != self.member || entry.number > self.up_to {
            return;
        }
        match &entry.change {
            Change::Data { file, offset, runs, .. } => {
                for Run { at, length, bytes } in runs {
                    self.lay(*file, offset + at, *length, *bytes);
                }
            }
            Change::Zero { file, offset, length, .. } => self.lay(*file, *offset, *length, None),
            Change::Truncate { file, length } => self.cut(*file, *length),
            Change::Create { file: Some(file), .. } => self.cut(*file, 0),
            Change::Restate { nodes, .. } => {
                nodes.iter().filter_map(|node| node.file).for_each(|(file, length)| self.cut(file, length));
            }
            Change::Create { .. } | Change::Rename { .. } | Change::Remove { .. } | Change::Restated => {}
        }
    }

    /// A copy of a checkpoint area, which is a block.
    pub(crate) fn take_slot(&mut self, profile: &Profile, slot: &Slot) {
        let at = profile.areas[usize::from(slot.area)].offset;
        debug_assert_eq!((Area::LENGTH, at % BLOCK), (BLOCK, 0));
        if let Some(candidate) = self.blocks.get_mut(&(slot.file, at / BLOCK))
            && candidate.piece.fits(&slot.bytes)
        {
            (candidate.bytes, candidate.is_whole) = (slot.bytes.clone(), true);
        }
    }

    /// Lays bytes, or zeros, over the blocks.
    fn lay(&mut self, file: FileId, offset: u64, length: u64, bytes: Option<&[u8]>) {
        let end = offset.saturating_add(length);
        let touched = (file, offset / BLOCK)..(file, end.div_ceil(BLOCK));
        if touched.start >= touched.end {
            return;
        }
        for ((_, block), candidate) in self.blocks.range_mut(touched) {
            if candidate.is_whole {
                continue;
            }
            let begin = block * BLOCK;
            let (from, to) = (begin.max(offset), (begin + BLOCK).min(end));
            let target = &mut candidate.bytes[(from - begin) as usize..(to - begin) as usize];
            match bytes {
                Some(bytes) => target.copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]),
                None => target.fill(0),
            }
        }
    }

    fn cut(&mut self, file: FileId, length: u64) {
        self.lay(file, length, crate::format::LONGEST_FILE - length.min(crate::format::LONGEST_FILE), None);
    }

    /// Those that are what was written, and those that are not.
    pub(crate) fn judged(self) -> (Vec<Made>, Vec<(FileId, Piece)>) {
        let (mut whole, mut others) = (Vec::new(), Vec::new());
        for ((file, _), Candidate { piece, bytes, is_whole }) in self.blocks {
            if is_whole || piece.fits(&bytes) { whole.push((file, piece, bytes)) } else { others.push((file, piece)) }
        }
        (whole, others)
    }
}
