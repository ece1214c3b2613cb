//! A home of format version 1: its ledger has one checksum for all of an extent. Each block gets one when it is opened.

use super::Home;
use crate::Result;
use crate::format::Extent;

impl Home {
    /// Gives every block a checksum. An extent that does not fit the one it had is suspect: a round that was cut off may have
    /// left it so, and then the log has a change of it; else it is damaged. Nothing is written.
    pub(super) fn renew(&mut self) -> Result<()> {
        if !self.current.get_mut().is_old {
            return Ok(());
        }
        let mut ledger = self.ledger();
        for extent in ledger.files.iter_mut().flat_map(|file| file.extents.iter_mut().flatten()) {
            let (place, sum) = (extent.place, extent.sums[0]);
            let bytes = self.raw(place)?;
            if ishigaki_base::crc32c(&bytes) != sum {
                self.suspects.insert(place);
            }
            *extent = Extent::of(place, &bytes);
        }
        ledger.is_old = false;
        *self.current.get_mut() = ledger;
        Ok(())
    }

    /// Whether that extent did not fit the checksum that version 1 had of it.
    pub(crate) fn is_suspect(&self, place: u32) -> bool {
        self.suspects.contains(&place)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ishigaki_base::LogId;
    use ishigaki_device::{AlignedBuffer, Directory, MemoryDirectory};

    use super::*;
    use crate::format::{Ledger, LedgerFile};
    use crate::home::{Base, EXTENT, ledger_names, region_name};
    use crate::{FileId, MemberId};

    #[test]
    fn a_home_of_version_1_gets_checksums_for_its_blocks_and_what_did_not_fit_is_suspect() {
        let directory = Arc::new(MemoryDirectory::new());
        let mut home = AlignedBuffer::zeroed(EXTENT as usize * 2);
        home.fill(7);
        let sum = ishigaki_base::crc32c(&home[..EXTENT as usize]);
        directory.create(&region_name("a", 0), EXTENT * 2).unwrap().write_at(0, &home).unwrap();
        let extents = vec![Some(Extent { sums: [sum; 16], ..Extent::zeros(0) }), Some(Extent::zeros(1))];
        let files = vec![LedgerFile { path: "f".to_owned(), file: FileId(0), length: EXTENT * 2, extents }];
        let (log, member) = (LogId(5), MemberId(1));
        let old = Ledger {
            log,
            member,
            sequence: 3,
            entries: 9,
            next_file: 1,
            region: EXTENT * 2,
            regions: 1,
            directories: Vec::new(),
            files,
            is_old: true,
        };
        let bytes = old.encode_old();
        let mut buffer = AlignedBuffer::zeroed(4096);
        buffer[..bytes.len()].copy_from_slice(&bytes);
        for name in ledger_names("a") {
            directory.create(&name, 4096).unwrap().write_at(0, &buffer).unwrap();
        }
        let home = Home::open(directory.clone(), "a", log, member).unwrap();
        assert_eq!((home.is_suspect(0), home.is_suspect(1)), (false, true));
        let extents = home.ledger().files[0].extents.clone();
        assert_eq!(extents[0], Some(Extent::of(0, &vec![7; EXTENT as usize])));
        // What is written is of the new version, and reads back.
        home.secure().unwrap();
        drop(home);
        let home = Home::open(directory, "a", log, member).unwrap();
        assert_eq!(home.ledger().files[0].extents, extents);
        let mut bytes = [0; 5];
        home.read(0, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 5]);
    }
}
