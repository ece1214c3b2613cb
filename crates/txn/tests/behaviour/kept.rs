//! The checkpoint before the current one: kept while there is space, given up where that is needed.

use ishigaki_device::Directory;
use ishigaki_txn::CheckpointSettings;

use super::checkpoint::{everything, on_demand, reopen, wait_for};
use super::*;

fn has_previous(directory: &MemoryDirectory) -> bool {
    directory.list().unwrap().iter().any(|name| name == "checkpoint.previous")
}

#[test]
fn the_checkpoint_before_goes_when_the_log_needs_its_space() {
    let directory = MemoryDirectory::new();
    let mut settings = on_demand();
    (settings.log.segment, settings.log.space) = (ByteSize::kib(16), ByteSize::mib(1));
    let database = Database::open_in(Arc::new(directory.clone()), settings).unwrap();
    let table = database.session().run(|txn| txn.create_table("table")).unwrap();
    let put = |count: u32| {
        let session = database.session();
        (0..count).for_each(|n| session.run(|txn| txn.put(table, &n.to_be_bytes(), &[7; 1000])).unwrap());
    };
    put(20);
    database.checkpoint().unwrap();
    put(20);
    database.checkpoint().unwrap();
    assert!(has_previous(&directory));
    // More than there is space for before a checkpoint is due, if the log of the one before stays: no commit fails.
    put(400);
    assert!(!has_previous(&directory));
    let space = database.log().space();
    assert!(space.live <= space.bound && space.used <= space.bound, "{space:?}");
}

#[test]
fn the_checkpoint_before_goes_beside_a_slow_one_if_commits_need_its_space() {
    let directory = MemoryDirectory::new();
    // The thread that looks after the log is the one that makes the checkpoint.
    let throttle = Some(ByteSize::kib(256));
    let checkpoint = CheckpointSettings { throttle, automatic: true, ..on_demand().checkpoint };
    let mut settings = Settings { checkpoint, ..on_demand() };
    (settings.log.segment, settings.log.space) = (ByteSize::kib(16), ByteSize::mib(2));
    let database = Database::open_in(Arc::new(directory.clone()), settings).unwrap();
    let table = database.session().run(|txn| txn.create_table("table")).unwrap();
    let put = |n: u32| database.session().run(|txn| txn.put(table, &(n % 300).to_be_bytes(), &[7; 1000])).unwrap();
    for _ in 0..2 {
        (0..150).for_each(put);
        database.checkpoint().unwrap();
    }
    assert!(has_previous(&directory));
    std::thread::scope(|scope| {
        let third = scope.spawn(|| database.checkpoint().unwrap());
        wait_for("progress", || database.checkpoint_progress().is_some_and(|progress| progress.rows > 0));
        // With the log of the one before sessions would be slowed down.
        let mut commits = 0;
        while has_previous(&directory) && database.checkpoint_progress().is_some() {
            put(commits);
            commits += 1;
        }
        assert!(database.checkpoint_progress().is_some(), "{commits} commits: it was not given up");
        assert!((200..1200).contains(&commits), "{commits} commits: {:?}", database.log().space());
        third.join().unwrap();
    });
    let expected = everything(&database);
    drop(database);
    assert_eq!(everything(&reopen(&directory)), expected);
}

#[test]
fn a_commit_that_finds_the_medium_full_takes_the_space_of_the_checkpoint_before() {
    let capacity = Some(ByteSize::kib(1200));
    let directory = MemoryDirectory::with(ishigaki_device::MemorySettings { capacity, ..Default::default() });
    let mut settings = on_demand();
    settings.log.segment = ByteSize::kib(16);
    let database = Database::open_in(Arc::new(directory.clone()), settings.clone()).unwrap();
    let table = database.session().run(|txn| txn.create_table("table")).unwrap();
    let put = |n: u32| database.session().run(|txn| txn.put(table, &(n % 200).to_be_bytes(), &[7; 1000]));
    for _ in 0..2 {
        (0..200).for_each(|n| put(n).unwrap());
        database.checkpoint().unwrap();
    }
    let (mut commits, mut with_previous) = (0, 0);
    let error = loop {
        match put(commits) {
            Ok(()) => (commits, with_previous) = (commits + 1, with_previous + u32::from(has_previous(&directory))),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert!(
        with_previous > 50 && commits > with_previous + 200 && !has_previous(&directory),
        "{with_previous}, {commits}"
    );
    let expected = everything(&database);
    database.close().unwrap();
    let database = Database::open_in(Arc::new(directory.clone()), settings).unwrap();
    assert_eq!(everything(&database), expected);
}
