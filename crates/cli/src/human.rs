//! Numbers as people read them.

use std::time::Duration;

use ishigaki_base::ByteSize;

pub(crate) use indicatif::HumanCount as Count;

/// A duration in the unit that suits it: `12 µs`, `3.4 ms`, `1.23 s`, `2 min 5 s`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1e-3 {
        format!("{} µs", time.as_micros())
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 60.0 {
        format!("{seconds:.2} s")
    } else {
        format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}

/// The same of a number of seconds, as a status has it.
pub(crate) fn seconds(seconds: f64) -> String {
    duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// Bytes in the unit that suits them: `16.0 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

/// `1 row`, `2 rows`, `1,000 rows`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", Count(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_the_unit_that_suits_them() {
        let of = |micros| duration(Duration::from_micros(micros));
        assert_eq!(of(12), "12 µs");
        assert_eq!(of(3_460), "3.5 ms");
        assert_eq!(of(1_230_000), "1.23 s");
        assert_eq!(of(125_000_000), "2 min 5 s");
    }

    #[test]
    fn things_are_counted_in_words() {
        assert_eq!(counted(0, "row"), "0 rows");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(1_000_000, "row"), "1,000,000 rows");
    }
}
