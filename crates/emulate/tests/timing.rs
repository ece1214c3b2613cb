//! Times of the block device by the clock. A busy machine makes them longer, never shorter than the model says; so the least
//! is held closely in every round, and the most, with room, in one of them: rounds go on until one was near. The tests wait
//! for each other, since each of them wants the cores.

mod stage;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{HddSettings, SsdSettings};
use rustix::fs::OFlags;
use stage::{Stage, can_emulate, filled, settings};

/// By how much a busy machine may be slower than the model in the best of the rounds.
const ROOM: f64 = 2.0;

/// How long a machine may be too busy for any round to be near.
const PATIENCE: Duration = Duration::from_mins(1);

static ALONE: Mutex<()> = Mutex::new(());

fn timed(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

/// Seconds for each time that the work is done: in no round less than modelled, in one of them hardly more.
fn assert_near(what: &str, modelled: f64, times: u32, mut work: impl FnMut()) {
    let began = Instant::now();
    loop {
        let measured = timed(|| (0..times).for_each(|_| work())) / f64::from(times);
        println!("{what}: modelled {:.3} ms, measured {:.3} ms", modelled * 1e3, measured * 1e3);
        assert!(measured > modelled * 0.9, "{what}: {measured} s, less than {modelled} s");
        if measured < modelled * ROOM {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: {measured} s, not {modelled} s");
    }
}

/// Lets one test at a time have the cores.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_hard_disk_seeks_turns_and_reads_on_as_published() {
    if !can_emulate("a_hard_disk_seeks_turns_and_reads_on_as_published", &[]) {
        return;
    }
    let _alone = alone();
    let stage = Stage::new(settings("hdd", ByteSize::gib(1)));
    let (device, disk) = (stage.device(OFlags::DIRECT), HddSettings::default());
    let half_a_turn = 30.0 / f64::from(disk.rpm);

    let (mut random, mut buffer) = (Seed(1).generator(), filled(4096, 0));
    let read = disk.seek_average.as_secs_f64() + half_a_turn;
    assert_near("a random read", read, 80, || {
        device.read_exact_at(&mut buffer, random.u64(..1 << 18) * 4096).unwrap();
    });

    // Around the disk, if it takes more than eight rounds.
    let (mut buffer, runs, mut run) = (filled(1 << 18, 0), 512, 0_u64);
    let rate = disk.sustained.as_u64() as f64;
    assert_near("256 KiB in a row", f64::from(1 << 18) / rate, runs, || {
        device.read_exact_at(&mut buffer, run << 18).unwrap();
        run = (run + 1) % (1 << 12);
    });

    // One place, again and again: a cached write takes no turn, a flush waits until the place has come round.
    let buffer = filled(4096, 1);
    assert_near("a write and a flush", half_a_turn * 2.0, 60, || {
        device.write_all_at(&buffer, 1 << 29).unwrap();
        device.sync_data().unwrap();
    });
    let write = || (0..64_u64).for_each(|number| device.write_all_at(&buffer, number << 23).unwrap());
    let time = (0..10).map(|_| timed(write)).find(|time| *time < 0.75 * 64.0 * read);
    assert!(time.is_some(), "cached writes wait for no seek and no turn");
}

#[test]
fn the_channels_of_a_solid_state_drive_work_beside_each_other() {
    if !can_emulate("the_channels_of_a_solid_state_drive_work_beside_each_other", &[]) {
        return;
    }
    let _alone = alone();
    // Slow enough that the time of the way there does not count on two busy cores.
    let slow =
        SsdSettings { program: Duration::from_millis(4), sync: Duration::from_millis(20), ..SsdSettings::default() };
    let channels = slow.channels as u64;
    let (program, sync) = (slow.program.as_secs_f64(), slow.sync.as_secs_f64());
    let medium = ishigaki_device::Medium::Ssd(slow);
    let stage = Stage::new(ishigaki_device::DriveSettings::new(medium, ByteSize::gib(1)));
    let device = stage.device(OFlags::DIRECT);
    let write = |device: &File, place: u64| device.write_all_at(&filled(4096, 1), place * 4096).unwrap();
    let writers = |threads: u64| {
        let device = &device;
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || (0..25).for_each(|number| write(device, thread * 100 + number)));
            }
        });
    };
    assert_near("25 writes of one thread", 25.0 * program, 1, || writers(1));
    assert_near("25 writes of a thread for each channel", 25.0 * program, 1, || writers(channels));
    assert_near("25 writes of two threads for each channel", 50.0 * program, 1, || writers(channels * 2));
    write(&device, 0);
    assert_near("a flush", sync, 5, || device.sync_data().unwrap());
}
