//! The comparison finds each difference, and nothing else.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::Config;
use ishigaki_migrate_service::config::SourceConfig;
use ishigaki_migrate_service::verify::{Kind, Progress, Report, verify};
use rustix::fs::{XattrFlags, setxattr};

struct Pair {
    _held: tempfile::TempDir,
    old: PathBuf,
    new: PathBuf,
    config: Config,
}

fn fill(old: &Path) {
    fs::create_dir_all(old.join("a/b")).unwrap();
    fs::write(old.join("a/file"), b"some bytes").unwrap();
    fs::write(old.join("a/b/file"), vec![7; 9_000_000]).unwrap();
    let sparse = File::create(old.join("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    sparse.write_all_at(b"in the middle", 32 << 20).unwrap();
    symlink("file", old.join("a/link")).unwrap();
    fs::write(old.join("one"), b"linked").unwrap();
    fs::hard_link(old.join("one"), old.join("a/two")).unwrap();
}

/// Two trees that are equal: the second is a copy by `cp -a`.
fn pair() -> Pair {
    let place = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| place.path().join(name));
    fs::create_dir(&old).unwrap();
    fill(&old);
    assert!(Command::new("cp").arg("-a").args([&old, &new]).status().unwrap().success());
    let config = Config::new(old.to_str().unwrap(), new.clone(), place.path().join("at")).unwrap();
    Pair { _held: place, old, new, config }
}

impl Pair {
    fn verify(&self) -> Report {
        verify(&self.config, &Cancel::new(), &Progress::default()).unwrap()
    }

    /// What differs. Times of directories in which the test makes names are its own.
    fn differences(&self) -> Vec<(String, Kind)> {
        let all = self.verify().differences.into_iter();
        let is_own =
            |path: &str, kind| kind == Kind::Modified && self.new.join(path).is_dir() && self.old.join(path).is_dir();
        all.filter(|it| !is_own(&it.path, it.kind)).map(|it| (it.path, it.kind)).collect()
    }

    fn differs(&self, path: &str, kind: Kind) {
        assert_eq!(self.differences(), [(path.to_owned(), kind)]);
    }
}

/// Writes without changing the file's time.
fn write_at(path: &Path, bytes: &[u8], at: u64) {
    let file = File::options().write(true).open(path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(bytes, at).unwrap();
    file.set_modified(modified).unwrap();
}

#[test]
fn a_copy_is_equal_and_everything_was_looked_at() {
    let pair = pair();
    let report = pair.verify();
    assert!(report.is_equal(), "{:?}", report.differences);
    assert_eq!((report.directories, report.files), (3, 6));
    assert_eq!(report.bytes, 10 + 9_000_000 + (64 << 20) + 6 + 6);
}

#[test]
fn bytes_that_differ_are_found_wherever_they_are() {
    let pair = pair();
    write_at(&pair.new.join("a/b/file"), b"X", 8_999_999);
    pair.differs("a/b/file", Kind::Bytes);
    write_at(&pair.new.join("a/b/file"), &[7], 8_999_999);
    write_at(&pair.new.join("sparse"), b"X", 50 << 20);
    pair.differs("sparse", Kind::Bytes);
    assert_eq!(pair.verify().differences[0].source, format!("from byte {} on", 50 << 20));
}

#[test]
fn each_attribute_that_differs_is_found() {
    let pair = pair();
    let file = pair.new.join("a/file");
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    let set_time = |time| File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    set_time(UNIX_EPOCH + Duration::from_nanos(1));
    pair.differs("a/file", Kind::Modified);
    set_time(modified);
    let mode = fs::metadata(&file).unwrap().permissions();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o4711)).unwrap();
    pair.differs("a/file", Kind::Mode);
    fs::set_permissions(&file, mode).unwrap();
    File::options().write(true).open(&file).unwrap().set_len(4).unwrap();
    set_time(modified);
    pair.differs("a/file", Kind::Size);
    fs::write(&file, b"some bytes").unwrap();
    set_time(modified);
    assert_eq!(pair.verify().differences, []);
    let link = pair.new.join("a/link");
    fs::remove_file(&link).unwrap();
    symlink("elsewhere", &link).unwrap();
    assert!(pair.differences().contains(&("a/link".to_owned(), Kind::Target)));
}

#[test]
fn extended_attributes_are_compared_both_ways() {
    let pair = pair();
    let (old, new) = (pair.old.join("a/file"), pair.new.join("a/file"));
    if let Err(error) = setxattr(&new, "user.here", b"1", XattrFlags::empty()) {
        eprintln!("SKIPPED: extended_attributes_are_compared_both_ways: {error}");
        return;
    }
    pair.differs("a/file", Kind::Attribute);
    setxattr(&old, "user.here", b"2", XattrFlags::empty()).unwrap();
    pair.differs("a/file", Kind::Attribute);
    setxattr(&old, "user.here", b"1", XattrFlags::empty()).unwrap();
    assert_eq!(pair.differences(), []);
    setxattr(&old, "user.there", b"", XattrFlags::empty()).unwrap();
    pair.differs("a/file", Kind::Attribute);
}

#[test]
fn names_of_one_side_and_other_kinds_are_found() {
    let pair = pair();
    fs::write(pair.old.join("a/gone"), b"").unwrap();
    pair.differs("a/gone", Kind::OnlyAtSource);
    fs::remove_file(pair.old.join("a/gone")).unwrap();
    // Of a directory, it alone is told, and not what is in it.
    fs::create_dir(pair.new.join("more")).unwrap();
    fs::write(pair.new.join("more/file"), b"").unwrap();
    pair.differs("more", Kind::OnlyHere);
    fs::create_dir(pair.old.join("more")).unwrap();
    fs::remove_dir_all(pair.new.join("more")).unwrap();
    fs::write(pair.new.join("more"), b"").unwrap();
    pair.differs("more", Kind::Type);
}

#[test]
fn names_that_are_one_file_at_one_side_only_are_found() {
    let pair = pair();
    let two = pair.new.join("a/two");
    let modified = fs::metadata(&two).unwrap().modified().unwrap();
    fs::remove_file(&two).unwrap();
    fs::write(&two, b"linked").unwrap();
    File::options().write(true).open(&two).unwrap().set_modified(modified).unwrap();
    let found = pair.verify().differences;
    assert!(
        found.iter().any(|it| it.kind == Kind::Links && it.path == "one" && it.source == "the file a/two"),
        "{found:?}"
    );
}

#[test]
fn owners_are_compared_after_the_map() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: owners_are_compared_after_the_map: it takes root");
        return;
    }
    let mut pair = pair();
    std::os::unix::fs::lchown(pair.new.join("a/file"), Some(77), None).unwrap();
    pair.differs("a/file", Kind::Owner);
    std::os::unix::fs::lchown(pair.old.join("a/file"), Some(66), None).unwrap();
    pair.differs("a/file", Kind::Owner);
    pair.config.ids = ishigaki_migrate_service::config::IdMap::parse("uid 66 77", Path::new("ids")).unwrap();
    assert_eq!(pair.differences(), []);
}

#[test]
fn several_sources_are_compared_each_in_its_directory() {
    let mut pair = pair();
    let other = pair.old.parent().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), b"of the other").unwrap();
    let moved = pair.new.parent().unwrap().join("moved");
    fs::create_dir(&moved).unwrap();
    fs::create_dir(moved.join("deep")).unwrap();
    fs::rename(&pair.new, moved.join("deep/first")).unwrap();
    assert!(Command::new("cp").arg("-a").arg(&other).arg(moved.join("second")).status().unwrap().success());
    fs::rename(&moved, &pair.new).unwrap();
    pair.config.sources[0].into = "deep/first".into();
    let second = SourceConfig { from: other.to_str().unwrap().parse().unwrap(), into: "second".into() };
    pair.config.sources.push(second);
    let report = pair.verify();
    assert!(report.is_equal(), "{:?}", report.differences);
    fs::write(pair.new.join("deep/stray"), b"").unwrap();
    fs::write(other.join("late"), b"").unwrap();
    let found: Vec<_> = pair.verify().differences.into_iter().filter(|it| it.kind != Kind::Modified).collect();
    let found: Vec<_> = found.iter().map(|it| (it.path.as_str(), it.kind)).collect();
    assert_eq!(found, [("deep/stray", Kind::OnlyHere), ("second/late", Kind::OnlyAtSource)]);
}

#[test]
fn what_is_not_yet_here_is_told_and_not_compared() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: what_is_not_yet_here_is_told_and_not_compared: it takes root");
        return;
    }
    let pair = pair();
    let attribute = pair.config.settings().attribute;
    for path in ["a/b", "one"] {
        if let Err(error) = setxattr(pair.new.join(path), attribute.as_os_str(), b"1", XattrFlags::empty()) {
            eprintln!("SKIPPED: what_is_not_yet_here_is_told_and_not_compared: {error}");
            return;
        }
    }
    write_at(&pair.new.join("a/b/file"), b"X", 0);
    let expected = ["a/b", "a/two", "one"].map(|path| (path.to_owned(), Kind::NotYetHere));
    assert_eq!(pair.differences(), expected);
}

#[test]
fn a_comparison_ends_when_it_is_cancelled() {
    let pair = pair();
    let cancel = Cancel::new();
    cancel.cancel();
    let error = verify(&pair.config, &cancel, &Progress::default()).unwrap_err();
    assert_eq!(error.kind(), ishigaki_base::ErrorKind::Cancelled);
}

#[test]
fn lists_that_xfs_shows_once_more_are_passed_over() {
    let pair = pair();
    for (side, name) in [(&pair.old, "trusted.SGI_ACL_FILE"), (&pair.new, "trusted.SGI_ACL_DEFAULT")] {
        if let Err(error) = setxattr(side.join("a/file"), name, b"x", XattrFlags::empty()) {
            eprintln!("SKIPPED: lists_that_xfs_shows_once_more_are_passed_over: {error}");
            return;
        }
    }
    assert!(pair.verify().is_equal(), "{:?}", pair.verify());
}

#[test]
fn a_name_that_the_migration_keeps_for_itself_is_told_and_is_no_difference() {
    let pair = pair();
    fs::create_dir_all(pair.old.join(".ishigaki-migrate/inside")).unwrap();
    fs::create_dir(pair.new.join(".ishigaki-migrate")).unwrap();
    let left_out = pair.verify().left_out;
    let found: Vec<_> = left_out.iter().map(|it| (it.path.as_str(), it.kind, it.source.as_str())).collect();
    assert_eq!(found, [(".ishigaki-migrate", Kind::LeftOut, "directory")]);
    assert_eq!(pair.differences(), []);
    // It is the migration's while there is one.
    fs::remove_dir_all(pair.old.join(".ishigaki-migrate")).unwrap();
    pair.differs(".ishigaki-migrate", Kind::OnlyHere);
    fs::write(pair.new.join(".ishigaki-migrate/state"), b"begun 00001\n").unwrap();
    assert_eq!(pair.differences(), []);
}

#[test]
fn an_attribute_with_the_name_of_the_migrations_own_is_told_and_is_no_difference() {
    let pair = pair();
    if let Err(error) = setxattr(pair.old.join("a/file"), "trusted.ishigaki.stub", b"x", XattrFlags::empty()) {
        eprintln!("SKIPPED: an_attribute_with_the_name_of_the_migrations_own_is_told_and_is_no_difference: {error}");
        return;
    }
    let report = pair.verify();
    assert!(report.is_equal(), "{report:?}");
    let found: Vec<_> = report.left_out.iter().map(|it| (it.path.as_str(), it.kind, it.source.as_str())).collect();
    assert_eq!(found, [("a/file", Kind::LeftOut, "attribute trusted.ishigaki.stub")]);
}
