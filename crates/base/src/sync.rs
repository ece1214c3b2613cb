//! The switch between the real synchronisation and the model checker's.
//!
//! Protocols of a few atomics and locks import them from here. `RUSTFLAGS="--cfg loom"` then lets `loom` run every
//! interleaving of the very code that ships; everything else uses `std` and `parking_lot` directly.

/// Atomics, from `std` or from the model checker.
pub mod atomic {
    #[cfg(loom)]
    pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
    #[cfg(not(loom))]
    pub use std::sync::atomic::{AtomicU64, Ordering, fence};
}

/// Giving way to another thread. The model checker must see every loop that waits for one.
pub mod thread {
    #[cfg(loom)]
    pub use loom::thread::yield_now;
    #[cfg(not(loom))]
    pub use std::thread::yield_now;
}

#[cfg(loom)]
use loom::sync as from;
#[cfg(not(loom))]
use std::sync as from;
use std::sync::PoisonError;

/// A lock, from `std` or from the model checker. What a panicking holder leaves behind is shown as it is.
#[derive(Debug, Default)]
pub struct Mutex<T>(from::Mutex<T>);

impl<T> Mutex<T> {
    /// Guards a value.
    pub fn new(value: T) -> Self {
        Self(from::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> from::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
