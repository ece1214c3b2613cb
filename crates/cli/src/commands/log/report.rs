//! The report of a log, for people and for programs.

use std::fmt::Write;

use ishigaki_base::{ByteSize, Lsn};
use ishigaki_wal::{GenerationReport, Inspection, Start, StreamReport};
use serde_json::{Value, json};

use crate::human::{Count, counted};

/// A few lines for the whole, then a few for each stream.
pub(super) fn text(log: &Inspection) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = summary(&mut text, log);
    for stream in &log.streams {
        let _ = stream_text(&mut text, stream);
    }
    text
}

fn summary(text: &mut String, log: &Inspection) -> std::fmt::Result {
    writeln!(text, "log         {}", log.log)?;
    writeln!(text, "generation  {}, which begins at LSN {}", log.generation, log.base)?;
    match log.clean {
        Some(last) => writeln!(text, "state       closed cleanly at LSN {last}")?,
        None => writeln!(text, "state       open, or not closed cleanly; opening it recovers")?,
    }
    if log.start > Start::default() {
        writeln!(text, "trimmed     to LSN {}; what lies before is in a checkpoint", log.start)?;
    }
    if log.spares > 0 {
        writeln!(text, "spare       {} to be used again", counted(log.spares as u64, "segment"))?;
    }
    writeln!(text, "records     {} up to LSN {}", Count(log.records), log.cut)?;
    writeln!(text, "dropped     {} behind a gap, never acknowledged", Count(log.dropped))?;
    writeln!(text, "watermark   LSN {} at least: everything up to there was durable", log.watermark)?;
    match &log.problem {
        Some(problem) => writeln!(text, "problem     {problem}"),
        None => writeln!(text, "problem     none"),
    }
}

fn stream_text(text: &mut String, stream: &StreamReport) -> std::fmt::Result {
    let size = |bytes| ByteSize(bytes).display().iec();
    writeln!(text)?;
    writeln!(
        text,
        "stream {}: {} in {} ({})",
        stream.stream,
        size(stream.bytes),
        counted(stream.segments as u64, "segment"),
        size(stream.capacity)
    )?;
    if stream.generations.is_empty() {
        writeln!(text, "  no chunks")?;
    }
    for generation in &stream.generations {
        let lsns = match generation.lsns {
            Some((first, last)) => format!("LSN {first} to {last}"),
            None => "no complete record".to_owned(),
        };
        let (chunks, records) = (counted(generation.chunks, "chunk"), counted(generation.records, "record"));
        writeln!(text, "  generation {:>3}: {chunks}, {records}, {lsns}", generation.generation)?;
    }
    writeln!(text, "  stops in segment {} at byte {}: {}", stream.end_segment, stream.end_offset, stream.end_reason)
}

/// The same as one JSON object on one line.
pub(super) fn json(log: &Inspection) -> String {
    let object = json!({
        "log": log.log.to_string(),
        "generation": log.generation.0,
        "base": log.base.0,
        "clean": log.clean.map(|lsn| lsn.0),
        "start": {"generation": log.start.generation.0, "lsn": log.start.lsn.0},
        "spares": log.spares,
        "records": log.records,
        "dropped": log.dropped,
        "cut": log.cut.0,
        "watermark": log.watermark.0,
        "problem": log.problem.as_ref().map(ToString::to_string),
        "streams": log.streams.iter().map(stream_json).collect::<Vec<_>>(),
    });
    format!("{object}\n")
}

fn stream_json(stream: &StreamReport) -> Value {
    json!({
        "stream": stream.stream.0,
        "segments": stream.segments,
        "capacity": stream.capacity,
        "bytes": stream.bytes,
        "generations": stream.generations.iter().map(generation_json).collect::<Vec<_>>(),
        "end": {"segment": stream.end_segment, "offset": stream.end_offset, "reason": stream.end_reason},
    })
}

fn generation_json(generation: &GenerationReport) -> Value {
    let number = |lsn: Lsn| lsn.0;
    json!({
        "generation": generation.generation.0,
        "base": generation.base.0,
        "chunks": generation.chunks,
        "records": generation.records,
        "first": generation.lsns.map(|(first, _)| number(first)),
        "last": generation.lsns.map(|(_, last)| number(last)),
    })
}

#[cfg(test)]
mod tests {
    use ishigaki_base::{Generation, LogId, StreamId};

    use super::*;

    fn log() -> Inspection {
        let generation = GenerationReport {
            generation: Generation(1),
            base: Lsn(1),
            chunks: 2,
            records: 1_000,
            lsns: Some((Lsn(1), Lsn(1_999))),
        };
        let stream = StreamReport {
            stream: StreamId(0),
            segments: 1,
            capacity: 16 << 20,
            bytes: 8192,
            generations: vec![generation],
            end_segment: 0,
            end_offset: 12_288,
            end_reason: "nothing was written behind".into(),
        };
        Inspection {
            log: LogId(7),
            generation: Generation(1),
            base: Lsn(1),
            clean: None,
            start: Start { generation: Generation(1), lsn: Lsn(9) },
            spares: 2,
            streams: vec![stream],
            records: 1_990,
            dropped: 3,
            cut: Lsn(1_999),
            watermark: Lsn(1_998),
            problem: None,
        }
    }

    #[test]
    fn the_text_tells_where_the_log_stops_and_why() {
        let text = text(&log());
        assert!(text.contains("records     1,990 up to LSN 1999"), "{text}");
        assert!(text.contains("trimmed     to LSN 9 in generation 1"), "{text}");
        assert!(text.contains("spare       2 segments"), "{text}");
        assert!(text.contains("stream 0: 8.0 KiB in 1 segment (16.0 MiB)"), "{text}");
        assert!(text.contains("generation   1: 2 chunks, 1,000 records, LSN 1 to 1999"), "{text}");
        assert!(text.contains("stops in segment 0 at byte 12288: nothing was written behind"), "{text}");
    }

    #[test]
    fn the_json_is_one_line_with_the_same_facts() {
        let text = json(&log());
        assert_eq!(text.lines().count(), 1);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["streams"][0]["generations"][0]["last"], 1_999);
        assert_eq!((&value["watermark"], &value["start"]["lsn"]), (&1_998.into(), &9.into()));
        assert_eq!(value["clean"], Value::Null);
    }
}
