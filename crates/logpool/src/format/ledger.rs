//! The ledger: what a member's home holds, and up to which entry.

use ishigaki_base::LogId;

use super::extent::{BLOCKS, Extent};
use super::numbers::{Reader, put, put_all, put_text};
use super::sealed::{self, Unfit};
use super::{LONGEST_FILE, VERSION};
use crate::home::EXTENT;
use crate::{FileId, MemberId};

/// What it begins with.
pub(crate) const MAGIC: [u8; 4] = *b"ISPL";

/// The version that is written: blocks have checksums. In version 1 an extent had one for all of it.
const NEWEST: u8 = 2;

/// What a home holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Of which log's pool.
    pub(crate) log: LogId,
    /// Of which member.
    pub(crate) member: MemberId,
    /// Counts the ledgers of this home. Of two that are valid the larger one counts.
    pub(crate) sequence: u64,
    /// The last entry of the member whose effects are in the home.
    pub(crate) entries: u64,
    /// No file ever had this number or a larger one, as far as this ledger knows.
    pub(crate) next_file: u32,
    /// Bytes of a region.
    pub(crate) region: u64,
    /// Regions that there are.
    pub(crate) regions: u32,
    /// Directories.
    pub(crate) directories: Vec<String>,
    /// Files.
    pub(crate) files: Vec<LedgerFile>,
    /// It was read from version 1: the first of each extent's checksums is that of the whole extent, the others mean nothing.
    pub(crate) is_old: bool,
}

/// A file in a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LedgerFile {
    pub(crate) path: String,
    pub(crate) file: FileId,
    /// In bytes.
    pub(crate) length: u64,
    /// Where its bytes are, 64 KiB each, as many as the length asks for; `None`: all zero.
    pub(crate) extents: Vec<Option<Extent>>,
}

impl Ledger {
    /// The bytes of a device that holds it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.log.0.to_le_bytes());
        let numbers = [
            self.member.0.into(),
            self.sequence,
            self.entries,
            self.next_file.into(),
            self.region,
            self.regions.into(),
            self.directories.len() as u64,
        ];
        put_all(&mut body, &numbers);
        self.directories.iter().for_each(|path| put_text(&mut body, path));
        for file in &self.files {
            put_text(&mut body, &file.path);
            put(&mut body, file.file.0.into());
            put(&mut body, file.length);
            for extent in &file.extents {
                match extent {
                    None => put(&mut body, 0),
                    Some(extent) => extent.put(&mut body),
                }
            }
        }
        sealed::wrap_as(MAGIC, NEWEST, &body)
    }

    /// Reads what a device holds.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        sealed::decode(NEWEST, MAGIC, bytes, |reader, version| Self::read(reader, version == VERSION))
    }

    fn read(reader: &mut Reader<'_>, is_old: bool) -> Option<Self> {
        let log = reader.log()?;
        let member = MemberId(reader.number()?.try_into().ok()?);
        let (sequence, entries, next_file) = (reader.number()?, reader.number()?, reader.short()?);
        let region = reader.below(1 + (1 << 32)).filter(|&region| region > 0 && region.is_multiple_of(EXTENT))?;
        let regions = reader.short()?;
        let places = (region / EXTENT).checked_mul(regions.into())?;
        let count = reader.number()?;
        let mut directories = Vec::new();
        for _ in 0..count {
            directories.push(reader.path()?);
        }
        let mut files = Vec::new();
        while !reader.is_empty() {
            let (path, file, length) = (reader.path()?, FileId(reader.short()?), reader.below(LONGEST_FILE)?);
            let mut extents = Vec::new();
            for _ in 0..length.div_ceil(EXTENT) {
                extents.push(match reader.below(1 + places.min(1 << 32))?.checked_sub(1) {
                    None => None,
                    Some(place) if is_old => {
                        let crc = u32::from_le_bytes(reader.run(4)?.try_into().ok()?);
                        Some(Extent { place: place as u32, sums: [crc; BLOCKS], lost: 0 })
                    }
                    Some(place) => Some(Extent::read(place as u32, reader)?),
                });
            }
            files.push(LedgerFile { path, file, length, extents });
        }
        Some(Self { log, member, sequence, entries, next_file, region, regions, directories, files, is_old })
    }

    /// The bytes of a device of version 1; each extent's checksum is the first that it has.
    #[cfg(test)]
    pub(crate) fn encode_old(&self) -> Vec<u8> {
        let one = Self { files: Vec::new(), ..self.clone() }.encode();
        let mut body = one[16..one.len() - 4].to_vec();
        for file in &self.files {
            put_text(&mut body, &file.path);
            put(&mut body, file.file.0.into());
            put(&mut body, file.length);
            for extent in &file.extents {
                put(&mut body, extent.map_or(0, |extent| u64::from(extent.place) + 1));
                if let Some(extent) = extent {
                    body.extend_from_slice(&extent.sums[0].to_le_bytes());
                }
            }
        }
        sealed::wrap(MAGIC, &body)
    }

    /// The most bytes of a ledger with so many names and extents.
    pub(crate) fn longest(names: u64, extents: u64) -> u64 {
        128 + names * (crate::paths::LONGEST as u64 + 16) + extents * Extent::LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        let extents = vec![Some(Extent { lost: 0x8001, ..Extent::zeros(9) }), None];
        let file = LedgerFile { path: "d/f".to_owned(), file: FileId(4), length: EXTENT + 1, extents };
        Ledger {
            log: LogId(99),
            member: MemberId(2),
            sequence: 7,
            entries: 300,
            next_file: 5,
            region: 1 << 20,
            regions: 1,
            directories: vec!["d".to_owned()],
            files: vec![file],
            is_old: false,
        }
    }

    #[test]
    fn a_ledger_reads_back_and_fits_the_bound_of_its_length() {
        let bytes = ledger().encode();
        assert_eq!(Ledger::decode(&bytes).unwrap(), ledger());
        assert!(bytes.len() as u64 <= Ledger::longest(2, 2));
    }

    #[test]
    fn an_extent_beyond_the_regions_is_refused() {
        let mut ledger = ledger();
        ledger.files[0].extents[0] = Some(Extent::zeros(16));
        assert!(Ledger::decode(&ledger.encode()).is_err());
    }
}
