//! Paths that the crawler takes before everything else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_migrate::destination::simulated::Simulated;
use ishigaki_migrate::engine::{Crawl, Depth, Engine, Origin, Passes, Settings};
use ishigaki_migrate::source::simulated::Simulated as Other;
use ishigaki_migrate::source::{
    Attributes, Cancel, Capabilities, Entry, FileType, Location, Result, Source, ToldExtras,
};
use parking_lot::Mutex;

/// A source that remembers which files are read, in order.
struct Watched {
    source: Other,
    read: Arc<Mutex<Vec<PathBuf>>>,
}

impl Source for Watched {
    fn name(&self) -> String {
        self.source.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.source.capabilities()
    }

    fn root(&self, cancel: &Cancel) -> Result<(Location, Attributes)> {
        self.source.root(cancel)
    }

    fn list(
        &self,
        directory: &Location,
        cancel: &Cancel,
        take: &mut dyn FnMut(Vec<Entry>) -> Result<()>,
    ) -> Result<()> {
        self.source.list(directory, cancel, take)
    }

    fn attributes(&self, object: &Location, cancel: &Cancel) -> Result<Attributes> {
        self.source.attributes(object, cancel)
    }

    fn extras_told(&self, object: &Location, cancel: &Cancel) -> Result<ToldExtras> {
        self.source.extras_told(object, cancel)
    }

    fn read(&self, file: &Location, offset: u64, buffer: &mut [u8], cancel: &Cancel) -> Result<usize> {
        self.read.lock().push(file.path.clone());
        self.source.read(file, offset, buffer, cancel)
    }
}

/// The directories whose files are read, in order, by one thread; how many of the queue's orders there are.
fn order(first: &[&str], depth: Depth, passes: Passes) -> Vec<PathBuf> {
    let source = Other::new();
    for directory in ["a", "a/b", "a/b/c", "d", "d/e", "f"] {
        source.add(Path::new(directory), FileType::Directory, Vec::new());
        source.add(&Path::new(directory).join("file"), FileType::Regular, vec![1; 10]);
    }
    let read = Arc::new(Mutex::new(Vec::new()));
    let watched = Arc::new(Watched { source, read: read.clone() });
    let origin = Origin { source: watched, at: "".into() };
    let cancel = Cancel::new();
    let engine = Engine::open(Simulated::new(), vec![origin], Settings::default(), &cancel).expect("begins");
    for path in first {
        engine.first(Path::new(path));
    }
    engine.crawl(&Crawl { threads: 1, depth, passes, ..Crawl::default() }, &cancel).expect("copies");
    let read = read.lock().clone();
    assert_eq!(read.len(), 6, "{read:?}");
    read.iter().filter_map(|path| path.parent().map(Path::to_owned)).collect()
}

#[test]
fn what_comes_first_is_copied_before_anything_else_in_every_order() {
    for depth in [Depth::BreadthFirst, Depth::DepthFirst] {
        for passes in [Passes::MetadataFirst, Passes::Bulk] {
            for (first, copied) in [("a/b/c", 1), ("d/e", 1), ("d", 2), ("a/b", 2), ("f", 1)] {
                let order = order(&[first], depth, passes);
                assert!(
                    order[..copied].iter().all(|path| path.starts_with(first)),
                    "{first}, {depth:?}, {passes:?}: {order:?}"
                );
            }
            let order = order(&["f", "a/b/c"], depth, passes);
            let mut both = order[..2].to_vec();
            both.sort();
            assert_eq!(both, [Path::new("a/b/c"), Path::new("f")], "{depth:?}, {passes:?}");
        }
    }
}

#[test]
fn a_path_that_is_not_there_changes_nothing() {
    assert_eq!(
        order(&["nowhere", "a/nowhere"], Depth::default(), Passes::default()).len(),
        order(&[], Depth::default(), Passes::default()).len()
    );
}
