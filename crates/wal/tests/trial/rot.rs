//! Bits that flip at rest, and which of them nobody may overlook.

use std::ops::Range;

use ishigaki_base::crc32c;
use ishigaki_device::{AlignedBuffer, Directory, SECTOR, SimDirectory};

/// Bytes of a chunk's header.
const HEADER: usize = 64;

/// The bytes of which every bit is checked and none can be made good, run by run, each in the device of that name: header and
/// payload of every chunk up to the end of its stream.
pub(crate) fn checked_bytes(directory: &dyn Directory) -> Vec<(String, Range<u64>)> {
    let mut runs = Vec::new();
    let is_segment = |name: &String| name.starts_with("wal-") && name.as_bytes()[4].is_ascii_digit();
    for name in directory.list().unwrap().into_iter().filter(is_segment) {
        let device = directory.open(&name).unwrap();
        let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
        device.read_at(0, &mut bytes).unwrap();
        let mut at = 0;
        while let Some((checked, padded)) = chunk(&bytes[at..]) {
            runs.push((name.clone(), at as u64..(at + checked) as u64));
            at += padded;
        }
    }
    runs
}

/// The length of the whole chunk at the beginning of these bytes, without its padding and with it.
fn chunk(bytes: &[u8]) -> Option<(usize, usize)> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let checked = HEADER + number(48)? as usize;
    let is_whole = bytes.starts_with(b"ISGK")
        && number(60)? == crc32c(&bytes[..HEADER - 4])
        && number(56)? == crc32c(bytes.get(HEADER..checked)?);
    is_whole.then(|| (checked, checked.next_multiple_of(1 << (bytes[5] & 0x7F))))
}

/// Flips a bit of a device, whatever it lies on.
pub(crate) fn flip_bit(directory: &dyn Directory, name: &str, offset: u64, bit: u8) {
    let device = directory.open(name).unwrap();
    let (sector, place) = (offset / SECTOR as u64 * SECTOR as u64, offset as usize % SECTOR);
    let mut bytes = AlignedBuffer::zeroed(SECTOR);
    device.read_at(sector, &mut bytes).unwrap();
    bytes[place] ^= 1 << bit;
    device.write_durable(sector, &bytes).unwrap();
}

/// Flips one of the bits in [`checked_bytes`], and says where.
pub(crate) fn flip_checked(
    directory: &dyn Directory,
    runs: &[(String, Range<u64>)],
    random: &mut fastrand::Rng,
) -> String {
    let mut place = random.u64(..runs.iter().map(|(_, run)| run.end - run.start).sum::<u64>());
    for (name, run) in runs {
        let length = run.end - run.start;
        if place < length {
            flip_bit(directory, name, run.start + place, random.u8(..8));
            return format!("{name} at {}", run.start + place);
        }
        place -= length;
    }
    unreachable!("it is in one of the runs")
}

/// Flips a bit of what was ever written, and says where.
pub(crate) fn flip_written(medium: &SimDirectory, random: &mut fastrand::Rng) -> String {
    let mut devices = medium.devices();
    devices.retain(|(name, _)| !medium.written(name).unwrap().is_empty());
    let (name, _) = &devices[random.usize(..devices.len())];
    let written = medium.written(name).unwrap();
    let offset = written[random.usize(..written.len())] + random.u64(..SECTOR as u64);
    medium.flip_bit(name, offset, random.u8(..8)).unwrap();
    format!("{name} at {offset}")
}
