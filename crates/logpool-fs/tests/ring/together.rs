//! Several databases in one pool, and what they are told when something is not as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{AlignedBuffer, Directory, Medium, MemoryDirectory, ModelledDirectory, NvmSettings, Pace};
use ishigaki_logpool::{Durability, MemberDirectory, Pool};
use ishigaki_logpool_fs::Service;
use ishigaki_shm::ShmDirectory;
use ishigaki_txn::{Database, Error, LogPlace};

use super::{LONG, enter, log_at, open, pool_settings, rows, served, settings};

/// A medium that keeps what is written, with a little time for each write.
fn medium() -> Arc<dyn Directory> {
    let medium = Medium::Nvm(NvmSettings::of(Duration::from_micros(300)));
    Arc::new(ModelledDirectory::in_memory(medium, Pace::Real))
}

fn start(medium: &Arc<dyn Directory>, members: &[(&str, PathBuf)]) -> Service {
    let pool = Pool::open_together(medium.clone(), pool_settings(true)).unwrap();
    let members: Vec<_> = members.iter().map(|(name, path)| served(name, path)).collect();
    Service::start(pool, &members).unwrap()
}

/// Whoever was in may take a moment to be gone.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn fill(database: &Database, from: u64, to: u64) {
    let session = database.session();
    let table = session.run(|transaction| -> ishigaki_txn::Result<_> {
        match transaction.table("t")? {
            Some(table) => Ok(table),
            None => transaction.create_table("t"),
        }
    });
    let table = table.unwrap();
    for key in from..to {
        session.run(|transaction| transaction.insert(table, &key.to_be_bytes(), &[7; 100])).unwrap();
    }
}

#[test]
fn databases_of_one_pool_share_its_writes_and_each_has_its_own_rows() {
    const COMMITS: u64 = 150;
    let (medium, folder) = (medium(), tempfile::tempdir().unwrap());
    let names = ["a", "b", "c", "d"];
    let paths: Vec<_> = names.iter().map(|name| (*name, folder.path().join(name))).collect();
    let tables: Vec<Arc<dyn Directory>> = names.iter().map(|_| Arc::new(MemoryDirectory::new()) as _).collect();
    let service = start(&medium, &paths);
    for (_, path) in &paths {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o600);
    }
    std::thread::scope(|scope| {
        for ((_, path), tables) in paths.iter().zip(&tables) {
            scope.spawn(move || {
                let database = open(tables.clone(), &log_at(path).unwrap(), settings(true)).unwrap();
                fill(&database, 0, COMMITS);
                database.close().unwrap();
            });
        }
    });
    let log = service.pool().statistics();
    let requests: u64 =
        names.iter().map(|name| service.pool().member(name).unwrap().statistics().durable_requests).sum();
    assert!(requests >= 4 * COMMITS, "{requests}");
    assert!(log.writes < requests * 3 / 4, "{} writes for {requests} requests", log.writes);
    assert!(service.is_alive());
    service.stop().unwrap();
    assert!(!paths[0].1.exists());

    // Another service, and other processes for all that anybody knows.
    let service = start(&medium, &paths);
    for ((_, path), tables) in paths.iter().zip(&tables) {
        let database = open(tables.clone(), &log_at(path).unwrap(), settings(true)).unwrap();
        assert_eq!(rows(&database).len() as u64, COMMITS);
    }
    // One more member, who is another kind of server.
    let file = service.pool().member("a").unwrap().create("pg").unwrap();
    file.write(0, b"record", Durability::Now).unwrap();
    service.stop().unwrap();
}

#[test]
fn a_checkpoint_lets_go_of_the_log_in_the_pool() {
    let (medium, folder) = (medium(), tempfile::tempdir().unwrap());
    let members = [("a", folder.path().join("a"))];
    let tables: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let service = start(&medium, &members);
    let database = open(tables.clone(), &log_at(&members[0].1).unwrap(), settings(true)).unwrap();
    // More than the log may take at a time, several times over.
    for round in 0..6 {
        let session = database.session();
        let table = session.run(|transaction| match transaction.table("t")? {
            Some(table) => Ok(table),
            None => transaction.create_table("t"),
        });
        let table = table.unwrap_or_else(|error: Error| panic!("{error}"));
        for key in 0..200_u64 {
            session.run(|transaction| transaction.put(table, &key.to_be_bytes(), &[round; 8000])).unwrap();
        }
        database.checkpoint().unwrap();
    }
    let home = service.pool().member("a").unwrap().statistics().home;
    assert!(home <= 6 << 20, "{}", ByteSize(home));
    database.close().unwrap();
    wait_until("the first one has gone", || service.attached()[0].is_connected() == Some(false));
    let database = open(tables, &log_at(&members[0].1).unwrap(), settings(true)).unwrap();
    assert!(rows(&database).len() == 200 && rows(&database).iter().all(|(_, value)| *value == [5; 8000]));
}

#[test]
fn a_database_is_never_opened_on_a_log_that_is_not_its_own() {
    let (medium, folder) = (medium(), tempfile::tempdir().unwrap());
    let members = [("a", folder.path().join("a")), ("b", folder.path().join("b")), ("c", folder.path().join("c"))];
    let service = start(&medium, &members);
    let [a, b, c] = &members;
    let tables = || Arc::new(MemoryDirectory::new()) as Arc<dyn Directory>;
    let (one, two) = (tables(), tables());
    let refused = |tables: &Arc<dyn Directory>, log: Option<&LogPlace>, words: &str| {
        let outcome = match log {
            Some(log) => open(tables.clone(), log, settings(true)),
            None => Database::open_in(tables.clone(), settings(true)),
        };
        let error = outcome.expect_err(words);
        assert!(error.to_string().contains(words) && error.kind() == ErrorKind::Invalid, "{error}");
        assert!(matches!(error, Error::LogPlace { .. }));
    };
    for (tables, (_, path)) in [(&one, a), (&two, b)] {
        let database = open(tables.clone(), &log_at(path).unwrap(), settings(true)).unwrap();
        fill(&database, 0, 3);
    }
    wait_until("they have gone", || service.attached().iter().all(|member| member.is_connected() == Some(false)));

    refused(&one, None, "not beside its tables; open it with that place");
    let at_a = log_at(&a.1).unwrap();
    refused(&two, Some(&at_a), "where there is another database's");
    refused(&tables(), Some(&at_a), "is the log of another database; give this one a place of its own");
    refused(&one, Some(&enter(&c.1)), "where there is none");
    let beside = tables();
    fill(&Database::open_in(beside.clone(), settings(true)).unwrap(), 0, 3);
    refused(&beside, Some(&at_a), "its log lies beside its tables");
    assert!(enter(&c.1).directory.list().unwrap().is_empty(), "nothing is left where it was refused");
    assert_eq!(rows(&open(one, &at_a, settings(true)).unwrap()).len(), 3);
}

#[test]
fn who_is_in_keeps_others_out_and_a_full_member_is_told_so() {
    let (medium, folder) = (medium(), tempfile::tempdir().unwrap());
    let members = [("a", folder.path().join("a"))];
    let service = start(&medium, &members);
    let directory = ShmDirectory::connect(&members[0].1).unwrap();
    let error = log_at(&members[0].1).unwrap_err();
    assert!(error.to_string().contains("in use by this process itself (pid "), "{error}");
    let error = directory.create("large", 32 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert!(error.to_string().contains("member `a` has no space left"), "{error}");
    assert!(directory.list().unwrap().is_empty());
    // What is written over the ring is what the member has.
    let mut bytes = AlignedBuffer::zeroed(4096);
    bytes.fill(9);
    directory.create("log", 4096).unwrap().write_durable(0, &bytes).unwrap();
    let same = MemberDirectory::new(service.pool().member("a").unwrap());
    bytes.fill(0);
    same.open("log").unwrap().read_at(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 9));
}
