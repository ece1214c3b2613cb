//! The bytes of the log: chunks, records, the control block and file names. `docs/format/wal.md` has the pictures.
//!
//! A stream is a row of segments; a segment is a row of chunks; the payloads of a stream's chunks, joined, are a row of
//! records. Everything is little-endian. What a reader does not know it refuses.

mod chunk;
mod control;
mod record;

pub(crate) use chunk::{CHUNK_HEADER, ChunkHeader, NO_RECORD, Unfit};
#[cfg(any(test, fuzzing))]
pub(crate) use control::CONTROL_BYTES;
#[cfg(fuzzing)]
pub(crate) use control::CONTROL_VERSION;
pub(crate) use control::{Control, ControlCopy, OLD_VERSION};
pub(crate) use record::{Kind, LONGEST_RECORD, MAX_DEPENDENCIES, RECORD_HEADER, RecordHeader};

use ishigaki_base::{Position, StreamId};

/// Version of chunks and records; the control block has its own. A log of another version is refused.
pub(crate) const VERSION: u8 = 2;

/// The most bytes of one chunk, header and padding included; in a small segment a quarter of it.
pub(crate) const MAX_CHUNK: u64 = 1 << 20;

/// The most chunks that are written together, none before another is durable.
pub(crate) const MAX_BATCH: usize = 8;

/// The fewest bytes of a segment.
pub(crate) const MIN_SEGMENT: u64 = 16 << 10;

/// The name of the control block's device.
pub(crate) const CONTROL: &str = "wal-control";

/// The most bytes of one chunk in a segment of that length.
pub(crate) fn longest_chunk(segment_length: u64) -> u64 {
    MAX_CHUNK.min(segment_length / 4)
}

/// The name of the device that holds a stream's segment.
pub(crate) fn segment_name(stream: StreamId, index: u64) -> String {
    format!("wal-{:03}-{index:08}", stream.0)
}

/// What [`segment_name`] made a name of; `None` for any other name.
pub(crate) fn parse_segment_name(name: &str) -> Option<(StreamId, u64)> {
    let (stream, index) = name.strip_prefix("wal-")?.split_once('-')?;
    let parsed = (StreamId(stream.parse().ok()?), index.parse().ok()?);
    (segment_name(parsed.0, parsed.1) == name && parsed.0.0 < Position::MAX_STREAMS).then_some(parsed)
}

/// The name of a segment that belongs to no stream.
pub(crate) fn spare_name(number: u64) -> String {
    format!("wal-spare-{number:08}")
}

/// What [`spare_name`] made a name of; `None` for any other name.
pub(crate) fn parse_spare_name(name: &str) -> Option<u64> {
    let number = name.strip_prefix("wal-spare-")?.parse().ok()?;
    (spare_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_name_reads_back_and_others_do_not() {
        let name = segment_name(StreamId(7), 123);
        assert_eq!(name, "wal-007-00000123");
        assert_eq!(parse_segment_name(&name), Some((StreamId(7), 123)));
        for other in [
            "wal-control",
            "wal-7-123",
            "wal-007-",
            "catalog",
            "wal-999999-00000000",
            "wal-256-00000000",
            "wal-spare-00000001",
        ] {
            assert_eq!(parse_segment_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_spare_name_reads_back_and_others_do_not() {
        for number in [0, 123, 123_456_789_012] {
            assert_eq!(parse_spare_name(&spare_name(number)), Some(number));
        }
        for other in ["wal-spare-1", "wal-spare-", "wal-000-00000001", "spare-00000001"] {
            assert_eq!(parse_spare_name(other), None, "{other}");
        }
    }
}
