//! Hand-made histories: each classic anomaly is refused for its own reason, and their correct neighbours pass.

use std::collections::BTreeMap;
use std::convert::Infallible;

use ishigaki_base::random::Seed;

use super::*;
use crate::program::{Shape, Target};

/// Loads `keys` with a transaction that commits at 1, and gives their values.
fn load(recorder: &Recorder, keys: &[Key]) -> Vec<Vec<u8>> {
    let mut loader = recorder.begin();
    let values = keys.iter().map(|key| loader.write(*key)).collect();
    loader.commit(1);
    values
}

fn cycle(recorder: Recorder, level: Level) -> Vec<Dependency> {
    match recorder.finish().check(level) {
        Err(Violation::Cycle(edges)) => {
            for (edge, next) in edges.iter().zip(edges.iter().cycle().skip(1)) {
                assert_eq!(edge.to, next.from, "the edges of a cycle join");
            }
            edges.iter().map(|edge| edge.dependency).collect()
        }
        verdict => panic!("expected a cycle, got {verdict:?}"),
    }
}

#[test]
fn a_lost_update_is_a_cycle() {
    let recorder = Recorder::new();
    let values = load(&recorder, &[1]);
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    a.read(1, Some(&values[0]));
    b.read(1, Some(&values[0]));
    a.write(1);
    b.write(1);
    a.commit(2);
    b.commit(3);
    let edges = cycle(recorder, Level::Serializable);
    assert_eq!(edges.len(), 2);
    assert!(edges.contains(&Dependency::ReadWrite) && edges.contains(&Dependency::WriteWrite));
}

#[test]
fn one_update_after_the_other_passes() {
    let recorder = Recorder::new();
    let values = load(&recorder, &[1]);
    let mut a = recorder.begin();
    a.read(1, Some(&values[0]));
    let value = a.write(1);
    a.read(1, Some(&value));
    a.commit(2);
    let mut b = recorder.begin();
    b.read(1, Some(&value));
    b.write(1);
    b.commit(3);
    recorder.finish().assert(Level::Strict);
}

#[test]
fn write_skew_is_a_cycle_of_two_anti_dependencies() {
    let recorder = Recorder::new();
    let values = load(&recorder, &[1, 2]);
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    a.read(1, Some(&values[0]));
    b.read(2, Some(&values[1]));
    a.write(2);
    b.write(1);
    a.commit(2);
    b.commit(3);
    assert_eq!(cycle(recorder, Level::Serializable), [Dependency::ReadWrite, Dependency::ReadWrite]);
}

#[test]
fn read_skew_is_a_cycle() {
    let recorder = Recorder::new();
    let values = load(&recorder, &[1, 2]);
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    a.read(1, Some(&values[0]));
    b.write(1);
    let second = b.write(2);
    b.commit(2);
    a.read(2, Some(&second));
    a.commit(3);
    let edges = cycle(recorder, Level::Serializable);
    assert!(edges.contains(&Dependency::ReadWrite) && edges.contains(&Dependency::WriteRead));
}

#[test]
fn a_phantom_write_skew_is_a_cycle() {
    let recorder = Recorder::new();
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    a.scan(0..10, []);
    b.scan(0..10, []);
    a.write(3);
    b.write(7);
    a.commit(1);
    b.commit(2);
    assert_eq!(cycle(recorder, Level::Serializable), [Dependency::ReadWrite, Dependency::ReadWrite]);
}

#[test]
fn inserts_outside_each_others_ranges_pass() {
    let recorder = Recorder::new();
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    a.scan(0..5, []);
    b.scan(5..10, []);
    a.write(3);
    b.write(7);
    a.commit(1);
    b.commit(2);
    recorder.finish().assert(Level::Strict);
}

#[test]
fn a_scan_that_misses_half_of_a_commit_is_a_cycle() {
    let recorder = Recorder::new();
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    let first = a.write(1);
    a.write(2);
    a.commit(1);
    b.scan(0..10, [(1, first.as_slice())]);
    b.commit(2);
    let edges = cycle(recorder, Level::Serializable);
    assert!(edges.contains(&Dependency::ReadWrite) && edges.contains(&Dependency::WriteRead));
}

#[test]
fn a_scan_that_resurrects_a_deleted_key_is_a_cycle() {
    let recorder = Recorder::new();
    let values = load(&recorder, &[1, 2]);
    let mut a = recorder.begin();
    a.delete(1);
    let second = a.write(2);
    a.commit(2);
    let mut b = recorder.begin();
    b.scan(0..10, [(1, values[0].as_slice()), (2, second.as_slice())]);
    b.commit(3);
    cycle(recorder, Level::Serializable);
}

#[test]
fn an_unrepeatable_read_is_a_cycle() {
    let recorder = Recorder::new();
    let values = load(&recorder, &[1]);
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    a.read(1, Some(&values[0]));
    let value = b.write(1);
    b.commit(2);
    a.read(1, Some(&value));
    a.commit(3);
    cycle(recorder, Level::Serializable);
}

#[test]
fn two_inserts_of_one_key_that_both_found_it_absent_are_a_cycle() {
    let recorder = Recorder::new();
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    for trace in [&mut a, &mut b] {
        trace.exists(1, false);
        trace.write(1);
    }
    a.commit(1);
    b.commit(2);
    cycle(recorder, Level::Serializable);
}

#[test]
fn a_dirty_read_is_named() {
    let recorder = Recorder::new();
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    let dirty = a.write(1);
    b.read(1, Some(&dirty));
    b.commit(1);
    a.abort();
    assert!(matches!(recorder.finish().check(Level::Serializable), Err(Violation::AbortedRead { .. })));
}

#[test]
fn an_intermediate_read_is_named() {
    for deleted_later in [false, true] {
        let recorder = Recorder::new();
        let (mut a, mut b) = (recorder.begin(), recorder.begin());
        let early = a.write(1);
        b.read(1, Some(&early));
        if deleted_later {
            a.delete(1);
        } else {
            a.write(1);
        }
        a.commit(1);
        b.commit(2);
        assert!(matches!(recorder.finish().check(Level::Serializable), Err(Violation::IntermediateRead { .. })));
    }
}

#[test]
fn a_read_of_what_was_taken_back_is_named() {
    for again in [false, true] {
        let recorder = Recorder::new();
        let (mut a, mut b) = (recorder.begin(), recorder.begin());
        let savepoint = a.savepoint();
        let undone = a.write(1);
        a.roll_back_to(savepoint);
        if again {
            a.write(1);
        }
        b.read(1, Some(&undone));
        a.commit(1);
        b.commit(2);
        assert!(matches!(recorder.finish().check(Level::Serializable), Err(Violation::UndoneRead { .. })));
    }
}

#[test]
fn a_write_that_was_taken_back_counts_for_nothing() {
    for taken_back in [false, true] {
        let recorder = Recorder::new();
        let values = load(&recorder, &[1, 2]);
        let (mut a, mut b) = (recorder.begin(), recorder.begin());
        a.read(1, Some(&values[0]));
        let savepoint = a.savepoint();
        a.write(2);
        if taken_back {
            a.roll_back_to(savepoint);
        }
        b.read(2, Some(&values[1]));
        b.write(1);
        a.commit(2);
        b.commit(3);
        assert_eq!(recorder.finish().check(Level::Serializable).is_ok(), taken_back);
    }
}

#[test]
fn what_was_read_behind_a_savepoint_stays_read() {
    let recorder = Recorder::new();
    let values = load(&recorder, &[1, 2]);
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    let savepoint = a.savepoint();
    a.read(1, Some(&values[0]));
    a.write(1);
    a.roll_back_to(savepoint);
    a.write(2);
    b.read(2, Some(&values[1]));
    b.write(1);
    a.commit(2);
    b.commit(3);
    assert_eq!(cycle(recorder, Level::Serializable), [Dependency::ReadWrite, Dependency::ReadWrite]);
}

#[test]
fn a_transaction_that_goes_back_sees_what_it_had_written_before() {
    for sees in [Some(0), Some(1), None] {
        let recorder = Recorder::new();
        let mut a = recorder.begin();
        let kept = a.write(1);
        let savepoint = a.savepoint();
        a.delete(1);
        a.read(1, None);
        let undone = a.write(1);
        a.read(1, Some(&undone));
        a.roll_back_to(savepoint);
        let values = [&kept, &undone];
        a.read(1, sees.map(|sees: usize| values[sees].as_slice()));
        a.commit(1);
        let verdict = recorder.finish().check(Level::Serializable);
        match sees {
            Some(0) => assert!(verdict.is_ok(), "{verdict:?}"),
            _ => assert!(matches!(verdict, Err(Violation::OwnWriteMissed { .. })), "{verdict:?}"),
        }
    }
}

#[test]
fn values_that_nobody_wrote_are_named() {
    let foreign = Version { writer: TransactionId(99), write: 0 }.to_value();
    for value in [b"rubbish".as_slice(), &foreign] {
        let recorder = Recorder::new();
        let mut a = recorder.begin();
        a.read(1, Some(value));
        a.commit(1);
        assert!(matches!(recorder.finish().check(Level::Serializable), Err(Violation::NeverWritten { .. })));
    }
    let recorder = Recorder::new();
    let values = load(&recorder, &[1]);
    let mut a = recorder.begin();
    a.read(2, Some(&values[0]));
    a.commit(2);
    assert!(matches!(recorder.finish().check(Level::Serializable), Err(Violation::NeverWritten { key: 2, .. })));
}

#[test]
fn a_missed_own_write_is_named() {
    let recorder = Recorder::new();
    let mut a = recorder.begin();
    a.write(1);
    a.read(1, None);
    a.commit(1);
    assert!(matches!(recorder.finish().check(Level::Serializable), Err(Violation::OwnWriteMissed { .. })));
}

#[test]
fn disordered_scans_are_named() {
    for keys in [[2, 1], [1, 1], [1, 9]] {
        let recorder = Recorder::new();
        let values = load(&recorder, &keys);
        let mut a = recorder.begin();
        a.scan(0..5, keys.iter().copied().zip(values.iter().map(Vec::as_slice)));
        a.commit(2);
        assert!(matches!(recorder.finish().check(Level::Serializable), Err(Violation::DisorderedScan { .. })));
    }
}

#[test]
fn a_shared_place_in_the_commit_order_is_named() {
    let recorder = Recorder::new();
    for key in 0..2 {
        let mut a = recorder.begin();
        a.write(key);
        a.commit(5);
    }
    assert!(matches!(recorder.finish().check(Level::Serializable), Err(Violation::SharedPlace { place: 5, .. })));
}

#[test]
fn a_stale_read_offends_time_only() {
    let recorder = Recorder::new();
    let values = load(&recorder, &[1]);
    let mut a = recorder.begin();
    a.write(1);
    a.commit(2);
    let mut b = recorder.begin();
    b.read(1, Some(&values[0]));
    b.commit(2);
    let history = recorder.finish();
    history.assert(Level::Serializable);
    assert!(matches!(history.check(Level::Recent), Err(Violation::Cycle(_))));
    assert!(matches!(history.check(Level::Strict), Err(Violation::Cycle(_))));
}

#[test]
fn who_comes_before_one_that_had_ended_without_meeting_it_offends_strictness_only() {
    let recorder = Recorder::new();
    let values = load(&recorder, &[1]);
    // The reader sees key 1 as it was before b, and key 2 as c made it, who began when b had ended.
    let mut reader = recorder.begin();
    reader.read(1, Some(&values[0]));
    let mut b = recorder.begin();
    b.write(1);
    b.commit(2);
    let mut c = recorder.begin();
    let second = c.write(2);
    c.commit(3);
    reader.read(2, Some(&second));
    reader.commit(4);
    let history = recorder.finish();
    history.assert(Level::Recent);
    assert!(matches!(history.check(Level::Strict), Err(Violation::Cycle(_))));
}

#[test]
fn a_lost_write_shows_in_the_final_scan() {
    let recorder = Recorder::new();
    load(&recorder, &[1]);
    let mut last = recorder.begin();
    last.scan(0..10, []);
    last.commit(2);
    assert!(cycle(recorder, Level::Strict).contains(&Dependency::RealTime));
}

#[test]
fn an_absence_is_explained_by_whichever_deletion_fits() {
    // Key 1 is inserted and deleted twice; a reader beside it saw it absent and also what came between.
    let recorder = Recorder::new();
    let mut reader = recorder.begin();
    let mut between = Vec::new();
    for (place, step) in [(1, 0), (2, 1), (3, 2), (4, 0), (5, 1)] {
        let mut writer = recorder.begin();
        match step {
            0 => drop(writer.write(1)),
            1 => writer.delete(1),
            _ => between = writer.write(2),
        }
        writer.commit(place);
    }
    reader.read(2, Some(&between));
    reader.read(1, None);
    reader.commit(6);
    recorder.finish().assert(Level::Strict);
}

#[test]
fn an_absence_that_no_deletion_explains_is_a_cycle() {
    // The reader saw what was written while key 1 was there for good, and still found it absent.
    let recorder = Recorder::new();
    let mut reader = recorder.begin();
    let mut writer = recorder.begin();
    writer.write(1);
    writer.commit(1);
    let mut writer = recorder.begin();
    writer.delete(1);
    writer.commit(2);
    let mut writer = recorder.begin();
    writer.write(1);
    let seen = writer.write(2);
    writer.commit(3);
    reader.read(2, Some(&seen));
    reader.exists(1, false);
    reader.commit(4);
    cycle(recorder, Level::Serializable);
}

#[test]
fn absences_with_several_explanations_pass_when_one_fits() {
    // Nothing orders the two keys against each other, so the first reader may come before, between or after the others.
    let recorder = Recorder::new();
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    for (place, key, delete) in [(1, 1, false), (2, 1, true), (5, 2, false), (6, 2, true)] {
        let mut writer = recorder.begin();
        if delete {
            writer.delete(key);
        } else {
            writer.write(key);
        }
        writer.commit(place);
    }
    a.read(1, None);
    a.read(2, None);
    b.exists(1, true);
    b.exists(2, true);
    a.commit(7);
    b.commit(8);
    let history = recorder.finish();
    history.assert(Level::Serializable);
    // In time, key 1 was gone before key 2 came, and the second reader found both.
    assert!(matches!(history.check(Level::Strict), Err(Violation::Cycle(_))));
}

#[test]
fn a_wrong_guess_about_an_absence_is_taken_back() {
    // Key 1 comes, goes, comes and goes; b saw its first writer's key 9 and key 1 absent: it comes after one of the
    // deletions. a read from b and saw key 2 absent. Before key 2 came (with the first deletion of key 1) a would push b
    // to where key 1 was there: possible for each of them alone, wrong for both.
    let recorder = Recorder::new();
    let mut writer = recorder.begin();
    writer.write(1);
    let ninth = writer.write(9);
    writer.commit(1);
    for (place, deleted, written) in [(2, Some(1), Some(2)), (3, None, Some(1)), (4, Some(1), None), (5, Some(2), None)]
    {
        let mut writer = recorder.begin();
        if let Some(key) = deleted {
            writer.delete(key);
        }
        if let Some(key) = written {
            writer.write(key);
        }
        writer.commit(place);
    }
    let (mut a, mut b) = (recorder.begin(), recorder.begin());
    b.read(9, Some(&ninth));
    b.read(1, None);
    let from_b = b.write(8);
    b.commit(6);
    a.read(8, Some(&from_b));
    a.read(2, None);
    a.commit(7);
    recorder.finish().assert(Level::Serializable);
}

#[test]
fn whatever_a_serial_engine_does_passes() {
    crate::seeded_runs("whatever_a_serial_engine_does_passes", 300, |seed| {
        run_serially(seed, false).assert(Level::Strict);
    });
}

#[test]
fn an_engine_whose_scans_miss_a_key_is_refused() {
    let refused = (0..100).filter(|seed| run_serially(Seed(*seed), true).check(Level::Strict).is_err()).count();
    assert!(refused > 50, "only {refused} of 100 histories with incomplete scans were refused");
}

fn run_serially(seed: Seed, forgetful: bool) -> History {
    let recorder = Recorder::new();
    let mut table = BTreeMap::new();
    let shape = Shape { undo_every: 2, ..Shape::default() };
    for (place, program) in shape.draw(seed).into_iter().flatten().enumerate() {
        let mut trace = recorder.begin();
        let before = table.clone();
        let Ok(()) = program.run(&mut Serial { table: &mut table, forgetful }, &mut trace);
        if program.commits {
            trace.commit(place as u64);
        } else {
            table = before;
        }
    }
    recorder.finish()
}

/// One transaction at a time; a forgetful one leaves the last key out of every scan.
struct Serial<'a> {
    table: &'a mut BTreeMap<Key, Vec<u8>>,
    forgetful: bool,
}

impl Target for Serial<'_> {
    type Error = Infallible;
    type Savepoint = BTreeMap<Key, Vec<u8>>;

    fn read(&mut self, key: Key) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.table.get(&key).cloned())
    }

    fn put(&mut self, key: Key, value: &[u8]) -> Result<(), Infallible> {
        self.table.insert(key, value.to_vec());
        Ok(())
    }

    fn insert(&mut self, key: Key, value: &[u8]) -> Result<bool, Infallible> {
        let free = !self.table.contains_key(&key);
        self.table.entry(key).or_insert_with(|| value.to_vec());
        Ok(free)
    }

    fn delete(&mut self, key: Key) -> Result<bool, Infallible> {
        Ok(self.table.remove(&key).is_some())
    }

    fn scan(&mut self, range: Range<Key>) -> Result<Vec<(Key, Vec<u8>)>, Infallible> {
        let mut rows: Vec<_> = self.table.range(range).map(|(key, value)| (*key, value.clone())).collect();
        if self.forgetful {
            rows.pop();
        }
        Ok(rows)
    }

    fn savepoint(&mut self) -> Result<Self::Savepoint, Infallible> {
        Ok(self.table.clone())
    }

    fn roll_back_to(&mut self, savepoint: &Self::Savepoint) -> Result<(), Infallible> {
        self.table.clone_from(savepoint);
        Ok(())
    }
}
