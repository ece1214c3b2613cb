//! The hours in which the crawler works.

use std::fmt;
use std::str::FromStr;

use chrono::Timelike;

use crate::{Error, Result};

/// Minutes of a day.
const DAY: u16 = 24 * 60;
const FORMS: &str = "write a window as 22:00-06:00, in this host's local time";

/// A minute of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minute(u16);

impl Minute {
    /// What this host's clock shows, in its local time.
    pub fn now() -> Self {
        let now = chrono::Local::now();
        Self((now.hour() * 60 + now.minute()) as u16)
    }

    /// How many minutes it takes from here to there.
    fn until(self, there: Self) -> u16 {
        (there.0 + DAY - self.0) % DAY
    }
}

impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl FromStr for Minute {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let part = |text: &str, below: u16| {
            let is_short = text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u16>().ok().filter(|number| is_short && *number < below)
        };
        let parts = text.split_once(':').and_then(|(hour, minute)| Some((part(hour, 24)?, part(minute, 60)?)));
        let (hour, minute) =
            parts.ok_or_else(|| Error::setting("windows", format!("`{text}` is no time of the day"), FORMS))?;
        Ok(Self(hour * 60 + minute))
    }
}

/// The hours of every day in which the crawler works; without any, it always does.
///
/// ```
/// use ishigaki_migrate_service::config::Windows;
///
/// let windows = Windows::read(&["22:00-06:00"])?;
/// assert!(windows.is_open("23:30".parse()?) && !windows.is_open("06:00".parse()?));
/// assert_eq!(windows.opens("12:00".parse()?).unwrap().to_string(), "22:00");
/// # Ok::<(), ishigaki_migrate_service::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows(Vec<(Minute, Minute)>);

impl Windows {
    /// Reads windows, each as `22:00-06:00`; the end is outside. One that ends before it begins goes over midnight.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for what is none.
    pub fn read(texts: &[impl AsRef<str>]) -> Result<Self> {
        let read = |text: &str| {
            let none = || Error::setting("windows", format!("`{text}` is no window"), FORMS);
            let (from, until) = text.split_once('-').ok_or_else(none)?;
            let (from, until): (Minute, Minute) = (from.trim().parse()?, until.trim().parse()?);
            if from == until {
                let reason = format!("`{text}` is empty");
                return Err(Error::setting("windows", reason, "leave windows out where the crawler always works"));
            }
            Ok((from, until))
        };
        texts.iter().map(|text| read(text.as_ref())).collect::<Result<_>>().map(Self)
    }

    /// Whether the crawler works in that minute.
    pub fn is_open(&self, now: Minute) -> bool {
        self.0.is_empty() || self.0.iter().any(|(from, until)| from.until(now) < from.until(*until))
    }

    /// When it begins again; `None` where it works in that minute.
    pub fn opens(&self, now: Minute) -> Option<Minute> {
        if self.is_open(now) {
            return None;
        }
        self.0.iter().map(|(from, _)| *from).min_by_key(|from| now.until(*from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Minute {
        text.parse().unwrap()
    }

    #[test]
    fn a_window_is_open_from_its_beginning_to_before_its_end() {
        let windows = Windows::read(&["22:00-06:00", "12:30 - 13:00"]).unwrap();
        for (now, opens) in [
            ("21:59", Some("22:00")),
            ("22:00", None),
            ("23:59", None),
            ("00:00", None),
            ("05:59", None),
            ("06:00", Some("12:30")),
            ("12:29", Some("12:30")),
            ("12:30", None),
            ("12:59", None),
            ("13:00", Some("22:00")),
        ] {
            assert_eq!(windows.opens(at(now)), opens.map(at), "{now}");
        }
        assert!(Windows::default().is_open(at("03:00")));
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for text in ["", "22:00", "22:00-", "24:00-01:00", "1:60-2:00", "+1:00-2:00", "001:00-2:00", "8:00-8:00", "a-b"]
        {
            let error = Windows::read(&[text]).unwrap_err().to_string();
            assert!(error.starts_with("`windows`: `"), "{error}");
        }
    }
}
