//! Bytes that lie, and settings at their limits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind, crc32c};
use ishigaki_device::{
    AlignedBuffer, Directory, MemoryDirectory, MemorySettings, RawDirectory, SimDirectory, SimSettings,
};
use ishigaki_testkit::seeded;
use ishigaki_wal::{Group, Settings, inspect};

use super::trial::{Medium, flip_bit};
use super::watched::*;
use super::workbench::*;

#[test]
fn a_flipped_bit_in_a_chunk_that_others_follow_is_damage_not_the_end() {
    for medium in Medium::ALL {
        let directory = medium.fresh(Seed(1));
        let open = |directory: &SimDirectory| {
            let settings = Settings { segment: ByteSize::mib(1), ..quiet(1) };
            open(medium.directory(directory)?, settings)
        };
        let (log, ..) = open(&directory).unwrap();
        let mut payload = vec![0; 2000]; // has sectors of zeros
        payload[..100].fill(1);
        for _ in 0..5 {
            commit(&log.assign(), &payload);
        }
        let next = directory.process_crash();
        drop(log);
        flip_bit(medium.directory(&next).unwrap().as_ref(), "wal-000-00000000", 100, 0);
        let opened = open(&next).map(|(_, recovery, _)| recovery.records);
        let error = opened.expect_err("five records were acknowledged and can not be shown");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{medium:?}: {error}");
    }
}

#[test]
fn the_padding_of_a_damaged_chunk_does_not_make_it_a_torn_one() {
    let settings = SimSettings { block_size: 4096, ..SimSettings::default() };
    let directory = SimDirectory::new(settings);
    let (log, ..) = open(Arc::new(directory.clone()), quiet(1)).unwrap();
    commit(&log.assign(), &[1; 1000]);
    let next = directory.process_crash();
    drop(log);
    next.flip_bit("wal-000-00000000", 100, 0).unwrap();
    let opened = open(Arc::new(next), quiet(1)).map(|(_, recovery, _)| recovery.records);
    let error = opened.expect_err("an acknowledged record can not be shown");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

fn copy(directory: &MemoryDirectory) -> MemoryDirectory {
    let twin = MemoryDirectory::new();
    for name in directory.list().unwrap() {
        let device = directory.open(&name).unwrap();
        let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
        device.read_at(0, &mut bytes).unwrap();
        twin.create(&name, device.len()).unwrap().write_at(0, &bytes).unwrap();
    }
    twin
}

fn any_number(random: &mut fastrand::Rng) -> u64 {
    match random.u8(0..6) {
        0 => u64::MAX - random.u64(..3),
        1 => random.u64(..3),
        2 => 1 << random.u8(..64),
        3 => u64::from(u32::MAX) - random.u64(..100),
        4 => random.u64(..40),
        _ => random.u64(..),
    }
}

/// Changes something in a sector of the log and makes its checksums fit.
fn forge(sector: &mut [u8], random: &mut fastrand::Rng) {
    if sector.starts_with(b"ISGC") {
        let at = *random.choice(&[8, 16, 24, 32]).unwrap();
        sector[at..at + 8].copy_from_slice(&any_number(random).to_le_bytes());
        sector[5] = random.u8(..3);
        let crc = crc32c(&sector[..52]);
        sector[52..56].copy_from_slice(&crc.to_le_bytes());
        return;
    }
    let number = any_number(random).to_le_bytes();
    match random.u8(0..9) {
        0 => sector[5] = random.u8(..),
        1 => sector[16..24].copy_from_slice(&number),
        2 => sector[24..32].copy_from_slice(&number),
        3 => sector[32..40].copy_from_slice(&number),
        4 => sector[40..48].copy_from_slice(&number),
        5 => sector[48..52].copy_from_slice(&number[..4]),
        6 => sector[52..56].copy_from_slice(&number[..4]),
        7 => sector[64..72].copy_from_slice(&number),
        _ => sector[72..80].copy_from_slice(&((any_number(random) & ((1 << 48) - 1)) | 1 << 48).to_le_bytes()),
    }
    let length = u32::from_le_bytes(sector[48..52].try_into().unwrap()) as usize;
    if let Some(payload) = sector.get(64..64 + length) {
        let crc = crc32c(payload);
        sector[56..60].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c(&sector[..60]);
    sector[60..64].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn forged_bytes_are_refused_without_a_panic() {
    let original = MemoryDirectory::new();
    for _ in 0..2 {
        let (log, ..) = open(Arc::new(original.clone()), quiet(2)).unwrap();
        for number in 0..4 {
            commit(&log.assign(), &vec![number; 20 + usize::from(number) * 300]);
        }
    }
    seeded("forged_bytes_are_refused_without_a_panic", |seed| {
        for round in 0..3000 {
            let mut random = seed.derive(round).generator();
            let forged = copy(&original);
            for _ in 0..random.u8(1..3) {
                let names = forged.list().unwrap();
                let device = forged.open(&names[random.usize(..names.len())]).unwrap();
                let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
                device.read_at(0, &mut bytes).unwrap();
                let headers: Vec<usize> =
                    (0..bytes.len()).step_by(512).filter(|&at| bytes[at..].starts_with(b"ISG")).collect();
                let at = headers[random.usize(..headers.len())];
                forge(&mut bytes[at..at + 512], &mut random);
                device.write_at(0, &bytes).unwrap();
            }
            let _ = inspect(&forged);
            if let Ok((log, ..)) = open(Arc::new(forged.clone()), quiet(2)) {
                commit(&log.assign(), b"goes on");
                drop(log);
                open(Arc::new(forged), quiet(2)).expect("what was opened once is opened again");
            }
        }
    });
}

#[test]
fn a_group_without_a_cap_on_its_bytes_is_possible_or_refused() {
    let group = Group { bytes: ByteSize(u64::MAX), ..Group::default() };
    match open(Arc::new(MemoryDirectory::new()), Settings { group, ..quiet(1) }) {
        Ok((log, ..)) => {
            let stream = log.assign();
            commit(&stream, b"fits");
            stream.append(b"paced").unwrap();
            stream.pace();
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{error}"),
    }
}

#[test]
fn a_draw_of_more_room_than_there_can_be_is_an_error() {
    let settings = MemorySettings { capacity: Some(ByteSize::mib(1)), ..MemorySettings::default() };
    let directory = Arc::new(MemoryDirectory::with(settings));
    let (log, ..) = open(directory, quiet(1)).unwrap();
    let stream = log.assign();
    assert!(stream.draw(usize::MAX).is_err());
    assert!(log.failure().is_none());
}

#[test]
fn opening_a_long_log_does_not_hold_all_of_its_segments_open() {
    let inner = Arc::new(MemoryDirectory::new());
    let (log, ..) = open(inner.clone(), quiet(1)).unwrap();
    for _ in 0..20 {
        commit(&log.assign(), &vec![1; 50_000]);
    }
    log.close().unwrap();
    drop(log);
    let segments = inner.list().unwrap().len() - 1;
    let watched = Watched::with_blocks(inner, 512);
    open(Arc::new(watched.clone()), quiet(1)).unwrap();
    let most = watched.handles.most.load(Ordering::SeqCst);
    assert!(most < segments / 2, "{most} devices were open at a time; there are {segments} segments");
}

#[test]
fn a_full_medium_loses_nothing_and_can_be_reopened_wherever_it_filled_up() {
    for kib in (4..160).step_by(12) {
        let settings = MemorySettings { capacity: Some(ByteSize::kib(kib)), ..MemorySettings::default() };
        fill_up(&(Arc::new(MemoryDirectory::with(settings)) as _), kib);
        // A raw device has its tables of names beside it, and is no shorter than this.
        let device = MemoryDirectory::new().create("disk", (512 + 64 + kib) << 10).unwrap();
        fill_up(&(Arc::new(RawDirectory::format(device).unwrap()) as _), kib);
    }
}

/// Three lives of a log on a medium of so many KiB, each until it is full.
fn fill_up(directory: &Arc<dyn Directory>, kib: u64) {
    let mut acknowledged = 0;
    for round in 0..3 {
        let (log, recovery, _) = match open(directory.clone(), quiet(2)) {
            Ok(opened) => opened,
            Err(error) => {
                assert!(acknowledged == 0, "{error} in round {round} of {kib} KiB");
                assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
                continue;
            }
        };
        assert_eq!(recovery.records, acknowledged);
        let mut refused = 0;
        while refused < 4 {
            let stream = log.assign();
            match stream.append(&[9; 1500]) {
                Ok(lsn) => stream.wait(lsn).map(|()| acknowledged += 1).unwrap(),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
                    refused += 1;
                }
            }
        }
        if round == 0 { log.close().unwrap() } else { drop(log) }
    }
}
