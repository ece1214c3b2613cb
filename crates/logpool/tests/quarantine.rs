//! Members that can not be served, and what that is for the others: nothing. And members that go.

mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{Directory, Fault, FileDirectory, SimDirectory};
use ishigaki_logpool::{Durability, Error, File, Pool, Profile, Result, Settings};
use ishigaki_testkit::seeded_runs;

use stage::{Apart, Gate, member, memory, small};

fn settings() -> Settings {
    Settings { cache: ByteSize(0), ..small(false) }
}

fn open(medium: &SimDirectory) -> Result<Pool> {
    Pool::open_together(Arc::new(medium.clone()), settings())
}

fn bytes(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.length().unwrap() as usize];
    assert_eq!(file.read(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn content(turn: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Seed(turn.into()).generator().fill(&mut bytes);
    bytes
}

/// What member `a` holds: some of it home, some in the log alone.
fn work(pool: &Pool) -> Result<Vec<u8>> {
    let a = pool.add("a", member(Profile::GENERIC))?;
    pool.add("b", member(Profile::GENERIC))?.create("f")?;
    let file = a.create("f")?;
    let mut expected = content(1, 90_000);
    file.write(0, &expected, Durability::Now)?;
    pool.bring_home()?;
    file.write(1000, &content(2, 30_000), Durability::Now)?;
    expected[1000..31_000].copy_from_slice(&content(2, 30_000));
    file.write(50_000, b"a part of a block", Durability::Now)?;
    expected[50_000..50_017].copy_from_slice(b"a part of a block");
    Ok(expected)
}

/// The log is written over, several times.
fn others_go_on(pool: &Pool) {
    let file = pool.member("b").unwrap().open("f").unwrap();
    for turn in 0..100 {
        file.write(0, &content(turn, 64 << 10), Durability::Now).unwrap();
        let log = pool.statistics();
        assert!(log.live <= log.bound, "{log:?}");
    }
}

const LEDGERS: [&str; 2] = ["m.a.ledger-0", "m.a.ledger-1"];

fn spoil(medium: &SimDirectory) {
    for name in LEDGERS {
        medium.flip_bit(name, 30, 1).unwrap();
    }
}

/// A pool of two members that was worked on and closed, both ledgers of `a` damaged; and what `a` has in its file.
fn spoiled(seed: Seed) -> (SimDirectory, Vec<u8>) {
    let medium = SimDirectory::with_seed(seed);
    let pool = open(&medium).unwrap();
    let expected = work(&pool).unwrap();
    pool.close().unwrap();
    drop(pool);
    let medium = medium.survivors(Seed(1));
    spoil(&medium);
    (medium, expected)
}

#[test]
fn a_member_without_a_ledger_is_quarantined_alone_and_loses_nothing_until_it_is_mended() {
    let (medium, expected) = spoiled(Seed(1));
    for _ in 0..2 {
        let pool = open(&medium).unwrap();
        let error = pool.member("a").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("ledger") && error.to_string().contains("log remove a --force"), "{error}");
        assert_eq!(pool.quarantined().len(), 1);
        assert_eq!(pool.members(), ["a", "b"]);
        others_go_on(&pool);
        assert!(matches!(pool.repair("a"), Err(Error::Quarantined { .. })));
        assert!(matches!(pool.add("a", member(Profile::GENERIC)), Err(Error::Exists { .. })));
        pool.close().unwrap();
    }
    // One copy is enough.
    medium.flip_bit(LEDGERS[1], 30, 1).unwrap();
    let pool = open(&medium).unwrap();
    assert_eq!(pool.quarantined().len(), 0);
    assert_eq!(bytes(&pool.member("a").unwrap().open("f").unwrap()), expected);
    assert!(!medium.list().unwrap().iter().any(|name| name.contains("aside")), "{:?}", medium.list());
}

#[test]
fn a_quarantined_member_is_mended_while_the_others_run() {
    let (medium, expected) = spoiled(Seed(2));
    let pool = open(&medium).unwrap();
    others_go_on(&pool);
    assert!(pool.reopen("a").is_err());
    medium.flip_bit(LEDGERS[0], 30, 1).unwrap();
    pool.repair("a").unwrap();
    assert_eq!(pool.quarantined().len(), 0);
    let file = pool.member("a").unwrap().open("f").unwrap();
    assert_eq!(bytes(&file), expected);
    file.write(0, b"it goes on", Durability::Now).unwrap();
    others_go_on(&pool);
    drop(file);
    pool.close().unwrap();
    let pool = open(&medium.survivors(Seed(2))).unwrap();
    let shown = bytes(&pool.member("a").unwrap().open("f").unwrap());
    assert_eq!((&shown[..10], &shown[10..]), (&b"it goes on"[..], &expected[10..]));
}

#[test]
fn a_member_that_is_taken_out_comes_back_with_all_that_it_had() {
    for background in [false, true] {
        let medium = SimDirectory::with_seed(Seed(3));
        let pool = Pool::open_together(Arc::new(medium.clone()), Settings { background, ..settings() }).unwrap();
        let expected = work(&pool).unwrap();
        let file = pool.member("a").unwrap().open("f").unwrap();
        pool.quarantine("a", "for a look at its medium").unwrap();
        assert!(matches!(file.read(0, &mut [0; 8]), Err(Error::Quarantined { .. })));
        assert!(matches!(file.write(0, b"x", Durability::Now), Err(Error::Quarantined { .. })));
        assert!(matches!(pool.member("a"), Err(Error::Quarantined { .. })));
        others_go_on(&pool);
        pool.bring_home().unwrap();
        for _ in 0..2 {
            let file = pool.reopen("a").unwrap().open("f").unwrap();
            assert_eq!(bytes(&file), expected);
            file.write(0, &expected[..5], Durability::Now).unwrap();
        }
        others_go_on(&pool);
        assert_eq!(bytes(&pool.member("a").unwrap().open("f").unwrap()), expected);
        pool.close().unwrap();
        drop((file, pool));
        let pool = open(&medium.survivors(Seed(1))).unwrap();
        assert_eq!(bytes(&pool.member("a").unwrap().open("f").unwrap()), expected);
    }
}

#[test]
fn a_member_whose_home_has_failed_is_opened_again_while_the_others_run() {
    let home = SimDirectory::with_seed(Seed(4));
    let homes = Apart::of(vec![("a", Arc::new(home.clone())), ("b", memory())]);
    let pool = Pool::open(memory(), homes, settings()).unwrap();
    let expected = work(&pool).unwrap();
    let file = pool.member("a").unwrap().open("f").unwrap();
    home.inject(Fault::SyncError { nth: home.syncs() });
    assert!(matches!(pool.bring_home(), Err(Error::HomeFailed { .. })));
    assert!(matches!(file.read(0, &mut [0; 8]), Err(Error::HomeFailed { .. })));
    others_go_on(&pool);
    pool.reopen("a").unwrap();
    let again = pool.member("a").unwrap().open("f").unwrap();
    assert_eq!(bytes(&again), expected);
    assert!(file.read(0, &mut [0; 8]).is_err(), "what was open before stays of no use");
    pool.bring_home().unwrap();
    assert_eq!(bytes(&again), expected);
}

#[test]
fn an_opening_with_a_quarantined_member_that_is_cut_anywhere_loses_nothing_of_it() {
    seeded_runs("an_opening_with_a_quarantined_member_that_is_cut_anywhere_loses_nothing_of_it", 2, |seed| {
        let whole = SimDirectory::with_seed(seed);
        let pool = open(&whole).unwrap();
        let expected = work(&pool).unwrap();
        pool.close().unwrap();
        drop(pool);
        let whole = whole.survivors(seed);
        spoil(&whole);
        for cut in 0.. {
            let medium = whole.survivors(seed);
            medium.inject(Fault::PowerCut { operation: cut });
            let _ = open(&medium).and_then(|pool| {
                let file = pool.member("b")?.open("f")?;
                (0..12).try_for_each(|turn| file.write(0, &content(turn, 60_000), Durability::Now))?;
                pool.bring_home()
            });
            let is_over = medium.power_is_on();
            let medium = medium.survivors(seed.derive(cut));
            for name in LEDGERS {
                medium.flip_bit(name, 30, 1).unwrap();
            }
            let pool = open(&medium).unwrap();
            assert_eq!(bytes(&pool.member("a").unwrap().open("f").unwrap()), expected, "cut at {cut}");
            if is_over {
                assert!(cut > 20, "{cut}");
                break;
            }
        }
    });
}

/// Names of files of that member.
fn files_of(medium: &SimDirectory, name: &str) -> Vec<String> {
    let mut names = medium.list().unwrap();
    names.retain(|device| device.starts_with(&format!("m.{name}.")));
    names
}

#[test]
fn a_removal_that_is_cut_leaves_the_member_whole_or_nothing_of_it() {
    seeded_runs("a_removal_that_is_cut_leaves_the_member_whole_or_nothing_of_it", 2, |seed| {
        let whole = SimDirectory::with_seed(seed);
        let pool = open(&whole).unwrap();
        let expected = work(&pool).unwrap();
        pool.close().unwrap();
        drop(pool);
        let whole = whole.survivors(seed);
        let (mut kept, mut gone) = (0, 0);
        for cut in 0.. {
            let medium = whole.survivors(seed);
            let pool = open(&medium).unwrap();
            medium.inject(Fault::PowerCut { operation: medium.operations() + cut });
            let outcome = pool.remove("a");
            let is_over = medium.power_is_on();
            for survivor in 0..3 {
                let medium = medium.survivors(seed.derive(survivor));
                let pool = open(&medium).unwrap();
                match pool.member("a") {
                    Ok(a) => {
                        assert!(outcome.is_err());
                        kept += 1;
                        assert_eq!(bytes(&a.open("f").unwrap()), expected, "cut at {cut}");
                    }
                    Err(error) => {
                        gone += 1;
                        assert!(matches!(error, Error::NotFound { .. }), "cut at {cut}: {error}");
                        assert_eq!(files_of(&medium, "a"), [""; 0], "cut at {cut}");
                        assert_eq!(files_of(&medium.survivors(seed), "a"), [""; 0], "cut at {cut}");
                    }
                }
                let _ = pool.members();
            }
            if is_over {
                break;
            }
        }
        assert!(kept > 0 && gone > 5, "{kept} kept, {gone} gone");
    });
}

#[test]
fn a_member_that_was_being_taken_in_is_there_or_leaves_nothing() {
    seeded_runs("a_member_that_was_being_taken_in_is_there_or_leaves_nothing", 2, |seed| {
        for cut in 0.. {
            let medium = SimDirectory::with_seed(seed);
            let pool = open(&medium).unwrap();
            medium.inject(Fault::PowerCut { operation: medium.operations() + cut });
            let _ = pool.add("a", member(Profile::MARIADB));
            let is_over = medium.power_is_on();
            for survivor in 0..3 {
                let medium = medium.survivors(seed.derive(survivor));
                let pool = open(&medium).unwrap();
                assert_eq!(pool.quarantined().len(), 0, "cut at {cut}: {:?}", pool.quarantined());
                if pool.members().is_empty() {
                    assert_eq!(files_of(&medium, "a"), [""; 0], "cut at {cut}");
                }
            }
            if is_over {
                break;
            }
        }
    });
}

#[test]
fn a_pool_that_has_lost_its_roster_is_refused_and_not_taken_for_a_new_one() {
    let medium = SimDirectory::with_seed(Seed(9));
    let pool = open(&medium).unwrap();
    let expected = work(&pool).unwrap();
    pool.bring_home().unwrap();
    pool.close().unwrap();
    drop(pool);
    // Closed twice, so that the log has nothing of the members any more.
    let pool = open(&medium).unwrap();
    pool.bring_home().unwrap();
    pool.close().unwrap();
    drop(pool);
    for name in ["pool-roster", "pool-roster-1"] {
        medium.rename(name, &format!("kept-{name}")).unwrap();
    }
    let before = medium.list().unwrap();
    let error = open(&medium).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("there is no roster"), "{error}");
    assert_eq!(medium.list().unwrap(), before, "nothing is made or removed");
    medium.rename("kept-pool-roster", "pool-roster").unwrap();
    let pool = open(&medium).unwrap();
    assert_eq!(bytes(&pool.member("a").unwrap().open("f").unwrap()), expected);
}

/// Other hands have given a file of a member a length that no device can have.
#[test]
fn a_file_of_a_member_that_does_not_end_with_a_block_concerns_that_member_alone_until_it_has_its_length_again() {
    let place = tempfile::tempdir().unwrap();
    let open = || Pool::open_together(Arc::new(FileDirectory::open(place.path()).unwrap()), settings());
    let pool = open().unwrap();
    let expected = work(&pool).unwrap();
    pool.bring_home().unwrap();
    pool.close().unwrap();
    drop(pool);
    let mut names: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.retain(|name| name.to_string_lossy().starts_with("m.a."));
    names.sort();
    assert!(names.len() > 3, "{names:?}");
    for name in names {
        let path = place.path().join(&name);
        let name = name.to_string_lossy().into_owned();
        for is_cut in [false, true] {
            let whole = std::fs::read(&path).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            let length = if is_cut { whole.len() - 100 } else { whole.len() + 100 };
            file.set_len(length as u64).unwrap();
            let pool = open().unwrap_or_else(|error| panic!("{name} {is_cut}: {error}"));
            let other = pool.member("b").unwrap().open("f").unwrap();
            other.write(0, name.as_bytes(), Durability::Now).unwrap();
            drop(other);
            match pool.member("a") {
                Ok(a) => assert_eq!(bytes(&a.open("f").unwrap()), expected, "{name} {is_cut}"),
                Err(error) => {
                    let words = error.to_string();
                    assert!(matches!(error, Error::Quarantined { .. }), "{words}");
                    for part in [name.as_str(), "is not a multiple of", "log repair a"] {
                        assert!(words.contains(part), "{name} {is_cut}: {part} in {words}");
                    }
                    // With its length again it is served again.
                    std::fs::write(&path, &whole).unwrap();
                    pool.repair("a").unwrap();
                    assert_eq!(bytes(&pool.member("a").unwrap().open("f").unwrap()), expected, "{name} {is_cut}");
                }
            }
            pool.close().unwrap();
        }
    }
}

#[test]
fn a_member_comes_back_while_another_one_writes_the_log_over_and_over() {
    // Read so slowly that the log is trimmed meanwhile, if it may be.
    let medium = Gate::slow_reads(memory(), Duration::from_micros(300));
    let pool = Pool::open_together(Arc::new(medium), Settings { background: true, ..settings() }).unwrap();
    let [a, b] = ["a", "b"].map(|name| pool.add(name, member(Profile::GENERIC)).unwrap());
    a.create("f").unwrap().write(0, &content(1, 50_000), Durability::Now).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = b.create("g").unwrap();
            for turn in 0_u64.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                file.write(turn % 8 * 16_384, &content(turn as u8, 16_384), Durability::Now).unwrap();
            }
        });
        let outcome = (0..20_u8).try_for_each(|turn| {
            pool.quarantine("a", "for the test")?;
            let file = pool.reopen("a")?.open("f")?;
            assert_eq!(bytes(&file), content(turn + 1, 50_000), "{turn}");
            file.write(0, &content(turn + 2, 50_000), Durability::Now)
        });
        is_over.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    pool.close().unwrap();
}
