//! `--watch`: what is asked again and again, and shown in one place.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::parse_seconds;
use crate::failure::Failure;

/// To the upper left of a terminal, with nothing below.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// How soon it may be asked again: sooner, the service would be busy with answers, and a reader could not follow.
const LEAST: Duration = Duration::from_millis(100);

/// The time between two questions, as the value of `--watch`.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    match parse_seconds(text)? {
        time if time < LEAST => Err(format!("`{text}` seconds are too few; give {} or more", LEAST.as_secs_f64())),
        time => Ok(time),
    }
}

/// Shows what is asked, once or so often until Ctrl-C. A text has a terminal for itself; for programs it is lines of JSON.
pub(super) fn each(
    watch: Option<Duration>,
    json: bool,
    mut ask: impl FnMut() -> Result<String, Failure>,
) -> Result<(), Failure> {
    loop {
        let mut text = ask()?;
        if watch.is_some() && !json {
            text = if io::stdout().is_terminal() { format!("{CLEAR}{text}") } else { text + "\n" };
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        drop(out);
        let Some(time) = watch else { return Ok(()) };
        std::thread::sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_long_enough_for_an_answer() {
        assert_eq!(parse_interval("0.1"), Ok(LEAST));
        assert_eq!(parse_interval("2"), Ok(Duration::from_secs(2)));
        for text in ["0", "0.0", "0.01", "-1", "soon", "NaN"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }
}
