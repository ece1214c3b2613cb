//! Page files: tables of Arrow columns in pages of a fixed size, on a [`Directory`](ishigaki_device::Directory).
//!
//! A page holds some rows, column by column, in light encodings that are undone at the speed of memory; each column
//! has a checksum of its own, so who wants two columns of sixteen reads, checks and decodes two. Zone maps, the
//! smallest and the largest value of every column and page, lie apart from the pages: so pages that a query can not
//! need are never read.
//!
//! ```text
//!   batches ─▶ Writer::append ─▶ pages ─▶ segments ─▶ commit: one rename        never changes what is there
//!
//!   Reader::open ─▶ schema, statistics ─▶ zones ─▶ pages_that_may_match         reads no page
//!                └▶ page, or page_of bytes from elsewhere ─▶ PageDecoder ─▶ batches
//! ```
//!
//! What is written is pictured in `docs/format/page.md`. A page's bytes may come from anywhere, also from an enemy:
//! decoding answers with rows or with an error, and is bounded by the size of a page.
//!
//! Parts, from below: [`bits`] packs numbers, [`column`] encodes one column of one page, [`sheet`] is the form that
//! pages and zone maps share, [`page`] and [`zones`] are those, [`segment`] has some of each, [`manifest`] names the
//! segments, [`reader`] and [`writer`] are the doors, [`skip`] judges pages by their zones, [`within`] rows by their packed
//! values, and [`integers`] gives these to whoever computes with them.

mod bits;
mod blocks;
mod bound;
mod column;
mod error;
#[cfg(fuzzing)]
pub mod fuzz;
mod integers;
mod manifest;
mod name;
mod number;
mod page;
mod reader;
mod schema;
mod segment;
mod settings;
mod sheet;
mod skip;
mod state;
mod survey;
mod within;
mod writer;
mod zones;

pub use error::{Error, Result};
pub use manifest::ColumnStatistics;
pub use page::{Page, PageDecoder};
pub use reader::{PageAddress, Reader, page_files};
pub use settings::Settings;
pub use skip::{Comparison, Predicate, Test, may_match};
pub use state::{State, durable_state, state};
pub use survey::{FileDamage, Survey, copy, survey};
pub use within::Interval;
pub use writer::{Append, Appended, RestingWriter, Writer, remove, remove_made, settle};
pub use zones::Zones;
