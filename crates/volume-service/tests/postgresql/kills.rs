//! The service is killed while the machine goes on, and the machine is killed while the service goes on, or with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_volume_service::{Config, Request, Serving, ask, make};

use crate::{Folder, NAME, PATIENCE, check, cluster, hear, last_told, machine};

/// Where a process of this program serves, told by a variable of its environment.
const TASK: &str = "ISHIGAKI_TEST_VOLUMES";

/// The fast device has room for a part of what the server uses.
const FAST: ByteSize = ByteSize::mib(13);

fn config(place: &Path) -> Config {
    let text = "map = \"map\"\nfast = \"fast/fast\"\nslow = \"disk\"\nchunk = \"1MiB\"\nlog = \"8MiB\"\nsockets = \"sockets\"\n";
    Config::parse(text, &place.join("volumes.toml")).unwrap()
}

/// Serves, in a process that was started for that.
pub(crate) fn serve() {
    let Some(place) = std::env::var_os(TASK).map(PathBuf::from) else { return };
    let _serving = Serving::start(&config(&place)).unwrap();
    std::thread::sleep(Duration::from_hours(24));
}

fn socket(place: &Path) -> PathBuf {
    place.join("sockets").join(NAME).with_extension("sock")
}

/// This test's program again, serving a pool.
struct Service(Child);

impl Service {
    fn start(place: &Path) -> Self {
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

    fn kill(mut self) {
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

/// So many kills of the service under a machine that goes on, and of the machine. What was killed first, and whether the service goes on, is drawn.
pub(crate) fn kills(seed: Seed, count: u64) {
    let folder = Folder::new();
    let place = folder.path();
    let config = config(place);
    make(&config, Some(FAST)).unwrap();
    let image = place.join("disk").join(NAME);
    cluster::make(&image);
    ask(&config, &Request::Attach { name: NAME.to_owned(), mode: "write-back".to_owned() }).unwrap();
    let (mut service, mut told) = (Service::start(place), 0);
    for boot in 0..count {
        let mut random = seed.derive(boot).generator();
        // In the middle of whatever it does.
        let mut pause = || std::thread::sleep(Duration::from_millis(random.u64(0..300)));
        let guest = machine(&socket(place));
        check(&guest, told);
        hear(&guest, 20);
        pause();
        service.kill();
        service = Service::start(place);
        // More than it may have said before the kill.
        told = hear(&guest, 100);
        pause();
        let said = match boot % 3 {
            0 => guest.kill(),
            1 => {
                service.kill();
                pause();
                let said = guest.kill();
                service = Service::start(place);
                said
            }
            _ => {
                let said = guest.kill();
                service.kill();
                service = Service::start(place);
                said
            }
        };
        assert!(said.iter().all(|line| !line.starts_with("failed")), "{said:?}");
        told = last_told(&said, told);
        println!("kill {} of {count}: a client was told of {told}", boot + 1);
    }
    let guest = machine(&socket(place));
    check(&guest, told);
    told = hear(&guest, 20);
    told = last_told(&guest.kill(), told);
    service.kill();
    ask(&config, &Request::Detach { name: NAME.to_owned() }).unwrap();
    cluster::judge(&image, told);
}
