//! What is copied ahead of a migration, through a real folder.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use ishigaki_migrate::engine;
use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::check::{Check, Severity};
use ishigaki_migrate_service::config::SourceConfig;
use ishigaki_migrate_service::verify::{Kind, Progress, verify};
use ishigaki_migrate_service::{Config, Error, Seeding, Serving};

use crate::nothing_is_left;
use crate::stage::Stage;

fn begin(config: &Config) -> Result<Seeding, Error> {
    let (check, opened) = Seeding::check(config, &Cancel::new())?;
    assert!(check.is_fit(), "{check:?}");
    Seeding::begin(config, opened, &Cancel::new())
}

/// Copies ahead to the end.
fn seed(config: &Config) -> engine::Progress {
    let seeding = begin(config).unwrap();
    seeding.run(&Cancel::new()).unwrap();
    assert_eq!(seeding.not_copied(), []);
    seeding.progress()
}

#[test]
fn a_migration_shows_what_the_source_has_whatever_was_copied_ahead() {
    let Some(stage) = Stage::new("a_migration_shows_what_the_source_has_whatever_was_copied_ahead") else { return };
    let first = begin(&stage.config).unwrap();
    assert!(matches!(begin(&stage.config), Err(Error::InUse(_))));
    assert!(matches!(Serving::start(&stage.config, &Cancel::new()), Err(Error::InUse(_))));
    first.run(&Cancel::new()).unwrap();
    let seeded = first.progress();
    assert_eq!((seeded.files, seeded.whole, seeded.problems), (32, 32, 0), "{seeded:?}");
    assert!(seeded.copied > 0 && fs::read(stage.new.join("a/small")).unwrap() == b"small");
    drop(first);
    // It is no plain directory: each object says that it is not known to be right.
    let report = verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap();
    assert!(report.differences.iter().any(|it| it.kind == Kind::NotYetHere), "{:?}", report.differences);
    assert_eq!(seed(&stage.config).copied, 0);

    let old = |name: &str| stage.old.join(name);
    let time = fs::metadata(old("a/b/file-3")).unwrap().modified().unwrap();
    let mut bytes = fs::read(old("a/b/file-3")).unwrap();
    bytes[100] ^= 1;
    fs::write(old("a/b/file-3"), &bytes).unwrap();
    fs::File::options().write(true).open(old("a/b/file-3")).unwrap().set_modified(time).unwrap();
    fs::remove_file(old("a/b/file-4")).unwrap();
    fs::rename(old("a/b/file-5"), old("empty/file-5")).unwrap();
    fs::write(stage.new.join("a/b/left"), b"of another program").unwrap();
    let copied = seed(&stage.config).copied;
    assert_eq!(copied, 8 * 20_011, "two files, and no more");
    fs::write(old("a/b/file-6"), b"the last change").unwrap();

    let mut other = stage.config.clone();
    let from = stage.held.path().join("other");
    fs::create_dir(&from).unwrap();
    other.sources[0] = SourceConfig { from: from.to_str().unwrap().parse().unwrap(), into: "".into() };
    assert!(matches!(Serving::start(&other, &Cancel::new()).err().unwrap(), Error::OtherSources { .. }));
    let check = Check::run(&stage.config, &Cancel::new()).unwrap();
    assert!(check.is_fit() && check.findings.iter().any(|it| it.message.contains("copied ahead")), "{check:?}");
    let serving = stage.start();
    let inode = fs::metadata(stage.at.join("a/b/file-7")).unwrap().ino();
    assert_eq!(inode, fs::metadata(stage.new.join("a/b/file-7")).unwrap().ino());
    assert!(fs::read(stage.at.join("a/b/file-3")).unwrap() == bytes);
    assert_eq!(fs::read(stage.at.join("a/b/file-6")).unwrap(), b"the last change");
    assert!(!stage.at.join("a/b/file-4").exists() && !stage.at.join("a/b/left").exists());
    let status = stage.until_done();
    assert_eq!(status.copied, 15, "{status:?}");
    let report = verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap();
    assert!(report.is_equal(), "{:?}", report.differences);
    assert!(matches!(begin(&stage.config), Err(Error::InUse(_))));
    serving.stop().unwrap();
    let (_, opened) = Seeding::check(&stage.config, &Cancel::new()).unwrap();
    let begun = Seeding::begin(&stage.config, opened, &Cancel::new()).err().unwrap();
    assert!(begun.to_string().contains("has begun"), "{begun}");
    let serving = stage.start();
    stage.until_done();
    serving.finish().unwrap();
    serving.stop().unwrap();
    nothing_is_left(&stage.new);
}

#[test]
fn what_can_not_be_copied_ahead_is_refused_before_anything_is_changed() {
    let Some(stage) = Stage::new("what_can_not_be_copied_ahead_is_refused_before_anything_is_changed") else { return };
    fs::write(stage.new.join("own"), b"of another program").unwrap();
    let (check, _) = Seeding::check(&stage.config, &Cancel::new()).unwrap();
    assert!(!check.is_fit() && check.findings.iter().any(|it| it.message.contains("holds own")), "{check:?}");
    fs::remove_file(stage.new.join("own")).unwrap();
    let link = stage.held.path().join("link");
    std::os::unix::fs::symlink(stage.held.path(), &link).unwrap();
    let mut config = stage.config.clone();
    config.sources[0].from = link.to_str().unwrap().parse().unwrap();
    let (check, _) = Seeding::check(&config, &Cancel::new()).unwrap();
    assert!(check.findings.iter().any(|it| it.message.contains("lie in each other")), "{check:?}");
    assert_eq!(fs::read_dir(&stage.new).unwrap().count(), 0);
}

#[test]
fn what_was_copied_ahead_stays_while_the_disk_of_the_source_is_not_mounted() {
    let Some(stage) = Stage::new("what_was_copied_ahead_stays_while_the_disk_of_the_source_is_not_mounted") else {
        return;
    };
    seed(&stage.config);
    // As a mount point without its disk.
    let aside = stage.held.path().join("aside");
    fs::rename(&stage.old, &aside).unwrap();
    fs::create_dir(&stage.old).unwrap();
    let is_told = |check: &Check| {
        check.findings.iter().any(|it| it.severity == Severity::Problem && it.message.contains("its disk mounted"))
    };
    let (check, opened) = Seeding::check(&stage.config, &Cancel::new()).unwrap();
    assert!(is_told(&check), "{check:?}");
    let unchecked = Seeding::begin(&stage.config, opened, &Cancel::new()).err().unwrap();
    assert!(unchecked.to_string().contains("its disk mounted"), "{unchecked}");
    let unchecked = Serving::start(&stage.config, &Cancel::new()).err().unwrap();
    assert!(unchecked.to_string().contains("its disk mounted"), "{unchecked}");
    assert!(is_told(&Check::run(&stage.config, &Cancel::new()).unwrap()));
    let report = verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap_err();
    assert!(report.to_string().contains("its disk mounted"), "{report}");
    fs::remove_dir(&stage.old).unwrap();
    fs::rename(&aside, &stage.old).unwrap();
    let serving = stage.start();
    let status = stage.until_done();
    assert_eq!(status.copied, 0, "{status:?}");
    // Of a migration that has begun it is a warning.
    fs::rename(&stage.old, &aside).unwrap();
    fs::create_dir(&stage.old).unwrap();
    serving.stop().unwrap();
    let check = Check::run(&stage.config, &Cancel::new()).unwrap();
    assert!(check.is_fit() && check.findings.iter().any(|it| it.message.contains("its disk mounted")), "{check:?}");
}

#[test]
#[ignore = "measures"]
fn a_tree_of_20_000_files_that_has_not_changed_is_seeded_again_without_a_byte() {
    let Some(stage) = Stage::new("a_tree_of_20_000_files_that_has_not_changed_is_seeded_again_without_a_byte") else {
        return;
    };
    for number in 0..20_000_usize {
        let directory = stage.old.join(format!("many/{}", number / 100));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("f{number}")), vec![number as u8 | 1; number % 16_000 + 1]).unwrap();
    }
    let mut times = Vec::new();
    for round in 0..4 {
        if round == 3 {
            fs::write(stage.old.join("many/7/f700"), b"changed").unwrap();
        }
        let began = Instant::now();
        let seeded = seed(&stage.config);
        times.push((began.elapsed(), seeded.copied));
        assert_eq!(seeded.copied, [seeded.copied, 0, 0, 7][round], "{times:?}");
    }
    let began = Instant::now();
    let serving = stage.start();
    let names = fs::read_dir(&stage.at).unwrap().count();
    let cut_over = began.elapsed();
    let status = stage.until_done();
    println!("seeds: {times:?}; {names} names by the folder after {cut_over:?}; all here after {:?}", began.elapsed());
    assert_eq!(status.copied, 0);
    assert!(cut_over < Duration::from_mins(1));
    let report = verify(&stage.config, &Cancel::new(), &Progress::default()).unwrap();
    assert!(report.is_equal(), "{:?}", report.differences);
    serving.finish().unwrap();
    serving.stop().unwrap();
}
