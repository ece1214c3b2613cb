//! Limits: quotas, full media, members that stand still, and who has to bear them: nobody else.

mod stage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{Fault, MemoryDirectory, MemorySettings, SimDirectory};
use ishigaki_logpool::{Durability, Error, File, MemberSettings, Pool, Profile, Quota, Settings, verify};

use stage::{Apart, Gate, member, memory, small};

fn bytes(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.length().unwrap() as usize];
    assert_eq!(file.read(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Writes so many KiB around and around a file of 512 KiB, of bytes that take as many in the log.
fn write_around(file: &File, kib: u64, turn: u8) {
    let (mut random, mut block) = (Seed(turn.into()).generator(), [0; 4096]);
    for at in 0..kib / 4 {
        random.fill(&mut block);
        file.write(at * 4096 % (512 << 10), &block, Durability::Later).unwrap();
        if at % 8 == 0 {
            file.sync(true).unwrap();
        }
    }
    file.sync(true).unwrap();
}

#[test]
fn a_member_over_its_quota_is_refused_alone_and_goes_on_when_it_has_removed_something() {
    let pool = Pool::open_together(memory(), small(false)).unwrap();
    let (a, b) = (pool.add("a", member(Profile::GENERIC)).unwrap(), pool.add("b", member(Profile::GENERIC)).unwrap());
    let (file, other) = (a.create("f").unwrap(), b.create("f").unwrap());
    file.zero(0, 1 << 20, false, Durability::Now).unwrap();
    for refused in [
        file.write(1 << 20, b"x", Durability::Now),
        file.truncate((1 << 20) + 1, Durability::Now),
        file.zero(1 << 20, 1, false, Durability::Now),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Exhausted);
    }
    file.write((1 << 20) - 1, b"x", Durability::Now).unwrap();
    other.write(900_000, b"others go on", Durability::Now).unwrap();
    file.truncate(1, Durability::Now).unwrap();
    file.write(500_000, b"x", Durability::Now).unwrap();
    (0..7).for_each(|number| drop(a.create(&number.to_string()).unwrap()));
    assert_eq!(a.create("one too many").unwrap_err().kind(), ErrorKind::Exhausted);
    a.remove("3").unwrap();
    a.create("one for one").unwrap();
    assert_eq!(a.statistics().files, 8);
}

#[test]
fn the_log_is_bounded_however_much_is_written() {
    for background in [false, true] {
        let pool = Pool::open_together(memory(), small(background)).unwrap();
        let (a, b) =
            (pool.add("a", member(Profile::GENERIC)).unwrap(), pool.add("b", member(Profile::GENERIC)).unwrap());
        let idle = b.create("f").unwrap();
        idle.write(0, b"said once", Durability::Now).unwrap();
        let file = a.create("f").unwrap();
        for turn in 0..10 {
            write_around(&file, 2048, turn);
            let log = pool.statistics();
            assert!(log.live <= log.bound, "{log:?}");
            let statistics = a.statistics();
            let share = statistics.quota.share.0;
            assert!(statistics.bytes_not_home <= share && statistics.memory_not_home <= share, "{statistics:?}");
        }
        assert!(a.statistics().rounds > 5 && a.statistics().logged > 10 * pool.statistics().bound.0 / 2);
        assert_eq!(bytes(&idle), b"said once");
    }
}

#[test]
fn a_full_medium_of_one_home_refuses_that_member_alone() {
    let narrow = MemorySettings { capacity: Some(ByteSize::kib(600)), ..MemorySettings::default() };
    let homes = Apart::of(vec![("a", Arc::new(MemoryDirectory::with(narrow))), ("b", memory())]);
    let directory = memory();
    let pool = Pool::open(directory.clone(), homes.clone(), small(false)).unwrap();
    let (a, b) = (pool.add("a", member(Profile::GENERIC)).unwrap(), pool.add("b", member(Profile::GENERIC)).unwrap());
    let (file, other) = (a.create("f").unwrap(), b.create("f").unwrap());
    let mut accepted = 0;
    let refused = loop {
        match file.write(accepted, &vec![7; 65536], Durability::Now) {
            Ok(()) => accepted += 65536,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    assert!((128 << 10..600 << 10).contains(&accepted), "{accepted}");
    other.write(900_000, b"others go on", Durability::Now).unwrap();
    file.write(0, b"within its size it may still be written", Durability::Now).unwrap();
    pool.bring_home().unwrap();
    let length = file.length().unwrap();
    pool.close().unwrap();
    let pool = Pool::open(directory, homes, small(false)).unwrap();
    assert_eq!(pool.member("a").unwrap().open("f").unwrap().length().unwrap(), length);
}

#[test]
fn a_member_whose_home_stands_still_stops_nobody_and_loses_nothing() {
    let gate = Gate::new(memory());
    let homes = Apart::of(vec![("a", Arc::new(gate.clone())), ("b", memory())]);
    let directory = memory();
    let settings = Settings { patience: Duration::from_secs(5), ..small(true) };
    let pool = Pool::open(directory.clone(), homes.clone(), settings.clone()).unwrap();
    let (a, b) = (pool.add("a", member(Profile::GENERIC)).unwrap(), pool.add("b", member(Profile::GENERIC)).unwrap());
    let (file, other) = (a.create("f").unwrap(), b.create("f").unwrap());
    file.write(0, &vec![5; 300_000], Durability::Now).unwrap();
    pool.bring_home().unwrap();
    file.truncate(200_000, Durability::Now).unwrap();
    file.truncate(250_000, Durability::Now).unwrap();
    gate.shut(true);
    // It fills its share, by whole blocks, which need no look at its home. Then it alone is refused.
    let mut expected = vec![5; 200_000];
    expected.resize(250_000, 0);
    let (mut random, mut block) = (Seed(9).generator(), [0; 4096]);
    let refused = (0..).find_map(|turn: usize| {
        let at = turn * 8192 % 196_608;
        random.fill(&mut block);
        match file.write(at as u64, &block, Durability::Now) {
            Ok(()) => {
                expected[at..at + 4096].copy_from_slice(&block);
                None
            }
            Err(error) => Some(error),
        }
    });
    assert!(matches!(refused, Some(Error::Full { .. })), "{refused:?}");
    // The others write many times what the log can hold.
    let began = Instant::now();
    for turn in 0..10 {
        write_around(&other, 2048, turn);
    }
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    assert!(a.statistics().restated > 0, "{:?}", a.statistics());
    let mut shown = vec![0; 1000];
    assert_eq!(file.read(8192, &mut shown).unwrap(), 1000);
    assert_eq!(shown, expected[8192..9192], "what is in memory can be read");

    // The home comes back to life, and so does the member.
    gate.shut(false);
    pool.bring_home().unwrap();
    file.write(0, b"again", Durability::Now).unwrap();
    expected[..5].copy_from_slice(b"again");
    assert_eq!(bytes(&file), expected);
    drop((file, other));
    pool.close().unwrap();
    assert_eq!(verify(directory.as_ref(), homes.as_ref()).unwrap().problems, [""; 0]);
    let pool = Pool::open(directory, homes, settings).unwrap();
    assert_eq!(bytes(&pool.member("a").unwrap().open("f").unwrap()), expected);
}

#[test]
fn a_stopped_member_is_rebuilt_from_what_was_carried_on() {
    let directory = SimDirectory::with_seed(Seed(7));
    let home = SimDirectory::with_seed(Seed(8));
    let gate = Gate::new(Arc::new(home.clone()));
    let homes = Apart::of(vec![("a", Arc::new(gate.clone())), ("b", memory())]);
    let settings = Settings { patience: Duration::from_secs(5), ..small(true) };
    let pool = Pool::open(Arc::new(directory.clone()), homes.clone(), settings).unwrap();
    let (a, b) = (pool.add("a", member(Profile::MARIADB)).unwrap(), pool.add("b", member(Profile::GENERIC)).unwrap());
    let (file, other) = (a.create("ib_logfile0").unwrap(), b.create("f").unwrap());
    file.write(0, &vec![5; 100_000], Durability::Now).unwrap();
    pool.bring_home().unwrap();
    file.write(4096, &[6; 512], Durability::Now).unwrap();
    file.write(70_000, &[7; 5000], Durability::Now).unwrap();
    gate.shut(true);
    (0..8).for_each(|turn| write_around(&other, 2048, turn));
    file.write(81_920, &[8; 4096], Durability::Now).unwrap();
    assert!(a.statistics().restated > 0);
    let mut expected = vec![5; 100_000];
    expected[4096..4608].fill(6);
    expected[70_000..75_000].fill(7);
    expected[81_920..86_016].fill(8);
    directory.power_cut_now();
    home.power_cut_now();
    gate.shut(false);
    drop((file, other, pool));

    let directory = directory.survivors(Seed(1));
    let again = Apart::of(vec![("a", Arc::new(home.survivors(Seed(2)))), ("b", homes.0["b"].clone())]);
    let pool = Pool::open(Arc::new(directory), again, small(false)).unwrap();
    assert_eq!(bytes(&pool.member("a").unwrap().open("ib_logfile0").unwrap()), expected);
}

#[test]
fn a_home_that_was_full_takes_the_files_that_replace_others() {
    let directory = memory();
    let pool = Pool::open_together(directory.clone(), small(false)).unwrap();
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    for turn in 0..4_u8 {
        let file = a.create(&format!("f{turn}")).unwrap();
        (0..16).for_each(|at| file.write(at << 16, &vec![turn + 1; 65536], Durability::Later).unwrap());
        pool.bring_home().unwrap();
        assert_eq!(a.statistics().home, 1 << 20);
        a.remove(&format!("f{turn}")).unwrap();
    }
    let file = a.create("last").unwrap();
    file.write(0, &vec![9; 1 << 20], Durability::Now).unwrap();
    pool.bring_home().unwrap();
    drop(file);
    pool.close().unwrap();
    let pool = Pool::open_together(directory, small(false)).unwrap();
    assert_eq!(bytes(&pool.member("a").unwrap().open("last").unwrap()), vec![9; 1 << 20]);
}

#[test]
fn a_read_that_takes_its_time_never_shows_what_another_file_has_in_that_place_now() {
    let gate = Gate::for_reads(memory());
    let settings = Settings { cache: ByteSize(0), ..small(false) };
    let pool = Pool::open(memory(), Apart::of(vec![("a", Arc::new(gate.clone()))]), settings).unwrap();
    let quota = Quota { share: ByteSize::kib(512), home: ByteSize::kib(128), files: 2 };
    let a = pool.add("a", MemberSettings { quota, ..MemberSettings::default() }).unwrap();
    let (file, other) = (a.create("f").unwrap(), a.create("g").unwrap());
    file.write(0, &vec![1; 128 << 10], Durability::Now).unwrap();
    pool.bring_home().unwrap();
    gate.shut(true);
    std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            let mut bytes = vec![0; 128 << 10];
            let length = file.read(0, &mut bytes).unwrap();
            bytes.truncate(length);
            bytes
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!read.is_finished(), "it waits at the gate");
        // The home is full: the other file gets the very places that are being read.
        file.truncate(0, Durability::Later).unwrap();
        other.write(0, &vec![2; 128 << 10], Durability::Now).unwrap();
        pool.bring_home().unwrap();
        gate.shut(false);
        assert!(read.join().unwrap().iter().all(|&byte| byte == 1));
    });
    assert_eq!(bytes(&other), vec![2; 128 << 10]);
}

#[test]
fn what_happens_to_a_file_while_it_goes_home_is_not_undone_by_that() {
    let gate = Gate::new(memory());
    let homes = Apart::of(vec![("a", Arc::new(gate.clone()))]);
    let directory = memory();
    let pool = Pool::open(directory.clone(), homes.clone(), small(false)).unwrap();
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    let (file, gone) = (a.create("f").unwrap(), a.create("gone").unwrap());
    file.write(0, &vec![1; 90_000], Durability::Now).unwrap();
    gone.write(0, &vec![2; 9000], Durability::Now).unwrap();
    gate.shut(true);
    std::thread::scope(|scope| {
        let round = scope.spawn(|| pool.bring_home());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!round.is_finished(), "it waits at the gate");
        file.truncate(20_000, Durability::Later).unwrap();
        file.truncate(90_000, Durability::Later).unwrap();
        file.write(4096, &[3; 4096], Durability::Later).unwrap();
        file.zero(8192, 4096, true, Durability::Later).unwrap();
        a.remove("gone").unwrap();
        a.rename("f", "g").unwrap();
        gate.shut(false);
        round.join().unwrap().unwrap();
    });
    let mut expected = vec![1; 20_000];
    expected[4096..8192].fill(3);
    expected[8192..12288].fill(0);
    expected.resize(90_000, 0);
    assert_eq!(bytes(&file), expected);
    assert_eq!(bytes(&gone), vec![2; 9000]);
    for _ in 0..2 {
        pool.bring_home().unwrap();
        assert_eq!(bytes(&file), expected);
    }
    drop((file, gone));
    pool.close().unwrap();
    let pool = Pool::open(directory, homes, small(false)).unwrap();
    let a = pool.member("a").unwrap();
    assert_eq!(bytes(&a.open("g").unwrap()), expected);
    assert_eq!(a.list(None).unwrap().len(), 1);
}

#[test]
fn a_failed_home_closes_its_member_alone_and_the_next_opening_has_everything() {
    let home = SimDirectory::with_seed(Seed(3));
    let directory = memory();
    let homes = Apart::of(vec![("a", Arc::new(home.clone())), ("b", memory())]);
    let pool = Pool::open(directory.clone(), homes.clone(), small(false)).unwrap();
    let (a, b) = (pool.add("a", member(Profile::GENERIC)).unwrap(), pool.add("b", member(Profile::GENERIC)).unwrap());
    let (file, other) = (a.create("f").unwrap(), b.create("f").unwrap());
    file.write(0, &vec![5; 100_000], Durability::Now).unwrap();
    home.inject(Fault::SyncError { nth: home.syncs() + 1 });
    home.inject(Fault::SyncError { nth: home.syncs() });
    assert!(matches!(pool.bring_home(), Err(Error::HomeFailed { .. })));
    assert!(matches!(file.write(0, b"x", Durability::Now), Err(Error::HomeFailed { .. })));
    assert!(file.read(0, &mut [0; 8]).is_err());
    (0..8).for_each(|turn| write_around(&other, 2048, turn));
    pool.close().unwrap();
    drop((file, other));
    let again = Apart::of(vec![("a", Arc::new(home.process_crash())), ("b", homes.0["b"].clone())]);
    let pool = Pool::open(directory, again, small(false)).unwrap();
    assert_eq!(bytes(&pool.member("a").unwrap().open("f").unwrap()), vec![5; 100_000]);
}

#[test]
fn a_failed_sync_of_the_log_closes_every_member_for_good() {
    for background in [false, true] {
        let log = SimDirectory::with_seed(Seed(4));
        let homes = Apart::of(vec![("a", memory()), ("b", memory())]);
        let pool = Pool::open(Arc::new(log.clone()), homes.clone(), small(background)).unwrap();
        let file = |name| pool.add(name, member(Profile::GENERIC)).unwrap().create("f").unwrap();
        let (mine, hers) = (file("a"), file("b"));
        mine.write(0, b"durable", Durability::Now).unwrap();
        let (writes, syncs) = (log.writes(), log.syncs());
        log.inject(Fault::WriteError { nth: writes });
        log.inject(Fault::SyncError { nth: syncs });
        assert!(matches!(mine.write(0, b"never  ", Durability::Now), Err(Error::Failed { .. })));
        let operations = log.operations();
        for _ in 0..3 {
            assert!(matches!(hers.write(0, b"x", Durability::Later), Err(Error::Failed { .. })));
            assert!(matches!(hers.sync(true), Err(Error::Failed { .. })));
            assert!(matches!(mine.read(0, &mut [0; 8]), Err(Error::Failed { .. })));
            assert!(matches!(pool.bring_home(), Err(Error::Failed { .. })));
        }
        assert_eq!(log.operations(), operations, "nothing is tried again");
        assert!(pool.close().is_err());
        drop((mine, hers));
        let pool = Pool::open(Arc::new(log.survivors(Seed(5))), homes, small(background)).unwrap();
        let shown = bytes(&pool.member("a").unwrap().open("f").unwrap());
        assert!(shown == b"durable" || shown == b"never  ", "{shown:?}");
    }
}

/// A pool that was closed, with something in its log, at home and in the checkpoint file; and what its file holds.
fn closed_pool() -> (SimDirectory, Vec<u8>) {
    let medium = SimDirectory::with_seed(Seed(6));
    let pool = Pool::open_together(Arc::new(medium.clone()), small(false)).unwrap();
    let file = pool.add("a", member(Profile::MARIADB)).unwrap().create("ib_logfile0").unwrap();
    file.write(0, &vec![5; 200_000], Durability::Now).unwrap();
    pool.bring_home().unwrap();
    file.write(4096, &[6; 512], Durability::Now).unwrap();
    file.write(70_000, &[7; 5000], Durability::Now).unwrap();
    let expected = bytes(&file);
    drop(file);
    pool.close().unwrap();
    (medium.survivors(Seed(1)), expected)
}

/// What is wrong with a pool.
fn problems(medium: &SimDirectory) -> Vec<String> {
    let homes = Apart::of(vec![("a", Arc::new(medium.clone()))]);
    verify(medium, homes.as_ref()).map_or_else(|error| vec![error.to_string()], |found| found.problems)
}

#[test]
fn a_flipped_bit_is_found_or_harmless() {
    let (medium, expected) = closed_pool();
    assert_eq!(problems(&medium), [""; 0]);
    let (mut found, mut harmless) = (0, 0);
    for (device, _) in medium.devices() {
        for sector in medium.written(&device).unwrap() {
            let copy = medium.survivors(Seed(1));
            copy.flip_bit(&device, sector + sector / 512 % 509, 3).unwrap();
            if !problems(&copy).is_empty() {
                found += 1;
                continue;
            }
            // Not covered: what has changed since the home, the other copies of ledger and areas, padding.
            let pool = Pool::open_together(Arc::new(copy), small(false)).unwrap();
            let shown = bytes(&pool.member("a").unwrap().open("ib_logfile0").unwrap());
            assert!(shown == expected, "{device} at {sector}");
            harmless += 1;
        }
    }
    assert!(found > 100 && harmless > 0, "{found} found, {harmless} harmless");
}

#[test]
fn damage_is_refused_by_opening() {
    let (medium, _) = closed_pool();
    // One copy of the ledger and of the roster is enough; without both there is no home, or no pool.
    for devices in [["m.a.ledger-0", "m.a.ledger-1"], ["pool-roster", "pool-roster-1"]] {
        for device in devices {
            let copy = medium.survivors(Seed(1));
            copy.flip_bit(device, 20, 0).unwrap();
            let pool = Pool::open_together(Arc::new(copy), small(false)).unwrap();
            assert!(pool.quarantined().is_empty(), "{device}");
        }
        let copy = medium.survivors(Seed(1));
        for device in devices {
            copy.flip_bit(device, 20, 0).unwrap();
        }
        let opened = Pool::open_together(Arc::new(copy), small(false)).and_then(|pool| pool.member("a"));
        assert_eq!(opened.err().map(|error| error.kind()), Some(ErrorKind::Corrupt));
    }
}

#[test]
fn an_entry_that_can_not_be_unpacked_is_refused_and_so_is_one_of_another_version() {
    let settings = ishigaki_wal::Settings {
        commit: ishigaki_wal::CommitRule::Watermark,
        streams: 1,
        relief: 0,
        segment: small(false).segment,
        background: false,
        ..ishigaki_wal::Settings::default()
    };
    // 2 is packed: a length, and a block that is of another length, or of none.
    let block = [&[2, 0xAC, 2, 0x1F, 7, 1, 0][..], &[0xFF; 3], &[0]].concat();
    for (payload, kind, word) in [
        (&block[..], ErrorKind::Corrupt, "packed"),
        (&[2, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x10, 7], ErrorKind::Corrupt, "packed"),
        (&[2], ErrorKind::Corrupt, "packed"),
        (&[3, 1, 0, 1], ErrorKind::Invalid, "version 3"),
    ] {
        let (medium, _) = closed_pool();
        let (log, _) = ishigaki_wal::Log::open(Arc::new(medium.clone()), settings.clone(), &mut |_, _| Ok(())).unwrap();
        log.assign().append(payload).unwrap();
        log.close().unwrap();
        drop(log);
        assert!(problems(&medium).iter().any(|problem| problem.contains(word)), "{payload:?}: {:?}", problems(&medium));
        let error = Pool::open_together(Arc::new(medium), small(false)).expect_err("it is refused");
        assert!(error.kind() == kind && error.to_string().contains(word), "{error}");
    }
}

#[test]
fn entries_that_are_missing_after_a_home_are_noticed() {
    let (medium, _) = closed_pool();
    // An older home under a log that was trimmed since.
    let (old, medium) = (medium.survivors(Seed(1)), medium.survivors(Seed(1)));
    let pool = Pool::open_together(Arc::new(medium.clone()), small(false)).unwrap();
    let file = pool.member("a").unwrap().open("ib_logfile0").unwrap();
    (0..3).for_each(|turn| write_around(&file, 1024, turn));
    drop(file);
    pool.close().unwrap();
    let homes = Apart::of(vec![("a", Arc::new(old))]);
    let pool = Pool::open(Arc::new(medium), homes, small(false)).unwrap();
    let error = pool.member("a").expect_err("it is refused");
    assert!(error.to_string().contains("are missing"), "{error}");
}
