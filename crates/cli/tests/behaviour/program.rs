//! The binary as a child process.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

/// An empty directory that goes away with its test.
pub(crate) fn database() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// A command line, while it is put together.
pub(crate) struct Program {
    command: Command,
    input: String,
}

/// What a process said, and how it ended.
pub(crate) struct Answer {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

/// A process that runs.
pub(crate) struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) fn new() -> Self {
        Self::of(env!("CARGO_BIN_EXE_ishigaki"))
    }

    /// The same program, under that name.
    pub(crate) fn of(path: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(path);
        command
            .env_remove("RUST_LOG")
            .env_remove("NOTIFY_SOCKET")
            .env_remove("LISTEN_FDS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { command, input: String::new() }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// A variable of its environment.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Descriptors that it has from its start on, from 3 on.
    #[allow(unsafe_code, reason = "descriptors get their numbers between fork and exec")]
    pub(crate) fn give(mut self, descriptors: Vec<OwnedFd>) -> Self {
        // None of them has a number that another is to get.
        let high = |descriptor| rustix::io::fcntl_dupfd_cloexec(&descriptor, 100).expect("copied");
        let descriptors: Vec<OwnedFd> = descriptors.into_iter().map(high).collect();
        let number = move || {
            for (descriptor, number) in descriptors.iter().zip(3..) {
                // SAFETY: in the child only this has the number, and never closes it.
                let mut place = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
                rustix::io::dup2(descriptor, &mut place)?;
            }
            Ok(())
        };
        // SAFETY: it calls nothing but the kernel.
        unsafe { self.command.pre_exec(number) };
        self
    }

    /// What it reads.
    pub(crate) fn stdin(mut self, input: &str) -> Self {
        input.clone_into(&mut self.input);
        self
    }

    /// Starts it and lets it go on.
    pub(crate) fn start(mut self) -> Running {
        let mut child = self.command.spawn().expect("the binary starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Running { child, input, output }
    }

    /// Runs it to its end, which must be a good one.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Answer {
        self.fails_with(0)
    }

    /// Runs it to its end, which must have this exit code.
    #[track_caller]
    pub(crate) fn fails_with(self, code: i32) -> Answer {
        let input = self.input.clone();
        let mut running = self.start();
        running.say(&input);
        let answer = running.ends();
        assert_eq!(answer.code, Some(code), "stdout: {}\nstderr: {}", answer.stdout, answer.stderr);
        answer
    }
}

impl Running {
    /// Writes to its stdin. It may have ended before it read everything.
    pub(crate) fn say(&mut self, text: &str) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(text.as_bytes());
        }
    }

    /// The next line of its stdout, without its end.
    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        let output = self.output.as_mut().expect("its stdout is open");
        output.read_line(&mut line).expect("its stdout is text");
        line.trim_end().to_owned()
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end. It may have done so before.
    pub(crate) fn terminate(&self) {
        let _ = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.id())]).status();
    }

    /// Whether it has ended; nothing is read of what it says.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Ends it without asking.
    pub(crate) fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Closes its stdin and waits for its end.
    pub(crate) fn ends(mut self) -> Answer {
        drop(self.input.take());
        let output = self.output.take();
        // Both at once: it waits for ever where one of them is full and is not read.
        let stdout = thread::spawn(move || {
            let mut stdout = String::new();
            output.map(|mut output| output.read_to_string(&mut stdout).expect("its stdout is text"));
            stdout
        });
        let output = self.child.wait_with_output().expect("it ends");
        let stdout = stdout.join().expect("its stdout was read");
        let stderr = String::from_utf8(output.stderr).expect("its stderr is text");
        Answer { stdout, stderr, code: output.status.code() }
    }

    /// Closes its stdout while it still writes, and waits for its end.
    pub(crate) fn goes_unheard(mut self) -> Answer {
        drop(self.output.take());
        self.ends()
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(process: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status().expect("a shell");
    assert!(sent.success());
}
