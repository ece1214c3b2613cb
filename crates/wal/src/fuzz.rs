//! The door for `fuzz/`: the log's decoders, with what must hold whatever they are given.
//!
//! Compiled under `--cfg fuzzing` only.

use ishigaki_base::{Generation, LogId, Lsn, StreamId, crc32c};
use ishigaki_device::{MAX_BLOCK_SIZE, SECTOR};

use crate::format::{
    self, CONTROL_VERSION, ChunkHeader, Control, ControlCopy, Kind, MAX_CHUNK, NO_RECORD, RECORD_HEADER, RecordHeader,
};
use crate::{CommitRule, Start};

/// Bytes of a chunk's header.
pub const CHUNK_HEADER: usize = format::CHUNK_HEADER;

/// Bytes of the control block that are used.
pub const CONTROL_BYTES: usize = format::CONTROL_BYTES;

/// Decodes a chunk's header, as it is and with the checksum put right; says whether that was one.
///
/// # Panics
///
/// If a header that was accepted does not encode to the same bytes.
pub fn chunk(sector: &[u8]) -> bool {
    let _ = ChunkHeader::decode(sector);
    let mut sector = sector.to_vec();
    seal_chunk_header(&mut sector);
    let Ok(header) = ChunkHeader::decode(&sector) else { return false };
    let mut encoded = [0; CHUNK_HEADER];
    header.encode(&mut encoded);
    assert_eq!(encoded, sector[..CHUNK_HEADER]);
    assert!(header.length() as u64 <= MAX_CHUNK && header.length().is_multiple_of(header.block));
    true
}

/// Decodes a record's header; says whether that was one.
///
/// # Panics
///
/// If a header that was accepted does not encode to the same bytes.
pub fn record(header: &[u8]) -> bool {
    let Some(bytes) = header.first_chunk::<RECORD_HEADER>() else { return false };
    let Some(header) = RecordHeader::decode(bytes) else { return false };
    assert_eq!(header.encode(), *bytes);
    true
}

/// Decodes a control block, as it is and with the checksum put right; says whether that was one.
///
/// # Panics
///
/// If a block that was accepted does not read back after it was encoded.
pub fn control(sector: &[u8]) -> bool {
    let _ = ControlCopy::decode(sector);
    let mut sector = sector.to_vec();
    seal_control(&mut sector);
    let Ok(copy) = ControlCopy::decode(&sector) else { return false };
    let mut encoded = [0; SECTOR];
    copy.encode(&mut encoded);
    assert_eq!(ControlCopy::decode(&encoded).expect("just encoded"), copy);
    // The rest of the bytes is spare, or means something only after a clean close; the version before had no sequence.
    assert!(encoded[..4] == sector[..4] && encoded[5] == sector[5]);
    true
}

/// The copy that counts, of the device that holds the control block.
pub fn newest_control(device: &[u8]) -> [u8; CONTROL_BYTES] {
    let mut copies: Vec<_> = device.chunks(MAX_BLOCK_SIZE).filter_map(|block| block.first_chunk()).collect();
    copies.sort_by_key(|copy| ControlCopy::decode(&copy[..]).map_or(0, |copy| copy.sequence));
    copies.last().map_or([0; CONTROL_BYTES], |copy| **copy)
}

/// Puts right both checksums of a chunk.
pub fn seal_chunk(chunk: &mut [u8]) {
    if let Some((header, payload)) = chunk.split_at_mut_checked(CHUNK_HEADER) {
        header[56..60].copy_from_slice(&crc32c(payload).to_le_bytes());
        seal_chunk_header(header);
    }
}

fn seal_chunk_header(sector: &mut [u8]) {
    if let Some(header) = sector.get_mut(..CHUNK_HEADER) {
        let crc = crc32c(&header[..60]);
        header[60..64].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Puts right the checksum of a control block.
pub fn seal_control(sector: &mut [u8]) {
    let length = if sector.get(4) == Some(&CONTROL_VERSION) { CONTROL_BYTES } else { CONTROL_BYTES - 8 };
    if let Some(block) = sector.get_mut(..length) {
        let crc = crc32c(&block[..length - 4]);
        block[length - 4..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Headers of chunks.
pub fn chunks() -> Vec<Vec<u8>> {
    let header = |block, rule, payload, first_record| {
        let header = ChunkHeader {
            block,
            rule,
            stream: StreamId(3),
            batch: 1,
            log: LogId(9),
            generation: Generation(2),
            base: Lsn(40),
            sequence: 5,
            watermark: Lsn(41),
            payload,
            first_record,
            payload_crc: 0,
        };
        let mut sector = vec![0; CHUNK_HEADER];
        header.encode(&mut sector);
        sector
    };
    vec![
        header(512, CommitRule::Watermark, 1, NO_RECORD),
        header(4096, CommitRule::Dependencies, MAX_CHUNK as u32 - CHUNK_HEADER as u32, 0),
    ]
}

/// Headers of records.
pub fn records() -> Vec<Vec<u8>> {
    let header =
        |kind, dependencies, length| RecordHeader { lsn: Lsn(7), kind, dependencies, length }.encode().to_vec();
    vec![header(Kind::Payload, 3, 1 << 40), header(Kind::Filler, 0, 0)]
}

/// Control blocks.
pub fn controls() -> Vec<Vec<u8>> {
    let block = |clean| {
        let mut sector = vec![0; SECTOR];
        let start = Start { generation: Generation(2), lsn: Lsn(30) };
        let control = Control { log: LogId(9), generation: Generation(3), base: Lsn(40), clean, start };
        ControlCopy { sequence: 5, control }.encode(&mut sector);
        sector.truncate(CONTROL_BYTES);
        sector
    };
    vec![block(None), block(Some(Lsn(41)))]
}
