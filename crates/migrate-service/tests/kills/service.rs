//! The service as a process of its own: this test's program again.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::control::{Reply, Request, ask};
use ishigaki_migrate_service::status::{Phase, Status};
use ishigaki_migrate_service::{Config, Serving};

use super::place::Place;

/// What the process is told, by a variable of its environment: its configuration.
const TASK: &str = "ISHIGAKI_TEST_MIGRATION";
/// Of the file that is there once it serves, beside the configuration.
const READY: &str = "ready";
/// Longer than anything takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_mins(5);

pub(crate) struct Service {
    config: PathBuf,
    to: PathBuf,
    child: Child,
}

impl Service {
    /// Starts one whose crawler copies so many bytes a second, and waits until it serves.
    pub(crate) fn start(place: &Place, bandwidth: u64) -> Self {
        let config = place.held.path().join("migrate.toml");
        let [old, new, at] = [&place.old, &place.new, &place.at].map(|path| path.to_str().unwrap());
        let text = format!("to = {new:?}\nat = {at:?}\nbandwidth = \"{bandwidth}\"\n[[source]]\nfrom = {old:?}\n");
        fs::write(&config, text).unwrap();
        Self { to: place.new.clone(), child: begin(&config), config }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// After it was killed.
    pub(crate) fn start_again(&mut self) {
        self.child = begin(&self.config);
    }

    pub(crate) fn status(&self) -> Status {
        match ask(&self.to, &Request::Status {}) {
            Ok(Reply::Status(status)) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn order(&self, request: &Request) {
        assert_eq!(ask(&self.to, request).unwrap(), Reply::Done {});
    }

    /// Lets its crawler copy as fast as it can.
    pub(crate) fn let_go(&self) {
        self.order(&Request::Throttle { bandwidth: Some(0), parallel: None });
    }

    pub(crate) fn until_done(&self) -> Status {
        self.until(|status| status.phase == Phase::Done)
    }

    pub(crate) fn until(&self, is_so: impl Fn(&Status) -> bool) -> Status {
        let began = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "{status:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends migration and service.
    pub(crate) fn finish(mut self) {
        self.order(&Request::Finish {});
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn begin(config: &Path) -> Child {
    let ready = config.with_extension(READY);
    let _ = fs::remove_file(&ready);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serves_until_it_is_told_to_end", "--ignored", "--nocapture"])
        .env(TASK, config)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !ready.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the service has ended");
        assert!(began.elapsed() < PATIENCE, "the service does not serve");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

/// The body of the service.
pub(crate) fn serve() {
    let Ok(config) = std::env::var(TASK) else { return };
    let config = Path::new(&config);
    let read = Config::parse(&fs::read_to_string(config).unwrap(), config).unwrap();
    let serving = Serving::start(&read, &Cancel::new()).unwrap();
    fs::write(config.with_extension(READY), "").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    serving.stop().unwrap();
}
