//! Logs that no program has written, with checksums that fit.

use std::sync::Arc;

use ishigaki_base::{Generation, LogId, Lsn, Position, StreamId, crc32c};
use ishigaki_device::{AlignedBuffer, Directory, MemoryDirectory, SECTOR};

use crate::format::{CHUNK_HEADER, CONTROL, ChunkHeader, Control, Kind, RECORD_HEADER, RecordHeader, segment_name};
use crate::{CommitRule, Error, Log, Result, Settings, Start, inspect};

/// A log with one record.
fn log_of(generation: Generation, lsn: Lsn) -> Arc<MemoryDirectory> {
    log_from(Start::default(), generation, lsn, 0)
}

/// A log with one record in a chunk of that sequence; with chunks before it that are gone with the first segment.
fn log_from(start: Start, generation: Generation, lsn: Lsn, sequence: u64) -> Arc<MemoryDirectory> {
    let directory = Arc::new(MemoryDirectory::new());
    let log = LogId(7);
    let mut control = AlignedBuffer::zeroed(4096);
    Control { log, generation, base: Lsn(2), clean: None, start }.encode(&mut control[..SECTOR]);
    directory.create(CONTROL, 4096).unwrap().write_at(0, &control).unwrap();

    let record = RecordHeader { lsn, kind: Kind::Payload, dependencies: 0, length: 0 }.encode();
    let header = ChunkHeader {
        block: SECTOR,
        rule: CommitRule::Dependencies,
        stream: StreamId(0),
        batch: 0,
        log,
        generation: Generation(1),
        base: Lsn::FIRST,
        sequence,
        watermark: Lsn::ZERO,
        payload: RECORD_HEADER as u32,
        first_record: 0,
        payload_crc: crc32c(&record),
    };
    let mut chunk = AlignedBuffer::zeroed(SECTOR);
    header.encode(&mut chunk);
    chunk[CHUNK_HEADER..CHUNK_HEADER + RECORD_HEADER].copy_from_slice(&record);
    let name = segment_name(StreamId(0), sequence.min(1));
    let segment = directory.create(&name, 16 << 10).unwrap();
    segment.write_at(0, &chunk).unwrap();
    directory
}

fn open(directory: &Arc<MemoryDirectory>) -> Result<Arc<Log>> {
    let settings = Settings { streams: 1, background: false, ..Settings::default() };
    Ok(Log::open(directory.clone(), settings, &mut |_, _| Ok(()))?.0)
}

#[test]
fn a_record_beyond_the_last_lsn_is_damage() {
    for lsn in [Position::MAX_LSN.next(), Lsn::MAX] {
        let directory = log_of(Generation(1), lsn);
        let problem = inspect(directory.as_ref()).unwrap().problem;
        assert!(matches!(problem, Some(Error::Corrupt { .. })), "{problem:?}");
        assert!(matches!(open(&directory), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn a_trimmed_stream_does_not_begin_beyond_all_chunks() {
    let start = Start { generation: Generation(1), lsn: Lsn::FIRST };
    assert!(open(&log_from(start, Generation(1), Lsn::FIRST, 1 << 40)).is_ok());
    let directory = log_from(start, Generation(1), Lsn::FIRST, u64::MAX);
    assert!(matches!(open(&directory), Err(Error::Corrupt { .. })));
}

#[test]
fn a_log_that_has_used_up_its_numbers_is_refused() {
    assert!(open(&log_of(Generation(1), Lsn::FIRST)).is_ok());
    for (generation, lsn) in [(Generation(1), Position::MAX_LSN), (Generation::MAX, Lsn::FIRST)] {
        let error = open(&log_of(generation, lsn)).unwrap_err();
        assert!(error.to_string().contains("used up"), "{error}");
    }
}
