//! What a member's lock guards: its image, and how far the log and the home are.

use std::collections::BTreeMap;

use ishigaki_base::Lsn;
use ishigaki_wal::{Dependencies, Error as LogError};

use crate::format::{Change, Entry, pack};
use crate::image::{Contents, Image, Piece};
use crate::pool::Core;
use crate::recovery::RebuiltMember;
use crate::statistics::Counters;
use crate::{Error, FileId, MemberId, Result};

/// A member's state. An entry is appended and takes effect under one hold of the lock: so the log has a member's entries in
/// the order in which they took effect.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) image: Image,
    /// Of the last entry.
    pub(crate) number: u64,
    /// Its LSN; 0 if this opening has appended none.
    pub(crate) last: Lsn,
    /// The LSN of the first entry that is not home.
    pub(crate) oldest: Option<Lsn>,
    /// The same for when the round under way will have ended.
    pub(crate) oldest_next: Option<Lsn>,
    /// Bytes of all entries ever, and of those that are home.
    pub(crate) logged: u64,
    pub(crate) logged_home: u64,
    /// Checkpoint areas that were written and are not in the checkpoint file, with their file.
    pub(crate) dirty_areas: BTreeMap<usize, FileId>,
    /// Somebody is writing to the checkpoint file.
    pub(crate) writing_areas: bool,
    /// Rounds that have ended; what is at home changes its place only then.
    pub(crate) rounds: u64,
    /// Blocks at home that are not what was written, and that the log does not have.
    pub(crate) damaged: BTreeMap<(FileId, u64), Piece>,
    /// It is opened again elsewhere, and appends nothing any more.
    pub(crate) retired: bool,
    /// Why the member takes no more requests.
    pub(crate) failure: Option<Error>,
    pub(crate) counters: Counters,
}

/// Why a request can not be taken at this moment.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The log has no room for so many bytes.
    LogFull(usize),
    /// The member has to go home first.
    ShareFull,
    /// The home has to grow to so many extents.
    HomeGrows(u64),
    /// Blocks have to be read at home.
    Unknown(FileId, Vec<crate::image::Piece>),
    /// It can not be taken at all.
    Error(Error),
}

impl<E: Into<Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            image: Image::default(),
            number: 0,
            last: Lsn::ZERO,
            oldest: None,
            oldest_next: None,
            logged: 0,
            logged_home: 0,
            dirty_areas: BTreeMap::new(),
            writing_areas: false,
            rounds: 0,
            damaged: BTreeMap::new(),
            retired: false,
            failure: None,
            counters: Counters::NONE,
        }
    }
}

impl State {
    /// As recovery has found it.
    pub(crate) fn rebuilt(member: &RebuiltMember) -> Self {
        let (image, number) = (member.image.clone(), member.number);
        let (oldest, oldest_next, logged) = (member.oldest, member.oldest, member.logged);
        let lost = |file| image.contents(file).map(Contents::lost_blocks).unwrap_or_default();
        let damaged = image.all_files().flat_map(|file| lost(file).into_iter().map(move |piece| (file, piece)));
        let damaged = damaged.map(|(file, piece)| ((file, piece.block()), piece)).collect();
        Self { image, number, oldest, oldest_next, logged, damaged, ..Self::default() }
    }

    /// Appends an entry. Nothing has changed if there is no room.
    pub(crate) fn append(&mut self, core: &Core, member: MemberId, change: Change<'_>) -> Result<u64, Refusal> {
        core.check()?;
        let payload = pack(Entry { member, number: self.number + 1, change }.encode());
        let lsn = match core.stream.try_append_after(&Dependencies::default(), &payload) {
            Ok(receipt) => receipt.lsn(),
            Err(LogError::Full { .. }) => return Err(Refusal::LogFull(payload.len())),
            Err(error) => return Err(error.into()),
        };
        self.number += 1;
        self.last = lsn;
        self.oldest.get_or_insert(lsn);
        self.oldest_next.get_or_insert(lsn);
        self.logged += payload.len() as u64;
        self.counters.entries += 1;
        self.counters.logged += payload.len() as u64;
        Ok(payload.len() as u64)
    }

    /// Bytes of entries that are not home.
    pub(crate) fn not_home(&self) -> u64 {
        self.logged - self.logged_home
    }
}
