//! The roster's two copies: one is enough, in whatever way the other one is damaged.

mod stage;

use std::sync::Arc;

use ishigaki_base::ErrorKind;
use ishigaki_device::FileDirectory;
use ishigaki_logpool::{Durability, Folder, Pool, Profile, Together, rebuild, verify};

use stage::{member, small};

/// A closed pool with one member, in that folder.
fn make(folder: &std::path::Path) {
    let pool = Pool::open_together(Arc::new(FileDirectory::open(folder).unwrap()), small(false)).unwrap();
    let file = pool.add("a", member(Profile::GENERIC)).unwrap().create("f").unwrap();
    file.write(0, &vec![5; 20_000], Durability::Now).unwrap();
    drop(file);
    pool.close().unwrap();
}

#[test]
fn one_copy_of_the_roster_that_is_no_whole_file_or_gone_is_done_without() {
    let (whole, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make(whole.path());
    let path = |name: &str| folder.path().join(name);
    let restore = || {
        for entry in std::fs::read_dir(whole.path()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        Arc::new(FileDirectory::open(folder.path()).unwrap())
    };
    let cut =
        |name: &str, length| std::fs::File::options().write(true).open(path(name)).unwrap().set_len(length).unwrap();
    for name in ["pool-roster", "pool-roster-1"] {
        for length in [Some(1808), Some(0), Some(1), Some(512), Some(4097), None] {
            let directory = restore();
            match length {
                Some(length) => cut(name, length),
                None => std::fs::remove_file(path(name)).unwrap(),
            }
            let problems = verify(directory.as_ref(), &Together(directory.clone())).unwrap().problems;
            let is_harmless = length == Some(512);
            assert_eq!(problems.len(), usize::from(!is_harmless), "{name}, {length:?}: {problems:?}");
            assert!(problems.iter().all(|problem| problem.contains(&format!("`{name}`"))), "{problems:?}");
            let out = tempfile::tempdir().unwrap();
            let rebuilt =
                rebuild(directory.as_ref(), &Together(directory.clone()), "a", &mut Folder::new(out.path()).unwrap())
                    .unwrap();
            assert!(rebuilt > 0, "{name}, {length:?}");
            let pool = Pool::open_together(directory.clone(), small(false)).unwrap();
            assert!(pool.quarantined().is_empty(), "{name}, {length:?}");
            pool.close().unwrap();
            drop(pool);
            assert!(verify(directory.as_ref(), &Together(directory.clone())).unwrap().is_sound(), "both are made anew");
        }
    }
    let directory = restore();
    cut("pool-roster", 1808);
    cut("pool-roster-1", 1808);
    assert_eq!(Pool::open_together(directory, small(false)).unwrap_err().kind(), ErrorKind::Corrupt);
}
