//! The dry run says what would go wrong.

use std::fs;
use std::path::{Path, PathBuf};

use ishigaki_migrate::source::Cancel;
use ishigaki_migrate_service::Config;
use ishigaki_migrate_service::check::{Check, Severity};
use ishigaki_migrate_service::config::{From, SourceConfig};

struct Place {
    _held: tempfile::TempDir,
    old: PathBuf,
    new: PathBuf,
    at: PathBuf,
}

fn place() -> Place {
    let place = tempfile::tempdir().unwrap();
    let [old, new, at] = ["old", "new", "at"].map(|name| {
        let folder = place.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    });
    Place { _held: place, old, new, at }
}

impl Place {
    fn config(&self) -> Config {
        Config::new(self.old.to_str().unwrap(), self.new.clone(), self.at.clone()).unwrap()
    }

    fn check(&self) -> Check {
        Check::run(&self.config(), &Cancel::new()).unwrap()
    }

    /// A problem of that setting, with these words, is found.
    fn refuses(&self, about: &str, words: &str) {
        let check = self.check();
        assert!(!check.is_fit());
        let found = check.findings.iter().any(|finding| {
            finding.severity == Severity::Problem
                && finding.about == about
                && finding.message.contains(words)
                && !finding.remedy.is_empty()
        });
        assert!(found, "{check:?}");
    }
}

/// What the check makes, it removes.
fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn what_is_right_is_found_right_and_left_as_it_was() {
    let place = place();
    let check = place.check();
    let hosts: Vec<_> = check.findings.iter().filter(|finding| finding.severity == Severity::Problem).collect();
    let root = rustix::process::geteuid().is_root();
    if root && Path::new("/dev/fuse").exists() {
        // A place for temporary files may be in memory, which is told.
        assert!(hosts.iter().all(|finding| finding.message.contains("of kind")), "{hosts:?}");
    } else {
        eprintln!("SKIPPED: what_is_right_is_found_right_and_left_as_it_was: it takes root and /dev/fuse");
    }
    assert!(is_empty(&place.new) && is_empty(&place.at));
    // The worst comes first, and each can be read by a program.
    assert!(check.findings.is_sorted_by_key(|finding| finding.severity));
    let text = serde_json::to_string(&check).unwrap();
    assert_eq!(serde_json::from_str::<Check>(&text).unwrap(), check);
}

#[test]
fn every_path_that_can_not_be_is_found() {
    let place = place();
    fs::write(place.at.join("file"), b"").unwrap();
    place.refuses("at", "is not empty");
    fs::write(place.new.join("file"), b"").unwrap();
    place.refuses("to", "is not empty: it holds file");
    // Both at once: one run tells all.
    place.refuses("at", "is not empty");
    fs::remove_file(place.new.join("file")).unwrap();
    fs::remove_dir(&place.new).unwrap();
    place.refuses("to", "No such file");
    fs::write(&place.new, b"").unwrap();
    place.refuses("to", "is no directory");
    fs::remove_dir(&place.old).unwrap();
    place.refuses("from", "the source");
    fs::remove_dir_all(&place.at).unwrap();
    place.refuses("at", "No such file");
}

#[test]
fn folders_that_meet_behind_symbolic_links_are_found() {
    let mut place = place();
    let within = place.old.join("within");
    fs::create_dir(&within).unwrap();
    fs::remove_dir(&place.at).unwrap();
    std::os::unix::fs::symlink(&within, &place.at).unwrap();
    place.refuses("at", "lie in each other");
    let link = place.old.parent().unwrap().join("link");
    std::os::unix::fs::symlink(&place.old, &link).unwrap();
    place.new = link.join("within");
    place.refuses("from", "lie in each other");
}

#[test]
fn names_that_other_sources_take_are_told() {
    let place = place();
    fs::create_dir_all(place.old.join("media/films")).unwrap();
    let other = place.old.with_file_name("other");
    fs::create_dir(&other).unwrap();
    let mut config = place.config();
    for (into, is_told) in [("media", true), ("media/films", true), ("films", false)] {
        config.sources.truncate(1);
        config.sources.push(SourceConfig { from: From::Path(other.clone()), into: into.into() });
        let check = Check::run(&config, &Cancel::new()).unwrap();
        let told = check.findings.iter().any(|finding| {
            finding.severity == Severity::Warning && finding.message.contains("has a `media`: that is where")
        });
        assert_eq!(told, is_told, "{into}: {check:?}");
    }
}

#[test]
fn a_lost_and_found_that_can_not_be_one_is_told() {
    for (at_source, at_destination, is_told) in [
        ("lost+found/a", "lost+found/", false),
        ("lost+found/a", "lost+found/b", true),
        ("lost+found", "lost+found/", true),
        ("c", "lost+found/b", false),
    ] {
        let place = place();
        for (folder, path) in [(&place.old, at_source), (&place.new, at_destination)] {
            let path = folder.join(path);
            let is_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
            fs::create_dir_all(if is_directory { &path } else { path.parent().unwrap() }).unwrap();
            if !is_directory {
                fs::write(path, "").unwrap();
            }
        }
        let check = place.check();
        let told = check.findings.iter().any(|finding| {
            finding.severity == Severity::Warning && finding.message.contains("has a `lost+found`: the destination")
        });
        assert_eq!(told, is_told, "{at_source}, {at_destination}: {check:?}");
    }
}
