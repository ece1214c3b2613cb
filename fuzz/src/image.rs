//! A log on a medium, written down in few bytes.
//!
//! Segments are mostly zeros, too long for a fuzzer to change anything that matters. A *script* has the control block and
//! then, piece by piece, what is appended to the streams:
//!
//! ```text
//! flags (1)  control block (68)  piece  piece  …
//!
//! piece:  op (1)  stream (1), then by the lower two bits of op
//!    0    chunk: header (64), payload (as many bytes as the header says, or as there are);
//!         with TORN: the number of a sector (1) from which on nothing was written
//!    1    segment: its length (1) is 512 bytes shifted by that; of the first one its number (1), as a trimmed log has it
//!    2    patch: segment (1), offset (2), number of bytes (1), bytes that are put there at last
//!    3    gap: sectors (1) left out
//! ```
//!
//! Checksums are put right, unless a flag says not to.

use std::sync::Arc;

use ishigaki_device::{AlignedBuffer, Directory, MemoryDirectory, SECTOR};
use ishigaki_wal::fuzz::{CHUNK_HEADER, CONTROL_BYTES, newest_control, seal_chunk, seal_control};

use crate::input::Input;

/// In the flags: the control block keeps the checksum that it has.
const CONTROL_AS_IT_IS: u8 = 1;

const CHUNK: u8 = 0;
const SEGMENT: u8 = 1;
const PATCH: u8 = 2;

/// In a chunk's op: it keeps the checksums that it has.
const AS_IT_IS: u8 = 0x10;
/// In a chunk's op: its last sectors are missing.
const TORN: u8 = 0x20;

/// The most streams and segments that a script makes, and bytes of a chunk.
const STREAMS: u8 = 4;
const SEGMENTS: usize = 16;
const LONGEST: usize = 32 << 10;

/// 16 KiB.
const USUAL_LENGTH: u8 = 5;

const CONTROL: &str = "wal-control";

#[derive(Default)]
struct Stream {
    /// The number of the first segment.
    first: u8,
    segments: Vec<Vec<u8>>,
    /// Where in the last of them the next piece goes.
    offset: usize,
}

/// Makes the medium of a script.
pub fn build(script: &[u8]) -> Arc<MemoryDirectory> {
    let mut input = Input(script);
    let flags = input.byte();
    // The second copy is blank.
    let mut control = vec![0; 8192];
    control[..CONTROL_BYTES].copy_from_slice(&input.array::<CONTROL_BYTES>());
    if flags & CONTROL_AS_IT_IS == 0 {
        seal_control(&mut control);
    }
    let mut streams: [Stream; STREAMS as usize] = Default::default();
    let mut patches = Vec::new();
    while !input.is_empty() {
        let op = input.byte();
        let number = usize::from(input.byte() % STREAMS);
        let stream = &mut streams[number];
        match op & 3 {
            CHUNK => stream.chunk(op, &mut input),
            SEGMENT => {
                let length = input.byte();
                if stream.segments.is_empty() {
                    stream.first = input.byte();
                }
                stream.segment(length);
            }
            PATCH => {
                let (segment, offset, length) = (input.byte(), input.short(), input.byte());
                patches.push((number, usize::from(segment), usize::from(offset), input.run(length.into())));
            }
            _ => stream.offset += usize::from(input.byte()) * SECTOR,
        }
    }
    for (stream, segment, offset, bytes) in patches {
        if let Some(segment) = streams[stream].segments.get_mut(segment) {
            put(segment, offset, bytes);
        }
    }
    let directory = Arc::new(MemoryDirectory::new());
    store(&directory, CONTROL, &control);
    for (number, stream) in streams.iter().enumerate() {
        for (index, segment) in stream.segments.iter().enumerate() {
            let index = usize::from(stream.first) + index;
            store(&directory, &format!("wal-{number:03}-{index:08}"), segment);
        }
    }
    directory
}

impl Stream {
    fn segment(&mut self, length: u8) {
        if self.segments.len() < SEGMENTS {
            self.segments.push(vec![0; SECTOR << (length % 8)]);
            self.offset = 0;
        }
    }

    fn chunk(&mut self, op: u8, input: &mut Input<'_>) {
        let header = input.array::<CHUNK_HEADER>();
        let length = u32::from_le_bytes([header[48], header[49], header[50], header[51]]) as usize;
        let mut chunk = vec![0; CHUNK_HEADER + length.min(LONGEST)];
        chunk[..CHUNK_HEADER].copy_from_slice(&header);
        let torn = if op & TORN == 0 { usize::MAX } else { usize::from(input.byte()) * SECTOR };
        let payload = input.run(chunk.len() - CHUNK_HEADER);
        put(&mut chunk, CHUNK_HEADER, payload);
        if op & AS_IT_IS == 0 {
            seal_chunk(&mut chunk);
        }
        if self.segments.is_empty() {
            self.segment(USUAL_LENGTH);
        }
        let last = self.segments.last_mut().expect("there is one now");
        put(last, self.offset, &chunk[..torn.min(chunk.len())]);
        self.offset += chunk.len().next_multiple_of(block_of(&header));
    }
}

/// Writes a log that is on a medium down as a script. Only what recovery would read: nothing behind a blank sector.
pub fn script_of(directory: &dyn Directory) -> Vec<u8> {
    let mut script = vec![0];
    script.extend_from_slice(&newest_control(&load(directory, CONTROL)));
    let mut last = None;
    for name in directory.list().expect("memory can be listed") {
        let Some((stream, index)) = name.strip_prefix("wal-").and_then(|rest| rest.split_once('-')) else { continue };
        // Spare segments hold nothing.
        let (Ok(stream), Ok(index)) = (stream.parse::<u8>(), index.parse::<u8>()) else { continue };
        let segment = load(directory, &name);
        script.extend_from_slice(&[SEGMENT, stream, (segment.len() / SECTOR).trailing_zeros() as u8]);
        if last.replace(stream) != Some(stream) {
            script.push(index);
        }
        let mut offset = 0;
        while let Some(header) = segment.get(offset..offset + CHUNK_HEADER)
            && header.iter().any(|&byte| byte != 0)
        {
            let length = u32::from_le_bytes([header[48], header[49], header[50], header[51]]) as usize;
            script.extend_from_slice(&[CHUNK, stream]);
            script.extend_from_slice(&segment[offset..offset + CHUNK_HEADER + length]);
            offset += (CHUNK_HEADER + length).next_multiple_of(block_of(header));
        }
    }
    script
}

/// To how many bytes a chunk is padded.
fn block_of(header: &[u8]) -> usize {
    1 << (header[5] & 0x7f).clamp(9, 12)
}

/// Puts bytes to their place, as far as there is one.
fn put(to: &mut [u8], offset: usize, bytes: &[u8]) {
    if let Some(place) = to.get_mut(offset..) {
        let length = bytes.len().min(place.len());
        place[..length].copy_from_slice(&bytes[..length]);
    }
}

/// Makes a device with those bytes.
pub fn store(directory: &MemoryDirectory, name: &str, bytes: &[u8]) {
    let device = directory.create(name, bytes.len() as u64).expect("there is memory, and no such name yet");
    let mut buffer = AlignedBuffer::zeroed(device.len() as usize);
    buffer[..bytes.len()].copy_from_slice(bytes);
    device.write_at(0, &buffer).expect("whole blocks within the device");
}

/// All bytes of a device.
pub fn load(directory: &dyn Directory, name: &str) -> Vec<u8> {
    let device = directory.open(name).expect("it was listed");
    let mut buffer = AlignedBuffer::zeroed(device.len() as usize);
    device.read_at(0, &mut buffer).expect("whole blocks within the device");
    buffer.to_vec()
}
