use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ishigaki_base::{ByteSize, Generation, Position};
use ishigaki_device::{AlignedBuffer, MemoryDirectory, SimDirectory, SimSettings};
use parking_lot::Mutex;

use super::*;
use crate::{CommitRule, Dependencies, Log, Settings};

fn settings(commit: CommitRule) -> Settings {
    let (segment, space) = (ByteSize::kib(32), ByteSize::mib(64));
    Settings { streams: 3, segment, space, commit, background: false, ..Settings::default() }
}

fn directory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

type Records = BTreeMap<Lsn, Vec<u8>>;

fn reopened(directory: Arc<dyn Directory>, commit: CommitRule) -> Records {
    let mut records = Records::new();
    Log::open(directory, settings(commit), &mut |position, payload| {
        records.insert(position.lsn(), payload.to_vec());
        Ok(())
    })
    .expect("a copy opens");
    records
}

/// Threads append while the log is trimmed and copied. Each acknowledged record that was not trimmed away is in every later
/// copy, and nothing else.
fn copies_of_a_log_in_use(commit: CommitRule) {
    let from = directory();
    let (log, _) = Log::open(from.clone(), settings(commit), &mut |_, _| Ok(())).expect("new");
    let (done, known, trimmed) = (AtomicBool::new(false), Mutex::new(Records::new()), AtomicU64::new(0));
    let last = Mutex::new(Position::NONE);
    let (mut whole, mut overtaken) = (0, 0);
    std::thread::scope(|scope| {
        for thread in 0..3_usize {
            let stream = log.assign();
            let (done, known, last) = (&done, &known, &last);
            scope.spawn(move || {
                for number in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let payload = format!("{thread}/{number};").repeat(1 + number * 37 % 400).into_bytes();
                    let mut dependencies = Dependencies::default();
                    dependencies.add(*last.lock());
                    let receipt = stream.append_after(&dependencies, &payload).expect("there is room");
                    *last.lock() = receipt.position();
                    if number % 3 == 0 {
                        stream.settle(&receipt).expect("durable");
                        known.lock().insert(receipt.position().lsn(), payload);
                        std::thread::sleep(Duration::from_micros(300));
                    }
                }
            });
        }
        for round in 0..30 {
            let before = known.lock().clone();
            let to = directory();
            match copy(from.as_ref(), to.as_ref(), true, &Progress::default()).expect("sound") {
                Copied::Overtaken => overtaken += 1,
                Copied::Whole { start, records, .. } => {
                    whole += 1;
                    let found = reopened(to, commit);
                    assert_eq!(found.len() as u64, records);
                    for (lsn, payload) in before.range(start.lsn..) {
                        assert_eq!(found.get(lsn), Some(payload), "{lsn} was durable before round {round}");
                    }
                    let known = known.lock();
                    assert!(found.iter().all(|(lsn, payload)| known.get(lsn).is_none_or(|known| known == payload)));
                }
            }
            // A checkpoint that has everything up to here.
            if let Some((&lsn, _)) = before.last_key_value() {
                log.trim(Start { generation: Generation(1), lsn }).expect("trimmed");
                trimmed.store(lsn.0, Ordering::Relaxed);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(whole > 5, "{whole} copies, {overtaken} overtaken");
    assert!(trimmed.into_inner() > 100);
}

#[test]
fn what_was_durable_before_a_log_in_use_is_copied_is_in_the_copy() {
    copies_of_a_log_in_use(CommitRule::Dependencies);
}

#[test]
fn what_was_durable_before_a_log_in_use_is_copied_is_in_the_copy_under_the_watermark_rule() {
    copies_of_a_log_in_use(CommitRule::Watermark);
}

fn filled(from: &Arc<dyn Directory>) -> Arc<Log> {
    let (log, _) = Log::open(from.clone(), settings(CommitRule::Dependencies), &mut |_, _| Ok(())).expect("new");
    for number in 0..300_usize {
        let stream = log.assign();
        let receipt =
            stream.append_after(&Dependencies::default(), &vec![7; number * 13 % 900]).expect("there is room");
        stream.settle(&receipt).expect("durable");
    }
    log
}

#[test]
fn a_closed_log_is_copied_whole_onto_a_medium_with_larger_blocks() {
    let from: Arc<dyn Directory> =
        Arc::new(SimDirectory::new(SimSettings { block_size: 512, ..SimSettings::default() }));
    filled(&from).close().expect("closed");
    let to: Arc<dyn Directory> =
        Arc::new(SimDirectory::new(SimSettings { block_size: 4096, ..SimSettings::default() }));
    let copied = copy(from.as_ref(), to.as_ref(), false, &Progress::default()).expect("sound");
    assert!(matches!(copied, Copied::Whole { records: 300, .. }), "{copied:?}");
    assert_eq!(reopened(to, CommitRule::Dependencies), reopened(from, CommitRule::Dependencies));
}

#[test]
fn a_damaged_log_is_not_copied_whether_it_is_in_use_or_not() {
    for is_in_use in [false, true] {
        let from = directory();
        let log = filled(&from);
        if !is_in_use {
            log.close().expect("closed");
        }
        let device = from.open(&segment_name(StreamId(1), 0)).expect("it is there");
        let mut bytes = AlignedBuffer::zeroed(4096);
        device.read_at(4096, &mut bytes).expect("readable");
        bytes[100] ^= 1;
        device.write_durable(4096, &bytes).expect("writable");
        let error = copy(from.as_ref(), directory().as_ref(), is_in_use, &Progress::default()).expect_err("damaged");
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    }
}
