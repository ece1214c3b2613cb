//! The service as a process of its own: this test's program again.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use ishigaki_logpool_service::{Config, Serving};

/// What the process is told, by a variable of its environment: its configuration.
const TASK: &str = "ISHIGAKI_TEST_CONFIG";

/// Where it says that it serves.
const READY: &str = "ISHIGAKI_TEST_READY";

const PATIENCE: Duration = Duration::from_mins(2);

/// A service. Ends when the last holder of its input closes it.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    turn: u32,
    place: PathBuf,
}

impl Process {
    /// Starts one and waits until it serves. It takes the place of another if there is one.
    pub(crate) fn start(config: &Path) -> Self {
        Self::numbered(config, 0)
    }

    fn numbered(config: &Path, turn: u32) -> Self {
        let ready = config.with_extension(format!("ready-{turn}"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "serves_until_it_is_told_to_end", "--ignored", "--nocapture"])
            .env(TASK, config)
            .env(READY, &ready)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let began = Instant::now();
        while !ready.exists() {
            assert!(child.try_wait().unwrap().is_none(), "the service has ended");
            assert!(began.elapsed() < PATIENCE, "the service does not serve");
            std::thread::sleep(Duration::from_millis(2));
        }
        Self { child, input, turn, place: config.parent().unwrap().to_owned() }
    }

    /// Another one that has taken its place; this one has ended well.
    pub(crate) fn replaced(mut self, config: &Path) -> Self {
        let next = Self::numbered(config, self.turn + 1);
        self.input = None;
        assert!(self.child.wait().unwrap().success(), "the one that was replaced ends well");
        next
    }

    /// Tells it to end, and sees that it ends well.
    pub(crate) fn end(mut self) {
        self.input = None;
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        for folder in fs::read_dir(&self.place).into_iter().flatten().flatten() {
            let _ = Command::new("umount").arg("-l").arg(folder.path()).stderr(Stdio::null()).status();
        }
    }
}

/// The body of the service.
pub(crate) fn serve() {
    let Ok(config) = std::env::var(TASK) else { return };
    let config = Config::parse(&fs::read_to_string(&config).unwrap(), Path::new(&config)).unwrap();
    let serving = Serving::take_over(&config).unwrap();
    fs::write(std::env::var(READY).unwrap(), "").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    serving.stop().unwrap();
}
