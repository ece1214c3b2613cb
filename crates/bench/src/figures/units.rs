//! Numbers with SI prefixes, for axes and tables.

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things: workers, threads.
    Count,
    /// Per second.
    Rate,
    /// Bytes of a size, in powers of 1024.
    Bytes,
    /// Bytes per second.
    Bandwidth,
    /// Seconds.
    Time,
    /// A part of a whole, shown in percent.
    Share,
}

impl Unit {
    /// With three digits that matter: `1.82 M/s`, `144 µs`, `97%`, `64 KiB`.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Count => digits(value),
            Self::Rate => with_prefix(value, "/s"),
            Self::Bandwidth => with_prefix(value, "B/s"),
            Self::Time => with_prefix(value, "s"),
            Self::Share => format!("{}%", digits(value * 100.0)),
            Self::Bytes => {
                let steps = [("GiB", 1_073_741_824.0), ("MiB", 1_048_576.0), ("KiB", 1024.0), ("B", 1.0)];
                let (name, step) = steps.into_iter().find(|(_, step)| value >= *step).unwrap_or(("B", 1.0));
                format!("{} {name}", digits(value / step))
            }
        }
    }
}

fn with_prefix(value: f64, unit: &str) -> String {
    let prefixes = [("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9)];
    if value == 0.0 {
        return if unit == "/s" { "0/s".to_owned() } else { format!("0 {unit}") };
    }
    // What rounds up to 1000 of one prefix is 1 of the next.
    let found = prefixes.into_iter().find(|(_, size)| value.abs() >= size * 0.9995).unwrap_or(("n", 1e-9));
    let (prefix, size) = found;
    let gap = if prefix.is_empty() && unit == "/s" { "" } else { " " };
    format!("{}{gap}{prefix}{unit}", digits(value / size))
}

/// Three digits that matter, without zeros behind the point.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_prefix() {
        for (unit, value, text) in [
            (Unit::Rate, 1_820_000.0, "1.82 M/s"),
            (Unit::Rate, 999_600.0, "1 M/s"),
            (Unit::Rate, 430.0, "430/s"),
            (Unit::Rate, 0.0, "0/s"),
            (Unit::Bandwidth, 49.1e6, "49.1 MB/s"),
            (Unit::Bandwidth, 0.0, "0 B/s"),
            (Unit::Time, 144.1e-6, "144 µs"),
            (Unit::Time, 0.0047, "4.7 ms"),
            (Unit::Share, 0.97, "97%"),
            (Unit::Share, 0.052, "5.2%"),
            (Unit::Bytes, 65536.0, "64 KiB"),
            (Unit::Bytes, 512.0, "512 B"),
            (Unit::Count, 16.0, "16"),
        ] {
            assert_eq!(unit.show(value), text);
        }
    }
}
