//! A slow device that does not answer, as a file of the network does not whose server is down: its volume waits, and all else goes on.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ishigaki_device::{Device, Directory, DirectoryLock, MemoryDirectory, Result};
use ishigaki_volume_service::{Config, Devices, Reply, Request, Serving, Status, ask};

const MIB: u64 = 1 << 20;

/// How long something may take that must not wait for the device.
const SOON: Duration = Duration::from_secs(30);

/// Whether the device `hangs` answers.
#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn shut(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        drop(self.changed.wait_while(self.is_shut.lock().unwrap(), |is_shut| *is_shut).unwrap());
    }
}

/// A directory in which opening the device `hangs` waits at the gate.
#[derive(Clone, Debug)]
struct Slow(MemoryDirectory, Arc<Gate>);

impl Directory for Slow {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.0.create(name, length)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        if name == "hangs" {
            self.1.pass();
        }
        self.0.open(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.0.list()
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn lock(&self) -> Result<DirectoryLock> {
        self.0.lock()
    }
}

fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (told, done) = channel();
    thread::spawn(move || told.send(work()));
    done.recv_timeout(SOON).unwrap_or_else(|_| panic!("{what} waits for a device that does not answer"))
}

fn start(config: &Config, devices: &Devices) -> Serving {
    let (config, devices) = (config.clone(), devices.clone());
    within("the start", move || Serving::over(&config, devices).unwrap())
}

fn answer(config: &Config, request: Request) -> ishigaki_volume_service::Result<Reply> {
    let config = config.clone();
    within("a command", move || ask(&config, &request))
}

fn status(config: &Config) -> Status {
    let Reply::Status(status) = answer(config, Request::Status {}).unwrap() else { panic!("another answer") };
    *status
}

fn config(folder: &Path) -> Config {
    let text = "map = \"map\"\nfast = \"fast\"\nslow = \"disk\"\nchunk = \"256KiB\"\nsockets = \"sockets\"\nblocks = \"blocks\"";
    Config::parse(text, &folder.join("volumes.toml")).unwrap()
}

#[test]
fn the_others_are_served_while_a_device_does_not_answer_and_its_volume_is_when_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let (config, gate) = (config(folder.path()), Arc::new(Gate::default()));
    let map = MemoryDirectory::new();
    let fast = map.create("fast", 8 * MIB).unwrap();
    let slow = Arc::new(Slow(MemoryDirectory::new(), gate.clone()));
    let devices = Devices { map: Arc::new(map), fast, slow, memory: None };
    let serving = start(&config, &devices);
    for name in ["hangs", "well"] {
        answer(&config, Request::Create { name: name.to_owned(), size: MIB, mode: "write-back".to_owned() }).unwrap();
    }
    serving.stop().unwrap();

    gate.shut(true);
    let serving = start(&config, &devices);
    let now = status(&config);
    assert!(now.volumes.len() == 1 && now.volumes[0].door.is_some(), "{now:?}");
    let [away] = &now.away[..] else { panic!("{now:?}") };
    assert!(away.name == "hangs" && away.is_silent && away.away_seconds > 0.0, "{away:?}");
    assert!(away.message.contains("has not answered for"), "{}", away.message);
    let name = || "hangs".to_owned();
    for request in [
        Request::Pin { name: name(), pinned: true },
        Request::Detach { name: name() },
        Request::Resize { name: name(), size: 2 * MIB },
        Request::Token { name: name() },
        Request::Attach { name: name(), mode: "write-back".to_owned() },
        Request::Remove { name: name(), force: true },
    ] {
        let error = answer(&config, request.clone()).unwrap_err().to_string();
        let told = ["volume `hangs` is away", "has not answered for", "see to the file system"];
        assert!(told.iter().all(|told| error.contains(told)), "{request:?}: {error}");
    }
    let serving = within("the look", move || {
        serving.look();
        serving
    });
    // It ends all the same, and the next one begins.
    within("the end", move || serving.stop().unwrap());
    let serving = start(&config, &devices);
    gate.shut(false);
    let until = Instant::now() + SOON;
    while !status(&config).away.is_empty() && Instant::now() < until {
        serving.look();
    }
    let now = status(&config);
    assert!(now.away.is_empty() && now.volumes.iter().all(|volume| volume.door.is_some()), "{now:?}");
    assert_eq!(now.volumes.len(), 2);
    serving.stop().unwrap();
}
