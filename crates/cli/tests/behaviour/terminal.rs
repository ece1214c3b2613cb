//! The interactive shell at a terminal, which `script` of util-linux provides.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::database;

const ENTER: &str = "\r";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs until it is cancelled, and looks often whether it is.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000000) WHERE value % 7 = 9;";

/// The shell with a person before it.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    /// Everything that was shown.
    shown: String,
    /// Up to where it was read.
    read: usize,
}

impl Terminal {
    /// Opens the shell on the directory `data` below `home`, which is the person's home, too.
    fn open(home: &Path) -> Self {
        Self::open_with(home, "")
    }

    /// The same with further arguments.
    fn open_with(home: &Path, arguments: &str) -> Self {
        // In the place of the `sh` that `script` starts: that one would be ended by Ctrl-C, too.
        let program = env!("CARGO_BIN_EXE_ishigaki");
        let shell = format!("exec {program} sql --data {} {arguments}", home.join("data").display());
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", &shell, "/dev/null"])
            .env("TERM", "xterm")
            .env("HOME", home)
            .env("SHELL", "/bin/sh")
            .env_remove("XDG_STATE_HOME")
            .env_remove("RUST_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`script` is installed");
        let keys = child.stdin.take().expect("stdin is piped");
        let mut output = child.stdout.take().expect("stdout is piped");
        let (show, screen) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                if show.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys, screen, shown: String::new(), read: 0 }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).expect("the terminal is open");
    }

    /// Waits until something is shown; what was read before does not count.
    #[track_caller]
    fn see(&mut self, text: &str) {
        assert!(self.sees_within(text, PATIENCE), "`{text}` is not shown in\n{}", self.shown);
    }

    fn sees_within(&mut self, text: &str, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            if let Some(at) = self.shown[self.read..].find(text) {
                self.read += at + text.len();
                return true;
            }
            match self.screen.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Waits for the end, which must be a good one. What is pressed before the prompt is there may be lost, since the
    /// terminal is set up anew for every line; so a test sees the prompt before it leaves.
    #[track_caller]
    fn ends(mut self) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().expect("a child can be asked") {
                Some(status) => break status,
                None => assert!(Instant::now() < deadline, "it goes on after\n{}", self.shown),
            }
            thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success(), "{status}: {}", self.shown);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Only where a test failed does it still run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_prompt_shows_the_transaction_and_ctrl_d_rolls_it_back() {
    let home = database();
    let mut terminal = Terminal::open(home.path());
    terminal.see("A new database in");
    terminal.see("ishigaki> ");
    terminal.press("CREATE TABLE t (id BIGINT PRIMARY KEY);\r");
    terminal.see("CREATE TABLE (");
    terminal.see("ishigaki> ");
    terminal.press("BEGIN;\r");
    terminal.see("ishigaki*> ");
    terminal.press("INSERT INTO t VALUES (1);\r");
    terminal.see("INSERT 1 (");
    terminal.see("ishigaki*> ");
    terminal.press(CTRL_D);
    terminal.see("the open transaction is rolled back");
    terminal.ends();

    let mut terminal = Terminal::open(home.path());
    terminal.see("Opened ");
    terminal.see("ishigaki> ");
    terminal.press("SELECT count(*) AS n FROM t;\r");
    terminal.see("| 0 |");
    terminal.see("ishigaki> ");
    terminal.press("exit\r");
    terminal.ends();
}

#[test]
fn ctrl_c_cancels_the_statement_and_neither_the_shell_nor_the_transaction() {
    let home = database();
    let mut terminal = Terminal::open(home.path());
    terminal.see("ishigaki> ");
    terminal.press("CREATE TABLE t (id BIGINT PRIMARY KEY); BEGIN; INSERT INTO t VALUES (7);\r");
    terminal.see("INSERT 1 (");
    terminal.see("ishigaki*> ");
    terminal.press(ENDLESS);
    terminal.press(ENTER);
    // Pressed before the statement runs, it only clears the line.
    let start = Instant::now();
    while !terminal.sees_within("error: cancelled", Duration::from_millis(300)) {
        assert!(start.elapsed() < PATIENCE, "{}", terminal.shown);
        terminal.press(CTRL_C);
    }
    terminal.see("ishigaki*> ");
    terminal.press("SELECT id + 1 AS next FROM t; COMMIT;\r");
    terminal.see("|    8 |");
    terminal.see("COMMIT (");
    terminal.see("ishigaki> ");
    terminal.press(CTRL_D);
    terminal.ends();
}

#[test]
fn a_long_statement_that_spills_says_how_much() {
    let home = database();
    let mut terminal = Terminal::open_with(home.path(), "--query-memory 64MiB --threads 1 --spill-limit 1GiB");
    terminal.see("ishigaki> ");
    terminal.press("SELECT length(t) AS n FROM (SELECT repeat('x', 900) || value AS t FROM generate_series(100001, 220000)) ORDER BY t OFFSET 119999;\r");
    terminal.see(" spilled to disk, of 1.0 GiB that may be");
    terminal.see("| 906 |");
    terminal.see("ishigaki> ");
    terminal.press(CTRL_D);
    terminal.ends();
}

#[test]
fn ctrl_c_clears_the_line_and_enter_goes_on_until_a_semicolon() {
    let home = database();
    let mut terminal = Terminal::open(home.path());
    terminal.see("ishigaki> ");
    terminal.press("SELECT 'never'");
    terminal.press(CTRL_C);
    terminal.see("ishigaki> ");
    terminal.press("SELECT 41\r");
    terminal.see("until a semicolon");
    terminal.press("+ 1 AS n;\r");
    terminal.see("| 42 |");
    terminal.press("SELECT nonsense;\r");
    terminal.see("error: ");
    terminal.see("ishigaki> ");
    terminal.press(".quit\r");
    terminal.ends();
    let history = fs::read_to_string(home.path().join(".local/state/ishigaki/history")).expect("the history is kept");
    assert!(history.contains("+ 1 AS n;") && !history.contains("never"), "{history}");
}
