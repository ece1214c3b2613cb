//! Power cuts at every operation, failing writes and syncs, and flipped bits, on the simulated medium.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::concat_batches;
use ishigaki_base::random::Seed;
use ishigaki_device::{Directory, Fault, SimDirectory, SimSettings};
use ishigaki_page::{Error, Reader, Result, Writer, durable_state, remove, state};
use ishigaki_testkit::{seeded, seeded_runs};

mod mortal;
mod rows;

use mortal::Mortal;
use rows::{assert_equal, batch, read_all, schema_of, small};

const FILE: &str = "table";
/// How many appends the workload makes.
const APPENDS: usize = 3;

fn schema() -> SchemaRef {
    schema_of(&[DataType::Int64, DataType::Utf8])
}

/// What is appended: some of it in one segment, some in several.
fn portions(seed: Seed) -> Vec<RecordBatch> {
    let mut rng = seed.generator();
    [300, 2500, 40].map(|rows| batch(&schema(), rows, &mut rng)).into()
}

/// Makes the file and appends to it; says how many appends were answered, and whether the making was.
fn work(directory: &SimDirectory, seed: Seed) -> (bool, usize) {
    work_in(Arc::new(directory.clone()), seed)
}

fn work_in(directory: Arc<dyn Directory>, seed: Seed) -> (bool, usize) {
    let Ok(mut writer) = Writer::create(directory, FILE, schema(), small(4096, 16 << 10, seed)) else {
        return (false, 0);
    };
    let mut done = 0;
    for portion in &portions(seed) {
        match writer.append_all([portion]) {
            Ok(_) => done += 1,
            Err(_) => break,
        }
    }
    (true, done)
}

/// The rows of the first appends.
fn rows_of(seed: Seed, appends: usize) -> RecordBatch {
    concat_batches(&schema(), &portions(seed)[..appends]).expect("they have one schema")
}

/// How many appends a directory shows, whole; none if there is no file.
fn appends_shown(directory: &SimDirectory, seed: Seed, what: &str) -> Option<usize> {
    let reader = match Reader::open(Arc::new(directory.clone()), FILE) {
        Ok(reader) => reader,
        Err(Error::NotFound { .. }) => return None,
        Err(error) => panic!("{what}: {error}"),
    };
    let appends = reader.appends() as usize;
    let rows = read_all(&reader).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_equal(&rows, &rows_of(seed, appends), what);
    Some(appends)
}

/// Goes on where a crash has left the file, to the end.
fn go_on(directory: &SimDirectory, seed: Seed) -> Result<()> {
    go_on_counting(directory, seed, &mut None)
}

/// The same; says how many appends have been answered, those included that the writer has found.
fn go_on_counting(directory: &SimDirectory, seed: Seed, answered: &mut Option<usize>) -> Result<()> {
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let settings = small(4096, 16 << 10, seed.derive(99));
    let mut writer = match Writer::open(shared.clone(), FILE, settings) {
        Err(Error::NotFound { .. }) => Writer::create(shared.clone(), FILE, schema(), settings)?,
        opened => opened?,
    };
    let there = Reader::open(shared, FILE)?.appends() as usize;
    *answered = Some(there);
    portions(seed)[there..].iter().try_for_each(|portion| {
        writer.append_all([portion])?;
        *answered = answered.map(|answered| answered + 1);
        Ok(())
    })
}

fn assert_no_leftovers(directory: &SimDirectory) {
    let reader = Reader::open(Arc::new(directory.clone()), FILE).expect("it is whole");
    let mut named: Vec<_> = (0..reader.pages()).map(|page| reader.address(page).expect("a page").device).collect();
    named.dedup();
    named.extend(["table.pages".to_owned(), "table.pages.lock".to_owned()]);
    named.sort();
    assert_eq!(directory.list().expect("the power is on"), named);
}

#[test]
fn a_power_cut_at_any_operation_leaves_the_file_before_or_after_an_append() {
    seeded("a_power_cut_at_any_operation_leaves_the_file_before_or_after_an_append", |seed| {
        let whole = SimDirectory::with_seed(seed);
        assert_eq!(work(&whole, seed), (true, APPENDS));
        assert_eq!(appends_shown(&whole, seed, "without a cut"), Some(APPENDS));
        let mut seen = [0; APPENDS + 2];
        for operation in 0..whole.operations() {
            let directory = SimDirectory::with_seed(seed);
            directory.inject(Fault::PowerCut { operation });
            let (made, done) = work(&directory, seed);
            for survivor in 0..8 {
                let what = format!("cut at {operation}, survivor {survivor}");
                let found = directory.survivors(seed.derive(survivor));
                let shown = appends_shown(&found, seed, &what);
                match shown {
                    None => assert!(!made, "{what}: the file is gone"),
                    Some(shown) => {
                        assert!(shown == done || shown == done + 1, "{what}: {done} answered, {shown} there");
                    }
                }
                seen[shown.map_or(0, |shown| shown + 1)] += 1;
                go_on(&found, seed).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(appends_shown(&found, seed, &what), Some(APPENDS));
                assert_no_leftovers(&found);
                let again = found.survivors(seed.derive(survivor + 100));
                assert_eq!(appends_shown(&again, seed, &what), Some(APPENDS), "{what}: what was answered is lost");
            }
        }
        assert!(seen.iter().all(|&times| times > 0), "every state was seen: {seen:?}");
    });
}

#[test]
fn a_process_that_dies_at_any_operation_leaves_the_file_before_or_after_an_append() {
    seeded("a_process_that_dies_at_any_operation_leaves_the_file_before_or_after_an_append", |seed| {
        for operations in 0.. {
            let directory = SimDirectory::with_seed(seed);
            let mortal = Arc::new(Mortal::new(Arc::new(directory.clone()), operations));
            let (made, done) = work_in(mortal.clone(), seed);
            let what = format!("died after {operations}");
            let next = directory.process_crash();
            let shown = appends_shown(&next, seed, &what);
            match shown {
                None => assert!(!made, "{what}: the file is gone"),
                Some(shown) => assert!(shown == done || shown == done + 1, "{what}: {done} answered, {shown} there"),
            }
            go_on(&next, seed).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_no_leftovers(&next);
            for survivor in 0..4 {
                let found = next.survivors(seed.derive(survivor));
                assert_eq!(appends_shown(&found, seed, &what), Some(APPENDS), "{what}: what was answered is lost");
            }
            if !mortal.is_dead() {
                break;
            }
        }
    });
}

#[test]
fn what_a_killed_writer_left_carries_what_the_next_one_appends_until_the_power_is_cut() {
    seeded("what_a_killed_writer_left_carries_what_the_next_one_appends_until_the_power_is_cut", |seed| {
        let whole = SimDirectory::with_seed(seed);
        work(&whole, seed);
        for operation in 0..whole.operations() {
            let directory = SimDirectory::with_seed(seed);
            directory.inject(Fault::PowerCut { operation });
            let (made, done) = work(&directory, seed);
            for cut in 0.. {
                // The power is on again before anything was lost: as if it had never been off.
                let next = directory.process_crash();
                next.inject(Fault::PowerCut { operation: cut });
                let mut answered = made.then_some(done);
                let ended = go_on_counting(&next, seed, &mut answered).is_ok();
                let what = format!("killed at {operation}, cut at {cut}");
                let found = next.survivors(seed.derive(cut));
                let shown = appends_shown(&found, seed, &what);
                assert!(shown >= answered, "{what}: {answered:?} answered, {shown:?} there");
                go_on(&found, seed).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_no_leftovers(&found);
                if ended && next.operations() <= cut {
                    break;
                }
            }
        }
    });
}

/// A database notes the state of a page file: then a power cut must not take the file back behind that.
#[test]
fn a_durable_state_of_what_a_killed_writer_left_survives_a_power_cut() {
    seeded("a_durable_state_of_what_a_killed_writer_left_survives_a_power_cut", |seed| {
        let whole = SimDirectory::with_seed(seed);
        work(&whole, seed);
        for operation in 0..whole.operations() {
            let directory = SimDirectory::with_seed(seed);
            directory.inject(Fault::PowerCut { operation });
            work(&directory, seed);
            let next = directory.process_crash();
            let Ok(told) = durable_state(&next, FILE) else { continue };
            for survivor in 0..8 {
                let found = state(&next.survivors(seed.derive(survivor)), FILE);
                let follows = found.and_then(|found| found.check(FILE, told));
                follows.unwrap_or_else(|error| panic!("killed at {operation}: {error}"));
            }
        }
    });
}

#[test]
fn a_write_or_sync_that_fails_leaves_the_file_as_it_was_and_the_next_writer_goes_on() {
    seeded("a_write_or_sync_that_fails_leaves_the_file_as_it_was_and_the_next_writer_goes_on", |seed| {
        let whole = SimDirectory::with_seed(seed);
        work(&whole, seed);
        let writes = (0..whole.writes()).map(|nth| Fault::WriteError { nth });
        for fault in writes.chain((0..whole.syncs()).map(|nth| Fault::SyncError { nth })) {
            let directory = SimDirectory::with_seed(seed);
            directory.inject(fault);
            let (_, done) = work(&directory, seed);
            assert!(done < APPENDS, "{fault:?} went unnoticed");
            let what = format!("{fault:?}");
            if let Some(shown) = appends_shown(&directory, seed, &what) {
                assert!(shown == done || shown == done + 1, "{what}: {done} answered, {shown} there");
            }
            go_on(&directory, seed).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(appends_shown(&directory, seed, &what), Some(APPENDS));
            for survivor in 0..4 {
                let found = directory.survivors(seed.derive(survivor));
                assert_eq!(appends_shown(&found, seed, &what), Some(APPENDS), "{what}: what was answered is lost");
            }
        }
    });
}

#[test]
fn after_a_failure_at_its_very_end_the_writer_appends_no_more() {
    let seed = Seed(7);
    let whole = SimDirectory::with_seed(seed);
    work(&whole, seed);
    let directory = SimDirectory::with_seed(seed);
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let mut writer = Writer::create(shared.clone(), FILE, schema(), small(4096, 16 << 10, seed)).expect("a new one");
    let portions = portions(seed);
    directory.inject(Fault::SyncError { nth: whole.syncs() - 1 });
    let outcomes = portions.iter().map(|portion| writer.append_all([portion]));
    let outcomes: Vec<_> = outcomes.collect();
    assert!(matches!(outcomes[..], [Ok(_), Ok(_), Err(Error::Device(_))]), "{outcomes:?}");
    assert!(matches!(writer.append_all([&portions[0]]), Err(Error::Closed { .. })));
    drop(writer);
    // It shows, and a power cut may take it back; who opens the file to write makes it stay.
    assert_eq!(appends_shown(&directory, seed, "as a reader sees it"), Some(APPENDS));
    Writer::open(shared, FILE, small(4096, 16 << 10, seed)).expect("nothing fails any more");
    for survivor in 0..10 {
        let found = directory.survivors(seed.derive(survivor));
        assert_eq!(appends_shown(&found, seed, "after a power cut"), Some(APPENDS));
    }
}

#[test]
fn a_full_medium_refuses_an_append_and_the_file_stays() {
    let seed = Seed(8);
    let settings = SimSettings { capacity: Some(ishigaki_base::ByteSize::kib(64)), ..SimSettings::default() };
    let directory = SimDirectory::new(settings);
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let mut writer = Writer::create(shared, FILE, schema(), small(4096, 16 << 10, seed)).expect("a new one");
    let portions = portions(seed);
    writer.append_all([&portions[0]]).expect("there is room");
    let error = writer.append_all([&portions[1], &portions[1], &portions[1]]).expect_err("there is none");
    assert!(matches!(error, Error::Device(ishigaki_device::Error::NoSpace { .. })), "{error}");
    assert_eq!(appends_shown(&directory, seed, "full"), Some(1));
    assert_no_leftovers(&directory);
    writer.append_all([&portions[2]]).expect("there is room again");
}

#[test]
fn a_power_cut_while_a_file_is_removed_leaves_it_whole_or_gone() {
    seeded("a_power_cut_while_a_file_is_removed_leaves_it_whole_or_gone", |seed| {
        for operation in 0.. {
            let directory = SimDirectory::with_seed(seed);
            work(&directory, seed);
            directory.inject(Fault::PowerCut { operation: directory.operations() + operation });
            let outcome = remove(&directory, FILE);
            for survivor in 0..8 {
                let what = format!("cut at {operation}, survivor {survivor}");
                let found = directory.survivors(seed.derive(survivor));
                let shown = appends_shown(&found, seed, &what);
                assert!(shown.is_none() || (shown == Some(APPENDS) && outcome.is_err()), "{what}: {shown:?}");
                go_on(&found, seed).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_no_leftovers(&found);
            }
            if outcome.is_ok() {
                break;
            }
        }
    });
}

#[test]
fn every_flipped_bit_is_refused_or_harmless() {
    seeded_runs("every_flipped_bit_is_refused_or_harmless", 1, |seed| {
        let directory = SimDirectory::with_seed(seed);
        let shared: Arc<dyn Directory> = Arc::new(directory.clone());
        let mut writer =
            Writer::create(shared.clone(), FILE, schema(), small(4096, 16 << 10, seed)).expect("a new one");
        let rows = portions(seed)[0].slice(0, 100);
        writer.append_all([&rows]).expect("nothing fails");
        drop(writer);
        let pages = Reader::open(shared.clone(), FILE).expect("whole").pages();
        let everything = || -> Result<RecordBatch> {
            let reader = Reader::open(shared.clone(), FILE)?;
            (0..2).try_for_each(|column| reader.zones(column).map(drop))?;
            read_all(&reader)
        };
        for (name, length) in directory.devices() {
            let is_pages = name.starts_with("table-");
            for offset in 0..length {
                let bit = (seed.derive(offset).0 % 8) as u8;
                directory.flip_bit(&name, offset, bit).expect("there is such a bit");
                match everything() {
                    // Every bit of a page counts; behind a manifest and zone maps is nothing.
                    Ok(_) if is_pages && offset < pages * 4096 => {
                        panic!("bit {bit} at {offset} of {name} goes unnoticed")
                    }
                    Ok(read) => assert_equal(&read, &rows, "after a flip"),
                    Err(error) => assert!(matches!(error, Error::Damaged { .. }), "{error}"),
                }
                directory.flip_bit(&name, offset, bit).expect("there is such a bit");
            }
        }
        assert_equal(&everything().expect("all is well again"), &rows, "in the end");
    });
}
