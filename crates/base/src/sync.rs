//! The switch between the real atomics and the model checker's.
//!
//! Protocols of a few atomics import them from here. `RUSTFLAGS="--cfg loom"` then lets `loom` run every interleaving of
//! the very code that ships; everything else uses `std` and `parking_lot` directly.

/// Atomics, from `std` or from the model checker.
pub mod atomic {
    #[cfg(loom)]
    pub use loom::sync::atomic::{AtomicU64, Ordering};
    #[cfg(not(loom))]
    pub use std::sync::atomic::{AtomicU64, Ordering};
}

/// Giving way to another thread. The model checker must see every loop that waits for one.
pub mod thread {
    #[cfg(loom)]
    pub use loom::thread::yield_now;
    #[cfg(not(loom))]
    pub use std::thread::yield_now;
}
