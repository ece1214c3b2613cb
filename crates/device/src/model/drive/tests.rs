//! What a drive keeps, what it loses, and how long it takes.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use ishigaki_testkit::seeded;

use super::*;
use crate::{AlignedBuffer, HddSettings, SsdSettings, VirtualClock};

const SECTOR_BYTES: u64 = SECTOR as u64;

fn drive(medium: &str, size: ByteSize) -> (Drive, VirtualClock) {
    let clock = VirtualClock::new();
    let settings = DriveSettings::new(medium.parse().unwrap(), size);
    (Drive::new(DriveSettings { pace: Pace::Virtual(clock.clone()), ..settings }), clock)
}

fn filled(sectors: u64, byte: u8) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed((sectors * SECTOR_BYTES) as usize);
    buffer.fill(byte);
    buffer
}

/// The byte that fills a sector.
fn byte_of(drive: &Drive, sector: u64) -> u8 {
    let mut buffer = filled(1, 0);
    drive.read_at(sector * SECTOR_BYTES, &mut buffer).unwrap();
    assert!(buffer.iter().all(|byte| *byte == buffer[0]), "a sector is never a mixture");
    buffer[0]
}

fn cut_and_restore(drive: &Drive, seed: u64) -> u64 {
    let lost = drive.cut_power(Seed(seed));
    drive.restore_power();
    lost
}

#[test]
fn what_was_flushed_survives_a_power_cut_and_of_the_rest_any_sectors() {
    let (mut all, mut none, mut some) = (0, 0, 0);
    for seed in 0..200 {
        let (drive, _) = drive("ssd", ByteSize::mib(1));
        drive.write_at(0, &filled(16, 1)).unwrap();
        drive.sync().unwrap();
        drive.write_at(0, &filled(8, 2)).unwrap();
        let lost = cut_and_restore(&drive, seed);
        let old = (0..8).filter(|sector| byte_of(&drive, *sector) == 1).count() as u64;
        assert!((0..8).all(|sector| matches!(byte_of(&drive, sector), 1 | 2)));
        assert!((8..16).all(|sector| byte_of(&drive, sector) == 1));
        assert_eq!(lost, old);
        match old {
            0 => none += 1,
            8 => all += 1,
            _ => some += 1,
        }
    }
    assert!(all > 0 && none > 0 && some > 0, "{all} {none} {some}");
}

#[test]
fn what_is_written_during_a_flush_is_no_part_of_it() {
    let survivors = |flush_ends: bool| -> BTreeSet<u8> {
        let survivor = |seed: u64| {
            let (drive, _) = drive("ssd", ByteSize::mib(1));
            drive.write_at(0, &filled(1, 1)).unwrap();
            let sealed = drive.state.lock().cache.seal();
            drive.write_at(0, &filled(1, 2)).unwrap();
            if flush_ends {
                drive.state.lock().cache.settle(sealed);
            }
            cut_and_restore(&drive, seed);
            byte_of(&drive, 0)
        };
        (0..100).map(survivor).collect()
    };
    assert_eq!(survivors(false), BTreeSet::from([0, 1, 2]));
    assert_eq!(survivors(true), BTreeSet::from([1, 2]));
}

/// Per sector what may be there after a power cut, what reads see last.
#[derive(Default)]
struct Model(BTreeMap<u64, Vec<u8>>);

impl Model {
    fn of(&mut self, sector: u64) -> &mut Vec<u8> {
        self.0.entry(sector).or_insert_with(|| vec![0])
    }

    fn write(&mut self, sectors: Range<u64>, byte: u8, durable: bool) {
        for sector in sectors {
            let may_be = self.of(sector);
            if durable {
                may_be.clear();
            }
            may_be.push(byte);
        }
    }

    fn sync(&mut self) {
        for may_be in self.0.values_mut() {
            may_be.drain(..may_be.len() - 1);
        }
    }
}

#[test]
fn any_requests_leave_after_a_power_cut_what_the_promise_allows() {
    const SECTORS: u64 = 64;
    seeded("any_requests_leave_after_a_power_cut_what_the_promise_allows", |seed| {
        let (drive, _) = drive("ssd", ByteSize(SECTORS * SECTOR_BYTES));
        let (mut model, mut random, mut losses) = (Model::default(), seed.generator(), 0);
        for step in 0..5000_u64 {
            let begin = random.u64(..SECTORS);
            let range = begin..random.u64(begin + 1..=SECTORS.min(begin + 20));
            let (offset, length) = (range.start * SECTOR_BYTES, range.end - range.start);
            let byte = random.u8(1..);
            match random.u8(..100) {
                0..60 => {
                    drive.write_at(offset, &filled(length, byte)).unwrap();
                    model.write(range, byte, false);
                }
                60..70 => {
                    drive.write_durable(offset, &filled(length, byte)).unwrap();
                    model.write(range, byte, true);
                }
                70..80 => {
                    drive.trim(offset, length * SECTOR_BYTES).unwrap();
                    model.write(range, 0, false);
                }
                80..95 => {
                    drive.sync().unwrap();
                    model.sync();
                }
                _ => {
                    losses += cut_and_restore(&drive, step);
                    for sector in 0..SECTORS {
                        let (found, may_be) = (byte_of(&drive, sector), model.of(sector));
                        assert!(may_be.contains(&found), "step {step}, sector {sector}: {found} is not in {may_be:?}");
                        *may_be = vec![found];
                    }
                }
            }
            for sector in 0..SECTORS {
                let newest = *model.of(sector).last().unwrap();
                assert_eq!(byte_of(&drive, sector), newest, "step {step}, sector {sector}");
            }
        }
        assert!(losses > 0);
    });
}

#[test]
fn nothing_works_without_power() {
    let (drive, _) = drive("hdd", ByteSize::mib(8));
    drive.cut_power(Seed(1));
    assert_eq!(drive.cut_power(Seed(2)), 0, "there is nothing left to be cut");
    let is_off = |result| matches!(result, Err(Error::PowerCut { .. }));
    assert!(is_off(drive.read_at(0, &mut filled(1, 0))) && is_off(drive.write_at(0, &filled(1, 1))));
    assert!(is_off(drive.write_durable(0, &filled(1, 1))) && is_off(drive.sync()) && is_off(drive.trim(0, 512)));
    drive.restore_power();
    drive.write_durable(0, &filled(1, 1)).unwrap();
    assert_eq!((byte_of(&drive, 0), drive.counts().power_cuts), (1, 1));
}

#[test]
fn a_flush_that_was_under_way_when_the_power_went_fails_and_keeps_nothing_for_certain() {
    let lost = (0..8).map(|seed| {
        // Each place takes half a turn of a fifth of a second.
        let disk = HddSettings { rpm: 300, ..HddSettings::default() };
        let drive = Drive::new(DriveSettings::new(Medium::Hdd(disk), ByteSize::gib(2)));
        for place in 0..4 {
            drive.write_at(place << 28, &filled(1, 1)).unwrap();
        }
        thread::scope(|scope| {
            let flush = scope.spawn(|| drive.sync());
            while drive.counts().flushes == 0 {
                thread::yield_now();
            }
            let lost = drive.cut_power(Seed(seed));
            drive.restore_power();
            assert!(matches!(flush.join().unwrap(), Err(Error::PowerCut { .. })));
            lost
        })
    });
    assert!(lost.sum::<u64>() > 0);
}

#[test]
fn a_power_cut_ends_a_flush_of_seconds_at_once() {
    let disk = HddSettings { rpm: 60, ..HddSettings::default() };
    let full = |pace: Pace| {
        let settings = DriveSettings::new(Medium::Hdd(disk.clone()), ByteSize::gib(2));
        let drive = Drive::new(DriveSettings { pace, ..settings });
        for place in 0..12 {
            drive.write_at(place << 27, &filled(1, 1)).unwrap();
        }
        drive
    };
    let clock = VirtualClock::new();
    full(Pace::Virtual(clock.clone())).sync().unwrap();
    assert!(clock.elapsed() > Duration::from_secs(3), "{:?} is not long", clock.elapsed());
    for pace in [Pace::Real, Pace::Slept] {
        let drive = full(pace);
        thread::scope(|scope| {
            let flush = scope.spawn(|| drive.sync());
            while drive.counts().flushes == 0 {
                thread::yield_now();
            }
            // Now it waits, most likely.
            thread::sleep(Duration::from_millis(20));
            let cut = Instant::now();
            drive.cut_power(Seed(1));
            assert!(matches!(flush.join().unwrap(), Err(Error::PowerCut { .. })));
            assert!(cut.elapsed() < Duration::from_millis(500), "{:?} after the cut", cut.elapsed());
        });
    }
}

#[test]
fn a_drive_takes_no_more_memory_than_it_may_and_trims_give_it_back() {
    let settings = DriveSettings::new(Medium::Ssd(SsdSettings::default()), ByteSize::gib(64));
    let clock = VirtualClock::new();
    let pace = Pace::Virtual(clock);
    let drive = Drive::new(DriveSettings { memory: ByteSize::kib(64), unflushed: ByteSize::kib(16), pace, ..settings });
    let block = |number: u64| number * (1 << 30);
    let written = (0..64).take_while(|number| drive.write_at(block(*number), &filled(8, 1)).is_ok()).count();
    assert_eq!((written, drive.memory()), (16, ByteSize::kib(64)), "16 blocks, none of them left for what may be lost");
    assert!(matches!(drive.write_at(block(60), &filled(8, 1)), Err(Error::NoSpace { .. })));
    drive.trim(0, drive.len()).unwrap();
    drive.sync().unwrap();
    assert_eq!(drive.memory(), ByteSize(0));
    drive.write_at(block(60), &filled(8, 2)).unwrap();
    assert_eq!(byte_of(&drive, block(60) / SECTOR_BYTES), 2);
}

#[test]
fn what_is_written_over_and_trimmed_in_parts_takes_no_more_memory_than_there_may_be() {
    let most = ByteSize::kib(64);
    let settings = DriveSettings::new(Medium::Ssd(SsdSettings::default()), ByteSize::gib(64));
    let pace = Pace::Virtual(VirtualClock::new());
    let drive = Drive::new(DriveSettings { memory: most, unflushed: most, pace, ..settings });
    let block = |number: u64| number * (1 << 30);
    for blocks in [4, 8, 12, 15, 16] {
        for byte in 1..=3 {
            for number in 0..blocks {
                drive.write_at(block(number), &filled(8, byte)).unwrap();
                assert!(drive.memory() <= most, "{blocks} blocks, write {byte} of {number}: {}", drive.memory());
                drive.trim(block(number) + SECTOR_BYTES, SECTOR_BYTES).unwrap();
                assert!(drive.memory() <= most, "{blocks} blocks, trim {byte} of {number}: {}", drive.memory());
            }
        }
        drive.sync().unwrap();
        assert_eq!(drive.memory(), ByteSize::kib(4 * blocks));
    }
    drive.trim(block(15), 4096).unwrap();
    drive.sync().unwrap();
    let both = drive.write_at(block(15), &filled(16, 4));
    assert!(matches!(both, Err(Error::NoSpace { .. })), "there is room for one of two");
    assert_eq!(byte_of(&drive, block(15) / SECTOR_BYTES), 0, "a write that finds no memory writes nothing");
    // Bytes come first: with all of the memory taken by them, nothing can be lost.
    drive.write_at(block(15), &filled(8, 5)).unwrap();
    drive.write_at(block(0), &filled(8, 5)).unwrap();
    assert_eq!(cut_and_restore(&drive, 1), 0);
    assert_eq!((byte_of(&drive, block(15) / SECTOR_BYTES), byte_of(&drive, 0)), (5, 5));
}

#[test]
fn what_does_not_fit_in_the_cache_is_on_the_medium() {
    for seed in 0..50 {
        let settings = DriveSettings::new(Medium::Ssd(SsdSettings::default()), ByteSize::mib(1));
        let pace = Pace::Virtual(VirtualClock::new());
        let drive = Drive::new(DriveSettings { unflushed: ByteSize::kib(16), pace, ..settings });
        drive.write_at(0, &filled(80, 1)).unwrap();
        cut_and_restore(&drive, seed);
        assert!((0..48).all(|sector| byte_of(&drive, sector) == 1), "the first six blocks of ten");
    }
}

/// The mean time of random reads of 4 KiB, in seconds.
fn random_reads(drive: &Drive, clock: &VirtualClock, count: u32) -> f64 {
    let (mut random, mut buffer, mut total) = (Seed(1).generator(), filled(8, 0), Duration::ZERO);
    for _ in 0..count {
        let begin = clock.now();
        drive.read_at(random.u64(..drive.len() / 4096) * 4096, &mut buffer).unwrap();
        total += clock.now().saturating_sub(begin);
        clock.advance(clock.now() + Duration::from_nanos(random.u64(..10_000_000)));
    }
    total.as_secs_f64() / f64::from(count)
}

#[test]
fn a_small_disk_seeks_as_long_as_a_large_one() {
    // Published: 7.4 ms of seek, and half a turn at 7200 rpm.
    let published = 7.4e-3 + 0.5 / 120.0;
    for size in [ByteSize::mib(256), ByteSize::gib(2), ByteSize::tb(6)] {
        let (disk, clock) = drive("hdd", size);
        let mean = random_reads(&disk, &clock, 3000);
        assert!((mean / published - 1.0).abs() < 0.1, "{size}: {mean} s");
    }
}

#[test]
fn a_disk_reads_and_writes_on_at_its_published_rate() {
    let (disk, clock) = drive("hdd", ByteSize::gib(1));
    let (mut buffer, runs) = (filled(2048, 1), 900);
    for run in 0..runs {
        disk.read_at(run << 20, &mut buffer).unwrap();
    }
    let read = clock.elapsed();
    for run in 0..runs {
        disk.write_at(run << 20, &buffer).unwrap();
    }
    disk.sync().unwrap();
    for time in [read, clock.elapsed().saturating_sub(read)] {
        let rate = (runs << 20) as f64 / time.as_secs_f64();
        assert!((rate / 255e6 - 1.0).abs() < 0.1, "{rate} B/s");
    }
}

#[test]
fn a_disk_answers_writes_from_its_cache_and_pays_when_it_is_flushed() {
    let (disk, clock) = drive("hdd", ByteSize::gib(2));
    for number in 0..10_u64 {
        disk.write_at((number * 7919 % 2048) << 20, &filled(8, 1)).unwrap();
    }
    let written = clock.elapsed();
    assert!(written < Duration::from_millis(1), "{written:?}");
    disk.sync().unwrap();
    // Ten places in their order: a short seek and half a turn each, about.
    let flushed = clock.elapsed().saturating_sub(written);
    assert!(flushed > Duration::from_millis(40) && flushed < Duration::from_millis(120), "{flushed:?}");
}

#[test]
fn a_disk_that_is_flushed_after_each_write_of_one_place_makes_one_a_turn() {
    let (disk, clock) = drive("hdd", ByteSize::gib(1));
    let times = 60;
    for _ in 0..=times {
        disk.write_at(1 << 29, &filled(8, 1)).unwrap();
        disk.sync().unwrap();
        // As long as a program takes for the next one.
        clock.advance(clock.now() + Duration::from_millis(1));
    }
    let turn = clock.elapsed().as_secs_f64() / f64::from(times);
    assert!((turn * 120.0 - 1.0).abs() < 0.03, "{turn} s");
}

#[test]
fn the_channels_of_a_solid_state_drive_work_beside_each_other_for_all_who_use_it() {
    let (drive, clock) = drive("ssd", ByteSize::gib(1));
    let settings = SsdSettings::default();
    let programs = |threads: u64| {
        clock.barrier();
        let begin = clock.elapsed();
        thread::scope(|scope| {
            for number in 0..threads {
                let drive = &drive;
                scope.spawn(move || drive.write_at(number << 20, &filled(8, 1)).unwrap());
            }
        });
        clock.elapsed().saturating_sub(begin)
    };
    let channels = settings.channels as u64;
    assert_eq!(programs(channels), settings.program);
    assert_eq!(programs(channels * 2), settings.program * 2);
    clock.barrier();
    let begin = clock.elapsed();
    drive.sync().unwrap();
    assert_eq!(clock.elapsed().saturating_sub(begin), settings.sync);
}
