//! Sources: what is asked of a real directory, of a real server, and of a peer that misbehaves.

#[path = "sources/path.rs"]
mod path;
