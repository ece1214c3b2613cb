//! Logs that no program has written, with checksums that fit.

use std::sync::Arc;

use ishigaki_base::{Generation, LogId, Lsn, Position, StreamId, crc32c};
use ishigaki_device::{AlignedBuffer, Directory, MemoryDirectory, SECTOR};

use crate::format::{CHUNK_HEADER, ChunkHeader, Control, Kind, RECORD_HEADER, RecordHeader, segment_name};
use crate::{CommitRule, Error, Log, Result, Settings, Start, inspect};

const LOG: LogId = LogId(7);

/// A log with one record.
fn log_of(generation: Generation, lsn: Lsn) -> Arc<MemoryDirectory> {
    log_from(Start::default(), generation, lsn, 0)
}

/// A log with one record in a chunk of that sequence; with chunks before it that are gone with the first segment.
fn log_from(start: Start, generation: Generation, lsn: Lsn, sequence: u64) -> Arc<MemoryDirectory> {
    let directory = log_without_chunks(start, generation, Lsn(generation.0.min(2)));
    let segment = directory.create(&segment_name(StreamId(0), sequence.min(1)), 16 << 10).unwrap();
    segment.write_at(0, &chunk(Generation(1), sequence, 0, lsn)).unwrap();
    directory
}

fn log_without_chunks(start: Start, generation: Generation, base: Lsn) -> Arc<MemoryDirectory> {
    let directory = Arc::new(MemoryDirectory::new());
    let control = Control { log: LOG, generation, base, clean: None, start };
    crate::control::make(directory.as_ref(), &control).unwrap();
    directory
}

/// A chunk of one sector with one record, whose generation begins with the first LSN of that number.
fn chunk(generation: Generation, sequence: u64, batch: u8, lsn: Lsn) -> AlignedBuffer {
    let record = RecordHeader { lsn, kind: Kind::Payload, dependencies: 0, length: 0 }.encode();
    let (payload, payload_crc) = (RECORD_HEADER as u32, crc32c(&record));
    let header = ChunkHeader { payload, payload_crc, ..header(generation, sequence, batch) };
    let mut chunk = AlignedBuffer::zeroed(SECTOR);
    header.encode(&mut chunk);
    chunk[CHUNK_HEADER..CHUNK_HEADER + RECORD_HEADER].copy_from_slice(&record);
    chunk
}

/// Of a chunk without a payload.
fn header(generation: Generation, sequence: u64, batch: u8) -> ChunkHeader {
    ChunkHeader {
        block: SECTOR,
        rule: CommitRule::Dependencies,
        stream: StreamId(0),
        batch,
        log: LOG,
        generation,
        base: Lsn(generation.0),
        sequence,
        watermark: Lsn::ZERO,
        payload: 0,
        first_record: 0,
        payload_crc: 0,
    }
}

fn open(directory: &Arc<MemoryDirectory>) -> Result<Arc<Log>> {
    open_from(directory, Start::default())
}

fn open_from(directory: &Arc<MemoryDirectory>, start: Start) -> Result<Arc<Log>> {
    let settings = Settings { streams: 1, background: false, ..Settings::default() };
    Ok(Log::open_from(directory.clone(), settings, start, &mut |_, _| Ok(()))?.0)
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
    // Of chunks before those of a trimmed stream; those that come would have numbers that count as damage.
    let start = Start { generation: Generation(1), lsn: Lsn::FIRST };
    for sequence in [u64::MAX / 4, u64::MAX / 2] {
        let directory = log_from(start, Generation(1), Lsn::FIRST, sequence);
        assert_eq!(inspect(directory.as_ref()).unwrap().problem.map(|problem| problem.to_string()), None);
        let error = open(&directory).unwrap_err();
        assert!(error.to_string().contains("used up"), "{error}");
    }
}

/// Else what says so would be given free with the start behind it, and the log be refused from then on.
#[test]
fn what_contradicts_a_generations_first_lsn_is_refused() {
    let start = |generation, lsn| Start { generation: Generation(generation), lsn: Lsn(lsn) };
    // The chunk is of generation 2, which begins at 2.
    let log = |needed_from: Start, newest: u64, base: u64, lsn: u64| {
        let directory = log_without_chunks(needed_from, Generation(newest), Lsn(base));
        let segment = directory.create(&segment_name(StreamId(0), 0), 16 << 10).unwrap();
        segment.write_at(0, &chunk(Generation(2), 0, 0, Lsn(lsn))).unwrap();
        directory
    };
    let cases = [
        ("says that generation 2 begins at 2, and not at 1", log(start(2, 3), 2, 1, 2)),
        ("record 1 is older than its generation", log(start(2, 3), 2, 2, 1)),
        ("needed from 1 in generation 2, and that generation begins at 2", log(start(2, 1), 3, 9, 2)),
        ("needed from 1 in generation 2, and its generation 2 begins at 2", log(start(2, 1), 2, 2, 2)),
    ];
    for (why, directory) in cases {
        let refused = open(&directory).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let from = start(2, 1);
    assert!(matches!(open_from(&log(Start::default(), 2, 2, 2), from), Err(Error::Corrupt { .. })));
    open(&log(start(2, 3), 2, 2, 2)).unwrap().close().unwrap();
}

/// Else a trim would take the beginning of the batch away, and what was accepted be refused from then on.
#[test]
fn what_was_written_together_lies_in_one_segment_and_is_of_one_generation() {
    let log = |second: AlignedBuffer, segment: u64| {
        let directory = log_without_chunks(Start::default(), Generation(3), Lsn(3));
        let at = |segment, offset, chunk: &[u8]| {
            let device = directory.open(&segment_name(StreamId(0), segment)).unwrap();
            device.write_at(offset, chunk).unwrap();
        };
        for segment in 0..2 {
            directory.create(&segment_name(StreamId(0), segment), 16 << 10).unwrap();
        }
        at(0, 0, &chunk(Generation(1), 0, 0, Lsn(1)));
        at(segment, if segment == 0 { SECTOR as u64 } else { 0 }, &second);
        directory
    };
    let of = |generation, batch| chunk(Generation(generation), 1, batch, Lsn(2));
    let behind_the_first = Start { generation: Generation(1), lsn: Lsn(2) };
    for directory in [log(of(1, 1), 0), log(of(1, 0), 1), log(of(2, 0), 0), log(of(2, 0), 1)] {
        open_from(&directory, behind_the_first).unwrap().close().unwrap();
        open(&directory).unwrap().close().unwrap();
    }
    for directory in [log(of(1, 1), 1), log(of(2, 1), 0), log(of(2, 1), 1)] {
        let refused = open_from(&directory, behind_the_first).unwrap_err();
        assert!(refused.to_string().contains("written together"), "{refused}");
    }
}

/// All that such a stream still has is a batch that a power cut has torn; what was before it was trimmed.
#[test]
fn a_trimmed_stream_goes_on_where_the_first_batch_that_it_still_has_was_torn() {
    let start = Start { generation: Generation(1), lsn: Lsn(9) };
    // Records in which nothing is zero, so that no whole chunk looks torn.
    let torn = |sequence: u64, batch: u8| {
        let mut chunk = AlignedBuffer::zeroed(3 * SECTOR);
        let payload = (chunk.len() - CHUNK_HEADER) as u32;
        let header = ChunkHeader { payload, payload_crc: 1, ..header(Generation(1), sequence, batch) };
        header.encode(&mut chunk);
        chunk[CHUNK_HEADER..2 * SECTOR].fill(7);
        chunk
    };
    let log = |chunks: &[(u64, AlignedBuffer)]| {
        let directory = log_without_chunks(start, Generation(1), Lsn(1));
        let segment = directory.create(&segment_name(StreamId(0), 5), 64 << 10).unwrap();
        for (sector, chunk) in chunks {
            segment.write_at(sector * SECTOR as u64, chunk).unwrap();
        }
        directory
    };
    let whole = |sequence, batch| chunk(Generation(1), sequence, batch, Lsn(9));
    let cases =
        [vec![(0, torn(70, 0))], vec![(0, torn(70, 0)), (3, whole(71, 1))], vec![(3, whole(71, 1)), (4, torn(72, 2))]];
    for (nth, chunks) in cases.iter().enumerate() {
        let directory = log(chunks);
        assert!(inspect(directory.as_ref()).unwrap().problem.is_none(), "case {nth}");
        let log = open(&directory).unwrap();
        let stream = log.stream(StreamId(0)).unwrap();
        stream.wait(stream.append(b"more").unwrap()).unwrap();
        let segment = directory.open(&segment_name(StreamId(0), 5)).unwrap();
        let mut sector = AlignedBuffer::zeroed(SECTOR);
        segment.read_at(0, &mut sector).unwrap();
        assert_eq!(ChunkHeader::decode(&sector).unwrap().sequence, 70, "case {nth}");
    }
    // Another batch began behind these, so they were durable once.
    let cases = [
        vec![(0, torn(70, 0)), (3, whole(71, 0))],
        vec![(3, whole(71, 0))],
        vec![(3, whole(71, 1)), (4, whole(72, 0))],
    ];
    for (nth, chunks) in cases.iter().enumerate() {
        let refused = open(&log(chunks)).unwrap_err().to_string();
        assert!(refused.contains("chunk 70 is not there, but chunk 7"), "case {nth}: {refused}");
    }
}

#[test]
fn a_segment_without_a_sector_is_damage_and_nothing_worse() {
    let directory = log_of(Generation(1), Lsn(1));
    directory.create(&segment_name(StreamId(0), 1), 0).unwrap();
    let error = Log::open(directory, Settings::default(), &mut |_, _| Ok(())).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what, .. } if what.contains("shorter than a sector")), "{error}");
}
