//! A program of ours as a process that serves: it says so by a line of JSON, and ends when it is told to.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long one has to end softly when nobody waits to hear how it went.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that serves. Told to end when dropped, and killed if it does not.
#[derive(Debug)]
pub(crate) struct Serving {
    child: Child,
    /// What it said first.
    told: Value,
    /// Stays open, so that the process can go on telling.
    _stdout: BufReader<ChildStdout>,
}

impl Serving {
    /// Starts it and waits until it says that it serves. If not, that is the reason.
    pub(crate) fn start(mut command: Command) -> Result<Self, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |reason: String| format!("{program}: {reason}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(format!("can not be started: {error}")))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("has no output".to_owned()))?;
        let (mut line, mut stdout) = (String::new(), BufReader::new(stdout));
        let read = stdout.read_line(&mut line);
        let told: Option<Value> = read.ok().and_then(|_| serde_json::from_str(&line).ok());
        let is_told = told.is_some();
        let mut serving = Self { child, told: told.unwrap_or_default(), _stdout: stdout };
        if is_told { Ok(serving) } else { Err(failed(format!("does not serve; {}", serving.last_words()))) }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A word of what it said first.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.told[name].as_str().map(str::to_owned)
    }

    /// How the process ended, if it has.
    pub(crate) fn why_gone(&mut self) -> Option<String> {
        // One that has just died may take a moment to be known for dead.
        std::thread::sleep(Duration::from_millis(20));
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("ended ({status}): {}", self.last_words()))
    }

    fn tell_to_end(&self) -> Result<(), String> {
        let number = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let sent = number.map_or(Ok(()), |number| kill_process(number, Signal::TERM));
        sent.map_err(|error| format!("can not be ended: {error}"))
    }

    /// Ends it softly, so that it writes out what it has. If it does not end well, that is the reason.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.tell_to_end()?;
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("ended badly ({status}): {}", self.last_words())),
            Err(error) => Err(format!("can not be waited for: {error}")),
        }
    }

    /// Kills it: it writes nothing out any more. If that can not be, there is a reason.
    pub(crate) fn kill(mut self) -> Result<(), String> {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        ended.map(drop).map_err(|error| format!("can not be killed: {error}"))
    }

    /// What it said on stderr before it ended.
    fn last_words(&mut self) -> String {
        let _ = self.child.kill();
        let mut words = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            // Not to be read is not to be told.
            let _ = stderr.take(4096).read_to_string(&mut words);
        }
        let words = words.trim();
        if words.is_empty() { "it said nothing".to_owned() } else { format!("it said: {words}") }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // It takes its mounts and devices with it.
        let began = Instant::now();
        if self.tell_to_end().is_ok() {
            while began.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
