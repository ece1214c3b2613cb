//! The directory on one raw device: both copies of its table, and the regions that they name.
//!
//! An input has flags (bits 0 and 1: that copy keeps the checksum that it has), the length of the first copy in units of 128
//! bytes, and the two copies. A directory that was opened has regions that do not overlap, and can be changed, synced and
//! opened again.

#![no_main]

use std::sync::Arc;

use ishigaki_device::{AlignedBuffer, Device, Directory, Error, MemoryDirectory, RawDirectory, SECTOR, fuzz};
use ishigaki_fuzz::input::Input;
use ishigaki_fuzz::seeds::plant;
use libfuzzer_sys::fuzz_target;

/// The table's two copies with some space behind.
const DEVICE: u64 = 640 << 10;
const UNIT: usize = 128;

fn accepts(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (flags, units) = (input.byte(), input.byte());
    let first = input.run((usize::from(units % 16) + 1) * UNIT);
    let device = MemoryDirectory::new().create("disk", DEVICE).expect("there is memory");
    for (copy, bytes) in [first, input.0].into_iter().enumerate() {
        let length = bytes.len().next_multiple_of(SECTOR).clamp(SECTOR, 64 << 10);
        let mut buffer = AlignedBuffer::zeroed(length);
        let bytes = &bytes[..bytes.len().min(length)];
        buffer[..bytes.len()].copy_from_slice(bytes);
        if flags & 1 << copy == 0 && !bytes.is_empty() {
            fuzz::seal_table(&mut buffer);
        }
        fuzz::table(&buffer);
        device.write_at(copy as u64 * fuzz::COPY, &buffer).expect("whole blocks within the device");
    }
    let Ok(directory) = RawDirectory::open(Arc::clone(&device)) else { return false };
    let names = directory.list().expect("opened");
    // A region of an odd length comes from a medium with smaller blocks; whoever opens it is told.
    let regions: Vec<_> = names.iter().filter_map(|name| directory.open(name).ok()).collect();
    for (number, region) in regions.iter().enumerate() {
        mark(region.as_ref(), number as u8);
    }
    for (number, region) in regions.iter().enumerate() {
        check(region.as_ref(), number as u8);
    }
    if let Some(name) = names.first() {
        directory.remove(name).expect("it was listed");
    }
    drop(regions);
    let created = directory.create("one-more", 4096).is_ok();
    if let Err(error) = directory.sync() {
        assert!(matches!(error, Error::Invalid { .. }), "memory never fails: {error}");
        return true;
    }
    let expected = directory.list().expect("opened");
    assert!(!created || expected.iter().any(|name| name == "one-more"));
    drop(directory);
    let again = RawDirectory::open(device).expect("it was synced");
    assert_eq!(again.list().expect("opened"), expected);
    true
}

/// The offsets of a region's first and last block.
fn ends(region: &dyn Device) -> impl Iterator<Item = u64> {
    let last = region.len().checked_sub(SECTOR as u64);
    last.into_iter().flat_map(|last| [0, last])
}

fn mark(region: &dyn Device, number: u8) {
    let mut block = AlignedBuffer::zeroed(SECTOR);
    block.fill(number);
    ends(region).for_each(|offset| region.write_at(offset, &block).expect("within the region"));
}

fn check(region: &dyn Device, number: u8) {
    let mut block = AlignedBuffer::zeroed(SECTOR);
    for offset in ends(region) {
        region.read_at(offset, &mut block).expect("within the region");
        assert!(block.iter().all(|&byte| byte == number), "two regions overlap");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let input = |first: &[u8], second: &[u8]| [&[0, (first.len() / UNIT) as u8 - 1], first, second].concat();
    let [empty, one, four] = [0, 1, 4].map(|regions| fuzz::encode_table(regions, DEVICE));
    vec![input(&empty, &[]), input(&one, &empty), input(&one, &four), input(&four, &four)]
}

fuzz_target!(init: plant(&seeds(), accepts), |bytes: &[u8]| {
    accepts(bytes);
});
