//! Times as the protocol has them: units of 100 ns since 1601 began in UTC.

use std::time::{Duration, SystemTime};

use crate::source::Timestamp;

const UNITS: u64 = 10_000_000;
/// Seconds from 1601 to 1970.
const EPOCH: u64 = 11_644_473_600;

/// A time of the server here.
pub(super) fn here(time: u64) -> Timestamp {
    Timestamp { seconds: (time / UNITS) as i64 - EPOCH as i64, nanos: (time % UNITS) as u32 * 100 }
}

/// A time of this host, as a server counts.
pub(super) fn of(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    (since.as_secs() + EPOCH).saturating_mul(UNITS) + u64::from(since.subsec_nanos() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_100_ns() {
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_700);
        assert_eq!(here(of(time)), Timestamp { seconds: 1_000_000_000, nanos: 123_456_700 });
        assert_eq!(here(0), Timestamp { seconds: -(EPOCH as i64), nanos: 0 });
        assert!(here(u64::MAX).nanos < 1_000_000_000);
    }
}
