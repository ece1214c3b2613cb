//! What the fuzz targets share.
//!
//! A target turns the fuzzer's bytes into something that a medium may hold, has it read, and checks that the reader gives a
//! result or a typed error: no panic, no overflow, no endless loop, no memory beyond a limit. Where the reader accepts, it
//! must be right: what was decoded encodes to the same again, and what was recovered is recovered again.
//!
//! Checksums would keep a fuzzer out of everything behind them. So most targets seal what they were given: they put
//! right the checksums, unless the input says not to.
//!
//! Parts: [`contents`] tells two databases apart, [`image`] is a log on a medium in few bytes, [`input`] takes bytes apart, [`seeds`] are the valid inputs that a
//! run begins with.

pub mod contents;
pub mod image;
pub mod input;
pub mod seeds;

use std::alloc::System;

use cap::Cap;
use ishigaki_base::ByteSize;
use ishigaki_wal::{CommitRule, Settings};

/// All memory that a target may hold at once. Inputs have a few KiB; whoever asks for this much has believed a length.
const MEMORY: usize = 64 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, MEMORY);

/// A small log that does nothing but what it is told.
pub fn settings(streams: u16, commit: CommitRule) -> Settings {
    Settings { streams, commit, segment: ByteSize::kib(16), background: false, ..Settings::default() }
}
