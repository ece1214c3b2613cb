//! What runs for one case: devices, volumes, file systems, servers, workers, agents, and the count at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{Directory, HddSettings, Medium, MemoryDirectory, ModelledDirectory, Pace, SsdSettings};
use ishigaki_emulate::BlockDevice;
use ishigaki_servers::{Ext4, Running};
use ishigaki_volume_service::{Config, Devices, Reply, Request, Serving, ask};

use super::agents::Agent;
use super::bounds::Bounds;
use super::database::{Database, Databases, TABLES, memory};
use super::load::{PHASES, Part, Run, Shared, ratio, work};
use super::rival::Cache;
use super::session::Session;
use super::{Mode, Settings, WORK, Way};
use crate::{Error, Result};

/// What a server's processes take, beside the page cache of its files.
const PROCESSES: ByteSize = ByteSize::mib(28);

/// One of how many looks of agents may fail.
const FEW: usize = 10;

/// How often figures are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// The bytes of one case, without what they are modelled as.
struct Bytes {
    slow: MemoryDirectory,
    fast: MemoryDirectory,
    map: MemoryDirectory,
}

impl Bytes {
    fn devices(&self, medium: Option<(HddSettings, SsdSettings)>) -> Result<Devices> {
        let [slow, fast, map] =
            [&self.slow, &self.fast, &self.map].map(|one| Arc::new(one.clone()) as Arc<dyn Directory>);
        let Some((hdd, ssd)) = medium else { return Ok(Devices { map, fast: fast.open("fast")?, slow, memory: None }) };
        // A thread that waits takes no processor from the servers.
        let modelled = |bytes, medium| Arc::new(ModelledDirectory::new(bytes, medium, Pace::Slept));
        let fast = modelled(fast, Medium::Ssd(ssd.clone())).open("fast")?;
        Ok(Devices { map: modelled(map, Medium::Ssd(ssd)), fast, slow: modelled(slow, Medium::Hdd(hdd)), memory: None })
    }
}

/// What volumes are served by.
enum Base {
    Service(Box<Config>, Serving),
    Cache(Vec<BlockDevice>, Arc<Cache>),
}

impl Base {
    /// Bytes read from the fast device and from the slow one until now, and the share of prefetch.
    fn figures(&self) -> ([u64; 2], f64) {
        match self {
            Self::Service(_, serving) => {
                let status = serving.status();
                let sum = |of: fn(&ishigaki_volume_service::VolumeStatus) -> u64| status.volumes.iter().map(of).sum();
                ([sum(|volume| volume.hit_bytes), sum(|volume| volume.miss_bytes)], status.prefetch.share)
            }
            Self::Cache(_, cache) => (cache.read(), 0.0),
        }
    }

    fn stop(self) -> Result<()> {
        match self {
            Self::Service(_, serving) => Ok(serving.stop()?),
            Self::Cache(devices, cache) => {
                drop(devices);
                Ok(cache.clean()?)
            }
        }
    }
}

/// All of it, in the order in which it goes.
struct Stand<'a> {
    running: Vec<Running>,
    mounts: Vec<Ext4>,
    bounds: Vec<Bounds>,
    /// The volumes' block devices.
    devices: Vec<PathBuf>,
    base: Base,
    settings: &'a Settings,
    databases: &'a Databases,
}

/// Runs one case.
pub(super) fn run(settings: &Settings, databases: &Databases, way: &Way, seed: Seed) -> Result<Run> {
    let bytes = Bytes { slow: databases.copy()?, fast: memory(), map: memory() };
    let chunk = way.chunk.as_u64();
    // A pool has a chunk for itself, and one at least.
    let fast = settings.size.data.as_u64() * u64::from(way.fifteenths) / 15 / chunk * chunk + 2 * chunk;
    bytes.fast.create("fast", fast)?;
    // A disk that is full, so that its arm has as far to go as that of a large one.
    let hdd = HddSettings { capacity: ByteSize::b(databases.volumes()), ..HddSettings::default() };
    let base = base(databases, way, settings, bytes.devices(Some((hdd, SsdSettings::default())))?)?;
    let stand = Stand::new(settings, databases, base, true)?;
    let (run, changed) = stand.measure(way, seed)?;
    stand.end()?;
    // Counted without the model, and by a service that knows nothing but what is on the devices.
    let way = Way { mode: if way.mode == Mode::Rival { Mode::Rival } else { Mode::OnDemand }, ..*way };
    let base = self::base(databases, &way, settings, bytes.devices(None)?)?;
    let stand = Stand::new(settings, databases, base, false)?;
    stand.check(&changed)?;
    stand.end()?;
    Ok(run)
}

fn base(databases: &Databases, way: &Way, settings: &Settings, devices: Devices) -> Result<Base> {
    let site = databases.site.path();
    if way.mode == Mode::Rival {
        let slow = databases.all.iter().map(|database| devices.slow.open(&database.name)).collect::<Result<_, _>>()?;
        let cache = Cache::new(devices.fast, slow);
        let mut blocks = Vec::new();
        for (volume, database) in cache.volumes().into_iter().zip(&databases.all) {
            let folder = site.join(format!("block-{}", database.name));
            fs::create_dir_all(&folder).map_err(io(&folder, "making a folder"))?;
            blocks.push(BlockDevice::new(volume, &folder)?);
        }
        return Ok(Base::Cache(blocks, cache));
    }
    let config = Config::parse(&text(way, settings), &site.join("volumes.toml"))?;
    let serving = Serving::over(&config, devices)?;
    let known: Vec<String> = serving.status().volumes.into_iter().map(|volume| volume.name).collect();
    let mode = if way.mode == Mode::None { "read-only" } else { "write-back" };
    for database in databases.all.iter().filter(|database| !known.contains(&database.name)) {
        ask(&config, &Request::Attach { name: database.name.clone(), mode: mode.to_owned() })?;
    }
    Ok(Base::Service(Box::new(config), serving))
}

/// The configuration of the service.
fn text(way: &Way, settings: &Settings) -> String {
    let prefetch = match way.mode {
        Mode::None | Mode::Rival | Mode::OnDemand => "none".to_owned(),
        Mode::Plain(share) | Mode::Layout(share) => share.to_string(),
        Mode::Adaptive => "adaptive".to_owned(),
    };
    format!(
        "map = \"map\"\nfast = \"fast\"\nslow = \"slow\"\nsockets = \"sockets\"\nblocks = \"blocks\"\ndoor = \"block\"\n\
         agents = \"127.0.0.1:0\"\nchunk = \"{}KiB\"\nunit = {}\nwindow = {}\nprefetch = \"{prefetch}\"\n{}",
        way.chunk.as_u64() >> 10,
        way.unit,
        settings.size.window.as_secs(),
        if way.mode == Mode::None { "on_demand = false\n" } else { "" },
    )
}

fn io(path: &Path, operation: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, operation, source }
}

impl<'a> Stand<'a> {
    /// Mounts all volumes, and starts all servers; their memory is bounded or not.
    fn new(settings: &'a Settings, databases: &'a Databases, base: Base, is_bounded: bool) -> Result<Self> {
        let (running, mounts, bounds) = (Vec::new(), Vec::new(), Vec::new());
        let devices = match &base {
            Base::Service(config, _) => {
                databases.all.iter().map(|database| config.blocks.join(&database.name)).collect()
            }
            Base::Cache(blocks, _) => blocks.iter().map(|block| block.path().to_owned()).collect(),
        };
        let mut stand = Self { running, mounts, bounds, devices, base, settings, databases };
        for (device, database) in stand.devices.iter().zip(&databases.all) {
            stand.mounts.push(Ext4::existing(device, &database.root)?);
        }
        for database in &databases.all {
            settings.go_on()?;
            let running = database.server.start()?;
            if is_bounded {
                let bounds = Bounds::new(&database.name)?;
                bounds.set(PROCESSES.as_u64() + database.bytes * u64::from(settings.size.cached_percent) / 100)?;
                bounds.take(running.id())?;
                stand.bounds.push(bounds);
            }
            stand.running.push(running);
        }
        for database in &databases.all {
            database.server.run_when_up("select 1;\n", &|| settings.go_on().is_err())?;
        }
        for (bounds, running) in stand.bounds.iter().zip(&stand.running) {
            // Those that it has started before it was bounded.
            bounds.take(running.id())?;
        }
        Ok(stand)
    }

    /// The load, over all sets. What it has come to, and rows that were changed, by server.
    fn measure(&self, way: &Way, seed: Seed) -> Result<(Run, Vec<u64>)> {
        let (settings, all) = (self.settings, &self.databases.all);
        let mut workers = Vec::new();
        for _ in 0..settings.size.workers {
            workers.push(all.iter().map(session).collect::<Result<Vec<_>>>()?);
        }
        let mut agents = match way.mode {
            Mode::Layout(_) | Mode::Adaptive => self.agents()?,
            _ => Vec::new(),
        };
        let shared = Shared::new(all.len(), settings.size.phase);
        let outcome = thread::scope(|scope| {
            let threads: Vec<_> = workers
                .iter_mut()
                .zip(0_u64..)
                .map(|(sessions, number)| {
                    let random = Rng::with_seed(seed.0.wrapping_mul(1000) + number);
                    let shared = &shared;
                    scope.spawn(move || work(&settings.size, all, sessions, shared, random))
                })
                .collect();
            let telling = scope.spawn(|| {
                let mut next = Instant::now();
                let (mut looks, mut failed) = (0, Vec::new());
                while !shared.is_over.load(Ordering::Relaxed) {
                    // One that could not tell tells the next time.
                    failed.extend(agents.iter_mut().filter_map(|agent| agent.look().err()));
                    looks += agents.len();
                    next += settings.size.window;
                    thread::sleep(next.saturating_duration_since(Instant::now()));
                }
                failed.pop().filter(|_| failed.len() * FEW > looks)
            });
            let watched = self.watch(&shared, &threads);
            shared.is_over.store(true, Ordering::Relaxed);
            let mut failure = None;
            for thread in threads {
                match thread.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => failure = Some(error.to_string()),
                    Err(_) => failure = Some("a worker has panicked".to_owned()),
                }
            }
            if let Some(reason) = telling.join().unwrap_or_else(|_| Some("it has panicked".to_owned())) {
                return Err(Error::Process { what: "an agent", reason });
            }
            match failure {
                Some(reason) => Err(Error::Process { what: "the load", reason }),
                None => watched,
            }
        })?;
        let changed = shared.changed.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Ok((outcome, changed))
    }

    fn agents(&self) -> Result<Vec<Agent>> {
        let Base::Service(config, serving) = &self.base else { return Ok(Vec::new()) };
        let to = serving.agents().map(|address| address.to_string()).unwrap_or_default();
        let agent = |database: &Database| {
            let name = &database.name;
            let Reply::Token(token) = ask(config, &Request::Token { name: name.clone() })? else {
                let reason = "has answered another question".to_owned();
                return Err(Error::Process { what: "the volumes", reason });
            };
            let folder = database.root.join("data");
            Agent::new(name, token, to.clone(), &folder).map_err(io(&folder, "connecting an agent"))
        };
        self.databases.all.iter().map(agent).collect()
    }

    /// Looks at it until the sets are over. Nothing counts before a first phase in which all becomes warm.
    fn watch<T>(&self, shared: &Shared, threads: &[thread::ScopedJoinHandle<'_, T>]) -> Result<Run> {
        let size = &self.settings.size;
        let half = size.phase / 2;
        let begin = Instant::now() + size.phase;
        self.rest_until(begin, threads, &mut Vec::new())?;
        let (done, read, requests) = (shared.done.load(Ordering::Relaxed), self.base.figures().0, self.requests());
        let (mut last, mut last_read, mut last_at) = (done, read, Instant::now());
        let mut run = Run::default();
        for part in 1..=(size.sets * PHASES * 2) as u32 {
            let mut seen = Vec::new();
            self.rest_until(begin + half * part, threads, &mut seen)?;
            let (now, now_read, at) = (shared.done.load(Ordering::Relaxed), self.base.figures().0, Instant::now());
            run.parts.push(Part {
                throughput: (now - last) as f64 / at.duration_since(last_at).as_secs_f64(),
                hit_ratio: ratio(since(now_read, last_read)),
                share: seen.iter().sum::<f64>() / seen.len().max(1) as f64,
            });
            (last, last_read, last_at) = (now, now_read, at);
        }
        run.transactions = last - done;
        run.seconds = last_at.duration_since(begin).as_secs_f64();
        run.read = since(last_read, read);
        run.requests = since(self.requests(), requests);
        Ok(run)
    }

    fn rest_until<T>(
        &self,
        moment: Instant,
        threads: &[thread::ScopedJoinHandle<'_, T>],
        shares: &mut Vec<f64>,
    ) -> Result<()> {
        while Instant::now() < moment {
            self.settings.go_on()?;
            if threads.iter().any(thread::ScopedJoinHandle::is_finished) {
                return Err(Error::Process { what: "the load", reason: "a worker has ended".to_owned() });
            }
            shares.push(self.base.figures().1);
            thread::sleep(LOOK.min(moment.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Requests to all block devices that have read, and that have written, as the kernel counts them.
    fn requests(&self) -> [u64; 2] {
        let count = |device: &PathBuf| {
            let device = fs::canonicalize(device).ok()?;
            let told = fs::read_to_string(Path::new("/sys/block").join(device.file_name()?).join("stat")).ok()?;
            let mut numbers = told.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
            Some([numbers.next()?, numbers.nth(3)?])
        };
        let counts = self.devices.iter().filter_map(count);
        counts.fold([0, 0], |[reads, writes], [one, other]| [reads + one, writes + other])
    }

    /// What was acknowledged must be there.
    fn check(&self, changed: &[u64]) -> Result<()> {
        for (database, &changed) in self.databases.all.iter().zip(changed) {
            let mut session = session(database)?;
            let mut found = 0;
            for table in 0..TABLES {
                let told = session.ask(&format!("select sum(changed) from t{table}"));
                let told = told.map_err(io(&database.root, "counting rows"))?;
                found += told.parse::<u64>().unwrap_or(0);
            }
            if found != changed {
                let reason = format!("{} has {found} changes, and {changed} were acknowledged", database.name);
                return Err(Error::Wrong { workload: WORK, reason, path: database.root.clone() });
            }
        }
        Ok(())
    }

    /// Ends all of it in its order.
    fn end(self) -> Result<()> {
        let ended: Result<Vec<()>, _> = thread::scope(|scope| {
            let threads: Vec<_> = self.running.into_iter().map(|running| scope.spawn(|| running.end())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(()))).collect()
        });
        ended?;
        self.mounts.iter().try_for_each(Ext4::unmount)?;
        drop(self.mounts);
        drop(self.bounds);
        self.base.stop()
    }
}

fn since([one, other]: [u64; 2], [before, before_other]: [u64; 2]) -> [u64; 2] {
    [one.saturating_sub(before), other.saturating_sub(before_other)]
}

fn session(database: &Database) -> Result<Session> {
    let folder = database.root.join("data");
    Session::new(&folder).map_err(io(&folder, "connecting to a server"))
}
