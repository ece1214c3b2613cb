//! Damages at random places.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ishigaki_base::ErrorKind;
use ishigaki_base::random::Seed;
use ishigaki_device::{Directory, MemoryDirectory, SECTOR};
use ishigaki_testkit::seeded_runs;
use ishigaki_txn::{Missing, Progress, Salvage, SalvageReport, TableId, verify};

use crate::kit::{Contents, Image, Sample, contents, open, settings};

/// More rows than two pages of a checkpoint hold, which one damaged sector can hit.
const TWO_PAGES: usize = 150;

/// Bytes of a page's header.
const HEADER: usize = 52;

/// What came of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The database opened and has everything.
    Harmless,
    /// The same, by the checkpoint before the current one.
    Repaired,
    /// A log that was not closed lost its end, as `docs/format/wal.md` says under its limits.
    EndOfOpenLog,
    /// Opening refused, and everything was salvaged.
    SalvagedAll,
    /// Opening refused, and what was not damaged was salvaged.
    SalvagedRest,
}

#[test]
fn a_damaged_database_is_repaired_or_refused_and_then_salvaged() {
    run(200);
}

#[test]
#[ignore = "takes minutes"]
fn ten_thousand_damaged_databases_are_repaired_or_refused_and_then_salvaged() {
    run(10_000);
}

fn run(times: u64) {
    let samples = [Sample::closed(), Sample::killed()];
    let mut outcomes: BTreeMap<(&str, Outcome), u64> = BTreeMap::new();
    seeded_runs("damaged_database", times, |seed| {
        let (what, outcome) = damage(seed, &samples);
        *outcomes.entry((what, outcome)).or_default() += 1;
    });
    for ((what, outcome), count) in outcomes {
        println!("{count:6} {what}: {outcome:?}");
    }
}

/// Damages one of the samples, and sees what comes of it.
fn damage(seed: Seed, samples: &[Sample]) -> (&'static str, Outcome) {
    let mut random = seed.generator();
    let sample = &samples[random.usize(..samples.len())];
    let mut image = sample.image().clone();
    let names: Vec<_> = image.0.keys().cloned().collect();
    // Half of the damages where few bytes are.
    let small: Vec<_> = names.iter().filter(|name| !name.starts_with("wal-0")).cloned().collect();
    let names = if random.bool() { &names } else { &small };
    let name = names[random.usize(..names.len())].clone();
    let what = inflict(&mut random, sample, &mut image, &name);
    let outcome = judge(sample, &image, &name, what);
    (what, outcome)
}

fn inflict(random: &mut fastrand::Rng, sample: &Sample, image: &mut Image, name: &str) -> &'static str {
    let bytes = image.0.get_mut(name).unwrap();
    // Where something is, more often than where nothing is.
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(bytes.len(), |last| last + 1);
    let end = if random.u8(..8) == 0 { bytes.len() } else { used };
    let place = random.usize(..end);
    let sector = place / SECTOR * SECTOR;
    match random.u8(..6) {
        0 | 1 => {
            bytes[place] ^= 1 << random.u8(..8);
            "a flipped bit"
        }
        2 => {
            let (fill, end) = (random.u8(..), bytes.len().min(sector + SECTOR));
            let zeros = random.bool();
            bytes[sector..end].iter_mut().for_each(|byte| *byte = if zeros { 0 } else { fill ^ random.u8(..) });
            "a sector"
        }
        3 => {
            bytes.truncate(sector);
            "a truncation"
        }
        4 => {
            image.0.remove(name);
            "a deletion"
        }
        _ => {
            let older: Vec<_> = sample.images.iter().filter_map(|image| image.0.get(name)).collect();
            bytes.clone_from(older[random.usize(..older.len())]);
            "an older copy"
        }
    }
}

/// Whatever happens, no wrong row is seen.
fn judge(sample: &Sample, image: &Image, name: &str, what: &str) -> Outcome {
    let directory = image.directory();
    let context = format!("{what} of {name}");
    let verified = verify(directory.as_ref(), directory.as_ref(), &Progress::default()).unwrap();
    assert!(Image::of(directory.as_ref()) == *image, "{context}: a verification has written");
    let salvage = Salvage::read(directory.as_ref(), directory.as_ref(), &Progress::default()).unwrap();
    let opened = open(&image.directory());
    match opened {
        Ok(database) => {
            let found = contents(&database);
            if found == sample.contents() {
                let is_repaired = database.recovery().repaired.is_some();
                assert!(!is_repaired || !verified.is_sound(), "{context}: verified, and repaired");
                return if is_repaired { Outcome::Repaired } else { Outcome::Harmless };
            }
            let last = &sample.history[sample.history.len() - sample.unclosed..];
            let is_end = name.starts_with("wal-0") && last.iter().any(|(_, state)| *state == found);
            assert!(is_end, "{context}: it opens with wrong rows");
            Outcome::EndOfOpenLog
        }
        Err(error) => {
            let text = error.to_string();
            assert!(error.is_damage() && error.kind() == ErrorKind::Corrupt, "{context}: {error:?}");
            assert!(text.contains("ishigaki salvage"), "{context}: {text}");
            assert!(!verified.is_sound(), "{context}: verified, and {text}");
            let report = salvage.report().clone();
            let to: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
            salvage.write_to(to.clone(), &settings(1), |_| ()).unwrap();
            let found = contents(&open(&to).unwrap());
            if report.is_complete() {
                assert!(found == sample.contents(), "{context}: {text}: salvaged with wrong rows, {report:?}");
                return Outcome::SalvagedAll;
            }
            let missing = check(sample, &found, &report, &context);
            let is_small =
                matches!(what, "a flipped bit" | "a sector") && !["checkpoint", "wal-control"].contains(&name);
            assert!(!is_small || missing <= TWO_PAGES, "{context}: {missing} rows are missing, {report:?}");
            if let (Some(was), Some(is)) = (sample.image().0.get(name), image.0.get(name))
                && name.starts_with("checkpoint-")
            {
                let rows = rows_of_damaged_pages(was, is);
                assert!(missing <= rows, "{context}: {missing} rows are missing, and the pages had {rows}: {report:?}");
            }
            Outcome::SalvagedRest
        }
    }
}

/// How many rows the pages of a checkpoint's part have of which a byte has changed, or which are not wholly there any more.
fn rows_of_damaged_pages(was: &[u8], is: &[u8]) -> usize {
    let begins = |at: &usize| was[*at..].starts_with(b"ISGP") && was[at + 4..at + 8] == [1, 0, 0, 0];
    let number = |at: usize| u32::from_le_bytes(was[at..at + 4].try_into().unwrap()) as usize;
    let pages = (0..was.len().saturating_sub(HEADER)).filter(begins);
    let is_hit = |at: &usize| {
        let page = *at..at + HEADER + number(at + 40);
        is.get(page.clone()) != Some(&was[page])
    };
    pages.filter(is_hit).map(|at| number(at + 36)).sum()
}

/// Each row is as it was; or the report says that it may be missing, or that its last commit is.
fn check(sample: &Sample, found: &Contents, report: &SalvageReport, context: &str) -> usize {
    let mut differ = 0;
    let expected = sample.contents();
    for (id, name) in &sample.numbers {
        let rows = BTreeMap::new();
        let lost_name = format!("lost.table.{}", id.0);
        let (was, is) =
            (expected.get(name).unwrap_or(&rows), found.get(name).or(found.get(&lost_name)).unwrap_or(&rows));
        for key in was.keys().chain(is.keys()).collect::<BTreeSet<_>>() {
            if was.get(key) == is.get(key) {
                continue;
            }
            differ += 1;
            let lsn = sample.written.get(&(*id, key.clone())).copied().unwrap_or_default();
            let is_lost = report.lost.iter().any(|(first, last)| (first..=last).contains(&&lsn))
                || report.lost_behind.is_some_and(|last| lsn > last);
            let is_missing = report.missing.iter().any(|missing| names(missing, *id, key));
            // A table whose drop was lost comes back with its rows.
            let is_undropped = !expected.contains_key(name) && !report.lost.is_empty();
            assert!(is_lost || is_missing || is_undropped, "{context}: {name} {}: {report:?}", key.escape_ascii());
        }
    }
    differ
}

fn names(missing: &Missing, table: TableId, key: &[u8]) -> bool {
    missing.may_hold(table, key)
}
