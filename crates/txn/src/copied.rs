//! Where values are copied to when they are read.

use std::ops::{Deref, DerefMut};

use zerocopy::IntoBytes;

use crate::record::Record;
use crate::spare::{self, Spare};

/// Words of the largest value that lies in its record.
const WORDS: usize = Record::LARGEST / 8;

thread_local! {
    static SPARE: Spare<Box<Copied>> = const { Spare::new(None) };
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
        Loan(Some(spare::take(&SPARE).unwrap_or_else(|| Box::new(Self([0; WORDS])))))
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
        if let Some(copied) = self.0.take() {
            spare::put(&SPARE, copied);
        }
    }
}
