//! Where values are copied to when they are read.

use std::thread::LocalKey;

use zerocopy::{Immutable, IntoBytes};

use crate::record::{IN_HEAD, IN_LINE, MOST_LINES};
use crate::spare::{Lend, Loan, Spare};

thread_local! {
    static SPARE: Spare<Copied> = const { Spare::new(None) };
}

/// Room for the largest value that lies in its record, in the parts that it has there.
#[derive(Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Copied {
    pub(crate) head: [u64; IN_HEAD],
    pub(crate) tail: [[u64; IN_LINE]; MOST_LINES],
}

impl Copied {
    /// Room for one value.
    #[inline]
    pub(crate) fn borrow() -> Loan<Self> {
        Loan::take()
    }

    /// The first bytes of it.
    #[inline]
    pub(crate) fn bytes(&self, length: usize) -> &[u8] {
        &self.as_bytes()[..length]
    }
}

impl Lend for Copied {
    fn spare() -> &'static LocalKey<Spare<Self>> {
        &SPARE
    }

    fn tidy(&mut self) -> bool {
        true
    }
}
