//! Damages of a database, one at a time: each is harmless, repaired, or refused; and after a refusal everything is salvaged
//! that was not damaged. Wrong rows: none.

#[path = "damage/kit.rs"]
mod kit;
#[path = "damage/random.rs"]
mod random;

use std::sync::Arc;

use ishigaki_device::{Directory, MemoryDirectory};
use ishigaki_txn::{Progress, Salvage, verify};

use kit::{Image, Sample, contents, open};

#[test]
fn of_a_sound_database_everything_is_salvaged_and_nothing_is_missing() {
    for sample in [Sample::closed(), Sample::killed()] {
        let directory = sample.image().directory();
        let found = verify(directory.as_ref(), directory.as_ref(), &Progress::default()).unwrap();
        assert!(found.is_sound(), "{:?}", found.damages);
        let salvage = Salvage::read(directory.as_ref(), directory.as_ref(), &Progress::default()).unwrap();
        assert!(salvage.report().is_complete() && salvage.report().damages.is_empty(), "{:?}", salvage.report());
        let to: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        salvage.write_to(to.clone(), &kit::settings(1), |_| ()).unwrap();
        assert_eq!(contents(&open(&to).unwrap()), sample.contents());
    }
}

#[test]
fn tables_keep_their_numbers_when_they_are_salvaged() {
    let sample = Sample::closed();
    let directory = sample.image().directory();
    let before = Salvage::read(directory.as_ref(), directory.as_ref(), &Progress::default()).unwrap();
    let (tables, to) = (before.tables(), Arc::new(MemoryDirectory::new()) as Arc<dyn Directory>);
    before.write_to(to.clone(), &kit::settings(1), |_| ()).unwrap();
    let after = Salvage::read(to.as_ref(), to.as_ref(), &Progress::default()).unwrap();
    assert_eq!(after.tables(), tables);
    assert!(tables.iter().any(|(id, _)| id.0 > tables.len() as u32), "a table was dropped in between");
}

#[test]
fn nothing_is_salvaged_into_a_directory_that_holds_something() {
    let directory = Sample::closed().image().directory();
    let salvage = Salvage::read(directory.as_ref(), directory.as_ref(), &Progress::default()).unwrap();
    let error = salvage.write_to(directory, &kit::settings(1), |_| ()).unwrap_err().to_string();
    assert!(error.contains("empty directory"), "{error}");
}

#[test]
fn verification_writes_nothing() {
    for sample in [Sample::closed(), Sample::killed()] {
        let directory = sample.image().directory();
        verify(directory.as_ref(), directory.as_ref(), &Progress::default()).unwrap();
        Salvage::read(directory.as_ref(), directory.as_ref(), &Progress::default()).unwrap();
        assert!(Image::of(directory.as_ref()) == *sample.image());
    }
}

#[test]
fn a_damaged_page_of_the_only_checkpoint_costs_its_own_rows_and_they_are_named() {
    let sample = Sample::closed();
    let mut image = sample.image().clone();
    image.0.remove("checkpoint.previous");
    let last = image.0.keys().rfind(|name| name.starts_with("checkpoint-")).unwrap()[..19].to_owned();
    let parts: Vec<_> = image.0.keys().filter(|name| name.starts_with(&last)).cloned().collect();
    let mut pages = 0;
    for name in parts {
        let bytes = image.0[&name].clone();
        let begins = |at: &usize| bytes[*at..].starts_with(b"ISGP") && bytes[at + 4..at + 8] == [1, 0, 0, 0];
        for at in (0..bytes.len() - 52).filter(begins) {
            let number = |place: usize| u32::from_le_bytes(bytes[at + place..at + place + 4].try_into().unwrap());
            let (table, rows) = (number(32), number(36));
            pages += 1;
            for place in [at + 20, at + 52 + number(40) as usize / 2] {
                let mut image = image.clone();
                image.0.get_mut(&name).unwrap()[place] ^= 4;
                let directory = image.directory();
                let salvage = Salvage::read(directory.as_ref(), directory.as_ref(), &Progress::default()).unwrap();
                let report = salvage.report();
                let (damage, missing) = (&report.damages[0], &report.missing[0]);
                assert_eq!((report.damages.len(), report.missing.len(), report.lost.len()), (1, 1, 0), "{report:?}");
                assert_eq!((damage.file.as_str(), damage.offset), (name.as_str(), Some(at as u64)));
                let expected: u64 = sample.contents().values().map(|rows| rows.len() as u64).sum();
                let found: u64 = report.tables.iter().map(|table| table.rows).sum();
                let lacks = expected - found;
                let is_between = missing.before.is_none() || missing.after < missing.before;
                assert!(table == 0 || lacks <= u64::from(rows) && is_between, "{lacks} of {rows}");
                assert!(table != 0 || lacks == 0 && report.tables.iter().any(|table| table.name.is_none()));
            }
        }
    }
    assert!(pages > 3, "{pages}");
}
