//! What is left of a checkpoint whose files are damaged: every page that is whole, and which rows the others had.
//!
//! Pages come in the order of tables and keys, and each says which one it is. So the reader goes on at the next whole page
//! behind a damage, and the rows that are missing lie between the last row before and the first row behind.

use ishigaki_base::{LogId, Lsn};
use ishigaki_device::{AlignedBuffer, Device, Directory, Error as DeviceError, MAX_BLOCK_SIZE};
use ishigaki_wal::Damage;

use super::files::{LONGEST, MANIFEST, PREVIOUS, parse_part_name, part_name};
use super::manifest::{self, Manifest};
use super::page::{self, HEADER, Identity, MAGIC, Page};
use crate::table::TableId;

/// A row's place in the order of all rows.
pub(crate) type Place = (TableId, Vec<u8>);

/// Rows that are missing: those between these two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The last row before; `None`: from the first one on.
    pub(crate) after: Option<Place>,
    /// The first row behind; `None`: up to the last one.
    pub(crate) before: Option<Place>,
    /// The damage that made it.
    pub(crate) damage: Damage,
}

impl Gap {
    /// Whether a row may have been in it.
    pub(crate) fn holds(&self, table: TableId, key: &[u8]) -> bool {
        let place = (table, key);
        let is_behind = self.after.as_ref().is_none_or(|(table, key)| place > (*table, key));
        is_behind && self.before.as_ref().is_none_or(|(table, key)| place < (*table, key))
    }
}

/// The manifests of a directory that can be read, and what is wrong with the others.
#[derive(Debug, Default)]
pub(crate) struct Manifests {
    pub(crate) current: Option<Manifest>,
    pub(crate) previous: Option<Manifest>,
    /// Numbers of checkpoints of which there are parts, in order.
    pub(crate) numbers: Vec<u64>,
    pub(crate) damages: Vec<Damage>,
}

impl Manifests {
    pub(crate) fn of(directory: &dyn Directory) -> Result<Self, DeviceError> {
        let names = directory.list()?;
        let mut found =
            Self { numbers: names.iter().filter_map(|name| parse_part_name(name)).collect(), ..Self::default() };
        found.numbers.sort_unstable();
        found.numbers.dedup();
        for name in [MANIFEST, PREVIOUS] {
            if !names.iter().any(|known| known == name) {
                continue;
            }
            match read_manifest(directory, name) {
                Ok(manifest) if name == MANIFEST => found.current = Some(manifest),
                Ok(manifest) => found.previous = Some(manifest),
                Err(what) => found.damages.push(Damage { file: name.to_owned(), offset: Some(0), what }),
            }
        }
        Ok(found)
    }

    /// The log that the checkpoints belong to.
    pub(crate) fn log(&self) -> Option<LogId> {
        self.current.as_ref().or(self.previous.as_ref()).map(|manifest| manifest.log)
    }

    /// Whether there is nothing of a checkpoint.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_none() && self.previous.is_none() && self.numbers.is_empty() && self.damages.is_empty()
    }
}

fn read_manifest(directory: &dyn Directory, name: &str) -> Result<Manifest, String> {
    let device = directory.open(name).map_err(|error| error.to_string())?;
    if device.len() > LONGEST {
        return Err(format!("its manifest has {} bytes", device.len()));
    }
    let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
    device.read_at(0, &mut bytes).map_err(|error| error.to_string())?;
    manifest::decode(&bytes)
}

/// What reading a checkpoint around its damages has found.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// In rows that were given.
    pub(crate) rows: u64,
    pub(crate) damages: Vec<Damage>,
    pub(crate) gaps: Vec<Gap>,
    /// The part, and where in it, that is damaged, before the next whole page.
    open: Option<Damage>,
    /// The last row that was given.
    last: Option<Place>,
    /// The page that comes next.
    next: u64,
}

/// Gives the rows of all whole pages of the checkpoint with that manifest.
pub(crate) fn read(
    directory: &dyn Directory,
    manifest: &Manifest,
    mut give: impl FnMut(TableId, Lsn, &[u8], &[u8]),
) -> Leftovers {
    let mut found = Leftovers::default();
    for (place, part) in manifest.parts.iter().enumerate() {
        let name = part_name(manifest.number, place);
        let end = found.next + u64::from(part.pages);
        match read_part(directory, &name, Some(part.length)) {
            Ok(part) => found.part(&part, &name, Some(manifest.log), manifest.number, Some(end), &mut give),
            Err(what) => found.lose(Damage { file: name, offset: None, what }),
        }
        if found.next < end {
            let name = part_name(manifest.number, place);
            found.lose(Damage { file: name, offset: Some(part.length), what: "its last pages are missing".to_owned() });
        }
        found.next = end;
    }
    found.close();
    if found.damages.is_empty() && found.rows != manifest.rows {
        let what = format!("it should have {} rows and has {}", manifest.rows, found.rows);
        found.damages.push(Damage { file: MANIFEST.to_owned(), offset: Some(0), what });
    }
    found
}

/// The same for a checkpoint that has lost its manifest.
pub(crate) fn read_without_manifest(
    directory: &dyn Directory,
    number: u64,
    log: Option<LogId>,
    mut give: impl FnMut(TableId, Lsn, &[u8], &[u8]),
) -> Leftovers {
    let mut found = Leftovers::default();
    let is_of = |name: &&String| parse_part_name(name) == Some(number);
    let names = directory.list().unwrap_or_default();
    for name in names.iter().filter(is_of) {
        match read_part(directory, name, None) {
            Ok(part) => found.part(&part, name, log, number, None, &mut give),
            Err(what) => found.lose(Damage { file: name.clone(), offset: None, what }),
        }
    }
    found.close();
    found
}

impl Leftovers {
    /// Takes the pages of a part, those before `end` if that is known.
    fn part(
        &mut self,
        part: &[u8],
        name: &str,
        log: Option<LogId>,
        number: u64,
        end: Option<u64>,
        give: &mut impl FnMut(TableId, Lsn, &[u8], &[u8]),
    ) {
        let mut at = 0;
        while at < part.len() {
            if end.is_some_and(|end| self.next >= end) || end.is_none() && part[at..].iter().all(|&byte| byte == 0) {
                break;
            }
            let (why, step) = match page::decode(&part[at..]) {
                Ok((page, rest)) => match self.check(&page, log, number, end) {
                    Ok(()) => {
                        let damage = Damage {
                            file: name.to_owned(),
                            offset: Some(at as u64),
                            what: "pages are missing before it".to_owned(),
                        };
                        self.take(&page, damage, give);
                        at = part.len() - rest.len();
                        continue;
                    }
                    Err(why) => (why, None),
                },
                Err(why) => (why, page::length(&part[at..])),
            };
            self.lose(Damage { file: name.to_owned(), offset: Some(at as u64), what: why });
            // Behind this page, if its header says how long it is; else wherever another header is.
            at += match step {
                Some(length) => length,
                None => 1 + find_header(&part[at + 1..]),
            };
        }
    }

    fn check(&self, page: &Page<'_>, log: Option<LogId>, number: u64, end: Option<u64>) -> Result<(), String> {
        let Identity { log: of, checkpoint, page: place } = page.identity;
        let fits = log.is_none_or(|log| of == log) && checkpoint == number;
        if !fits || place < self.next || end.is_some_and(|end| place >= end) {
            return Err("a page belongs somewhere else".to_owned());
        }
        match page.rows().find_map(Result::err) {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    fn take(&mut self, page: &Page<'_>, damage: Damage, give: &mut impl FnMut(TableId, Lsn, &[u8], &[u8])) {
        if page.identity.page > self.next && self.open.is_none() {
            self.lose(damage);
        }
        self.next = page.identity.page + 1;
        for (lsn, key, value) in page.rows().flatten() {
            if let Some(damage) = self.open.take() {
                self.gap(damage, Some((page.table, key.to_vec())));
            }
            give(page.table, lsn, key, value);
            self.rows += 1;
        }
        if let Some((_, key, _)) = page.rows().flatten().last() {
            self.last = Some((page.table, key.to_vec()));
        }
    }

    fn lose(&mut self, damage: Damage) {
        if self.open.is_none() {
            self.open = Some(damage.clone());
            self.damages.push(damage);
        }
    }

    fn gap(&mut self, damage: Damage, before: Option<Place>) {
        self.gaps.push(Gap { after: self.last.clone(), before, damage });
    }

    fn close(&mut self) {
        if let Some(damage) = self.open.take() {
            self.gap(damage, None);
        }
    }
}

/// Where in these bytes the next header of a page may be; their end if there is none.
fn find_header(bytes: &[u8]) -> usize {
    bytes
        .windows(MAGIC.len())
        .position(|window| window == MAGIC)
        .filter(|at| bytes.len() - at >= HEADER)
        .unwrap_or(bytes.len())
}

/// The bytes of a part, of which `length` should be there. What can not be read is zeros.
fn read_part(directory: &dyn Directory, name: &str, length: Option<u64>) -> Result<Vec<u8>, String> {
    let device = directory.open(name).map_err(|error| match error {
        DeviceError::NotFound { .. } => "is missing".to_owned(),
        other => other.to_string(),
    })?;
    let length = length.unwrap_or(device.len()).min(device.len());
    let block = device.promise().block_size;
    let mut bytes = AlignedBuffer::zeroed((length as usize).next_multiple_of(block));
    if device.read_at(0, &mut bytes).is_err() {
        read_blocks(device.as_ref(), &mut bytes);
    }
    Ok(bytes[..length as usize].to_vec())
}

fn read_blocks(device: &dyn Device, bytes: &mut [u8]) {
    for (place, piece) in bytes.chunks_mut(MAX_BLOCK_SIZE).enumerate() {
        if device.read_at((place * MAX_BLOCK_SIZE) as u64, piece).is_err() {
            piece.fill(0);
        }
    }
}
