//! Members that are not served: refused at an opening, or taken out while the others run; and how they come back.
//!
//! ```text
//!  opening ── can not be opened ──▶ quarantined: entries moved aside ──┐
//!  served ─── quarantine ─────────▶ quarantined: restated as needed ───┼── reopen ──▶ served
//!  served ─── its home has failed ─────────────────────────────────────┘
//! ```

use std::sync::Arc;

use ishigaki_base::ErrorKind;

use super::opening::reserve_home;
use super::{Pool, roster};
use crate::format::{Entry, RosterMember, unpack};
use crate::healing::Candidates;
use crate::home::Home;
use crate::image::Piece;
use crate::member::{Resident, State};
use crate::rebuild::{Sink, write_out};
use crate::recovery::{Rebuilt, RebuiltMember};
use crate::{Error, FileId, Member, Result, Scrubbed, aside};

impl Pool {
    /// The members that are quarantined, by name, and why.
    pub fn quarantined(&self) -> Vec<(String, Error)> {
        self.quarantined.lock().iter().map(|(name, why)| (name.clone(), why.clone())).collect()
    }

    /// Takes a member out of service: its handles get errors from now on. What it has had accepted is durable then, and stays in
    /// the log or beside it. The others go on.
    pub fn quarantine(&self, name: &str, why: &str) -> Result<()> {
        let _one = self.roster.lock();
        self.core.check()?;
        if let Some(error) = self.quarantined.lock().get(name) {
            return Err(error.clone());
        }
        let error = Error::Quarantined { member: name.to_owned(), why: why.to_owned() };
        self.keeper.resident(name)?.quarantine(error.clone());
        self.quarantined.lock().insert(name.to_owned(), error);
        Ok(())
    }

    /// Opens a member again that is quarantined or closed, from its home, what was moved aside, and the log, as the next opening
    /// of the pool would. Handles from before stay of no use.
    ///
    /// # Errors
    ///
    /// Why it can not be opened; then it is quarantined for that.
    pub fn reopen(&self, name: &str) -> Result<Member> {
        let roster = self.roster.lock();
        self.core.check()?;
        let not_found = || Error::NotFound { name: name.to_owned() };
        let member = roster.members.iter().find(|member| member.name == name).ok_or_else(not_found)?.clone();
        let before = self.keeper.resident(name).ok();
        if let Some(before) = &before {
            before.retire()?;
        }
        let opened = self.replay(&roster, &member).and_then(|rebuilt| self.settle_member(rebuilt));
        match opened {
            Ok(resident) => {
                self.quarantined.lock().remove(name);
                Ok(Member::new(resident))
            }
            Err(error) => {
                let error = quarantined(name, &error);
                // What it needs is beside the log from now on, and the log is free of it.
                let stays = self.core.hold_log();
                aside::move_aside(self.directory.as_ref(), &self.core.log, &[member])?;
                drop(stays);
                self.keeper.move_out(name);
                self.quarantined.lock().insert(name.to_owned(), error.clone());
                Err(error)
            }
        }
    }

    /// Mends what can be mended of a member: opens it again if it is not served, writes copies anew that are gone or damaged, and
    /// compares all of its home, with blocks made anew where the log has them.
    pub fn repair(&self, name: &str) -> Result<Scrubbed> {
        let is_open = self.keeper.resident(name).is_ok_and(|resident| resident.state().is_ok());
        if !is_open || self.quarantined.lock().contains_key(name) {
            self.reopen(name)?;
        }
        let found = self.scrub(Some(name))?;
        self.keeper.resident(name)?.go_home()?;
        Ok(found)
    }

    /// Gives the files of a quarantined member to a sink, while the others run: their number, and their bytes. The sink is made
    /// when it is known that the member can be opened.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] of a member that is served, and why the member can not be opened.
    pub fn rebuild<S: Sink>(&self, name: &str, sink: &mut dyn FnMut() -> Result<S>) -> Result<(u64, u64)> {
        let roster = self.roster.lock();
        self.core.check()?;
        let not_found = || Error::NotFound { name: name.to_owned() };
        let member = roster.members.iter().find(|member| member.name == name).ok_or_else(not_found)?;
        if !self.is_quarantined(name) {
            let what = format!(
                "member `{name}` is served: copy its files from where it is served, or `ishigaki log quarantine {name}` takes it out of service first"
            );
            return Err(Error::invalid(what));
        }
        let rebuilt = self.replay(&roster, member)?;
        write_out(&rebuilt, &mut sink()?)
    }

    /// A member after all that the log has of it, while others use that.
    fn replay(&self, roster: &crate::format::Roster, member: &RosterMember) -> Result<RebuiltMember> {
        let _stays = self.core.hold_log();
        let mut alone = roster.clone();
        alone.members = vec![member.clone()];
        let rebuilt = self.replay_once(&alone)?;
        self.mended(&alone, rebuilt)
    }

    /// The same with blocks made anew that were damaged when changes came, and that the log has. Reads the log only where there
    /// are such blocks; those that the ledger says to be lost are of no log any more.
    fn mended(&self, alone: &crate::format::Roster, rebuilt: RebuiltMember) -> Result<RebuiltMember> {
        let lost = newly_lost(&rebuilt)?;
        if lost.is_empty() || self.mend_home(&rebuilt, &lost)? == 0 { Ok(rebuilt) } else { self.replay_once(alone) }
    }

    fn replay_once(&self, alone: &crate::format::Roster) -> Result<RebuiltMember> {
        let mut rebuilt = Rebuilt::begin(alone, self.directory.as_ref(), self.homes.as_ref());
        for record in self.core.log.changes(self.core.log.start().lsn)? {
            let (position, payload) = record?;
            rebuilt.take(position.lsn(), &payload)?;
        }
        rebuilt.finish();
        rebuilt.only()
    }

    /// Blocks that were damaged when their changes came are made anew as they were before, at home. Gives how many.
    fn mend_home(&self, member: &RebuiltMember, lost: &[(FileId, Piece)]) -> Result<usize> {
        let home = &member.home;
        // What is made anew may be of a region that is gone, or cut short.
        home.make_regions_whole()?;
        let mut candidates = Candidates::new(member.id, home.entries());
        for (file, piece) in lost {
            candidates.add(home, *file, *piece);
        }
        for record in self.core.log.changes(self.core.log.start().lsn)? {
            let (_, payload) = record?;
            candidates.take(&Entry::decode(&unpack(&payload)?)?);
        }
        let (whole, _) = candidates.judged();
        whole.iter().try_for_each(|(_, piece, bytes)| home.mend(*piece, bytes))?;
        Ok(whole.len())
    }

    /// Makes a member's home durable as it was found, and lets it in. One whose entries were moved aside goes home at once.
    pub(super) fn settle_member(&self, mut member: RebuiltMember) -> Result<Arc<Resident>> {
        member.home.secure()?;
        member.home.reserve(member.image.extents())?;
        if self.core.settings.reserve {
            reserve_home(&member)?;
        }
        let directory = self.homes.directory(&member.name)?;
        member.areas.secure(directory.as_ref(), &member.name, &member.settings.profile)?;
        let has_aside = member.has_aside();
        let state = State::rebuilt(&member);
        let RebuiltMember { id, name, settings, home, areas, .. } = member;
        let resident = self.move_in(Resident::new(self.core.clone(), id, &name, settings, home, areas, state))?;
        if has_aside {
            let gone_home = resident.go_home().and_then(|()| aside::remove(self.directory.as_ref(), &name));
            // Else its thread would wait for ever, and the end of the pool for its thread.
            gone_home.inspect_err(|_| resident.stop())?;
        }
        Ok(resident)
    }

    /// Lets in everybody who can be, and quarantines the others.
    pub(super) fn settle_members(&self, rebuilt: Rebuilt) -> Result<()> {
        let roster = self.roster.lock().clone();
        let mut refused = Vec::new();
        let mut refuse = |member: RosterMember, error: &Error| {
            let error = quarantined(&member.name, error);
            tracing::error!(%error, "a member is not served");
            self.quarantined.lock().insert(member.name.clone(), error);
            refused.push(member);
        };
        for (member, outcome) in roster.members.iter().zip(rebuilt.members) {
            let outcome = outcome.and_then(|rebuilt| {
                let mut alone = roster.clone();
                alone.members = vec![member.clone()];
                self.mended(&alone, rebuilt)
            });
            match outcome {
                Ok(rebuilt) => {
                    if let Err(error) = self.settle_member(rebuilt) {
                        self.keeper.move_out(&member.name);
                        refuse(member.clone(), &error);
                    }
                }
                Err(error) => refuse(member.clone(), &error),
            }
        }
        // Before anything of the log is given free.
        aside::move_aside(self.directory.as_ref(), &self.core.log, &refused)
    }

    /// Removes what a removal, or a taking in, has left that was cut off.
    pub(super) fn sweep(&self) -> Result<()> {
        let mut roster = self.roster.lock();
        let leaving = std::mem::take(&mut roster.leaving);
        for name in leaving {
            let swept = self.homes.directory(&name).map_err(Error::from).and_then(|directory| {
                Home::clear(directory.as_ref(), &name, self.core.log_id())?;
                Ok(directory.sync()?)
            });
            if let Err(error) = swept.and_then(|()| aside::remove(self.directory.as_ref(), &name)) {
                tracing::warn!(%error, member = name, "what a removed member has left is still there");
                roster.leaving.push(name);
            }
        }
        match roster::write(self.directory.as_ref(), &mut roster) {
            // The next opening finds nothing left to remove, and notes that then.
            Err(Error::Device(cause)) if cause.kind() == ErrorKind::Exhausted => {
                tracing::warn!(
                    "the medium of the pool is full ({cause}); that what was left of members is removed could not be noted"
                );
                Ok(())
            }
            outcome => outcome,
        }
    }
}

fn newly_lost(member: &RebuiltMember) -> Result<Vec<(FileId, Piece)>> {
    let mut lost = Vec::new();
    for file in member.image.all_files() {
        lost.extend(member.image.contents(file)?.newly_lost().into_iter().map(|piece| (file, piece)));
    }
    Ok(lost)
}

fn quarantined(name: &str, error: &Error) -> Error {
    Error::Quarantined { member: name.to_owned(), why: error.to_string() }
}
