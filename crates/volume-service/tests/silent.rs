//! A slow device that does not answer, as a file of the network does not whose server is down: its volume waits, and all else goes on.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_device::{AlignedBuffer, Device, Directory, DirectoryLock, MemoryDirectory, Promise, Result};
use ishigaki_tier::{Pool, Settings};
use ishigaki_volume_service::{Config, Devices, Error, Reply, Request, Serving, Status, ask};

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

/// A device that waits at the gate.
#[derive(Debug)]
struct Hanging(Arc<dyn Device>, Arc<Gate>);

impl Device for Hanging {
    fn promise(&self) -> Promise {
        self.0.promise()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.1.pass();
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.1.pass();
        self.0.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.1.pass();
        self.0.sync()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<()> {
        self.1.pass();
        self.0.trim(offset, length)
    }
}

/// A directory in which opening the device `hangs`, and using it, waits at the gate.
#[derive(Clone, Debug)]
struct Slow(MemoryDirectory, Arc<Gate>);

impl Directory for Slow {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>> {
        self.0.create(name, length)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>> {
        let device = self.0.open(name)?;
        if name != "hangs" {
            return Ok(device);
        }
        self.1.pass();
        Ok(Arc::new(Hanging(device, self.1.clone())))
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

fn devices(gate: &Arc<Gate>) -> Devices {
    let map = MemoryDirectory::new();
    let fast = map.create("fast", 8 * MIB).unwrap();
    let slow = Arc::new(Slow(MemoryDirectory::new(), gate.clone()));
    Devices { map: Arc::new(map), fast, slow, memory: None }
}

#[test]
fn a_command_that_waits_for_a_device_keeps_no_other_waiting_nor_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (config, gate) = (config(folder.path()), Arc::new(Gate::default()));
    let devices = devices(&gate);
    let serving = start(&config, &devices);
    let create = |name: &str| {
        answer(&config, Request::Create { name: name.to_owned(), size: MIB, mode: "write-back".to_owned() })
    };
    for name in ["hangs", "well", "other"] {
        create(name).unwrap();
    }
    serving.stop().unwrap();
    let serving = start(&config, &devices);
    gate.shut(true);
    let detach = |name: &str| Request::Detach { name: name.to_owned() };
    let waits = {
        let (config, request) = (config.clone(), detach("hangs"));
        thread::spawn(move || ask(&config, &request))
    };
    let until = Instant::now() + SOON;
    let is_taken = || status(&config).volumes.iter().any(|volume| volume.name == "hangs" && volume.door.is_none());
    while !is_taken() {
        assert!(Instant::now() < until, "the command takes its door");
    }
    let again = answer(&config, detach("hangs")).unwrap_err().to_string();
    assert!(again.contains("another command, which waits for its devices"), "{again}");
    answer(&config, detach("well")).unwrap();
    let Reply::Made(made) = create("new").unwrap() else { panic!("another answer") };
    assert!(made.volume.door.is_some(), "{made:?}");
    answer(&config, Request::Pin { name: "new".to_owned(), pinned: true }).unwrap();
    let serving = within("the look", move || {
        serving.look();
        serving
    });
    let ended = within("the end", move || serving.stop()).unwrap_err();
    assert!(matches!(&ended, Error::Hanging(names) if names == "hangs"), "{ended}");
    gate.shut(false);
    // It has done what it was asked for, and its service has gone meanwhile: all of it soon, with the thread that had been asked.
    let _ = waits.join().unwrap();
    let begin = {
        let (config, devices) = (config.clone(), devices.clone());
        move || {
            loop {
                match Serving::over(&config, devices.clone()) {
                    Err(Error::Device(ishigaki_device::Error::Locked { .. })) => thread::yield_now(),
                    begun => return begun.unwrap(),
                }
            }
        }
    };
    let serving = within("the next start", begin);
    let names: Vec<_> = status(&config).volumes.into_iter().map(|volume| volume.name).collect();
    assert_eq!(names, ["new", "other"]);
    serving.stop().unwrap();
}

/// Makes the volumes `hangs` and `well`.
fn make_two(config: &Config, devices: &Devices) {
    let serving = start(config, devices);
    for name in ["hangs", "well"] {
        answer(config, Request::Create { name: name.to_owned(), size: MIB, mode: "write-back".to_owned() }).unwrap();
    }
    serving.stop().unwrap();
}

#[test]
fn the_others_are_served_while_a_device_does_not_answer_and_its_volume_is_when_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let (config, gate) = (config(folder.path()), Arc::new(Gate::default()));
    let devices = devices(&gate);
    make_two(&config, &devices);
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

#[test]
fn a_flush_brings_the_others_home_while_a_device_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (config, gate) = (config(folder.path()), Arc::new(Gate::default()));
    let devices = devices(&gate);
    make_two(&config, &devices);
    let settings = Settings { chunk: ByteSize(MIB / 4), ..Settings::default() };
    let pool = Pool::open(devices.map.clone(), devices.fast.clone(), devices.slow.clone(), None, &settings).unwrap();
    for volume in pool.handles() {
        volume.write_at(0, &AlignedBuffer::zeroed(8192)).unwrap();
        volume.sync().unwrap();
    }
    drop(pool);

    let serving = start(&config, &devices);
    gate.shut(true);
    let error = answer(&config, Request::Flush {}).unwrap_err().to_string();
    assert!(error.contains("hangs (its device does not answer)") && !error.contains("well"), "{error}");
    let dirty = || status(&config).volumes.into_iter().map(|volume| volume.dirty_bytes).collect::<Vec<_>>();
    assert_eq!(dirty(), [8192, 0]);
    gate.shut(false);
    assert!(matches!(answer(&config, Request::Flush {}), Ok(Reply::Done {})));
    assert_eq!(dirty(), [0, 0]);
    serving.stop().unwrap();
}
