//! Logs that no program has written, with checksums that fit.

use std::sync::Arc;

use ishigaki_base::{Generation, LogId, Lsn, Position, StreamId, crc32c};
use ishigaki_device::{AlignedBuffer, Directory, MemoryDirectory, SECTOR};

use crate::format::{CHUNK_HEADER, CONTROL, ChunkHeader, Control, Kind, RECORD_HEADER, RecordHeader, segment_name};
use crate::{CommitRule, Error, Log, Result, Settings, inspect};

/// A log with one record.
fn log_of(generation: Generation, lsn: Lsn) -> Arc<MemoryDirectory> {
    let directory = Arc::new(MemoryDirectory::new());
    let log = LogId(7);
    let mut control = AlignedBuffer::zeroed(4096);
    Control { log, generation, base: Lsn(2), clean: None }.encode(&mut control[..SECTOR]);
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
        sequence: 0,
        watermark: Lsn::ZERO,
        payload: RECORD_HEADER as u32,
        first_record: 0,
        payload_crc: crc32c(&record),
    };
    let mut chunk = AlignedBuffer::zeroed(SECTOR);
    header.encode(&mut chunk);
    chunk[CHUNK_HEADER..CHUNK_HEADER + RECORD_HEADER].copy_from_slice(&record);
    let segment = directory.create(&segment_name(StreamId(0), 0), 16 << 10).unwrap();
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
fn a_log_that_has_used_up_its_numbers_is_refused() {
    assert!(open(&log_of(Generation(1), Lsn::FIRST)).is_ok());
    for (generation, lsn) in [(Generation(1), Position::MAX_LSN), (Generation::MAX, Lsn::FIRST)] {
        let error = open(&log_of(generation, lsn)).unwrap_err();
        assert!(error.to_string().contains("used up"), "{error}");
    }
}
