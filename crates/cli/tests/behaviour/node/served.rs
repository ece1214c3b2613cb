//! A node as a child process.

use std::path::Path;
use std::sync::Arc;

use ishigaki_device::{AlignedBuffer, Directory};
use ishigaki_remote::Location;
use serde_json::Value;

use crate::program::{Program, Running, signal};

/// A node that serves; killed when dropped.
pub(crate) struct Served {
    running: Option<Running>,
    /// What it said when it began.
    pub(super) told: Value,
}

impl Served {
    /// Over that folder, at a free port unless the arguments say another, and open to this host unless they have a token.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let open: &[&str] = if arguments.contains(&"--token-file") { &[] } else { &["--open-to-this-host"] };
        Self::closed(folder, &[open, arguments].concat())
    }

    /// The same, as it is by itself: closed to all who have not the token in its folder.
    pub(crate) fn closed(folder: &Path, arguments: &[&str]) -> Self {
        let mut program = Program::new().args(["node", "--json", "--data"]).arg(folder);
        if !arguments.contains(&"--listen") {
            program = program.args(["--listen", "127.0.0.1:0"]);
        }
        let mut running = program.args(arguments).start();
        let line = running.hear();
        let Ok(told) = serde_json::from_str(&line) else { panic!("{line}{}", running.ends().stderr) };
        Self { running: Some(running), told }
    }

    /// Where it listens, without its host.
    #[cfg(feature = "cluster")]
    pub(crate) fn port(&self) -> u64 {
        self.told["port"].as_u64().expect("a port")
    }

    pub(crate) fn address(&self) -> &str {
        self.told["node"].as_str().expect("an address")
    }

    /// The folder itself, by a connection of its own.
    pub(super) fn directory(&self) -> Arc<dyn Directory> {
        let location: Location = format!("node://{}/", self.address()).parse().expect("a location");
        Arc::new(location.connect().expect("connected"))
    }

    pub(crate) fn id(&self) -> u32 {
        self.running.as_ref().expect("it runs").id()
    }

    /// Waits for its end after a signal, which must be a good one; what it said then.
    pub(crate) fn ends_by(mut self, name: &str) -> Value {
        let running = self.running.take().expect("it runs");
        signal(running.id(), name);
        let answer = running.ends();
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
        serde_json::from_str(&answer.stdout).expect("JSON")
    }

    /// How it has ended.
    pub(super) fn code(mut self) -> Option<i32> {
        self.running.take().expect("it runs").ends().code
    }

    /// Ends it without asking.
    pub(crate) fn kill(mut self) {
        self.running.take().expect("it runs").kill();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
        }
    }
}

/// A page that is full of one byte.
pub(super) fn page(byte: u8) -> AlignedBuffer {
    let mut page = AlignedBuffer::zeroed(4096);
    page.fill(byte);
    page
}
