//! Damage at home: it is never served, never sealed anew, made good from the log where that still has the bytes.

mod stage;

use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::SimDirectory;
use ishigaki_logpool::{Durability, Error, File, Pool, Profile, Settings, verify};

use stage::{Apart, member, small};

const BLOCK: usize = 4096;

/// Nothing that is home stays in memory.
fn forgetful() -> Settings {
    Settings { cache: ByteSize(0), ..small(false) }
}

fn bytes(file: &File) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; file.length()? as usize];
    let read = file.read(0, &mut bytes)?;
    assert_eq!(read, bytes.len());
    Ok(bytes)
}

/// Bytes by which a block is known.
fn content(turn: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Seed(turn.into()).generator().fill(&mut bytes);
    bytes
}

/// Writes to a file of another member until the log has nothing of before.
fn turn_the_log_over(pool: &Pool) {
    let other = pool.member("b").unwrap();
    let file = other.open("f").or_else(|_| other.create("f")).unwrap();
    let old = pool.statistics().medium_bytes;
    for turn in 0.. {
        file.write(0, &content(turn, 64 << 10), Durability::Now).unwrap();
        pool.bring_home().unwrap();
        if pool.statistics().medium_bytes > old + (8 << 20) {
            break;
        }
    }
}

/// A pool with two members, whose first has two files of 100,000 bytes at home.
fn pool(medium: &SimDirectory) -> (Pool, File, File) {
    let pool = Pool::open_together(Arc::new(medium.clone()), forgetful()).unwrap();
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    pool.add("b", member(Profile::GENERIC)).unwrap();
    let (file, other) = (a.create("f").unwrap(), a.create("g").unwrap());
    file.write(0, &content(1, 100_000), Durability::Now).unwrap();
    pool.bring_home().unwrap();
    other.write(0, &content(2, 100_000), Durability::Now).unwrap();
    pool.bring_home().unwrap();
    (pool, file, other)
}

/// Flips a bit in the block at home that begins with these bytes.
fn damage(medium: &SimDirectory, block: &[u8]) {
    use ishigaki_device::Directory;
    let device = medium.open("m.a.home-0000").unwrap();
    let mut home = ishigaki_device::AlignedBuffer::zeroed(device.len() as usize);
    device.read_at(0, &mut home).unwrap();
    let at = home.chunks(BLOCK).position(|other| other[..64] == block[..64]).expect("it is at home");
    medium.flip_bit("m.a.home-0000", (at * BLOCK + 99) as u64, 5).unwrap();
}

#[test]
fn a_damaged_block_is_refused_alone_and_its_file_is_named() {
    let medium = SimDirectory::with_seed(Seed(1));
    let (pool, file, other) = pool(&medium);
    turn_the_log_over(&pool);
    let expected = content(1, 100_000);
    damage(&medium, &expected[20_480..]);
    for _ in 0..2 {
        let error = bytes(&file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(matches!(&error, Error::Damaged { file, offset: 20_480, .. } if file == "f"), "{error}");
    }
    // What lies beside it is served, and so is everything else.
    let mut beside = vec![0; 20_480];
    file.read(0, &mut beside).unwrap();
    assert_eq!(beside, expected[..20_480]);
    assert_eq!(bytes(&other).unwrap(), content(2, 100_000));
    let a = pool.member("a").unwrap();
    let damaged = a.statistics().damaged;
    assert_eq!((damaged.len(), damaged[0].path.as_str(), damaged[0].blocks), (1, "f", 1), "{damaged:?}");
    assert_eq!(a.failure().map(|error| error.to_string()), None);
    pool.member("b").unwrap().open("f").unwrap().write(5, b"others go on", Durability::Now).unwrap();

    // A part of it can not be written; all of it can, and then it is whole.
    assert!(matches!(file.write(20_500, b"x", Durability::Now), Err(Error::Damaged { .. })));
    file.write(20_480, &content(3, BLOCK), Durability::Now).unwrap();
    let mut expected = expected;
    expected[20_480..20_480 + BLOCK].copy_from_slice(&content(3, BLOCK));
    for _ in 0..2 {
        assert_eq!(bytes(&file).unwrap(), expected);
        assert!(a.statistics().damaged.is_empty());
        pool.bring_home().unwrap();
    }
}

#[test]
fn a_round_that_writes_beside_damage_does_not_make_it_valid() {
    let medium = SimDirectory::with_seed(Seed(2));
    let (pool, file, other) = pool(&medium);
    turn_the_log_over(&pool);
    let expected = content(1, 100_000);
    damage(&medium, &expected[8192..]);
    // The same extent, another block.
    file.write(40_960, &content(4, BLOCK), Durability::Now).unwrap();
    file.write(100, b"and a part of one", Durability::Now).unwrap();
    pool.bring_home().unwrap();
    assert!(matches!(bytes(&file), Err(Error::Damaged { offset: 8192, .. })));
    drop((file, other));
    pool.close().unwrap();
    let found =
        verify(&medium, Apart::of(vec![("a", Arc::new(medium.clone())), ("b", Arc::new(medium.clone()))]).as_ref());
    assert_eq!(found.unwrap().problems, ["member `a`: `f` is damaged at home"]);

    let pool = Pool::open_together(Arc::new(medium.survivors(Seed(1))), forgetful()).unwrap();
    let file = pool.member("a").unwrap().open("f").unwrap();
    assert!(matches!(bytes(&file), Err(Error::Damaged { offset: 8192, .. })));
    let mut beside = vec![0; BLOCK];
    file.read(40_960, &mut beside).unwrap();
    assert_eq!(beside, content(4, BLOCK));
}

#[test]
fn a_damaged_block_is_made_anew_while_the_log_has_its_bytes() {
    let medium = SimDirectory::with_seed(Seed(3));
    let pool = Pool::open_together(Arc::new(medium.clone()), forgetful()).unwrap();
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    pool.add("b", member(Profile::GENERIC)).unwrap();
    // Each goes home when the share is full with the next one, and the log stays.
    let [file, other, _last] = [1, 2, 3].map(|turn| {
        let file = a.create(&turn.to_string()).unwrap();
        file.write(0, &content(turn, 100_000), Durability::Now).unwrap();
        file
    });
    assert_eq!(a.statistics().rounds, 2);
    damage(&medium, &content(1, 100_000)[20_480..]);
    damage(&medium, &content(2, 100_000)[8192..]);
    assert_eq!(bytes(&file).unwrap(), content(1, 100_000));
    assert_eq!((a.statistics().repaired, a.statistics().damaged.len()), (1, 0));
    // The scrubber finds the other one, and afterwards nothing.
    let found = pool.scrub(None).unwrap();
    assert_eq!((found.damaged, found.repaired), (1, 1), "{found:?}");
    pool.bring_home().unwrap();
    assert_eq!(pool.scrub(Some("a")).unwrap().damaged, 0);
    turn_the_log_over(&pool);
    assert_eq!(bytes(&file).unwrap(), content(1, 100_000));
    assert_eq!(bytes(&other).unwrap(), content(2, 100_000));
}

#[test]
fn what_memory_has_goes_home_again_where_home_is_damaged() {
    let medium = SimDirectory::with_seed(Seed(4));
    let pool = Pool::open_together(Arc::new(medium.clone()), small(false)).unwrap();
    let a = pool.add("a", member(Profile::GENERIC)).unwrap();
    pool.add("b", member(Profile::GENERIC)).unwrap();
    let file = a.create("f").unwrap();
    file.write(0, &content(1, 40_000), Durability::Now).unwrap();
    pool.bring_home().unwrap();
    turn_the_log_over(&pool);
    damage(&medium, &content(1, 40_000)[8192..]);
    let found = pool.scrub(None).unwrap();
    assert_eq!((found.damaged, found.repaired), (1, 1), "{found:?}");
    pool.bring_home().unwrap();
    assert_eq!(pool.scrub(None).unwrap().damaged, 0);
}

/// A closed pool in which a part of a block was changed, which is in the log alone, and then its home was damaged.
fn damaged_beneath_a_change(seed: Seed) -> SimDirectory {
    let medium = SimDirectory::with_seed(seed);
    let (pool, file, other) = pool(&medium);
    turn_the_log_over(&pool);
    file.write(20_500, b"in the log alone", Durability::Now).unwrap();
    drop((file, other));
    pool.close().unwrap();
    damage(&medium, &content(1, 100_000)[20_480..]);
    medium
}

#[test]
fn a_block_that_was_damaged_when_its_changes_came_is_not_shown_without_them() {
    let medium = damaged_beneath_a_change(Seed(5));
    let medium = medium.survivors(Seed(1));
    for life in 0..3 {
        let pool = Pool::open_together(Arc::new(medium.clone()), forgetful()).unwrap();
        let a = pool.member("a").unwrap();
        let file = a.open("f").unwrap();
        assert!(matches!(bytes(&file), Err(Error::Damaged { offset: 20_480, .. })), "{life}");
        assert_eq!(a.statistics().damaged.len(), 1);
        let mut beside = vec![0; 20_480];
        file.read(0, &mut beside).unwrap();
        assert_eq!(beside, content(1, 100_000)[..20_480]);
        if life == 0 {
            // The home mends itself, as memory and cables do, after the log has lost the change.
            pool.bring_home().unwrap();
            turn_the_log_over(&pool);
            let at = content(1, 100_000);
            undamage(&medium, &at[20_480..]);
        }
        drop(file);
        pool.close().unwrap();
    }
}

#[test]
fn a_block_that_is_lost_for_good_costs_no_reading_of_the_log_at_later_openings() {
    let medium = damaged_beneath_a_change(Seed(7));
    // The reads of an opening, and whether the block is lost then. The log has half a mebibyte each time.
    let open = |wanted: bool| {
        let before = medium.reads();
        let pool = Pool::open_together(Arc::new(medium.clone()), forgetful()).unwrap();
        let reads = medium.reads() - before;
        let file = pool.member("a").unwrap().open("f").unwrap();
        assert_eq!(bytes(&file).is_err(), wanted);
        (pool, file, reads)
    };
    let end = |pool: Pool, file: File| {
        pool.bring_home().unwrap();
        drop(file);
        let other = pool.member("b").unwrap().open("f").unwrap();
        (0..8).for_each(|turn| other.write(0, &content(turn, 64 << 10), Durability::Now).unwrap());
        drop(other);
        pool.close().unwrap();
    };
    let (pool, file, first) = open(true);
    end(pool, file);
    let (pool, file, lost) = open(true);
    file.write(20_480, &content(3, BLOCK), Durability::Now).unwrap();
    end(pool, file);
    let (_pool, _file, sound) = open(false);
    println!("reads of an opening: {first} when changes meet the damage, {lost} with a lost block, {sound} without");
    assert!(sound > 5 && lost <= sound + 1, "{first} {lost} {sound}");
}

/// Flips the bit back that [`damage`] has flipped.
fn undamage(medium: &SimDirectory, block: &[u8]) {
    damage(medium, block);
}

#[test]
fn a_home_that_lost_a_region_serves_what_is_left() {
    use ishigaki_device::Directory;
    let medium = SimDirectory::with_seed(Seed(6));
    let (pool, file, other) = pool(&medium);
    let a = pool.member("a").unwrap();
    let third = a.create("h").unwrap();
    third.write(0, &content(3, 100_000), Durability::Now).unwrap();
    pool.bring_home().unwrap();
    turn_the_log_over(&pool);
    assert!(medium.devices().iter().any(|(name, _)| name == "m.a.home-0001"), "{:?}", medium.devices());
    drop((file, other, third, a));
    pool.close().unwrap();
    drop(pool);
    medium.remove("m.a.home-0000").unwrap();
    medium.sync().unwrap();
    let pool = Pool::open_together(Arc::new(medium.survivors(Seed(1))), forgetful()).unwrap();
    let a = pool.member("a").unwrap();
    assert!(matches!(bytes(&a.open("f").unwrap()), Err(Error::Damaged { .. })));
    let third = a.open("h").unwrap();
    let mut end = vec![0; 10_000];
    third.read(90_000, &mut end).unwrap();
    assert_eq!(end, content(3, 100_000)[90_000..]);
    let file = a.open("f").unwrap();
    file.write(0, &content(9, 100_000 / BLOCK * BLOCK), Durability::Now).unwrap();
    file.truncate(98_304, Durability::Now).unwrap();
    pool.bring_home().unwrap();
    assert_eq!(bytes(&file).unwrap(), content(9, 98_304));
}

/// Gives a device of the medium another length, as other hands do: zeros behind what it had, or its end gone.
fn set_length(medium: &SimDirectory, name: &str, length: u64) {
    use ishigaki_device::Directory;
    let device = medium.open(name).unwrap();
    let mut bytes = ishigaki_device::AlignedBuffer::zeroed(device.len().min(length) as usize);
    device.read_at(0, &mut bytes).unwrap();
    medium.remove(name).unwrap();
    medium.create(name, length).unwrap().write_durable(0, &bytes).unwrap();
    medium.sync().unwrap();
}

#[test]
fn a_region_of_another_length_keeps_all_that_it_still_has() {
    const REGION: &str = "m.a.home-0000";
    use ishigaki_device::Directory;
    for seed in [20, 21] {
        let medium = SimDirectory::with_seed(Seed(seed));
        let (pool, file, other) = pool(&medium);
        turn_the_log_over(&pool);
        drop((file, other));
        pool.close().unwrap();
        drop(pool);
        let whole = medium.open(REGION).unwrap().len();
        let is_cut = seed == 20;
        set_length(&medium, REGION, if is_cut { 128 << 10 } else { whole + (64 << 10) });
        let medium = medium.survivors(Seed(seed));
        for turn in 0..2 {
            let pool = Pool::open_together(Arc::new(medium.clone()), forgetful()).unwrap();
            let a = pool.member("a").unwrap();
            assert_eq!(bytes(&a.open("f").unwrap()).unwrap(), content(1, 100_000), "{seed} {turn}");
            match bytes(&a.open("g").unwrap()) {
                Ok(shown) => assert!(!is_cut && shown == content(2, 100_000), "{seed} {turn}"),
                Err(error) => assert!(is_cut && matches!(error, Error::Damaged { .. }), "{seed} {turn}: {error}"),
            }
            // All of a region can be written again.
            a.open("f").unwrap().write(0, &content(1, 100_000), Durability::Now).unwrap();
            pool.bring_home().unwrap();
            pool.close().unwrap();
        }
        assert!(medium.open(REGION).unwrap().len() >= whole);
        assert!(medium.devices().iter().all(|(name, _)| !name.contains("new")), "{:?}", medium.devices());
    }
}

#[test]
fn a_region_that_is_gone_or_cut_short_is_made_anew_from_the_log_with_changes_that_came_since() {
    use ishigaki_device::Directory;
    for is_cut in [false, true] {
        let medium = SimDirectory::with_seed(Seed(22));
        let pool = Pool::open_together(Arc::new(medium.clone()), forgetful()).unwrap();
        let a = pool.add("a", member(Profile::GENERIC)).unwrap();
        pool.add("b", member(Profile::GENERIC)).unwrap();
        // Each goes home when the share is full with the next one, and the log stays.
        let [file, other, last] = [("f", 1), ("g", 2), ("h", 3)].map(|(name, turn)| {
            let file = a.create(name).unwrap();
            file.write(0, &content(turn, 100_000), Durability::Now).unwrap();
            file
        });
        assert_eq!(a.statistics().rounds, 2);
        // It changes a part of a block, the rest of which is at home and in the log.
        file.write(20_500, b"since", Durability::Now).unwrap();
        other.write(90_000, b"since", Durability::Now).unwrap();
        drop((last, a));
        drop((file, other));
        pool.close().unwrap();
        drop(pool);
        if is_cut {
            set_length(&medium, "m.a.home-0000", 4096);
        } else {
            medium.remove("m.a.home-0000").unwrap();
            medium.sync().unwrap();
        }
        let pool = Pool::open_together(Arc::new(medium.survivors(Seed(1))), forgetful()).unwrap();
        assert!(pool.quarantined().is_empty(), "{:?}", pool.quarantined());
        pool.repair("a").unwrap();
        let a = pool.member("a").unwrap();
        for (name, turn, at) in [("f", 1, 20_500), ("g", 2, 90_000)] {
            let mut expected = content(turn, 100_000);
            expected[at..at + 5].copy_from_slice(b"since");
            assert!(bytes(&a.open(name).unwrap()).unwrap() == expected, "{name}, cut {is_cut}");
        }
    }
}
