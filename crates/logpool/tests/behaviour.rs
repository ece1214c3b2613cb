//! What a server sees of its files.

mod stage;

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{Directory, MemoryDirectory, SimDirectory};
use ishigaki_logpool::{Durability, Error, File, Folder, Kind, Pool, Profile, inspect, is_pool, rebuild, verify};

use stage::{Apart, member, memory, small};

fn bytes(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.length().unwrap() as usize];
    assert_eq!(file.read(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn open(directory: &MemoryDirectory) -> Pool {
    Pool::open_together(Arc::new(directory.clone()), small(false)).unwrap()
}

/// The tail block of a log, written again for each commit with some new bytes, which are like nothing else, in the way of a
/// server.
fn commit_tails(file: &File, block: usize, fresh: usize, commits: usize) {
    let mut random = Seed(1).generator();
    let mut log = vec![0; (commits * fresh).next_multiple_of(block) + block];
    for commit in 0..commits {
        let (from, to) = (commit * fresh, (commit + 1) * fresh);
        random.fill(&mut log[from..to]);
        let (first, end) = (from / block * block, to.next_multiple_of(block));
        file.write(first as u64, &log[first..end], Durability::Now).unwrap();
    }
    let length = file.length().unwrap() as usize;
    assert_eq!(bytes(file), log[..length]);
}

#[test]
fn a_small_commit_takes_an_eighth_of_what_innodb_writes_and_a_fifteenth_of_what_postgresql_does() {
    for (block, fresh, share) in [(4096, 346, 8), (8192, 312, 15)] {
        let pool = open(&MemoryDirectory::new());
        let file = pool.add("a", member(Profile::GENERIC)).unwrap().create("log").unwrap();
        commit_tails(&file, block, fresh, 200);
        let statistics = pool.member("a").unwrap().statistics();
        assert!(statistics.written >= 200 * block as u64);
        assert!(statistics.logged * share <= statistics.written, "{statistics:?}");
        // Chunk headers and padding included; blanking segments is not a commit's.
        let medium = pool.statistics();
        assert!(medium.requests == 200 && medium.medium_bytes * share <= statistics.written * 11 / 10, "{medium:?}");
    }
}

#[test]
fn an_entry_whose_bytes_repeat_is_packed_in_the_log_and_reads_the_same_everywhere() {
    let directory = MemoryDirectory::new();
    let pool = open(&directory);
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    let file = a.create("log").unwrap();
    let logged = |bytes: &[u8]| {
        let before = a.statistics().logged;
        file.write(8192, bytes, Durability::Now).unwrap();
        a.statistics().logged - before
    };
    let mut unlike = [0; 4096];
    Seed(2).generator().fill(&mut unlike);
    assert!((4096..4200).contains(&logged(&unlike)), "there is no shorter way to say it");
    let alike = b"INSERT INTO stones VALUES (1);\n".repeat(130);
    let packed = logged(&alike);
    assert!(packed < 100, "{packed}");
    assert_eq!(a.statistics().written, 4096 + alike.len() as u64);
    let expected = bytes(&file);
    drop((file, a));
    pool.close().unwrap();

    let mut entries = Vec::new();
    inspect(&directory, &mut |entry| {
        entries.push(entry);
        true
    })
    .unwrap();
    let data: Vec<_> = entries.iter().filter(|entry| entry.kind == "data").collect();
    assert_eq!(data.iter().map(|entry| entry.packed).collect::<Vec<_>>(), [false, true]);
    assert_eq!((data[1].length, data[1].bytes), (alike.len() as u64, packed));
    let together = Apart::of(vec![("a", Arc::new(directory.clone()))]);
    assert!(verify(&directory, together.as_ref()).unwrap().is_sound());
    let root = tempfile::tempdir().unwrap();
    let mut folder = Folder::new(root.path().join("out")).unwrap();
    rebuild(&directory, together.as_ref(), "a", &mut folder).unwrap();
    assert_eq!(std::fs::read(root.path().join("out/log")).unwrap(), expected);
    assert_eq!(bytes(&open(&directory).member("a").unwrap().open("log").unwrap()), expected);
}

#[test]
fn what_lies_in_a_row_at_home_is_read_at_once() {
    let medium = SimDirectory::with_seed(Seed(1));
    let open = || Pool::open_together(Arc::new(medium.clone()), small(false)).unwrap();
    let pool = open();
    let content: Vec<u8> = (0..600_000_u32).map(|at| (at / 7) as u8).collect();
    let file = pool.add("a", member(Profile::GENERIC)).unwrap().create("log").unwrap();
    file.write(0, &content, Durability::Later).unwrap();
    pool.close().unwrap();

    // One that has nothing of it in memory.
    let pool = open();
    let file = pool.member("a").unwrap().open("log").unwrap();
    let before = medium.reads();
    let mut read = vec![0; 500_000];
    assert_eq!(file.read(99, &mut read).unwrap(), read.len());
    assert!(read == content[99..500_099]);
    assert_eq!(medium.reads() - before, 2, "one of each region");
}

#[test]
fn a_deleted_file_lives_for_those_who_have_it_open_and_a_renamed_one_keeps_its_bytes() {
    let directory = MemoryDirectory::new();
    let pool = open(&directory);
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    let (old, new) = (a.create("old").unwrap(), a.create("new").unwrap());
    old.write(0, &vec![1; 100_000], Durability::Later).unwrap();
    new.write(0, &vec![2; 70_000], Durability::Later).unwrap();
    pool.bring_home().unwrap();
    a.rename("new", "old").unwrap();
    old.write(5, b"still here", Durability::Now).unwrap();
    // Its place at home is not given to others before it has gone.
    a.create("other").unwrap().write(0, &vec![3; 200_000], Durability::Later).unwrap();
    pool.bring_home().unwrap();
    pool.bring_home().unwrap();
    let mut expected = vec![1; 100_000];
    expected[5..15].copy_from_slice(b"still here");
    assert_eq!(bytes(&old), expected);
    assert_eq!(bytes(&new), vec![2; 70_000]);
    assert_eq!(a.list(None).unwrap(), [("old".to_owned(), Kind::File), ("other".to_owned(), Kind::File)]);
    let home = a.statistics().home;
    drop(old);
    assert_eq!(home - a.statistics().home, 128 << 10);
    a.remove("other").unwrap();
    pool.close().unwrap();

    let pool = open(&directory);
    let a = pool.member("a").unwrap();
    assert_eq!(bytes(&a.open("old").unwrap()), vec![2; 70_000]);
    assert!(matches!(a.open("new"), Err(Error::NotFound { .. })));
    assert_eq!(a.list(None).unwrap().len(), 1);
}

#[test]
fn what_a_truncation_cut_off_is_zero_however_the_file_grows_again() {
    let directory = MemoryDirectory::new();
    let mut pool = open(&directory);
    pool.add("a", member(Profile::GENERIC)).unwrap().create("f").unwrap();
    let mut expected = Vec::new();
    for (turn, length) in [150_000_u64, 10_000, 10_000, 65_536, 140_001].into_iter().enumerate() {
        let file = pool.member("a").unwrap().open("f").unwrap();
        file.write(0, &vec![turn as u8 + 1; 150_000], Durability::Later).unwrap();
        if turn % 2 == 0 {
            pool.bring_home().unwrap();
        }
        file.truncate(length, Durability::Later).unwrap();
        if turn == 2 {
            pool.bring_home().unwrap();
        }
        file.truncate(150_000, Durability::Now).unwrap();
        expected = vec![turn as u8 + 1; length as usize];
        expected.resize(150_000, 0);
        assert_eq!(bytes(&file), expected, "turn {turn}");
        drop(file);
        if turn == 1 {
            pool.carry_on("a").unwrap();
        }
        pool.close().unwrap();
        pool = open(&directory);
        assert_eq!(bytes(&pool.member("a").unwrap().open("f").unwrap()), expected, "turn {turn}, opened again");
    }
    pool.bring_home().unwrap();
    pool.close().unwrap();
    assert_eq!(bytes(&open(&directory).member("a").unwrap().open("f").unwrap()), expected);
}

#[test]
fn checkpoint_areas_go_to_their_own_file_and_not_into_the_log() {
    let directory = MemoryDirectory::new();
    let pool = open(&directory);
    let a = pool.add("a", member(Profile::MARIADB)).unwrap();
    let file = a.create("ib_logfile101").unwrap();
    file.zero(0, 100_000, false, Durability::Later).unwrap();
    file.write(4096, b"before it has its name", Durability::Later).unwrap();
    a.rename("ib_logfile101", "ib_logfile0").unwrap();
    let entries = a.statistics().entries;
    for checkpoint in 0..5_u8 {
        let block = [checkpoint + 1; 512];
        file.write(4096 * (1 + u64::from(checkpoint) % 2), &block, Durability::Now).unwrap();
    }
    file.write(8192 + 512, b"later", Durability::Later).unwrap();
    file.sync(true).unwrap();
    let statistics = a.statistics();
    assert_eq!((statistics.entries, statistics.area_bytes), (entries, 5 * 512 + 5));
    let expected = bytes(&file);
    assert_eq!((expected[4096], expected[8192], &expected[8704..8709]), (5, 4, &b"later"[..]));
    drop(file);
    pool.close().unwrap();

    let pool = open(&directory);
    let a = pool.member("a").unwrap();
    assert_eq!(bytes(&a.open("ib_logfile0").unwrap()), expected);
    // Another name takes it out of the checkpoint file.
    a.rename("ib_logfile0", "set aside").unwrap();
    a.create("ib_logfile0").unwrap().write(0, &vec![9; 20_000], Durability::Now).unwrap();
    a.open("ib_logfile0").unwrap().write(4096, &[8; 512], Durability::Now).unwrap();
    a.open("ib_logfile0").unwrap().write(4096, &[7; 512], Durability::Now).unwrap();
    pool.close().unwrap();
    let pool = open(&directory);
    assert_eq!(bytes(&pool.member("a").unwrap().open("set aside").unwrap()), expected);
    let file = pool.member("a").unwrap().open("ib_logfile0").unwrap();
    assert_eq!(bytes(&file)[4096], 7);
    // What the log has made of an area since is not undone by the checkpoint file.
    file.zero(0, 16_384, true, Durability::Now).unwrap();
    pool.bring_home().unwrap();
    drop(file);
    pool.close().unwrap();
    let pool = open(&directory);
    assert_eq!(bytes(&pool.member("a").unwrap().open("ib_logfile0").unwrap())[..16_384], vec![0; 16_384]);
}

#[test]
fn a_removed_member_takes_its_files_along_and_leaves_the_others_theirs() {
    let directory = MemoryDirectory::new();
    let pool = open(&directory);
    for name in ["a", "b"] {
        let file = pool.add(name, member(Profile::GENERIC)).unwrap().create("f").unwrap();
        file.write(0, name.as_bytes(), Durability::Now).unwrap();
    }
    let a = pool.member("a").unwrap();
    pool.remove("a").unwrap();
    assert!(a.create("g").is_err() && pool.member("a").is_err());
    assert!(directory.list().unwrap().iter().all(|name| !name.starts_with("m.a.")));
    let again = pool.add("a", member(Profile::GENERIC)).unwrap();
    assert_eq!(again.list(None).unwrap(), []);
    again.create("g").unwrap().write(0, b"new", Durability::Now).unwrap();
    pool.close().unwrap();
    let pool = open(&directory);
    assert_eq!(bytes(&pool.member("a").unwrap().open("g").unwrap()), b"new");
    assert!(pool.member("a").unwrap().open("f").is_err());
    assert_eq!(bytes(&pool.member("b").unwrap().open("f").unwrap()), b"b");
}

#[test]
fn a_member_is_rebuilt_into_plain_files_and_its_entries_can_be_looked_at() {
    let directory = MemoryDirectory::new();
    let pool = open(&directory);
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    a.create_directory("archive_status").unwrap();
    a.create("archive_status/0001.done").unwrap();
    let file = a.create("0001").unwrap();
    file.write(0, &vec![1; 70_000], Durability::Later).unwrap();
    pool.bring_home().unwrap();
    file.write(65_000, b"the tail", Durability::Now).unwrap();
    pool.add("b", member(Profile::GENERIC)).unwrap().create("hers").unwrap();
    let expected = bytes(&file);
    pool.close().unwrap();

    let together = Apart::of(vec![("a", Arc::new(directory.clone())), ("b", Arc::new(directory.clone()))]);
    let root = tempfile::tempdir().unwrap();
    let mut folder = Folder::new(root.path().join("out")).unwrap();
    assert_eq!(rebuild(&directory, together.as_ref(), "a", &mut folder).unwrap(), 2);
    assert_eq!(std::fs::read(root.path().join("out/0001")).unwrap(), expected);
    assert_eq!(std::fs::read(root.path().join("out/archive_status/0001.done")).unwrap(), b"");
    // A log has its server's data in it.
    for (path, mode) in [("out", 0o700), ("out/archive_status", 0o700), ("out/0001", 0o600)] {
        let metadata = std::fs::metadata(root.path().join(path)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{path}");
    }
    assert!(Folder::new(root.path().join("out")).is_err(), "it is not empty any more");
    assert!(matches!(rebuild(&directory, together.as_ref(), "c", &mut folder), Err(Error::NotFound { .. })));

    let mut entries = Vec::new();
    inspect(&directory, &mut |entry| {
        entries.push(entry);
        true
    })
    .unwrap();
    let last_two: Vec<_> = entries.iter().rev().take(2).collect();
    assert_eq!(
        (last_two[0].kind, last_two[0].name.as_deref(), &last_two[0].paths[..]),
        ("create", Some("b"), &["hers".to_owned()][..])
    );
    assert_eq!((last_two[1].kind, last_two[1].offset, last_two[1].length, last_two[1].changed), ("data", 65_000, 8, 8));
    assert!(verify(&directory, together.as_ref()).unwrap().is_sound());
    assert!(is_pool(&directory).unwrap());
    assert!(!is_pool(&MemoryDirectory::new()).unwrap());
}

#[test]
fn names_and_sizes_that_can_not_be_are_refused() {
    let pool = open(&MemoryDirectory::new());
    assert!(pool.add("../a", member(Profile::GENERIC)).is_err());
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    assert!(matches!(pool.add("a", member(Profile::GENERIC)), Err(Error::Exists { .. })));
    for path in ["/etc/passwd", "../b", "x/../../y", ""] {
        assert_eq!(a.create(path).unwrap_err().kind(), ErrorKind::Invalid, "{path}");
    }
    let file = a.create("f").unwrap();
    for (offset, length) in [(u64::MAX, 1), (1 << 40, 1), (u64::MAX, u64::MAX)] {
        assert_eq!(file.zero(offset, length, false, Durability::Now).unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(file.write(u64::MAX - 3, b"beyond", Durability::Now).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(file.read(u64::MAX, &mut [0; 10]).unwrap(), 0);
    // The shares of all are a quarter of the log at most.
    let greedy = ishigaki_logpool::MemberSettings {
        quota: ishigaki_logpool::Quota { share: ByteSize::mib(1), ..stage::quota() },
        ..member(Profile::GENERIC)
    };
    assert!(pool.add("greedy", greedy).unwrap_err().to_string().contains("a quarter of the log"));
}

#[test]
fn homes_of_another_pool_are_left_alone() {
    let homes = Apart::of(vec![("a", memory())]);
    let pool = Pool::open(memory(), homes.clone(), small(false)).unwrap();
    let file = pool.add("a", member(Profile::GENERIC)).unwrap().create("f").unwrap();
    file.write(0, b"mine", Durability::Now).unwrap();
    let other = Pool::open(memory(), homes, small(false)).unwrap();
    assert!(matches!(other.add("a", member(Profile::GENERIC)), Err(Error::Exists { .. })));
    assert_eq!(bytes(&file), b"mine");
}
