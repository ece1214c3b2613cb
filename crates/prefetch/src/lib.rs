//! Prefetching for tiered volumes (paper 5, chapter 3: P5b.3 and P5b.4): decisions alone, from figures that others have taken.
//!
//! ```text
//!  layout of the guest's files ──▶ Units: pieces of files, a few chunks each ─┐
//!  reads of each chunk in a window ──▶ Heat: those that are to be expected ─────┴▶ choose: which are to come, hottest first
//!  hit ratio, work done, latency of a window ──▶ Share: for which part of the next window they may come
//! ```
//!
//! A block cache sees sectors. A guest's file lies in pieces all over its disk, and what is used together is near in the file; so the unit that is brought is a
//! few chunks which follow each other in a *file*. Bringing takes the slow device's time, which the guests need as well. So time is cut into windows, and in
//! each of them units come for a share of it, which rises while that pays and falls when it does not.
//!
//! Parts: [`Layout`] is checked when it comes, because a guest has told it; [`Units`] are made of it; [`Heat`] is what their chunks are ranked by; [`choose`] does that, over several volumes; [`Share`] is the rule for the
//! windows. No clock, no device and no thread is in here.

mod choice;
mod heat;
mod layout;
mod share;
mod units;

pub use choice::{Candidate, Claim, Limits, by_unit, choose};
pub use heat::{Heat, expected};
pub use layout::{Extent, File, Layout, LayoutError, MOST_EXTENTS, MOST_FILES};
pub use share::{Observation, Share, ShareSettings};
pub use units::Units;
