//! Many programs at once on one mount.

mod stage;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ishigaki_device::{Directory, FileDirectory};
use ishigaki_logpool::{MemberSettings, Pool, Settings};
use ishigaki_logpool_fs::Mount;
use rustix::fs::OFlags;

use stage::{Watchdog, can_mount};

const TURNS: u32 = 40;

/// Writes, renames, lists and removes in a folder of its own; leaves one file of the last turn.
fn work(folder: &Path, thread: u8) {
    fs::create_dir(folder).unwrap();
    for turn in 0..TURNS {
        let (new, name) = (folder.join("new"), folder.join(format!("{turn}")));
        let file = stage::open(&new, if turn % 2 == 0 { OFlags::DSYNC } else { OFlags::empty() });
        file.write_all_at(&[thread; 10_000], u64::from(turn) * 512).unwrap();
        file.sync_data().unwrap();
        fs::rename(&new, &name).unwrap();
        File::open(folder).unwrap().sync_all().unwrap();
        assert_eq!(fs::read_dir(folder).unwrap().count(), if turn == 0 { 1 } else { 2 });
        if turn > 0 {
            fs::remove_file(folder.join(format!("{}", turn - 1))).unwrap();
        }
        let written = fs::read(&name).unwrap();
        assert!(written[turn as usize * 512..].iter().all(|byte| *byte == thread));
    }
}

#[test]
fn programs_that_work_side_by_side_do_not_disturb_each_other() {
    if !can_mount("programs_that_work_side_by_side_do_not_disturb_each_other") {
        return;
    }
    let (data, folders) = (tempfile::tempdir().unwrap(), [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]);
    let _watchdog = Watchdog::over(&[folders[0].path(), folders[1].path()]);
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(data.path()).unwrap());
    let pool = Pool::open_together(directory, Settings::default()).unwrap();
    let mounts = ["a", "b"].into_iter().zip(&folders).map(|(name, folder)| {
        let member = pool.add(name, MemberSettings::default()).unwrap();
        Mount::new(member, folder.path(), &stage::mount_settings()).unwrap()
    });
    let mounts: Vec<_> = mounts.collect();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let folder = folders[usize::from(thread) % 2].path().join(thread.to_string());
            scope.spawn(move || work(&folder, thread + 1));
        }
    });
    // A folder that moves takes what is open in it along.
    let file = stage::open(&folders[0].path().join("0/open"), OFlags::empty());
    fs::rename(folders[0].path().join("0"), folders[0].path().join("moved")).unwrap();
    file.write_all_at(b"still", 0).unwrap();
    assert_eq!(fs::read(folders[0].path().join("moved/open")).unwrap(), b"still");
    assert!(mounts.iter().all(Mount::is_alive));
    drop(mounts);
    assert_eq!(pool.member("a").unwrap().list(Some("moved")).unwrap().len(), 2);
    pool.close().unwrap();
}
