//! What a thread keeps of one transaction for its next one, so that memory grows only once.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// Room for one spare thing of a thread.
pub(crate) type Spare<T> = Cell<Option<Box<T>>>;

/// A thing that a thread keeps when it is not needed.
pub(crate) trait Lend: Default + 'static {
    /// Where it is kept.
    fn spare() -> &'static LocalKey<Spare<Self>>;

    /// Empties it. False if it is not worth keeping.
    fn tidy(&mut self) -> bool;
}

/// An empty thing, which goes back to the thread that drops it.
#[derive(Debug)]
pub(crate) struct Loan<T: Lend>(Option<Box<T>>);

impl<T: Lend> Loan<T> {
    /// The thread's, or a new one if that is in use.
    #[inline]
    pub(crate) fn take() -> Self {
        Self(Some(T::spare().try_with(Cell::take).ok().flatten().unwrap_or_default()))
    }
}

impl<T: Lend> Deref for Loan<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_deref().expect("it is there until it is dropped")
    }
}

impl<T: Lend> DerefMut for Loan<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect("it is there until it is dropped")
    }
}

impl<T: Lend> Drop for Loan<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(mut thing) = self.0.take()
            && thing.tidy()
        {
            // At the end of a thread that fails; then nobody needs it.
            let _ = T::spare().try_with(|spare| spare.set(Some(thing)));
        }
    }
}
