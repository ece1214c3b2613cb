//! Replacing a file server: clients use the new server at once, and their files follow from the old one.
//!
//! A *source* is what is replaced; it is only read. This is post-copy migration as in paper 5, chapter 2.
//!
//! Parts: `source` is the seam to the old server.

pub mod source;
