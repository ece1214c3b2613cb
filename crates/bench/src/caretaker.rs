//! A process that clears up what a killed one has left.
//!
//! Destructors clear up after everything but SIGKILL. The caretaker is a shell that reads from a pipe, which closes however this process ends. It has a
//! process group of its own, so that Ctrl-C does not reach it.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::{Error, Result};

/// Drop sends it away: what was made is gone, or is to stay.
#[derive(Debug)]
pub(crate) struct Caretaker {
    child: Child,
    word: Option<ChildStdin>,
}

impl Caretaker {
    /// Has a shell run this script, with these arguments, once this process has ended without a word.
    pub(crate) fn start(script: &str, arguments: &[&OsStr]) -> Result<Self> {
        let script = format!("trap '' HUP INT TERM; cd /; read -r word && exit; {script}");
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg("sh").args(arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let failed = |error: std::io::Error| Error::Process { what: "a caretaker", reason: error.to_string() };
        let mut child = command.spawn().map_err(failed)?;
        let word = child.stdin.take();
        Ok(Self { child, word })
    }
}

impl Drop for Caretaker {
    fn drop(&mut self) {
        if let Some(mut word) = self.word.take() {
            let _ = writeln!(word, "away");
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_clears_up_after_a_process_that_ends_without_a_word_and_only_then() {
        let held = tempfile::tempdir().expect("a directory");
        let path = held.path().join("cleared up");
        let start = || Caretaker::start(r#"echo >"$1""#, &[path.as_os_str()]).expect("starts");
        drop(start());
        assert!(!path.exists(), "it was sent away");
        let mut without_a_word = start();
        // As the kernel does with what a killed process had open.
        without_a_word.word = None;
        drop(without_a_word);
        assert!(path.exists());
    }
}
