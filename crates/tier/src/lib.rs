//! Volumes over a fast and a slow device (paper 5, chapter 3: P5b.1): each volume is a [`Device`](ishigaki_device::Device) whose bytes lie
//! on the slow one, in a row, and in part on the fast one instead.
//!
//! ```text
//!  volume   │ chunk 0 │ chunk 1 │ chunk 2 │ chunk 3 │ …          read, write, sync, trim
//!                │         │         │
//!                │    ┌────┘         └──── slot 5: blocks 0-31 valid, of these 7 and 8 dirty
//!                ▼    ▼                          │
//!  slow     │ chunk 0 │ chunk 1 │ chunk 2 │ …    ▼
//!  fast     │ header │ slot 0 │ slot 1 │ … │ slot 5 │ …
//!  map      records in a log of its own: what each slot holds, as whole states
//! ```
//!
//! The fast device is given out in chunks; what is known of one is known for each [`BLOCK`] of it: *valid* (it is here) and *dirty*
//! (it is nowhere else). So a small write needs no read of its chunk.
//!
//! # What is durable, and what is not trusted
//!
//! A sync that was answered means that the data are durable and the map that finds them. Before it, a power cut leaves each sector as it was or as
//! one of the writes since made it, and whatever it is then, it stays. Four rules keep that:
//!
//! 1. The map calls blocks valid only after a sync of the fast device that began when they were there.
//! 2. Before a block that the map calls clean is written over, the map calls its slot *open*, durably. Clean blocks of an open slot are
//!    not trusted after a crash: the slow device has them.
//! 3. A block is called clean no sooner than the slow device has it durably, and its slot is used for another chunk, or its chunk written on the
//!    slow device, no sooner than the map says durably that it holds nothing.
//! 4. Blocks that are taken home are out of the map until the fast device was synced again: what was written over them since the last
//!    sync may be lost there.
//!
//! After a crash, clean blocks are clean: nothing that was not dirty is taken home again.
//!
//! With a [`Memory`], the death of the process alone loses nothing that was written, synced or not: the next process finds there which blocks are dirty.
//!
//! # One's trouble is one's own
//!
//! A write or sync that fails stops the volume that it was for, with its first cause; the others go on. A failed sync of the fast device stops
//! those that had writes there which were not synced, and are nowhere else. Where the fast device fails, all that is on the slow one as well is served
//! from there: write-through and read-only volumes go on, write-back ones refuse what is [dirty](Volume::dirty).
//!
//! # What comes to the fast device, and what leaves it
//!
//! Writes (write-back), blocks that were read and were not there ([`Settings::on_demand`]), and what is asked for ([`Volume::promote`]). Streams that are
//! longer than [`Settings::bypass`] go past it. [`Eviction`] says which chunks leave, after those that the caller [gives up](Pool::give_up); a thread keeps some slots free, so that requests do not wait for that.
//!
//! # What it takes
//!
//! Memory: 44 bytes for each chunk of a volume (0.004 % with chunks of 1 MiB), and up to 700 for each slot. A pool of 100 GiB, with a volume of 1 TiB, took
//! 70 MiB, and was opened in 0.7 seconds after all of its slots had been used (2 cores of an AMD EPYC, ext4; `tests/large.rs`).
//!
//! Parts: [`Pool`] has the slots and the volumes (`opening` opens their slow devices, `absent` has those that can not be opened), `header` says whose a fast device is, [`Volume`] is the way of a request, `streams` finds those in a row, `heat` counts the uses of a chunk,
//! `moving` brings blocks to the fast device and home again, `keeper` is the thread, `order` says which slot is given up next, `settling` is a sync, `map`
//! the log and how it is read and kept short, `memory` what the next process finds though it was not synced, `remembered` how it is found, `slot` what is known of one, `wear` counts what the fast device has to bear.

mod blocks;
mod error;
mod header;
mod heat;
mod keeper;
mod map;
mod memory;
mod moving;
mod order;
mod pool;
mod record;
mod remembered;
mod settings;
mod settling;
mod slot;
mod streams;
mod volume;
mod wear;

pub use error::{Error, Result};
pub use heat::{Requests, Use};
pub use memory::Memory;
pub use pool::{Away, Figures, Pool};
pub use settings::{Eviction, Mode, OnDemand, Settings};
pub use volume::{Reads, Volume, VolumeFigures};

/// Bytes of the unit in which is known where a volume's bytes are.
pub const BLOCK: u64 = 4096;
