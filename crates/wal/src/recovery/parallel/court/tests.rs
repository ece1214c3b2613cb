//! Records that reach the court in any order are judged as in LSN order.

use std::collections::BTreeSet;

use ishigaki_base::Position;
use ishigaki_testkit::seeded_runs;

use super::*;
use crate::Dependencies;
use crate::format::Kind;
use crate::recovery::judge::Judge;
use crate::recovery::records::{Payload, Record};

/// One stream's records of one generation, and what each names.
type Stream = Vec<(Lsn, Dependencies)>;

/// A generation: what each stream holds of it, in batches, each with the watermark that was known when it was written.
struct Generated {
    passage: Passage,
    streams: Vec<Stream>,
}

/// Records of a generation, of which some were lost; as a writer leaves them, of each stream a beginning.
fn any_generation(generation: u64, base: Lsn, streams: usize, random: &mut fastrand::Rng) -> Generated {
    let rule = if random.bool() { CommitRule::Watermark } else { CommitRule::Dependencies };
    let mut drawn: Vec<Stream> = vec![Stream::new(); streams];
    let mut all = Vec::<Position>::new();
    for lsn in (base.0..).map(Lsn).take(random.usize(..60)) {
        let place = random.usize(..streams);
        let mut dependencies = Dependencies::default();
        if rule == CommitRule::Dependencies {
            all.iter().rev().take(6).filter(|_| random.u8(0..4) == 0).for_each(|&position| dependencies.add(position));
        }
        drawn[place].push((lsn, dependencies));
        all.push(Position::new(lsn, StreamId(place as u16)));
    }
    for stream in &mut drawn {
        if random.bool() {
            stream.truncate(random.usize(..=stream.len()));
        }
    }
    let passage = Passage {
        generation: Generation(generation),
        base,
        rule,
        chunks: 1,
        records: 0,
        lsns: None,
        watermark: base.previous(),
    };
    Generated { passage, streams: drawn }
}

/// Judges in LSN order. Gives what is kept, and the next generation's base.
fn in_order(generated: &Generated) -> (BTreeSet<Lsn>, Extent) {
    let mut judge = Judge::new(&generated.passage, Start::default());
    let streams = generated.streams.iter().zip(0..);
    let mut records: Vec<_> =
        streams.flat_map(|(records, id)| records.iter().map(move |(lsn, names)| (*lsn, id, names))).collect();
    records.sort_by_key(|&(lsn, ..)| lsn);
    let kept = records.iter().filter(|(lsn, id, names)| judge.keeps(StreamId(*id), *lsn, names).unwrap());
    (kept.map(|&(lsn, ..)| lsn).collect(), judge.extent())
}

/// The batches of one stream, in their order.
fn batches(generations: &[(Generated, Extent)], place: usize, random: &mut fastrand::Rng) -> VecDeque<Batch> {
    let mut batches = VecDeque::new();
    let mut batch = Batch::new(StreamId(place as u16));
    for (generated, extent) in generations {
        let mut passage = generated.passage.clone();
        let records = &generated.streams[place];
        // A generation of which the stream has no complete record may be there all the same.
        if records.is_empty() && random.bool() {
            continue;
        }
        batch.enter(&passage, None);
        for (lsn, dependencies) in records {
            if random.u8(0..3) == 0 {
                batches.push_back(std::mem::replace(&mut batch, Batch::new(StreamId(place as u16))));
                if random.bool() {
                    let known = random.u64(passage.watermark.0..extent.gap.0.min(lsn.0).max(passage.watermark.0 + 1));
                    passage.watermark = Lsn(known);
                }
                batch.enter(&passage, None);
            }
            let (lsn, dependencies, payload) = (*lsn, dependencies.clone(), Payload::Here(0..0));
            batch.push(Record { lsn, kind: Kind::Payload, dependencies, payload });
            passage.lsns = Some((lsn, lsn));
        }
    }
    batches.push_back(batch);
    batches
}

#[test]
fn records_in_any_order_are_judged_as_in_lsn_order() {
    seeded_runs("records_in_any_order_are_judged_as_in_lsn_order", 3000, |seed| {
        let mut random = seed.generator();
        let streams = random.usize(1..5);
        let (mut next, mut generations, mut expected) = (Lsn::FIRST, Vec::new(), BTreeSet::new());
        for generation in 1..random.u64(2..5) {
            let generated = any_generation(generation, next, streams, &mut random);
            let (kept, extent) = in_order(&generated);
            next = match generated.passage.rule {
                CommitRule::Watermark => extent.gap,
                CommitRule::Dependencies => extent.last.next(),
            };
            expected.extend(kept.into_iter().map(|lsn| (generation, lsn)));
            generations.push((generated, extent));
        }
        let mut all: Vec<_> = (0..streams).map(|place| batches(&generations, place, &mut random)).collect();
        let mut court = Court::new(streams, Start::default());
        let mut kept = BTreeSet::new();
        let mut settled = Lsn::ZERO;
        while all.iter().any(|batches| !batches.is_empty()) {
            let place = random.usize(..streams);
            let Some(batch) = all[place].pop_front() else { continue };
            let is_over = all[place].is_empty();
            let mut keep = |part: Part| {
                assert!(part.first() >= settled, "{} was settled", part.first());
                let section = part.batch.sections.iter().find(|section| section.entries.contains(&part.entries.start));
                let generation = section.unwrap().generation().0;
                for lsn in part.batch.lsns(part.entries.clone()) {
                    assert!(kept.insert((generation, lsn)), "{lsn} is kept twice");
                }
            };
            court.hear(place, &Arc::new(batch), is_over, &mut keep).unwrap();
            settled = court.settled();
        }
        assert_eq!(kept, expected);
        assert_eq!(court.settled(), next);
        let last = expected.last().map_or(Lsn::ZERO, |&(_, lsn)| lsn);
        let records: usize = generations.iter().flat_map(|(one, _)| &one.streams).map(Vec::len).sum();
        assert_eq!((court.cut(), court.dropped()), (last, (records - expected.len()) as u64));
    });
}
