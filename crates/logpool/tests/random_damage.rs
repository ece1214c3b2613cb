//! Random damage of a pool with four members: bits, sectors, truncations, deletions, older copies, of any of its files. No byte
//! that is shown is wrong, no member but the damaged one is concerned, and what is refused is as it was once the file is put back.

mod stage;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use fastrand::Rng;
use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_device::{AlignedBuffer, Directory, Error as DeviceError, MemoryDirectory};
use ishigaki_logpool::{Durability, Error, Kind, Pool, Profile, Result, Settings};
use ishigaki_testkit::seeded_runs;

use stage::{member, small};

/// Names and bytes of all files of a directory.
type Copy = BTreeMap<String, Vec<u8>>;

/// What each member's files hold.
type Contents = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

const MEMBERS: [(&str, Profile); 4] =
    [("a", Profile::MARIADB), ("b", Profile::POSTGRESQL), ("c", Profile::GENERIC), ("d", Profile::GENERIC)];

fn settings() -> Settings {
    Settings { cache: ByteSize(0), ..small(false) }
}

fn copy(directory: &dyn Directory) -> Copy {
    let names = directory.list().unwrap().into_iter();
    let read = |name: String| {
        let device = directory.open(&name).unwrap();
        let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
        device.read_at(0, &mut bytes).unwrap();
        (name, bytes.to_vec())
    };
    names.map(read).collect()
}

fn directory_of(copy: &Copy) -> Arc<dyn Directory> {
    let directory = MemoryDirectory::new();
    for (name, bytes) in copy {
        let mut buffer = AlignedBuffer::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        directory.create(name, bytes.len() as u64).unwrap().write_at(0, &buffer).unwrap();
    }
    Arc::new(directory)
}

/// A pool in the middle of its life, and as it was a while before.
struct Life {
    before: Copy,
    now: Copy,
    expected: Contents,
}

fn lived(seed: Seed) -> Life {
    let mut random = seed.generator();
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let pool = Pool::open_together(directory.clone(), settings()).unwrap();
    let mut expected = Contents::new();
    for (name, profile) in MEMBERS {
        let one = pool.add(name, member(profile)).unwrap();
        let files = expected.entry(name.to_owned()).or_default();
        for path in ["ib_logfile0", "second"] {
            one.create(path).unwrap();
            files.insert(path.to_owned(), Vec::new());
        }
    }
    let turn = |pool: &Pool, expected: &mut Contents, random: &mut Rng| {
        let (name, _) = MEMBERS[random.usize(..4)];
        let path = *random.choice(&["ib_logfile0", "second"]).unwrap();
        let bytes = expected.get_mut(name).unwrap().get_mut(path).unwrap();
        let (at, length) = (random.usize(..200_000), random.usize(1..20_000));
        let mut new = vec![0; length];
        random.fill(&mut new);
        if bytes.len() < at + length {
            bytes.resize(at + length, 0);
        }
        bytes[at..at + length].copy_from_slice(&new);
        pool.member(name).unwrap().open(path).unwrap().write(at as u64, &new, Durability::Now).unwrap();
    };
    (0..60).for_each(|_| turn(&pool, &mut expected, &mut random));
    if random.bool() {
        pool.bring_home().unwrap();
    }
    // The older copy is of a moment at which the pool was closed, as backups are.
    pool.close().unwrap();
    drop(pool);
    let before = copy(directory.as_ref());
    let pool = Pool::open_together(directory.clone(), settings()).unwrap();
    for count in 0..random.usize(20..150) {
        turn(&pool, &mut expected, &mut random);
        if count % 50 == 49 {
            pool.bring_home().unwrap();
        }
    }
    pool.close().unwrap();
    drop(pool);
    Life { before, now: copy(directory.as_ref()), expected }
}

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Damage {
    Bit,
    Sector,
    Truncation,
    Deletion,
    Older,
}

const DAMAGES: [Damage; 5] = [Damage::Bit, Damage::Sector, Damage::Truncation, Damage::Deletion, Damage::Older];

/// Does something to one file; says which. `None` where that would change nothing.
fn damage(life: &Life, kind: Damage, random: &mut Rng) -> Option<(Copy, String)> {
    let mut copy = life.now.clone();
    let names: Vec<String> = copy.keys().cloned().collect();
    let name = random.choice(&names)?.clone();
    let bytes = copy.get_mut(&name)?;
    // Mostly where something was written.
    let used = bytes.iter().rposition(|&byte| byte != 0)? + 1;
    match kind {
        Damage::Bit => {
            let at = random.usize(..used);
            bytes[at] ^= 1 << random.u8(..8);
        }
        Damage::Sector => {
            let at = random.usize(..used.div_ceil(512)) * 512;
            let end = bytes.len().min(at + 512);
            match random.u8(..3) {
                0 => bytes[at..end].fill(0),
                1 => random.fill(&mut bytes[at..end]),
                // A misdirected write: a sector of another place.
                _ => {
                    let from = random.usize(..used.div_ceil(512)) * 512;
                    let other = bytes[from..from + (end - at)].to_vec();
                    bytes[at..end].copy_from_slice(&other);
                }
            }
        }
        Damage::Truncation => bytes.truncate(random.usize(..bytes.len().div_ceil(512)) * 512),
        Damage::Deletion => {
            copy.remove(&name)?;
        }
        Damage::Older => {
            let older = life.before.get(&name)?;
            bytes.clone_from(older);
        }
    }
    (copy != life.now).then_some((copy, name))
}

/// What the damage has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Everything is shown as it was written.
    Harmless,
    /// So it is, and a block or a copy was made anew.
    Repaired,
    /// Some of a file is refused, all else is shown.
    FileRefused,
    /// A member is quarantined, the others are as they were.
    MemberRefused,
    /// The log or the roster, which all members share: nothing is shown.
    PoolRefused,
}

/// Puts the file back as it was before the damage.
fn put_back(life: &Life, directory: &dyn Directory, name: &str) {
    let bytes = &life.now[name];
    match directory.remove(name) {
        Ok(()) | Err(DeviceError::NotFound { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let mut buffer = AlignedBuffer::zeroed(bytes.len());
    buffer.copy_from_slice(bytes);
    directory.create(name, bytes.len() as u64).unwrap().write_at(0, &buffer).unwrap();
}

/// Shows everything that can be shown, and compares.
fn look(life: &Life, copy: &Copy, name: &str, random: &mut Rng) -> Outcome {
    let directory = directory_of(copy);
    let pool = match Pool::open_together(directory.clone(), settings()) {
        Ok(pool) => pool,
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid | ErrorKind::Unavailable),
                "{name}: {error}"
            );
            assert!(!name.starts_with("m."), "{name} is one member's, and no member is served: {error}");
            put_back(life, directory.as_ref(), name);
            let pool = Pool::open_together(directory, settings()).unwrap();
            for (one, files) in &life.expected {
                assert!(check(&pool, one, files).unwrap().is_none(), "{name} was put back, and {one} is not as it was");
            }
            return Outcome::PoolRefused;
        }
    };
    let (mut refused, mut repaired) = (false, 0);
    let mut quarantined = None;
    for (one, files) in &life.expected {
        match check(&pool, one, files) {
            Ok(Some(damaged)) => {
                assert!(name.starts_with(&format!("m.{one}.")), "{name} concerns {one}: {damaged}");
                refused = true;
            }
            Ok(None) => {}
            Err(error) => {
                // An entry that is missing in the log is missed by the member that it is of.
                let is_mine = name.starts_with(&format!("m.{one}.")) || name.starts_with("wal-");
                assert!(is_mine, "{name} concerns {one}: {error}");
                assert!(matches!(error, Error::Quarantined { .. }), "{name}: {error}");
                quarantined = Some(one.clone());
            }
        }
        if let Ok(member) = pool.member(one) {
            repaired += member.statistics().repaired;
        }
    }
    // The others go on, and what they have goes home and through a restart.
    for (one, _) in MEMBERS {
        if quarantined.as_deref() != Some(one)
            && let Ok(member) = pool.member(one)
        {
            let file = member.open("second").unwrap();
            let block = [random.u8(..); 4096];
            file.write(0, &block, Durability::Now).unwrap();
            let mut shown = [0; 4096];
            file.read(0, &mut shown).unwrap();
            assert_eq!(shown, block);
        }
    }
    pool.bring_home().unwrap();
    pool.close().unwrap();
    drop(pool);
    if let Some(one) = quarantined.as_ref().filter(|_| name.starts_with("m.")) {
        put_back(life, directory.as_ref(), name);
        let pool = Pool::open_together(directory, settings()).unwrap();
        let refused = check(&pool, one, &life.expected[one]).unwrap();
        assert!(refused.is_none(), "{name} was put back, and {one} is not as it was: {refused:?}");
    }
    match (quarantined, refused, repaired) {
        (Some(_), ..) => Outcome::MemberRefused,
        (None, true, _) => Outcome::FileRefused,
        (None, false, 1..) => Outcome::Repaired,
        (None, false, 0) => Outcome::Harmless,
    }
}

/// Compares a member's files. Gives what is refused of them; everything else is as it was written.
fn check(pool: &Pool, name: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<Option<Error>> {
    let member = pool.member(name)?;
    let mut names: Vec<String> = member.list(None)?.into_iter().map(|(path, _)| path).collect();
    names.sort();
    assert_eq!(names, files.keys().cloned().collect::<Vec<_>>(), "the names of {name}");
    assert!(member.list(None)?.iter().all(|(_, kind)| *kind == Kind::File));
    let mut refused = None;
    for (path, expected) in files {
        let file = member.open(path)?;
        assert_eq!(file.length()?, expected.len() as u64, "{name}: {path}");
        for (index, block) in expected.chunks(4096).enumerate() {
            let mut shown = vec![0; block.len()];
            match file.read(index as u64 * 4096, &mut shown) {
                Ok(_) => assert!(shown == block, "{name}: {path} is wrong at {}", index * 4096),
                Err(error @ Error::Damaged { .. }) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(refused)
}

/// How often each kind of damage has led to what.
#[derive(Default)]
struct Table(BTreeMap<(Damage, Outcome), u64>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcomes =
            [Outcome::Harmless, Outcome::Repaired, Outcome::FileRefused, Outcome::MemberRefused, Outcome::PoolRefused];
        let mut text = String::from("damage      ");
        outcomes.iter().try_for_each(|outcome| write!(text, "{:>14}", format!("{outcome:?}")))?;
        for damage in DAMAGES {
            write!(text, "\n{:<12}", format!("{damage:?}"))?;
            for outcome in outcomes {
                write!(text, "{:>14}", self.0.get(&(damage, outcome)).copied().unwrap_or_default())?;
            }
        }
        f.write_str(&text)
    }
}

fn trial(seed: Seed, damages: u64, table: &mut Table) {
    let mut random = seed.generator();
    let mut done = 0;
    while done < damages {
        let life = lived(Seed(random.u64(..)));
        // The life itself is sound.
        assert_eq!(look(&life, &life.now, "nothing", &mut random), Outcome::Harmless);
        for _ in 0..100.min(damages - done) {
            let kind = *random.choice(&DAMAGES).unwrap();
            let Some((copy, name)) = damage(&life, kind, &mut random) else { continue };
            let outcome = look(&life, &copy, &name, &mut random);
            *table.0.entry((kind, outcome)).or_default() += 1;
            done += 1;
        }
    }
}

#[test]
fn no_damage_shows_a_wrong_byte_or_concerns_another_member() {
    seeded_runs("no_damage_shows_a_wrong_byte_or_concerns_another_member", 2, |seed| {
        trial(seed, 60, &mut Table::default());
    });
}

#[test]
#[ignore = "takes minutes: 10,000 damages"]
fn no_damage_of_10_000_shows_a_wrong_byte_or_concerns_another_member() {
    let mut table = Table::default();
    seeded_runs("no_damage_of_10_000_shows_a_wrong_byte_or_concerns_another_member", 10, |seed| {
        trial(seed, 1000, &mut table);
    });
    println!("{table}");
}
