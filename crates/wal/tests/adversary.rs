//! Attempts to break the log: lives under changing settings, threads in each other's way, bytes that lie.

#[path = "adversary/bytes.rs"]
mod bytes;
#[path = "adversary/lives.rs"]
mod lives;
#[path = "adversary/pacing.rs"]
mod pacing;
#[path = "adversary/threads.rs"]
mod threads;
mod trial;
#[path = "adversary/watched.rs"]
mod watched;
#[path = "adversary/workbench.rs"]
mod workbench;
