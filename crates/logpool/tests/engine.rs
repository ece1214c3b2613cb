//! An engine of ours that has its log in a pool, where the pool has no room for a while.

mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_logpool::{MemberDirectory, MemberSettings, Pool, Profile, Quota, Settings};
use ishigaki_wal::{Log, Settings as LogSettings};

use stage::{Apart, Gate, member, memory, small};

/// How long a member of these pools waits for its own home.
const PATIENCE: Duration = Duration::from_millis(50);
/// Records of a page each; together more than the member's share.
const RECORDS: u64 = 60;

/// A pool with a member whose home can stand still, and an engine's log there.
fn engine(patience: Duration) -> (Pool, Gate, Arc<Log>) {
    let home = Gate::new(memory());
    let homes = Apart::of(vec![("engine", Arc::new(home.clone())), ("other", memory())]);
    let settings = Settings { patience: PATIENCE, ..small(true) };
    let pool = Pool::open(memory(), homes, settings).unwrap();
    let quota = Quota { share: ByteSize::kib(128), home: ByteSize::mib(4), files: 32 };
    let one = pool.add("engine", MemberSettings { quota, ..member(Profile::GENERIC) }).unwrap();
    let directory = Arc::new(MemberDirectory::new(one).with_patience(patience));
    let log = LogSettings { segment: ByteSize::kib(512), space: ByteSize::mib(3), ..LogSettings::default() };
    let (log, _) = Log::open(directory, log, &mut |_, _| Ok(())).unwrap();
    (pool, home, log)
}

/// Commits a record; the pool can not make it shorter.
fn commit(log: &Log, turn: u64) -> ishigaki_wal::Result<()> {
    let mut record = vec![0; 4096];
    Seed(turn).generator().fill(&mut record);
    let stream = log.assign();
    let lsn = stream.append(&record)?;
    stream.wait(lsn)
}

/// Returns when nothing has been committed for so long that the member has been told to be full, several times.
fn wait_until_it_stands(done: &AtomicU64) {
    let (began, mut last) = (Instant::now(), (Instant::now(), 0));
    while last.0.elapsed() < PATIENCE * 10 {
        assert!(began.elapsed() < Duration::from_mins(2), "it does not stand still");
        let now = done.load(Ordering::SeqCst);
        if now != last.1 {
            last = (Instant::now(), now);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_engine_waits_while_its_member_has_no_room_for_now_and_its_log_goes_on() {
    let (pool, home, log) = engine(MemberDirectory::PATIENCE);
    commit(&log, 0).unwrap();
    home.shut(true);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (log, done) = (&log, &done);
        let commits = scope.spawn(move || {
            for turn in 1..=RECORDS {
                commit(log, turn)?;
                done.store(turn, Ordering::SeqCst);
            }
            Ok::<_, ishigaki_wal::Error>(())
        });
        wait_until_it_stands(done);
        let stands_at = done.load(Ordering::SeqCst);
        home.shut(false);
        let outcome = commits.join().unwrap();
        assert!(outcome.is_ok(), "{outcome:?} after {stands_at}");
        assert!((5..RECORDS).contains(&stands_at), "{stands_at}");
    });
    assert!(log.failure().is_none());
    commit(&log, RECORDS + 1).unwrap();
    log.close().unwrap();
    pool.close().unwrap();
}

#[test]
fn an_engine_that_has_waited_for_room_as_long_as_it_may_is_told_why() {
    let (pool, home, log) = engine(Duration::ZERO);
    home.shut(true);
    let refused = (0..RECORDS).find_map(|turn| commit(&log, turn).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
    assert!(refused.to_string().contains("its home does not keep up"), "{refused}");
    home.shut(false);
    drop(log);
    pool.close().unwrap();
}
