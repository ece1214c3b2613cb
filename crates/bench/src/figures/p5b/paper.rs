//! What the author of paper 5 found (chapter 3, sections 3.7.2 to 3.7.4), and what we aim at.

/// The best with prefetch for a fixed share of the time, in pieces of files, over `FlashCache`, with 100 GB of 750 GB.
pub(super) const FIXED_OVER_RIVAL: f64 = 2.93;
/// The share that follows what it brings, over `FlashCache`.
pub(super) const ADAPTIVE_OVER_RIVAL: f64 = 3.15;
/// The same over prefetch without layout and for a fixed share.
pub(super) const ADAPTIVE_OVER_PLAIN: f64 = 1.171;
/// The best of the fixed shares, by the size of the fast device in fifteenths of the data.
pub(super) const BEST_SHARE: [(u32, f64); 2] = [(1, 0.2), (2, 0.6)];
/// The best size of a unit, in MiB.
pub(super) const BEST_UNIT: f64 = 3.0;
/// With layout over without, in units of 4 MiB.
pub(super) const LAYOUT_IN_FOUR: f64 = 1.12;
