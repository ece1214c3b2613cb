//! How much work is done a second, by a command that prints a counter.

use std::process::Command;
use std::time::Instant;

use crate::{Error, Result};

/// A counter that a command prints: committed transactions, for one.
#[derive(Debug)]
pub struct Rate {
    command: String,
    before: Option<(f64, Instant)>,
}

impl Rate {
    /// One by a command of the shell.
    pub fn new(command: &str) -> Self {
        Self { command: command.to_owned(), before: None }
    }

    /// Runs it: what was done a second since the last time. None at first, and after the counter has begun anew.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] when it fails, or prints no number.
    pub fn look(&mut self) -> Result<Option<f64>> {
        let failed = |reason: String| Error::Command { command: self.command.clone(), reason };
        let output = Command::new("sh").args(["-c", &self.command]).output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(format!("it ended with {}: {}", output.status, said.trim())));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let counter: f64 = said.trim().parse().map_err(|_| failed(format!("it printed `{}`", said.trim())))?;
        let now = Instant::now();
        let before = self.before.replace((counter, now));
        Ok(before.and_then(|(counted, then)| {
            let seconds = now.duration_since(then).as_secs_f64();
            (counter >= counted && seconds > 0.0).then(|| (counter - counted) / seconds)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_becomes_a_rate() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("counter");
        let mut rate = Rate::new(&format!("cat {}", file.display()));
        assert!(rate.look().is_err(), "it is not there");
        std::fs::write(&file, "100\n").unwrap();
        assert_eq!(rate.look().unwrap(), None);
        std::fs::write(&file, "150").unwrap();
        assert!(rate.look().unwrap().unwrap() > 0.0);
        std::fs::write(&file, "10").unwrap();
        assert_eq!(rate.look().unwrap(), None, "the server was started anew");
        std::fs::write(&file, "many").unwrap();
        assert!(rate.look().unwrap_err().to_string().contains("it printed `many`"));
    }
}
