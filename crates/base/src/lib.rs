//! Words that every floor of the house shares.
//!
//! Identifiers ([`Lsn`], [`LogId`], [`Generation`], [`StreamId`],
//! [`Position`]), sizes ([`ByteSize`]), the checksum ([`crc32c`]), the
//! reader of numbers that every format shares ([`Fields`]), large memory
//! that begins as zeros ([`zeroed`], [`Grown`]), what an error asks of its caller
//! ([`ErrorKind`]), and the seams through which time, randomness and
//! atomics come in ([`clock`], [`random`], [`sync`]). There is no I/O here
//! and no policy.

pub mod clock;
mod error;
mod fields;
mod grown;
mod ids;
pub mod random;
pub mod sync;
pub mod zeroed;

pub use bytesize::ByteSize;
pub use crc32c::{crc32c, crc32c_append};
pub use error::ErrorKind;
pub use fields::Fields;
pub use grown::{Grown, place_of};
pub use ids::{Generation, LogId, Lsn, Position, StreamId};
