//! What is asked of a source for many objects at once.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ishigaki_migrate::destination::Destination;
use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Engine, Origin, Settings};
use ishigaki_migrate::source::simulated::Simulated as Tree;
use ishigaki_migrate::source::{
    Attributes, Cancel, Capabilities, Entry, FileType, Location, Result, Source, ToldExtras,
};

/// Counts how often it is asked for extras, and for how many objects together.
struct Counted {
    tree: Tree,
    alone: AtomicUsize,
    batches: AtomicUsize,
    together: AtomicUsize,
}

impl Source for Counted {
    fn name(&self) -> String {
        self.tree.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.tree.capabilities()
    }

    fn root(&self, cancel: &Cancel) -> Result<(Location, Attributes)> {
        self.tree.root(cancel)
    }

    fn list(&self, at: &Location, cancel: &Cancel, take: &mut dyn FnMut(Vec<Entry>) -> Result<()>) -> Result<()> {
        let mut all = Vec::new();
        self.tree.list(at, cancel, &mut |page| {
            all.extend(page);
            Ok(())
        })?;
        for entry in &mut all {
            let location = Location { path: at.path.join(&entry.name), handle: entry.handle.clone() };
            entry.attributes = Some(self.tree.attributes(&location, cancel)?);
        }
        take(all)
    }

    fn attributes(&self, object: &Location, cancel: &Cancel) -> Result<Attributes> {
        self.tree.attributes(object, cancel)
    }

    fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
        self.alone.fetch_add(1, Ordering::Relaxed);
        self.tree.extras_told(object, cancel)
    }

    fn extras_of_told(&self, objects: &[(&Location, FileType)], cancel: &Cancel) -> Vec<Result<ToldExtras>> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.together.fetch_add(objects.len(), Ordering::Relaxed);
        for (object, kind) in objects {
            assert_eq!(self.tree.attributes(object, cancel).expect("is there").file_type, *kind);
        }
        self.tree.extras_of_told(objects, cancel)
    }

    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize> {
        self.tree.read(file, offset, buffer, cancel)
    }

    fn next_data(&self, file: &Location, offset: u64, cancel: &Cancel) -> Result<Option<Range<u64>>> {
        self.tree.next_data(file, offset, cancel)
    }
}

#[test]
fn attributes_and_targets_of_a_directory_come_in_batches() {
    let tree = Tree::new();
    for number in 0..300 {
        let path = PathBuf::from(format!("file-{number}"));
        tree.add(&path, FileType::Regular, vec![1; 10]);
        let note = number.to_string().into_bytes();
        tree.change(&path, |object| object.extras.attributes.push(("user.note".into(), note)));
    }
    for number in 0..100 {
        let path = PathBuf::from(format!("link-{number}"));
        tree.add(&path, FileType::Symlink, Vec::new());
        tree.change(&path, |object| object.extras.target = Some(format!("to-{number}").into()));
    }
    let count = AtomicUsize::default;
    let source = Arc::new(Counted { tree, alone: count(), batches: count(), together: count() });
    let destination = Simulated::new();
    let origin = Origin { source: source.clone(), at: PathBuf::new() };
    let engine = Engine::open(destination.clone(), vec![origin], Settings::default(), &Cancel::new()).expect("begins");
    engine.crawl(&Crawl::default(), &Cancel::new()).expect("ends");
    // Alone is the root directory: it is the only one of its lot.
    let [alone, batches, together] =
        [&source.alone, &source.batches, &source.together].map(|count| count.load(Ordering::Relaxed));
    assert_eq!((alone, together), (1, 400));
    assert!(batches <= 5, "{batches}");
    for number in 0..300 {
        let name = format!("file-{number}");
        let file = destination.lookup(&destination.root(), name.as_ref()).expect("looks").expect("there");
        let note = destination.xattr(&file, "user.note".as_ref()).expect("reads");
        assert_eq!(note, Some(number.to_string().into_bytes()));
    }
    let link = destination.lookup(&destination.root(), "link-7".as_ref()).expect("looks").expect("there");
    assert_eq!(destination.target(&link).expect("reads"), Path::new("to-7"));
    engine.finish().expect("nothing is missing");
}
