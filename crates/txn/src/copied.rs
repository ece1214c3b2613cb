//! Where values are copied to when they are read.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use zerocopy::IntoBytes;

/// Words of the largest value that lies in its record.
const WORDS: usize = 125;

thread_local! {
    static SPARE: Cell<Option<Box<Copied>>> = const { Cell::new(None) };
}

/// Room for one value.
#[derive(Debug)]
pub(crate) struct Copied([u64; WORDS]);

/// Room for one value, which goes back to its thread.
#[derive(Debug)]
pub(crate) struct Loan(Option<Box<Copied>>);

impl Copied {
    /// The thread's, or some new one if that is in use.
    #[inline]
    pub(crate) fn borrow() -> Loan {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        Loan(Some(spare.unwrap_or_else(|| Box::new(Self([0; WORDS])))))
    }

    #[inline]
    pub(crate) fn words(&mut self) -> &mut [u64; WORDS] {
        &mut self.0
    }

    /// The first bytes of it.
    #[inline]
    pub(crate) fn bytes(&self, length: usize) -> &[u8] {
        &self.0.as_bytes()[..length]
    }
}

impl Deref for Loan {
    type Target = Copied;

    fn deref(&self) -> &Copied {
        self.0.as_deref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut Copied {
        self.0.as_deref_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // Fails at the end of a thread; then nobody needs it.
        let copied = self.0.take();
        let _ = SPARE.try_with(|spare| spare.set(copied));
    }
}
