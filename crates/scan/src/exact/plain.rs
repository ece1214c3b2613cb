//! Texts of days and times, as `PostgreSQL` reads them and Arrow does not.
//!
//! A TIMESTAMP has no time zone: one that its text names is read over, where Arrow would shift the time to UTC. A time may have no
//! seconds, and digits of a second behind the sixth are rounded, where Arrow cuts them off.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cast_utils::string_to_datetime;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::spans::time_text;

/// What a text is to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// A day; its time is read over.
    Day,
    /// A day and a time.
    Time,
}

impl Moment {
    /// What a text becomes that is cast to that type; nothing if that is no day or time without a zone.
    pub fn of(to: &DataType) -> Option<Self> {
        match to {
            DataType::Date32 => Some(Self::Day),
            DataType::Timestamp(_, None) => Some(Self::Time),
            _ => None,
        }
    }

    /// The text as Arrow reads it to mean the same. What is no day with a time stays as it is.
    pub fn plain(self, text: &str) -> Cow<'_, str> {
        let Some(parts) = Parts::of(text.trim()) else { return Cow::Borrowed(text) };
        match self {
            Self::Day => Cow::Owned(parts.day.to_owned()),
            Self::Time => parts.time().map_or(Cow::Borrowed(text), Cow::Owned),
        }
    }

    /// The same of an array of texts.
    pub fn plain_texts(self, texts: &ArrayRef) -> Result<ArrayRef> {
        let texts = cast(texts, &DataType::Utf8View)?;
        let plain = texts.as_string_view().iter().map(|text| text.map(|text| self.plain(text)));
        Ok(Arc::new(plain.collect::<StringViewArray>()))
    }
}

/// A day with a time, and perhaps a zone, which is none of them.
struct Parts<'t> {
    day: &'t str,
    hours: &'t str,
    minutes: &'t str,
    seconds: &'t str,
    /// Digits behind the point.
    fraction: &'t str,
}

impl<'t> Parts<'t> {
    fn of(text: &'t str) -> Option<Self> {
        let (day, rest) = text.split_once([' ', 'T', 't'])?;
        if day.split('-').count() != 3 || !day.split('-').all(is_number) {
            return None;
        }
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && !matches!(letter, ':' | '.' | ' '));
        let (time, zone) = rest.split_at(end.unwrap_or(rest.len()));
        if !is_zone(zone) {
            return None;
        }
        let (clock, fraction) = time.trim().split_once('.').unwrap_or((time.trim(), ""));
        let mut parts = clock.split(':');
        let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next().unwrap_or("00"));
        let is_whole = parts.next().is_none() && (fraction.is_empty() || is_number(fraction));
        let two = |digits: &str| is_number(digits) && digits.len() <= 2;
        (is_whole && two(hours) && two(minutes) && minutes.len() == 2 && two(seconds) && seconds.len() == 2)
            .then_some(Self { day, hours, minutes, seconds, fraction })
    }

    /// As Arrow reads it; nothing if it is none.
    fn time(&self) -> Option<String> {
        let Self { day, hours, minutes, seconds, fraction } = self;
        let whole = format!("{day} {hours:0>2}:{minutes}:{seconds}");
        if fraction.is_empty() {
            return Some(whole);
        }
        let microseconds = (format!("0.{fraction}").parse::<f64>().ok()? * 1e6).round_ties_even() as u64;
        if microseconds < 1_000_000 {
            return Some(format!("{whole}.{microseconds:06}"));
        }
        let utc: Tz = "+00:00".parse().ok()?;
        Some(time_text(string_to_datetime(&utc, &whole).ok()?.timestamp_micros() + 1_000_000))
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether it is no zone, or a distance from UTC, or the name of one.
fn is_zone(text: &str) -> bool {
    let text = text.trim();
    if text.is_empty() || ["z", "utc", "gmt"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return true;
    }
    let Some(distance) = text.strip_prefix(['+', '-']) else { return text.parse::<Tz>().is_ok() };
    let digits = distance.split(':').collect::<Vec<_>>();
    match digits[..] {
        [hours] => is_number(hours) && matches!(hours.len(), 1 | 2 | 4),
        [hours, minutes] | [hours, minutes, _] => {
            is_number(hours) && hours.len() <= 2 && is_number(minutes) && minutes.len() == 2
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_postgresql_reads_them() {
        for (text, plain) in [
            ("2024-01-01 10:00", "2024-01-01 10:00:00"),
            (" 2024-01-01T9:05 ", "2024-01-01 09:05:00"),
            ("2024-01-01 12:00:00+02", "2024-01-01 12:00:00"),
            ("2024-01-01 12:00:00-05:30", "2024-01-01 12:00:00"),
            ("2024-01-01T12:00:00.5Z", "2024-01-01 12:00:00.500000"),
            ("2024-01-01 12:00 UTC", "2024-01-01 12:00:00"),
            ("2024-01-01 12:00:00 +0200", "2024-01-01 12:00:00"),
            ("2024-01-01 12:00 Asia/Tokyo", "2024-01-01 12:00:00"),
            ("2024-01-01 12:00:00.1234567", "2024-01-01 12:00:00.123457"),
            ("2024-12-31 23:59:59.9999999", "2025-01-01 00:00:00"),
        ] {
            assert_eq!(Moment::Time.plain(text), plain, "{text}");
        }
        for text in [
            "2024-01-01",
            "10:00",
            "2024-01-01 12:00 Mars/Olympus",
            "2024-01-01 1:2:3:4",
            "x 10:00",
            "",
            "2024-01-01 10:0",
        ] {
            assert_eq!(Moment::Time.plain(text), text);
            assert_eq!(Moment::Day.plain(text), text);
        }
        assert_eq!(Moment::Day.plain("2024-01-01 23:30:00-05:00"), "2024-01-01");
    }
}
