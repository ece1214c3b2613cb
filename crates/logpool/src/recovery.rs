//! Rebuilding members' files (paper 4, section 4.2, which leaves it to future work): home, checkpoint file, log.
//!
//! Each member begins with its home, as of some entry. The log's entries follow in order; those that are home already are
//! passed over. A copy in the checkpoint file takes its place among the entries: it was written after the entry that it
//! names. Entries are numbered by member, so one that is missing is noticed.
//!
//! A member whose home did not keep up was *restated*: all that had changed since some entry was said again, and the log
//! before that given free. If the entries right after the home are gone, there must be a restatement that begins no later.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;

use ishigaki_base::Lsn;
use ishigaki_device::Directory;

use crate::areas::Areas;
use crate::format::{BLOCKS, Change, Entry, Roster, RosterMember, Run, Slot, unpack};
use crate::home::{EXTENT, Home};
use crate::image::Image;
use crate::{Area, Error, MemberId, MemberSettings, Result, aside};

/// Where members have their homes. Directories that several members share, or the log, are watched by a
/// [`VigilantDirectory`](ishigaki_device::VigilantDirectory), and each is the same object every time.
pub trait Homes: Send + Sync + Debug {
    /// The directory of that member's home.
    fn directory(&self, member: &str) -> ishigaki_device::Result<Arc<dyn Directory>>;
}

/// Every home in one directory.
#[derive(Debug)]
pub struct Together(pub Arc<dyn Directory>);

impl Homes for Together {
    fn directory(&self, _: &str) -> ishigaki_device::Result<Arc<dyn Directory>> {
        Ok(self.0.clone())
    }
}

impl<F> Homes for F
where
    F: Fn(&str) -> ishigaki_device::Result<Arc<dyn Directory>> + Send + Sync + Debug,
{
    fn directory(&self, member: &str) -> ishigaki_device::Result<Arc<dyn Directory>> {
        self(member)
    }
}

/// No member lives long enough to have so many entries.
const LAST_NUMBER: u64 = 1 << 60;

/// All members, as far as their entries have come.
#[derive(Debug, Default)]
pub(crate) struct Rebuilt {
    /// In the order of the roster; one that can not be opened is no other's concern.
    pub(crate) members: Vec<Result<RebuiltMember>>,
    by_id: BTreeMap<MemberId, usize>,
}

/// A member.
#[derive(Debug)]
pub(crate) struct RebuiltMember {
    pub(crate) id: MemberId,
    pub(crate) name: String,
    pub(crate) settings: MemberSettings,
    pub(crate) home: Home,
    pub(crate) areas: Areas,
    pub(crate) image: Image,
    /// The last entry.
    pub(crate) number: u64,
    /// The LSN of the first one that is not home.
    pub(crate) oldest: Option<Lsn>,
    /// Bytes of all that are not home.
    pub(crate) logged: u64,
    /// The last entry of those that were moved aside.
    aside: u64,
    /// Copies whose turn has not come.
    slots: VecDeque<Slot>,
    gap: Gap,
}

/// Whether entries after the home are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    None,
    /// They are, and nothing has made up for it yet.
    Open,
    /// A restatement is under way that does.
    Closing,
}

impl Rebuilt {
    /// The members as they are at home, and with what was moved aside in the pool's own directory. Nothing is written.
    pub(crate) fn begin(roster: &Roster, directory: &dyn Directory, homes: &dyn Homes) -> Self {
        let mut rebuilt = Self::default();
        for member in &roster.members {
            rebuilt.by_id.insert(member.id, rebuilt.members.len());
            rebuilt.members.push(RebuiltMember::begin(roster, member, directory, homes));
        }
        rebuilt
    }

    /// Takes the next record of the log.
    pub(crate) fn take(&mut self, lsn: Lsn, payload: &[u8]) -> Result<()> {
        let plain = unpack(payload)?;
        let entry = Entry::decode(&plain)?;
        // Who is not on the roster any more was removed.
        match self.by_id.get(&entry.member) {
            Some(&place) => {
                let outcome = &mut self.members[place];
                if let Ok(member) = outcome
                    && let Err(error) = member.take(Some(lsn), &entry, payload.len() as u64)
                {
                    *outcome = Err(error);
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The log is over.
    pub(crate) fn finish(&mut self) {
        for outcome in &mut self.members {
            if let Ok(member) = outcome
                && let Err(error) = member.finish()
            {
                *outcome = Err(error);
            }
        }
    }

    /// The only one that there is.
    pub(crate) fn only(mut self) -> Result<RebuiltMember> {
        self.members.pop().unwrap_or_else(|| Err(Error::NotFound { name: "the member".to_owned() }))
    }
}

impl RebuiltMember {
    fn begin(
        roster: &Roster,
        member: &RosterMember,
        pool_directory: &dyn Directory,
        homes: &dyn Homes,
    ) -> Result<Self> {
        let RosterMember { id, name, settings } = member.clone();
        let directory = homes.directory(&name)?;
        let areas = Areas::open(directory.as_ref(), &name, roster.log, id, &settings.profile)?;
        let home = Home::open(directory, &name, roster.log, id)?;
        let ledger = home.ledger();
        let aside = aside::read(pool_directory, &name, roster.log, id)?;
        let mut begun = Self {
            image: Image::at_home(&ledger),
            number: ledger.entries,
            oldest: None,
            logged: 0,
            slots: areas.slots().into_iter().filter(|slot| slot.after >= ledger.entries).collect(),
            gap: Gap::None,
            id,
            name,
            settings,
            home,
            areas,
            aside: 0,
        };
        if let Some(aside) = aside {
            for payload in &aside.entries {
                begun.take(None, &Entry::decode(&unpack(payload)?)?, payload.len() as u64)?;
            }
            begun.aside = aside.last()?.max(1);
        }
        Ok(begun)
    }

    /// Whether entries of it were moved aside.
    pub(crate) fn has_aside(&self) -> bool {
        self.aside > 0
    }

    /// What was moved aside has no place in the log any more.
    fn take(&mut self, lsn: Option<Lsn>, entry: &Entry<'_>, bytes: u64) -> Result<()> {
        let home = self.home.entries();
        if entry.number <= home.max(self.aside) {
            return Ok(());
        }
        if entry.number != self.number + 1 {
            if self.logged > 0 || entry.number <= self.number || entry.number > LAST_NUMBER {
                let what = format!("its entry {} follows on entry {}", entry.number, self.number);
                return Err(Error::of_member(self.id, &what));
            }
            self.gap = Gap::Open;
        }
        self.place_slots(entry.number)?;
        if self.home.intended_entries().is_some_and(|entries| (self.number..entry.number).contains(&entries)) {
            self.image.prove();
        }
        (self.number, self.logged) = (entry.number, self.logged + bytes);
        self.oldest = self.oldest.or(lsn);
        match (self.gap, &entry.change) {
            (Gap::Open, Change::Restate { since, .. }) if *since <= home => self.gap = Gap::Closing,
            (Gap::Closing, Change::Restated) => self.gap = Gap::None,
            _ => {}
        }
        if self.gap == Gap::Open {
            // The restatement says it again, and what it builds on is not here.
            return Ok(());
        }
        self.image.apply(&self.home, &entry.change).map_err(|error| match error {
            Error::Device(_) => error,
            error => Error::of_member(self.id, &format!("its entry {} can not be: {error}", entry.number)),
        })
    }

    /// An extent that did not fit the checksum that format version 1 had of it, and of which the log changes nothing, is
    /// damaged, and of the others it is not known.
    fn judge_suspects(&mut self) -> Result<()> {
        let files: Vec<_> = self.image.all_files().collect();
        for file in files {
            let contents = self.image.contents_mut(file)?;
            for index in 0..contents.extents().len() as u64 {
                let pieces = contents.home_pieces(index);
                let is_suspect = pieces.first().is_some_and(|piece| self.home.is_suspect(piece.place()));
                if is_suspect && pieces.len() == BLOCKS {
                    for piece in pieces {
                        contents.give_up(piece.block());
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts copies of checkpoint areas that were written before that entry in their place.
    fn place_slots(&mut self, before: u64) -> Result<()> {
        while let Some(slot) = self.slots.pop_front_if(|slot| slot.after < before) {
            let at = self.settings.profile.areas[usize::from(slot.area)].offset;
            if self.image.contents(slot.file).is_ok_and(|contents| contents.length() >= at + Area::LENGTH) {
                let run = Run { at: 0, length: Area::LENGTH, bytes: Some(&slot.bytes) };
                let (file, length) = (slot.file, Area::LENGTH);
                self.image.apply(&self.home, &Change::Data { file, offset: at, length, runs: vec![run] })?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if self.gap != Gap::None {
            return Err(Error::of_member(self.id, "entries after those that are home are missing"));
        }
        self.place_slots(self.number + 1)?;
        self.image.prove();
        self.judge_suspects()?;
        let quota = self.settings.quota;
        if self.image.extents() * EXTENT > quota.home.0 || self.image.names.len() as u64 > quota.files.into() {
            return Err(Error::of_member(self.id, "its files are longer, or more, than it may have"));
        }
        match self.slots.front() {
            Some(slot) => {
                let what =
                    format!("its checkpoint file knows of entry {}, its log ends at {}", slot.after, self.number);
                Err(Error::of_member(self.id, &what))
            }
            None => Ok(()),
        }
    }
}
