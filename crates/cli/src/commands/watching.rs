//! `--watch`: what is asked again and again, and shown in one place.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::failure::Failure;

/// To the upper left of a terminal, with nothing below.
const CLEAR: &str = "\x1b[H\x1b[2J";

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
