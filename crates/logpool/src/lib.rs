//! One log for many database servers (paper 4: Saito and Yamada).
//!
//! Several servers on one disk write one log each; each is sequential, together they are random writes with a sync each.
//! A [`Pool`] puts the changes of all of them into ONE sequential log: a write and a sync for whatever has come together.
//! The servers see ordinary files and know nothing of it.
//!
//! ```text
//!  member "a" ─ File::write ─┐ compare with what is known,     ┌──────────────┐
//!  member "b" ─ File::write ─┤ keep the bytes that changed ──▶ │ the one log  │──▶ one write, one sync, all answered
//!  member "c" ─ File::sync  ─┘         = an entry              └──────┬───────┘
//!        │                                                           │ reclaimed when everything in it is home,
//!        │ checkpoint areas                                          │ for every member
//!        ▼                                                           ▼
//!  checkpoint file of the member                  home of each member: follows later, in large sequential writes
//! ```
//!
//! The log itself is one stream of `ishigaki-wal`: its chunks, its recovery, its space. What is added here, top-down:
//!
//! - [`Pool`] opens and recovers everything, adds and removes members, closes (`pool`).
//! - [`Member`] is a server's own world: names, quota, statistics (`member`). [`File`] is one of its files (`file`).
//! - [`MemberDirectory`] is a member as a directory of devices, for an engine of ours (`directory`).
//! - `image` is what the engine knows of a member's files: blocks in memory over those at home, names. Live requests and
//!   recovery change it through the same entries.
//! - `format` has the bytes of all of it; `docs/format/logpool.md` has the pictures.
//! - `process` makes entries durable for all who wait: it sleeps, polls, delays, or chooses by itself ([`Waiting`]).
//! - `home` keeps each member's files durably in large extents; a *round* brings it up to date.
//! - `areas` is the checkpoint file: blocks that servers rewrite in place at checkpoints do not go into the log.
//! - `keeper` has log space reclaimed, and carries entries of a slow member on, so that it stops nobody else.
//! - `scrub` compares homes with their checksums, and `healing` makes damaged blocks anew from the log.
//! - `aside` are entries of members that can not be opened, so that these hold no log space (`pool::quarantine`).
//! - `recovery` rebuilds images from home, checkpoint file and log; [`rebuild`], [`verify()`] and [`inspect()`] do so offline.
//!
//! Nothing here knows of FUSE, virtio, errno or a database's file formats; a [`Profile`] is data.

mod areas;
mod aside;
mod directory;
mod error;
mod file;
mod format;
#[cfg(fuzzing)]
pub mod fuzz;
mod healing;
mod home;
mod ids;
mod image;
mod inspect;
mod keeper;
mod member;
mod meter;
mod paths;
mod pool;
mod process;
mod profile;
mod rebuild;
mod recovery;
mod scrub;
mod settings;
mod statistics;
mod verify;

pub use directory::MemberDirectory;
pub use error::{Error, Result};
pub use file::File;
pub use ids::{FileId, MemberId};
pub use inspect::{EntryReport, inspect};
pub use member::{Kind, Member, Metadata, Scrubbed};
pub use pool::Pool;
pub use profile::{Area, Profile};
pub use rebuild::{Folder, Sink, is_pool, members, rebuild};
pub use recovery::{Homes, Together};
pub use scrub::ScrubStatistics;
pub use settings::{Durability, MemberSettings, Quota, Settings, Waiting};
pub use statistics::{DamagedFile, LogStatistics, MemberStatistics};
pub use verify::{Verification, verify};
