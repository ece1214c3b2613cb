//! Page files whose fate hangs on a transaction: made for a table that may come to nothing, or of a table that was dropped.
//!
//! ```text
//! CREATE TABLE   a transaction of its own notes the file · the file is made · the statement's transaction takes the note back
//! DROP TABLE     the statement's transaction notes the file · it commits · the file is removed · the note goes
//! opening        every file that is noted is removed, if its identity is the one in the note · the note goes
//! ```
//!
//! So whatever moment a process is killed at, a file either belongs to a table or is noted here.

use std::ops::{Bound, ControlFlow};

use ishigaki_txn::{Session, TableId, Transaction};

use super::Catalog;
use crate::readable::Readable;
use crate::{Error, Result};

/// The engine's table of them.
pub(super) const PAGE_FILES: &str = "sql.page_files";

/// The first byte of a note.
const VERSION: u8 = 1;

/// A page file that was made for a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageFile {
    /// What tells it from others of its name.
    pub(crate) identity: u64,
    /// Its directory.
    pub(crate) place: String,
    /// Its name.
    pub(crate) name: String,
}

impl PageFile {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for text in [&self.place, &self.name] {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out
    }

    fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        let identity = u64::from_be_bytes(key.try_into().ok()?);
        let mut rest = value.strip_prefix(&[VERSION])?;
        let mut text = || {
            let (length, behind) = rest.split_first_chunk()?;
            let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = behind;
            String::from_utf8(text.to_vec()).ok()
        };
        let (place, name) = (text()?, text()?);
        rest.is_empty().then_some(Self { identity, place, name })
    }
}

impl Catalog {
    /// Notes files that are about to be made; durable when this returns.
    pub(crate) fn announce(&self, files: &[PageFile]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        self.inner.session.run(|txn| self.note(txn, files))
    }

    /// Notes files, in the transaction that drops their table.
    pub(crate) fn note(&self, txn: &mut Transaction, files: &[PageFile]) -> Result<()> {
        let put = |file: &PageFile| txn.put(self.inner.page_files, &file.identity.to_be_bytes(), &file.encode());
        Ok(files.iter().try_for_each(put)?)
    }

    /// Takes notes back, in the transaction by which the files are a table's.
    pub(crate) fn unnote(&self, txn: &mut Transaction, identities: &[u64]) -> Result<()> {
        for identity in identities {
            txn.delete(self.inner.page_files, &identity.to_be_bytes())?;
        }
        Ok(())
    }

    /// Lets notes go of files that are gone.
    pub(crate) fn forget(&self, identities: &[u64]) -> Result<()> {
        if identities.is_empty() {
            return Ok(());
        }
        self.inner.session.run(|txn| self.unnote(txn, identities))
    }

    /// The files that are noted by transactions that have ended: it waits for none.
    pub(crate) fn noted(&self) -> Result<Vec<PageFile>> {
        let snapshot = self.inner.session.snapshot()?;
        noted(Readable::Snapshot(&snapshot), self.inner.page_files)
    }
}

/// Forgets all notes of a database that was copied: the files are another database's.
pub(crate) fn forget_all(session: &Session) -> Result<()> {
    session.run(|txn| {
        let Some(table) = txn.table(PAGE_FILES)? else { return Ok(()) };
        for file in noted(Readable::from(&mut *txn), table)? {
            txn.delete(table, &file.identity.to_be_bytes())?;
        }
        Ok(())
    })
}

fn noted(mut from: Readable<'_>, table: TableId) -> Result<Vec<PageFile>> {
    let mut files = Some(Vec::new());
    from.scan(table, (Bound::Unbounded, Bound::Unbounded), |key, value| {
        match (PageFile::decode(key, value), &mut files) {
            (Some(file), Some(files)) => files.push(file),
            _ => files = None,
        }
        if files.is_some() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    files.ok_or_else(|| Error::corrupt("a note of a page file in the catalog is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_nothing_else_is_one() {
        let file = PageFile { identity: 7, place: "/data/päges".to_owned(), name: "t".to_owned() };
        let (key, value) = (7_u64.to_be_bytes(), file.encode());
        assert_eq!(PageFile::decode(&key, &value), Some(file));
        for length in 0..value.len() {
            assert_eq!(PageFile::decode(&key, &value[..length]), None, "{length}");
        }
        assert_eq!(PageFile::decode(&key[1..], &value), None);
        assert_eq!(PageFile::decode(&key, &[&value[..], b"x"].concat()), None);
    }
}
