//! Random requests, to a member and to its model.

use fastrand::Rng;
use ishigaki_base::ErrorKind;
use ishigaki_logpool::{Durability, Member, Pool, Profile, Result};

use super::model::{Files, Model, shown};

/// The longest file that the work makes.
const LONGEST: usize = 200 << 10;

const NAMES: [&str; 6] = ["ib_logfile0", "ib_logfile101", "0001", "0002", "d/0003", "e/0004"];

/// Does so many random things to random members. Ends at the first error that is none of the member's own.
pub(crate) fn work(pool: &Pool, models: &mut [Model], random: &mut Rng, turns: usize) -> Result<()> {
    for _ in 0..turns {
        match random.u8(0..24) {
            0 => pool.bring_home()?,
            1 => {
                let model = random.choice(&*models).expect("there are some");
                pool.carry_on(&model.name)?;
            }
            2 => {
                let model = random.choice(models.iter()).expect("there are some");
                assert_eq!(shown(&pool.member(&model.name)?)?, *model.now(), "while {} is in use", model.name);
            }
            _ => {
                let place = random.usize(..models.len());
                let model = &mut models[place];
                request(&pool.member(&model.name)?, model, random)?;
            }
        }
    }
    Ok(())
}

/// One request. The model accepts it before it is known how it ends: at a power cut it may have come through.
fn request(member: &Member, model: &mut Model, random: &mut Rng) -> Result<()> {
    let durability = if random.u8(0..3) == 0 { Durability::Now } else { Durability::Later };
    let names = if random.u8(0..3) == 0 { 1 } else { NAMES.len() };
    let path = *random.choice(&NAMES[..names]).expect("there are some");
    let mut next = model.now().clone();
    let outcome = match random.u8(0..20) {
        0 => member.sync().map(|()| true),
        1 if next.len() < 12 => {
            let other = *random.choice(&NAMES).expect("there are some");
            rename(&mut next, path, other);
            model.accept(next);
            member.rename(path, other).map(|()| false)
        }
        2 => {
            remove(&mut next, path);
            model.accept(next);
            member.remove(path).map(|()| false)
        }
        3 => {
            let directory = if random.bool() { "d" } else { "e" };
            next.entry(directory.to_owned()).or_insert(None);
            model.accept(next);
            member.create_directory(directory).map(|()| false)
        }
        4 => {
            let other = if path.starts_with('d') { "e/moved" } else { "d/moved" };
            rename(&mut next, path, other);
            model.accept(next);
            member.rename(path, other).map(|()| false)
        }
        _ => bytes(member, model, path, durability, random).map(|()| durability == Durability::Now),
    };
    match outcome {
        Ok(true) => model.synced(),
        Ok(false) => {}
        Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Exhausted) => {
            // Refused: nothing has changed.
            if model.now() != &shown(member)? {
                model.take_back();
                assert_eq!(model.now(), &shown(member)?, "{} after {error}", model.name);
            }
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn bytes(member: &Member, model: &mut Model, path: &str, durability: Durability, random: &mut Rng) -> Result<()> {
    let mut next = model.now().clone();
    let file = match member.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::Invalid => {
            next.insert(path.to_owned(), Some(Vec::new()));
            model.accept(next);
            let file = member.create(path)?;
            if durability == Durability::Now {
                file.sync(false)?;
            }
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let content = next.get_mut(path).and_then(Option::as_mut).expect("it was opened");
    match random.u8(0..10) {
        0 => {
            let reach = reach(path, random);
            let length = random.usize(..reach);
            let length = if random.bool() { length / 4096 * 4096 } else { length };
            content.resize(length, 0);
            model.accept(next);
            file.truncate(length as u64, durability)
        }
        1 => {
            let reach = reach(path, random);
            let (from, length, keep) = (random.usize(..reach / 2), random.usize(..reach / 2), random.bool());
            if !keep && content.len() < from + length {
                content.resize(from + length, 0);
            }
            let end = content.len();
            content[from.min(end)..(from + length).min(end)].fill(0);
            model.accept(next);
            file.zero(from as u64, length as u64, keep, durability)
        }
        _ => {
            let (at, bytes) = piece(content, path, random);
            if content.len() < at + bytes.len() {
                content.resize(at + bytes.len(), 0);
            }
            content[at..at + bytes.len()].copy_from_slice(&bytes);
            model.accept(next);
            file.write(at as u64, &bytes, durability)
        }
    }
}

/// Up to where a request goes: about half of those for the file with the checkpoint areas stay among these.
fn reach(path: &str, random: &mut Rng) -> usize {
    if path == NAMES[0] && random.bool() { 16 << 10 } else { LONGEST - 8192 - 12288 }
}

/// Where the areas of a file of that length end: one that does not reach to its end is none.
fn behind_areas(length: usize) -> usize {
    match length {
        12288.. => 12288,
        8192.. => 8192,
        _ => 0,
    }
}

/// A write that is one entry: no longer than 8 KiB, in a checkpoint area or outside of all.
fn piece(content: &[u8], path: &str, random: &mut Rng) -> (usize, Vec<u8>) {
    let areas = Profile::MARIADB.areas.iter().any(|area| area.file == path);
    let reach = reach(path, random);
    let (at, length) = match random.u8(0..6) {
        0 if areas => (4096 * random.usize(1..3) + 512 * random.usize(..4), 512),
        // The tail block again, with a little more in it.
        1..4 if content.len() >= 4096 && !areas => (content.len() / 4096 * 4096 - 4096, 4096),
        _ if areas => (behind_areas(content.len()) + random.usize(..reach), random.usize(1..8192)),
        _ => (random.usize(..LONGEST - 8192), random.usize(1..8192)),
    };
    let mut bytes: Vec<u8> = content.get(at..).unwrap_or_default().iter().copied().take(length).collect();
    bytes.resize(length, 0);
    for _ in 0..random.usize(1..4) {
        let from = random.usize(..length);
        let to = (from + random.usize(1..600)).min(length);
        let byte = random.u8(0..4);
        bytes[from..to].iter_mut().enumerate().for_each(|(index, place)| *place = byte.wrapping_mul(index as u8 | 1));
    }
    (at, bytes)
}

/// Whether a name's directory is there.
fn has_parent(files: &Files, path: &str) -> bool {
    path.rsplit_once('/').is_none_or(|(parent, _)| files.get(parent) == Some(&None))
}

fn rename(files: &mut Files, from: &str, to: &str) {
    if from != to
        && has_parent(files, to)
        && let Some(content) = files.remove(from)
    {
        files.insert(to.to_owned(), content);
    }
}

fn remove(files: &mut Files, path: &str) {
    files.remove(path);
}
