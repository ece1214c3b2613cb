//! Replacing a file server: clients use the new server at once, and their files follow from the old one.
//!
//! A *source* is what is replaced; it is only read. A *destination* is a directory of the new server, in which plain files and
//! directories come to be. What is not yet copied is a *stub*: it has its name, and a [`record`] that says where the rest lies. The
//! [`engine`] makes stubs whole when a client needs them, and a crawler does so with all others; at the end nothing of the migration is left. This is
//! post-copy migration as in paper 5, chapter 2.
//!
//! ```text
//!   a client's request ──▶ door (another crate) ──┐                    ┌──▶ source       list, attributes, read
//!                                                 ├──▶ engine ─────────┤
//!   crawler ──────────────────────────────────────┘    which is here?  └──▶ destination  names, records, blocks
//! ```
//!
//! Parts: [`source`] is the seam to the old server, [`destination`] that to the new one's file system, [`record`] what a stub knows,
//! [`ranges`] parts of a file, [`engine`] copies on demand.

pub mod access_list;
pub mod destination;
pub mod engine;
pub mod ranges;
pub mod record;
pub mod source;
