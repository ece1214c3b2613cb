use std::collections::BTreeMap;
use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, Lsn};
use ishigaki_device::{AlignedBuffer, Directory, Fault, MemoryDirectory, SimDirectory};
use ishigaki_testkit::{seeded, seeded_runs};

use super::*;
use crate::{Log, Settings};

type Records = BTreeMap<Lsn, Vec<u8>>;

fn settings() -> Settings {
    Settings { streams: 3, segment: ByteSize::kib(16), background: false, ..Settings::default() }
}

/// Appends so many records, each depending on the one before, in all streams; returns them when they are durable.
fn fill(log: &Log, round: u64, count: u64) -> Records {
    try_fill(log, round, count).expect("durable")
}

fn try_fill(log: &Log, round: u64, count: u64) -> Result<Records> {
    let streams: Vec<_> = (0..3).map(|_| log.assign()).collect();
    let mut last = ishigaki_base::Position::NONE;
    let mut records = Records::new();
    for number in 0..count {
        let payload = format!("{round}/{number}:").repeat(1 + (number as usize * 37) % 60).into_bytes();
        let mut dependencies = crate::Dependencies::default();
        dependencies.add(last);
        let stream = &streams[(number % 3) as usize];
        let receipt = stream.append_after(&dependencies, &payload)?;
        last = receipt.position();
        records.insert(last.lsn(), payload);
        // Those in between name one another in the log.
        if number % 5 == 4 || number + 1 == count {
            stream.settle(&receipt)?;
        }
    }
    Ok(records)
}

fn open(directory: &Arc<dyn Directory>) -> (Arc<Log>, Records) {
    let mut records = Records::new();
    let (log, _) = Log::open(directory.clone(), settings(), &mut |position, payload| {
        records.insert(position.lsn(), payload.to_vec());
        Ok(())
    })
    .expect("opened");
    (log, records)
}

fn rescue(directory: &dyn Directory) -> (Survey, Records, Rescued) {
    let survey = Survey::of(directory, None, &Progress::default()).expect("surveyed");
    let mut records = Records::new();
    let rescued = survey
        .rescue(directory, survey.start().unwrap_or_default(), &mut |position, payload| {
            records.insert(position.lsn(), payload.to_vec());
            Ok(())
        })
        .expect("rescued");
    (survey, records, rescued)
}

fn flip(directory: &dyn Directory, name: &str, offset: u64) {
    let device = directory.open(name).expect("opened");
    let mut block = AlignedBuffer::zeroed(4096);
    let at = offset / 4096 * 4096;
    device.read_at(at, &mut block).expect("read");
    block[(offset - at) as usize] ^= 0x10;
    device.write_durable(at, &block).expect("written");
}

/// Two generations, closed.
fn sample() -> (Arc<dyn Directory>, Records) {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let mut all = Records::new();
    for round in 0..2 {
        let (log, _) = open(&directory);
        all.extend(fill(&log, round, 150));
        log.close().expect("closed");
    }
    (directory, all)
}

#[test]
fn of_a_sound_log_everything_is_given_and_nothing_is_damaged() {
    let (directory, all) = sample();
    let (survey, records, rescued) = rescue(directory.as_ref());
    assert_eq!((survey.damages(), survey.refusal().is_none()), (&[][..], true));
    assert!(records == all && rescued.lost.is_empty() && rescued.lost_behind.is_none());
}

#[test]
fn of_a_log_whose_power_was_cut_the_same_is_given_as_by_recovery() {
    seeded_runs("of_a_log_whose_power_was_cut_the_same_is_given_as_by_recovery", 40, cut);
}

fn cut(seed: Seed) {
    let after = seed.generator().u64(5..150);
    let sim = SimDirectory::with_seed(seed);
    let directory: Arc<dyn Directory> = Arc::new(sim.clone());
    let (log, _) = open(&directory);
    fill(&log, 0, 20);
    log.close().expect("closed");
    sim.inject(Fault::PowerCut { operation: sim.operations() + after });
    if let Ok((log, _)) = Log::open(directory.clone(), settings(), &mut |_, _| Ok(())) {
        let _ = try_fill(&log, 1, 100);
    }
    let survivors = sim.survivors(seed);
    let (survey, given, rescued) = rescue(&survivors);
    assert!(survey.refusal().is_none() && survey.damages().is_empty(), "{:?}", survey.damages());
    let (_, recovered) = open(&(Arc::new(survivors) as Arc<dyn Directory>));
    assert!(given == recovered && rescued.lost.is_empty(), "{} and {}", given.len(), recovered.len());
}

#[test]
fn one_flipped_bit_costs_the_records_of_its_chunk_and_they_are_named() {
    seeded("one_flipped_bit_costs_the_records_of_its_chunk_and_they_are_named", flip_bits);
}

fn flip_bits(seed: Seed) {
    let mut random = seed.generator();
    let mut costly = 0;
    for _ in 0..100 {
        let (directory, all) = sample();
        let names: Vec<_> =
            directory.list().expect("listed").into_iter().filter(|name| name.starts_with("wal-0")).collect();
        let name = &names[random.usize(..names.len())];
        let offset = random.u64(..directory.open(name).expect("opened").len());
        flip(directory.as_ref(), name, offset);
        let (survey, records, rescued) = rescue(directory.as_ref());
        assert!(records.iter().all(|(lsn, payload)| all.get(lsn) == Some(payload)), "nothing is made up");
        let missing: Vec<_> = all.keys().filter(|lsn| !records.contains_key(lsn)).collect();
        for lsn in &missing {
            assert!(rescued.lost.iter().any(|(first, last)| (first..=last).contains(lsn)), "{lsn} in {rescued:?}");
        }
        if !missing.is_empty() {
            costly += 1;
            assert!(missing.len() <= 6, "a chunk has few records here: {missing:?}");
            let found = survey.damages().iter().any(|damage| {
                damage.file == *name && damage.offset.is_some_and(|at| at <= offset && offset < at + 4096)
            });
            assert!(found, "{name} at {offset}: {:?}", survey.damages());
        }
    }
    assert!(costly > 10, "{costly}");
}

#[test]
fn a_missing_segment_costs_its_records_and_no_others() {
    let (sample, all) = sample();
    let names: Vec<_> = sample.list().expect("listed").into_iter().filter(|name| name.starts_with("wal-0")).collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        let (directory, _) = self::sample();
        let reader = Survey::of(directory.as_ref(), None, &Progress::default()).expect("surveyed");
        let (stream, index) = parse_segment_name(&name).expect("a segment");
        let chunks: usize = reader
            .streams
            .iter()
            .filter(|scanned| scanned.stream == stream)
            .flat_map(|scanned| &scanned.chunks)
            .filter(|chunk| chunk.segment == index)
            .count();
        directory.remove(&name).expect("removed");
        let (survey, records, rescued) = rescue(directory.as_ref());
        let missing: Vec<_> = all.keys().filter(|lsn| !records.contains_key(lsn)).collect();
        assert!(missing.len() <= 3 * chunks, "{name}: {} of {chunks} chunks", missing.len());
        assert!(records.iter().all(|(lsn, payload)| all[lsn] == *payload));
        assert_eq!(missing.is_empty(), chunks == 0, "{name}");
        for lsn in &missing {
            assert!(rescued.lost.iter().any(|(first, last)| (first..=last).contains(lsn)), "{lsn} in {rescued:?}");
        }
        assert_eq!(survey.damages().is_empty(), survey.refusal().is_none(), "{name}");
        assert!(chunks == 0 || survey.refusal().is_some(), "{name}");
    }
}

#[test]
fn without_a_control_block_all_records_are_given_and_nothing_says_where_the_log_ended() {
    let (directory, all) = sample();
    directory.remove(CONTROL).expect("removed");
    let (survey, records, rescued) = rescue(directory.as_ref());
    assert_eq!(records, all);
    assert_eq!(survey.damages()[0].to_string(), "wal-control: is missing");
    assert_eq!(*survey.end(), LogEnd::Unknown("wal-control: is missing".to_owned()));
    assert_eq!(rescued.lost_behind, all.keys().last().copied());
}

#[test]
fn without_a_control_block_the_loss_of_the_last_segments_is_told() {
    let (directory, all) = sample();
    let kept = |records: &Records| records.keys().last().copied().expect("some");
    directory.remove(CONTROL).expect("removed");
    let mut before = kept(&all);
    for stream in 0..3 {
        let of_stream = |name: &String| parse_segment_name(name).is_some_and(|(of, _)| of == StreamId(stream));
        let last = directory.list().expect("listed").into_iter().rfind(of_stream).expect("a segment");
        directory.remove(&last).expect("removed");
        let (survey, records, rescued) = rescue(directory.as_ref());
        let missing = all.keys().rfind(|lsn| !records.contains_key(lsn) && **lsn > kept(&records));
        assert!(matches!(survey.end(), LogEnd::Unknown(_)));
        let behind = rescued.lost_behind.expect("the end is unknown");
        assert!(missing.is_none_or(|lsn| *lsn > behind || rescued.lost.iter().any(|(first, last)| first <= lsn && lsn <= last)));
        before = before.min(behind);
    }
    assert!(before < kept(&all), "the last records are gone with the last segments");
}

#[test]
fn an_older_control_block_does_not_say_where_the_log_ended() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let mut old = Vec::new();
    for round in 0..2 {
        let (log, _) = open(&directory);
        fill(&log, round, 50);
        log.close().expect("closed");
        let device = directory.open(CONTROL).expect("there");
        let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
        device.read_at(0, &mut bytes).expect("read");
        old.push(bytes);
    }
    assert!(matches!(rescue(directory.as_ref()).0.end(), LogEnd::Closed(_)));
    directory.open(CONTROL).and_then(|device| device.write_durable(0, &old[0])).expect("written");
    let (survey, records, rescued) = rescue(directory.as_ref());
    assert!(matches!(survey.end(), LogEnd::Unknown(why) if why.contains("an older copy")), "{:?}", survey.end());
    assert_eq!(rescued.lost_behind, records.keys().last().copied());
}

#[test]
fn of_a_closed_log_that_has_lost_all_of_its_newest_generation_the_records_are_named() {
    let (directory, all) = sample();
    let base = rescue(directory.as_ref()).0.control.expect("whole").base;
    // Each segment whose first chunk is of the second generation, and the end of those that the first one shares.
    for name in directory.list().expect("listed").into_iter().filter(|name| name.starts_with("wal-0")) {
        let device = directory.open(&name).expect("opened");
        let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
        device.read_at(0, &mut bytes).expect("read");
        let is_new = |sector: &[u8]| ChunkHeader::decode(sector).is_ok_and(|header| header.generation == Generation(2));
        if let Some(at) = bytes.chunks(SECTOR).position(is_new) {
            bytes[at * SECTOR..].fill(0);
            device.write_durable(0, &bytes).expect("written");
        }
    }
    let (survey, records, rescued) = rescue(directory.as_ref());
    let last = *all.keys().last().expect("some");
    assert!(records.keys().all(|lsn| *lsn < base) && records.len() == 150, "{}", records.len());
    assert_eq!((survey.end(), survey.damages().is_empty()), (&LogEnd::Closed(last), false));
    assert_eq!((rescued.lost, rescued.lost_behind), (vec![(base, last)], None));
}
