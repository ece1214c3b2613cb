//! Modelled media and the probe, from outside: the same bytes as below, the timing of a medium.

use std::ops::ControlFlow;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{
    AlignedBuffer, Device, Directory, DirectoryLock, Error, Fault, FileDirectory, HddSettings, MAX_BLOCK_SIZE, Medium,
    MemoryDirectory, MemorySettings, ModelledDirectory, NvmSettings, Pace, ProbeReport, ProbeSettings, Promise,
    SimDirectory, SsdSettings, VirtualClock, probe,
};

const MICROSECOND: Duration = Duration::from_micros(1);

fn ssd() -> Medium {
    Medium::Ssd(SsdSettings::default())
}

fn hdd() -> Medium {
    Medium::Hdd(HddSettings::default())
}

fn virtual_medium(medium: Medium) -> (ModelledDirectory, VirtualClock) {
    let clock = VirtualClock::new();
    (ModelledDirectory::in_memory(medium, Pace::Virtual(clock.clone())), clock)
}

fn filled(byte: u8, length: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(length);
    buffer.fill(byte);
    buffer
}

/// The virtual time of `writes` durable writes by each of some threads, each to its own device of one medium.
fn time_of(medium: Medium, threads: usize, writes: u64, size: usize) -> Duration {
    let (directory, clock) = virtual_medium(medium);
    time_on(&vec![directory; threads], &clock, writes, size)
}

/// The same with a thread for each of these directories.
fn time_on(directories: &[ModelledDirectory], clock: &VirtualClock, writes: u64, size: usize) -> Duration {
    let create = |(thread, directory): (usize, &ModelledDirectory)| directory.create(&format!("d{thread}"), 1 << 20);
    let devices: Vec<_> = directories.iter().enumerate().map(|of| create(of).expect("created")).collect();
    clock.barrier();
    let begin = clock.elapsed();
    let together = Barrier::new(devices.len());
    thread::scope(|scope| {
        for (rank, device) in devices.into_iter().enumerate() {
            let (clock, together) = (clock.clone(), &together);
            scope.spawn(move || {
                let _turns = clock.take_turns(rank);
                together.wait();
                for turn in 0..writes {
                    let offset = turn * size as u64 % device.len();
                    device.write_durable(offset, &filled(turn as u8, size)).expect("written");
                }
            });
        }
    });
    clock.elapsed().saturating_sub(begin)
}

/// A probe without waiting for real time.
fn probed(medium: Medium, settings: ProbeSettings) -> ProbeReport {
    let (directory, clock) = virtual_medium(medium);
    let settings = ProbeSettings { pace: Pace::Virtual(clock), rounds: 1, ..settings };
    probe(&directory, &settings, &mut |_| ControlFlow::Continue(())).expect("probed")
}

#[test]
fn nvm_takes_its_time_for_every_write_however_many_threads_there_are() {
    for nanos in [500, 5_000, 50_000] {
        let latency = Duration::from_nanos(nanos);
        for threads in [1, 4] {
            assert_eq!(time_of(Medium::Nvm(NvmSettings::of(latency)), threads, 100, 512), latency * 100);
        }
    }
}

#[test]
fn parallel_writers_gain_on_an_ssd_until_every_channel_is_busy() {
    let alone = time_of(ssd(), 1, 100, 4096);
    assert_eq!(alone, 70 * MICROSECOND * 100);
    assert_eq!(time_of(ssd(), 8, 100, 4096), alone, "eight threads on eight channels");
    assert_eq!(time_of(ssd(), 16, 100, 4096), alone * 2, "sixteen threads, of which eight always wait");
}

#[test]
fn runs_written_together_overlap_as_far_as_the_medium_lets_them() {
    let together = |medium, count: u64| {
        let (directory, clock) = virtual_medium(medium);
        let device = directory.create("d", 16 << 20).expect("created");
        let block = filled(1, 4096);
        let writes: Vec<(u64, &[u8])> = (0..count).map(|turn| (turn << 20, &block[..])).collect();
        device.write_all_durable(&writes).expect("written");
        clock.elapsed()
    };
    assert_eq!(together(ssd(), 8), 70 * MICROSECOND, "a channel for each");
    assert_eq!(together(ssd(), 9), 140 * MICROSECOND);
    assert_eq!(together(Medium::Nvm(NvmSettings::default()), 9), Duration::from_nanos(500), "nobody waits for another");
    let (one, eight) = (together(hdd(), 1), together(hdd(), 8));
    assert!(eight > 3 * one && eight > Duration::from_millis(20), "{one:?} and {eight:?} with one head");
}

#[test]
fn the_devices_of_a_disk_share_its_head_and_those_of_two_disks_do_not() {
    let clock = VirtualClock::new();
    let disks = || ModelledDirectory::in_memory(hdd(), Pace::Virtual(clock.clone()));
    let alone = time_on(&[disks()], &clock, 50, 4096).as_secs_f64();
    let shared = time_on(&vec![disks(); 4], &clock, 50, 4096).as_secs_f64();
    assert!(shared > 2.0 * alone, "four times the writes under one head took {shared} s instead of {alone} s");
    let apart = time_on(&[disks(), disks(), disks(), disks()], &clock, 50, 4096).as_secs_f64();
    assert!((apart / alone - 1.0).abs() < 0.1, "four disks took {apart} s, one took {alone} s");
}

#[test]
fn a_disk_of_published_figures_meets_them_through_its_device() {
    // As many bytes as memory can hold, with the seeks of a whole disk.
    let settings =
        HddSettings { capacity: ByteSize::mib(128), read_ahead: ByteSize::kib(256), ..HddSettings::default() };
    let (directory, clock) = virtual_medium(Medium::Hdd(settings));
    let device = directory.create("disk", 128 << 20).expect("created");
    let mut random = Seed(5).generator();
    let (mut buffer, begin, count) = (filled(0, 4096), clock.elapsed(), 2000);
    for _ in 0..count {
        device.read_at(random.u64(0..(128 << 20) / 4096) * 4096, &mut buffer).expect("read");
        clock.advance(clock.now() + random.u32(0..8333) * MICROSECOND);
    }
    let thinking = 8333e-6 / 2.0;
    let each = clock.elapsed().saturating_sub(begin).as_secs_f64() / f64::from(count) - thinking;
    let published = 7.4e-3 + 4.16e-3;
    assert!((each / published - 1.0).abs() < 0.1, "a random read took {each} s");
    let (mut buffer, begin) = (filled(0, 1 << 20), clock.elapsed());
    for turn in 0..128 {
        device.read_at(turn << 20, &mut buffer).expect("read");
    }
    let rate = f64::from(128 << 20) / clock.elapsed().saturating_sub(begin).as_secs_f64();
    assert!((rate / 255e6 - 1.0).abs() < 0.1, "sequential reads ran at {rate} B/s");
}

#[test]
fn in_real_time_a_write_takes_no_less_than_the_model_says() {
    for (medium, least) in [
        (Medium::Nvm(NvmSettings::of(50 * MICROSECOND)), 50 * MICROSECOND),
        (ssd(), 70 * MICROSECOND),
        (Medium::Ssd(SsdSettings { program: 300 * MICROSECOND, ..SsdSettings::default() }), 300 * MICROSECOND),
    ] {
        let directory = ModelledDirectory::in_memory(medium.clone(), Pace::Real);
        let device = directory.create("d", 4096).expect("created");
        let block = filled(1, 512);
        for _ in 0..20 {
            let begin = Instant::now();
            device.write_durable(0, &block).expect("written");
            assert!(begin.elapsed() >= least, "{medium:?} answered too early");
        }
    }
}

#[test]
fn the_bytes_and_names_are_those_of_the_directory_below() {
    let below = MemoryDirectory::new();
    let directory = ModelledDirectory::new(Arc::new(below.clone()), hdd(), Pace::Virtual(VirtualClock::new()));
    let device = directory.create("a", 4096).expect("created");
    device.write_at(512, &filled(7, 512)).expect("written");
    directory.rename("a", "b").expect("renamed");
    directory.sync().expect("synced");
    assert_eq!(below.list().expect("listed"), ["b"]);
    let mut back = filled(0, 512);
    below.open("b").expect("opened").read_at(512, &mut back).expect("read");
    assert!(back.iter().all(|byte| *byte == 7));
    assert!(matches!(device.write_at(u64::MAX - 511, &back), Err(Error::Invalid { .. })));
    assert!(matches!(device.read_at(1, &mut back), Err(Error::Invalid { .. })));
    directory.remove("b").expect("removed");
    assert!(below.list().expect("listed").is_empty());
}

#[test]
fn what_a_power_cut_leaves_is_decided_below() {
    let below = SimDirectory::with_seed(Seed(1));
    let directory = ModelledDirectory::new(Arc::new(below.clone()), hdd(), Pace::Virtual(VirtualClock::new()));
    let device = directory.create("a", 4096).expect("created");
    directory.sync().expect("synced");
    device.write_durable(0, &filled(1, 512)).expect("written");
    below.inject(Fault::PowerCut { operation: below.operations() });
    assert!(matches!(device.write_at(512, &filled(2, 512)), Err(Error::PowerCut { .. })));
    let mut back = filled(0, 512);
    below.survivors(Seed(2)).open("a").expect("opened").read_at(0, &mut back).expect("read");
    assert!(back.iter().all(|byte| *byte == 1), "the durable write is there");
}

#[test]
fn a_probe_finds_the_channels_of_an_ssd_and_the_pages_of_large_writes() {
    let settings = ProbeSettings { threads: vec![1, 8], duration: Duration::from_millis(20), ..Default::default() };
    let report = probed(ssd(), settings);
    let case = |threads, size| {
        let mut cases = report.cases.iter();
        cases.find(|case| (case.threads, case.size) == (threads, ByteSize(size))).expect("measured")
    };
    let near = |value: f64, wanted: f64| assert!((value / wanted - 1.0).abs() < 0.05, "{value}, not {wanted}");
    near(case(1, 512).bandwidth(), 512.0 / 70e-6);
    near(case(1, 4096).bandwidth(), 4096.0 / 70e-6);
    near(case(1, 65536).bandwidth(), 4096.0 / 70e-6);
    near(case(8, 4096).bandwidth(), 8.0 * 4096.0 / 70e-6);
    near(case(8, 4096).median(|run| run.latency_p50.as_secs_f64()), 70e-6);
    assert!(report.complete && report.left_out.is_empty() && report.promise.direct);
}

#[test]
fn a_probe_of_a_disk_counts_its_turns() {
    let settings = ProbeSettings { threads: vec![1], duration: Duration::from_secs(2), ..Default::default() };
    for case in probed(hdd(), settings).cases.iter().filter(|case| case.size <= ByteSize::kib(16)) {
        let writes = case.median(|run| run.throughput);
        assert!((writes / 120.0 - 1.0).abs() < 0.05, "{writes} appends in a second at 120 turns");
    }
}

#[test]
fn a_probe_tells_whether_the_medium_writes_through() {
    let settings = || ProbeSettings {
        threads: vec![1],
        sizes: vec![ByteSize::kib(4)],
        duration: MICROSECOND,
        rounds: 1,
        ..ProbeSettings::default()
    };
    let report = |directory: &dyn Directory| probe(directory, &settings(), &mut |_| ControlFlow::Continue(()));
    let place = tempfile::tempdir().expect("a place for temporary files");
    let files = FileDirectory::open(place.path()).expect("opened");
    let known = files.create("d", 512).expect("created").writes_through();
    assert_eq!(report(&files).expect("probed").writes_through, known);
    assert_eq!(report(&MemoryDirectory::new()).expect("probed").writes_through, None);
}

#[test]
fn a_probe_leaves_nothing_behind_and_leaves_out_what_the_medium_does_not_take() {
    let below = MemoryDirectory::with(MemorySettings { block_size: MAX_BLOCK_SIZE, ..Default::default() });
    let settings = ProbeSettings { duration: Duration::ZERO, rounds: 2, ..ProbeSettings::default() };
    let mut steps = Vec::new();
    let mut tell = |step: ishigaki_device::ProbeStep| {
        assert!(below.list().expect("listed").is_empty(), "a kill in the middle leaves nothing either");
        steps.push((step.done, step.of));
        ControlFlow::Continue(())
    };
    let report = probe(&below, &settings, &mut tell).expect("probed");
    assert_eq!(report.left_out, [ByteSize(512)]);
    assert_eq!(report.cases.len(), 9);
    assert!(report.cases.iter().all(|case| case.runs.len() == 2));
    assert_eq!(steps, (0..18).map(|done| (done, 18)).collect::<Vec<_>>());
    assert!(below.list().expect("listed").is_empty());
}

#[test]
fn a_probe_that_is_stopped_or_refused_leaves_nothing_behind_either() {
    let below = MemoryDirectory::new();
    let settings = ProbeSettings { duration: Duration::ZERO, ..ProbeSettings::default() };
    let mut stop = |step: ishigaki_device::ProbeStep| match step.done {
        0..3 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let report = probe(&below, &settings, &mut stop).expect("probed");
    assert!(!report.complete);
    assert_eq!(report.cases.iter().map(|case| case.runs.len()).sum::<usize>(), 3);
    assert!(below.list().expect("listed").is_empty());
    for bad in [
        ProbeSettings { threads: vec![], ..settings.clone() },
        ProbeSettings { threads: vec![0], ..settings.clone() },
        ProbeSettings { sizes: vec![ByteSize(0)], ..settings.clone() },
        ProbeSettings { sizes: vec![ByteSize(100)], ..settings.clone() },
        ProbeSettings { rounds: 0, ..settings.clone() },
    ] {
        let result = probe(&below, &bad, &mut |_| ControlFlow::Continue(()));
        assert!(matches!(result, Err(Error::Invalid { .. })), "{bad:?}");
        assert!(below.list().expect("listed").is_empty());
    }
}

#[test]
fn a_probe_gives_no_figures_for_a_medium_that_fails() {
    let below = SimDirectory::with_seed(Seed(4));
    let settings =
        ProbeSettings { duration: Duration::from_millis(1), region: ByteSize::kib(64), ..Default::default() };
    below.inject(Fault::PowerCut { operation: below.operations() + 40 });
    let result = probe(&below, &settings, &mut |_| ControlFlow::Continue(()));
    assert!(result.is_err(), "{result:?}");
}

/// A directory in memory whose devices lose every durable write and say nothing.
#[derive(Debug)]
struct Forgetful(MemoryDirectory);

#[derive(Debug)]
struct ForgetfulDevice(Arc<dyn Device>);

impl Device for ForgetfulDevice {
    fn promise(&self) -> Promise {
        self.0.promise()
    }
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.0.read_at(offset, buffer)
    }
    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> Result<(), Error> {
        Ok(())
    }
    fn sync(&self) -> Result<(), Error> {
        Ok(())
    }
    fn trim(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.0.trim(offset, length)
    }
}

impl Directory for Forgetful {
    fn create(&self, name: &str, length: u64) -> Result<Arc<dyn Device>, Error> {
        Ok(Arc::new(ForgetfulDevice(self.0.create(name, length)?)))
    }
    fn open(&self, name: &str) -> Result<Arc<dyn Device>, Error> {
        self.0.open(name)
    }
    fn list(&self) -> Result<Vec<String>, Error> {
        self.0.list()
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<(), Error> {
        self.0.remove(name)
    }
    fn sync(&self) -> Result<(), Error> {
        self.0.sync()
    }
    fn lock(&self) -> Result<DirectoryLock, Error> {
        self.0.lock()
    }
}

#[test]
fn a_probe_gives_no_figures_for_a_medium_that_forgets() {
    let settings = ProbeSettings { duration: Duration::from_millis(1), ..Default::default() };
    let result = probe(&Forgetful(MemoryDirectory::new()), &settings, &mut |_| ControlFlow::Continue(()));
    let error = result.expect_err("nothing was kept");
    assert!(error.to_string().contains("probe-0: reading back failed"), "{error}");
}
