//! The service in a process of its own, which a test kills: the test's program again, serving a pool of one volume.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ishigaki_volume_service::{Config, Serving};

/// Where such a process serves, told by a variable of its environment.
const TASK: &str = "ISHIGAKI_TEST_VOLUMES";

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_mins(5);

/// The name of the volume.
pub(crate) const NAME: &str = "vm";

pub(crate) fn config(place: &Path) -> Config {
    let text = "map = \"map\"\nfast = \"fast/fast\"\nslow = \"disk\"\nchunk = \"1MiB\"\nlog = \"8MiB\"\nsockets = \"sockets\"\n";
    Config::parse(text, &place.join("volumes.toml")).unwrap()
}

/// Where its machine finds the volume.
pub(crate) fn socket(place: &Path) -> PathBuf {
    place.join("sockets").join(NAME).with_extension("sock")
}

/// Serves, in a process that was started for that: what the test `serves_until_it_is_killed` of a program does.
pub(crate) fn serve() {
    let Some(place) = std::env::var_os(TASK).map(PathBuf::from) else { return };
    let _serving = Serving::start(&config(&place)).unwrap();
    std::thread::sleep(Duration::from_hours(24));
}

/// Such a process.
pub(crate) struct Service(Child);

impl Service {
    pub(crate) fn start(place: &Path) -> Self {
        let socket = socket(place);
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "serves_until_it_is_killed", "--nocapture"]).env(TASK, place);
        let service = Self(command.stdout(Stdio::null()).spawn().unwrap());
        let begun = Instant::now();
        while !socket.exists() {
            assert!(begun.elapsed() < PATIENCE, "the service serves within minutes");
            std::thread::sleep(Duration::from_millis(20));
        }
        service
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
