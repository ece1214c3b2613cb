//! What a thread keeps of one transaction for its next one, so that memory grows only once.

use std::cell::Cell;
use std::thread::LocalKey;

/// Room for one spare thing of a thread.
pub(crate) type Spare<T> = Cell<Option<T>>;

/// Takes what is spare.
pub(crate) fn take<T>(spare: &'static LocalKey<Spare<T>>) -> Option<T> {
    spare.try_with(Cell::take).ok().flatten()
}

/// Keeps something. At the end of a thread that fails; then nobody needs it.
pub(crate) fn put<T>(spare: &'static LocalKey<Spare<T>>, thing: T) {
    let _ = spare.try_with(|spare| spare.set(Some(thing)));
}
