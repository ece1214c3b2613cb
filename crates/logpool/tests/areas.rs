//! Checkpoint areas between the log, the checkpoint file and home: none of their bytes is lost, and none appears that was not
//! there.

mod stage;

use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_device::{Fault, MemoryDirectory, SimDirectory};
use ishigaki_logpool::{Durability, File, Member, Pool, Profile};

use stage::{member, small};

/// The file of the areas, which are 4096 bytes at 4096 and at 8192.
const LOG: &str = "ib_logfile0";

fn open(directory: &SimDirectory) -> Pool {
    Pool::open_together(Arc::new(directory.clone()), small(false)).unwrap()
}

fn bytes(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.length().unwrap() as usize];
    assert_eq!(file.read(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn shown(pool: &Pool) -> Vec<u8> {
    bytes(&pool.member("a").unwrap().open(LOG).unwrap())
}

/// A member with a log of 20,000 bytes that are 1, durably.
fn with_log(pool: &Pool) -> (Member, File) {
    let a = pool.add("a", member(Profile::MARIADB)).unwrap();
    let file = a.create(LOG).unwrap();
    file.write(0, &[1; 12_288], Durability::Later).unwrap();
    file.write(12_288, &[1; 20_000 - 12_288], Durability::Now).unwrap();
    (a, file)
}

/// Everything that the log has is durable then, and of areas nothing.
fn make_log_durable(pool: &Pool) {
    let other = pool.add("b", member(Profile::GENERIC)).unwrap();
    other.create("log").unwrap().write(0, b"commit", Durability::Now).unwrap();
}

#[test]
fn closing_a_pool_makes_areas_durable_that_nobody_has_synced() {
    let medium = SimDirectory::with_seed(Seed(1));
    let pool = open(&medium);
    let (_a, file) = with_log(&pool);
    file.write(4096, &[2; 512], Durability::Later).unwrap();
    file.write(8192, &[3; 4096], Durability::Later).unwrap();
    let expected = bytes(&file);
    pool.close().unwrap();
    medium.power_cut_now();
    drop((file, pool));
    assert_eq!(shown(&open(&medium.survivors(Seed(1)))), expected);
}

#[test]
fn closing_says_when_areas_could_not_be_made_durable() {
    let medium = SimDirectory::with_seed(Seed(1));
    let pool = open(&medium);
    let (_a, file) = with_log(&pool);
    file.write(4096, &[2; 512], Durability::Later).unwrap();
    // The end of the log is noted by its last write; the next one is that of the area.
    let writes = {
        let copy = SimDirectory::with_seed(Seed(1));
        let pool = open(&copy);
        with_log(&pool);
        pool.close().unwrap();
        copy.writes()
    };
    medium.inject(Fault::WriteError { nth: writes });
    let error = pool.close().unwrap_err();
    assert!(error.to_string().contains("home of member `a` failed"), "{error}");
}

#[test]
fn a_change_of_a_part_of_an_area_never_meets_older_bytes_of_it() {
    // What is done, and the areas of which a part stays or is cut off.
    type Cut = (&'static str, fn(&File), &'static [usize]);
    let cuts: [Cut; 4] = [
        ("zeros in the middle", |file| file.zero(4096 + 1000, 1000, true, Durability::Later).unwrap(), &[4096]),
        ("zeros over one and a half", |file| file.zero(0, 9000, true, Durability::Later).unwrap(), &[4096, 8192]),
        ("an end within", |file| file.truncate(5000, Durability::Later).unwrap(), &[4096]),
        (
            "an end within, and growth",
            |file| {
                file.truncate(9000, Durability::Later).unwrap();
                file.write(8900, &[7; 5000], Durability::Later).unwrap();
            },
            &[8192],
        ),
    ];
    for (what, cut, concerned) in cuts {
        let medium = SimDirectory::with_seed(Seed(1));
        let pool = open(&medium);
        let (_a, file) = with_log(&pool);
        let mut expected = bytes(&file);
        file.write(4096, &[2; 4096], Durability::Later).unwrap();
        file.write(8192, &[3; 4096], Durability::Later).unwrap();
        cut(&file);
        let after = bytes(&file);
        expected.resize(after.len(), 0);
        for from in [0, 4096, 8192, 12_288] {
            let range = from.min(after.len())..(from + 4096).min(after.len());
            // Nobody has asked for the other areas to be durable: they are as they were.
            if concerned.contains(&from) || [0, 12_288].contains(&from) {
                expected[range.clone()].copy_from_slice(&after[range]);
            }
        }
        make_log_durable(&pool);
        medium.power_cut_now();
        drop((file, pool));
        assert_eq!(shown(&open(&medium.survivors(Seed(1)))), expected, "{what}");
    }
}

#[test]
fn what_was_synced_of_an_area_stays_when_the_file_ends_within_it() {
    for goes_home in [false, true] {
        let medium = SimDirectory::with_seed(Seed(1));
        let pool = open(&medium);
        let (a, file) = with_log(&pool);
        file.write(4096, &[2; 4096], Durability::Now).unwrap();
        if goes_home {
            pool.bring_home().unwrap();
        }
        file.write(4096, &[3; 512], Durability::Later).unwrap();
        file.truncate(4096 + 1000, Durability::Later).unwrap();
        // The checkpoint file has whole areas only, and has but the newest of each.
        a.sync().unwrap();
        let expected = bytes(&file);
        medium.power_cut_now();
        drop((file, a, pool));
        assert_eq!(shown(&open(&medium.survivors(Seed(1)))), expected);
    }
}

#[test]
fn a_file_that_ends_within_an_area_keeps_its_length_under_another_name() {
    let directory = MemoryDirectory::new();
    let open = || Pool::open_together(Arc::new(directory.clone()), small(false)).unwrap();
    let pool = open();
    let (a, file) = with_log(&pool);
    file.write(4096, &[2; 512], Durability::Later).unwrap();
    file.truncate(4096 + 1000, Durability::Later).unwrap();
    a.rename(LOG, "set aside").unwrap();
    let expected = bytes(&file);
    drop((file, a));
    pool.close().unwrap();
    drop(pool);
    assert_eq!(bytes(&open().member("a").unwrap().open("set aside").unwrap()), expected);
}
