//! Damages of a database, one at a time: each is harmless, repaired, or refused; and after a refusal everything is salvaged
//! that was not damaged. Wrong rows: none.

#[path = "damage/kit.rs"]
mod kit;
#[path = "damage/random.rs"]
mod random;
#[path = "damage/unread.rs"]
mod unread;

use std::collections::BTreeSet;
use std::sync::Arc;

use ishigaki_base::{ErrorKind, Lsn};
use ishigaki_device::{Directory, Error as DeviceError, MemoryDirectory};
use ishigaki_txn::{Error, LogEnd, Progress, Salvage, SalvageReport, verify};

use kit::{Contents, Image, Sample, contents, open};

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

/// What salvage makes of it and says; verification must say the same of the log's end.
fn saved(image: &Image) -> (SalvageReport, Contents) {
    let directory = image.directory();
    let found = verify(directory.as_ref(), directory.as_ref(), &Progress::default()).unwrap();
    let salvage = Salvage::read(directory.as_ref(), directory.as_ref(), &Progress::default()).unwrap();
    let report = salvage.report().clone();
    assert_eq!(found.log_end, report.log_end);
    assert_eq!(matches!(report.log_end, LogEnd::Unknown(_)), report.lost_behind.is_some(), "{report:?}");
    assert!(found.is_sound() == (report.is_complete() && report.damages.is_empty()), "{found:?} and {report:?}");
    let to: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    salvage.write_to(to.clone(), &kit::settings(1), |_| ()).unwrap();
    (report, contents(&open(&to).unwrap()))
}

fn is_of_log(name: &str) -> bool {
    name.starts_with("wal-")
}

/// Removes the last segment of each stream.
fn cut_log(image: &mut Image) -> bool {
    let streams: BTreeSet<String> =
        image.0.keys().filter(|name| name.starts_with("wal-0")).map(|name| name[..8].to_owned()).collect();
    for stream in &streams {
        let last = image.0.keys().rfind(|name| name.starts_with(stream.as_str())).unwrap().clone();
        image.0.remove(&last);
    }
    !streams.is_empty()
}

#[test]
fn without_its_control_block_a_log_does_not_say_where_it_ended_whatever_else_is_gone() {
    for sample in [Sample::closed(), Sample::killed()] {
        let mut image = sample.image().clone();
        image.0.remove("wal-control");
        let mut is_older = false;
        loop {
            let (report, found) = saved(&image);
            assert!(matches!(report.log_end, LogEnd::Unknown(_)) && !report.is_complete(), "{report:?}");
            let behind = report.lost_behind.unwrap();
            let unsaid = sample.history.iter().filter(|(lsn, _)| *lsn > behind).count();
            is_older |= found != sample.contents() && unsaid > 0;
            if !cut_log(&mut image) {
                break;
            }
        }
        assert!(is_older, "commits were lost that nothing but the unknown end tells of");
        // There is a checkpoint, and no log at all.
        image.0.retain(|name, _| !is_of_log(name));
        let (report, _) = saved(&image);
        assert!(matches!(report.log_end, LogEnd::Unknown(_)), "{report:?}");
    }
}

#[test]
fn of_a_closed_log_whose_last_segments_are_gone_the_lost_commits_are_named() {
    let sample = Sample::closed();
    let (last, _) = sample.history.last().unwrap();
    let mut image = sample.image().clone();
    let mut named = Lsn::ZERO;
    while cut_log(&mut image) {
        let (report, found) = saved(&image);
        assert_eq!(report.log_end, LogEnd::Closed(*last));
        assert!(found == sample.contents() || !report.lost.is_empty(), "{report:?}");
        named = report.lost.last().map_or(named, |(_, lost)| *lost);
    }
    assert_eq!(named, *last, "in the end all of them are lost");
}

#[test]
fn an_older_log_is_told_from_that_of_the_database() {
    for sample in [Sample::closed(), Sample::killed()] {
        let (mut refused, mut consistent) = (0, 0);
        for older in &sample.images[..sample.images.len() - 1] {
            let mut image = sample.image().clone();
            image.0.retain(|name, _| !is_of_log(name));
            let of_log = older.0.iter().filter(|(name, _)| is_of_log(name));
            image.0.extend(of_log.map(|(name, bytes)| (name.clone(), bytes.clone())));
            let (report, found) = saved(&image);
            if matches!(report.log_end, LogEnd::Unknown(_)) {
                refused += 1;
                assert!(open(&image.directory()).is_err());
                continue;
            }
            // The checkpoint was there already when the log was like this: the whole is an older copy of the whole database.
            consistent += 1;
            assert_eq!(found, contents(&open(&image.directory()).unwrap()), "as recovery has it");
        }
        assert!(refused >= 5 && consistent <= 8, "{refused} refused, {consistent} as consistent as ever");
    }
}

#[test]
fn a_file_that_is_gone_or_has_another_length_is_damage_and_one_that_can_not_be_written_is_none() {
    let name = || "wal-000-00000000".to_owned();
    let invalid = || DeviceError::Invalid { name: name(), reason: "4096 bytes reach past the end".to_owned() };
    let errors: [Error; 4] = [
        invalid().into(),
        DeviceError::NotFound { name: name() }.into(),
        Error::Log(invalid().into()),
        Error::Log(DeviceError::Damaged { name: name(), reason: "its length".to_owned() }.into()),
    ];
    for error in errors {
        assert!(error.is_damage() && error.names_remedy() && error.kind() == ErrorKind::Corrupt, "{error:?}");
        assert!(error.to_string().contains("`ishigaki salvage DIR --to DIR2`"), "{error}");
    }
    let source = std::io::ErrorKind::ReadOnlyFilesystem.into();
    let error = Error::from(DeviceError::ReadOnly { name: name(), operation: "lock", source });
    assert!(!error.is_damage() && error.kind() == ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("`ishigaki backup DIR --to DIR2`"), "{error}");
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
