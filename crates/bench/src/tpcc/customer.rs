//! How a customer is found: by number, or as the middle one of those with a last name (clause 2.5.2.2).

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::access::Access;
use super::draw::LastName;
use super::keys::{DistrictKey, NameKey};
use super::rows::CustomerByName;
use crate::oltp::Stop;

/// What a customer is called by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum By {
    Number(u32),
    Name(LastName),
}

impl By {
    /// The customer's number.
    pub(super) fn find(&self, access: &mut Access<'_>, district: DistrictKey) -> Result<u32, Stop> {
        let last = match self {
            Self::Number(number) => return Ok(*number),
            Self::Name(last) => *last,
        };
        let key = |first: u8, customer: u32| NameKey { district, last, first: [first; 16], customer: customer.into() };
        let mut found: SmallVec<[u32; 16]> = SmallVec::new();
        access.scan(&key(0, 0), &key(u8::MAX, u32::MAX), |key, _: &CustomerByName| {
            found.push(key.customer.get());
            ControlFlow::Continue(())
        })?;
        let middle = found.len().div_ceil(2).checked_sub(1).map(|middle| found[middle]);
        middle.ok_or_else(|| Stop::Wrong(format!("nobody of {district:?} is called {}", last.escape_ascii())))
    }
}
