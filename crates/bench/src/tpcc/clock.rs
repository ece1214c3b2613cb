//! The time of day, as rows have it.

use std::time::SystemTime;

/// Microseconds since 1970; never zero, which stands for null.
pub(super) fn now() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    (since.as_micros() as u64).max(1)
}
