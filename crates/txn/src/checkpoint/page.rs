//! Pages: rows of one table, with checksums. `docs/format/checkpoint.md` has the byte tables.
//!
//! A page says whose it is (log, checkpoint, which page of it), so that no other page can pass for it. The decoder never
//! panics, copies nothing, and refuses what it does not know.

use ishigaki_base::{Fields, LogId, Lsn, Position, crc32c};

use crate::key::{MAX_KEY, MAX_VALUE};
use crate::table::TableId;

/// Bytes of a page before its rows.
pub(crate) const HEADER: usize = 52;

/// Bytes of a row before its key.
const ROW_HEADER: usize = 16;

pub(super) const MAGIC: [u8; 4] = *b"ISGP";
const VERSION: u8 = 1;

/// Why bytes are refused.
pub(crate) type Refusal = String;

/// Which page of which checkpoint of which log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) log: LogId,
    /// The checkpoint's number.
    pub(crate) checkpoint: u64,
    /// Pages of this checkpoint before this one.
    pub(crate) page: u64,
}

/// A row: the LSN of who wrote it, its key, its value.
pub(crate) type Row<'a> = (Lsn, &'a [u8], &'a [u8]);

/// A page being filled.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    bytes: Vec<u8>,
    rows: u32,
}

impl Draft {
    /// Adds a row.
    pub(crate) fn push(&mut self, version: Lsn, key: &[u8], value: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER, 0);
        }
        self.bytes.extend_from_slice(&version.0.to_le_bytes());
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.rows += 1;
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// Bytes of the page so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The page, which has at least one row.
    pub(crate) fn seal(&mut self, identity: Identity, table: TableId) -> &[u8] {
        let payload_crc = crc32c(&self.bytes[HEADER..]);
        let payload = (self.bytes.len() - HEADER) as u32;
        let header = &mut self.bytes[..HEADER];
        header[0..4].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&[VERSION, 0, 0, 0]);
        header[8..16].copy_from_slice(&identity.log.0.to_le_bytes());
        header[16..24].copy_from_slice(&identity.checkpoint.to_le_bytes());
        header[24..32].copy_from_slice(&identity.page.to_le_bytes());
        header[32..36].copy_from_slice(&table.0.to_le_bytes());
        header[36..40].copy_from_slice(&self.rows.to_le_bytes());
        header[40..44].copy_from_slice(&payload.to_le_bytes());
        header[44..48].copy_from_slice(&payload_crc.to_le_bytes());
        let crc = crc32c(&header[..48]);
        header[48..52].copy_from_slice(&crc.to_le_bytes());
        &self.bytes
    }

    /// Empty again. Memory for one long row is not kept.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(keep);
        self.rows = 0;
    }
}

/// A page as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    pub(crate) identity: Identity,
    pub(crate) table: TableId,
    /// How many rows there should be.
    pub(crate) rows: u32,
    payload: &'a [u8],
}

/// Reads the page at the beginning of `bytes`; also what is behind it.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Page<'_>, &[u8]), Refusal> {
    let Some((header, rest)) = bytes.split_at_checked(HEADER) else { return Err("a page is cut short".to_owned()) };
    let fields = Fields(header);
    if header[0..4] != MAGIC || fields.u32(48) != crc32c(&header[..48]) {
        return Err("a page's header does not fit its checksum".to_owned());
    }
    if header[4] != VERSION {
        return Err(format!("a page has format version {}; this program reads version {VERSION}", header[4]));
    }
    let Some((payload, rest)) = rest.split_at_checked(fields.u32(40) as usize) else {
        return Err("a page is cut short".to_owned());
    };
    if fields.u32(44) != crc32c(payload) {
        return Err("a page's rows do not fit their checksum".to_owned());
    }
    let identity = Identity { log: LogId(fields.u64(8)), checkpoint: fields.u64(16), page: fields.u64(24) };
    Ok((Page { identity, table: TableId(fields.u32(32)), rows: fields.u32(36), payload }, rest))
}

/// Bytes of the page at the beginning of `bytes`, if its header can be believed.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..HEADER)?;
    let fields = Fields(header);
    let is_whole = header[0..4] == MAGIC && fields.u32(48) == crc32c(&header[..48]) && header[4] == VERSION;
    let length = HEADER + fields.u32(40) as usize;
    (is_whole && length <= bytes.len()).then_some(length)
}

impl<'a> Page<'a> {
    /// Its rows, in order. After an error there is nothing more; an error, too, if there are more or fewer than it says.
    pub(crate) fn rows(&self) -> Rows<'a> {
        Rows { left: self.rows, rest: self.payload }
    }
}

/// The rows of a page.
#[derive(Clone, Debug)]
pub(crate) struct Rows<'a> {
    left: u32,
    rest: &'a [u8],
}

impl<'a> Rows<'a> {
    fn row(&mut self) -> Option<Row<'a>> {
        let (header, rest) = self.rest.split_at_checked(ROW_HEADER)?;
        let fields = Fields(header);
        let (version, key, value) = (Lsn(fields.u64(0)), fields.u32(8) as usize, fields.u32(12) as usize);
        if version > Position::MAX_LSN || key > MAX_KEY || value > MAX_VALUE {
            return None;
        }
        let (key, rest) = rest.split_at_checked(key)?;
        let (value, rest) = rest.split_at_checked(value)?;
        self.rest = rest;
        Some((version, key, value))
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<Row<'a>, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let more = !std::mem::take(&mut self.rest).is_empty();
            return more.then(|| Err("a page has more rows than it says".to_owned()));
        }
        self.left -= 1;
        let row = self.row().ok_or_else(|| "a row goes beyond the end of its page or the limit".to_owned());
        if row.is_err() {
            (self.left, self.rest) = (0, &[]);
        }
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDENTITY: Identity = Identity { log: LogId(7), checkpoint: 3, page: 11 };

    fn page(rows: &[(u64, Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut draft = Draft::default();
        for (version, key, value) in rows {
            draft.push(Lsn(*version), key, value);
        }
        draft.seal(IDENTITY, TableId(5)).to_vec()
    }

    fn rows() -> impl Strategy<Value = Vec<(u64, Vec<u8>, Vec<u8>)>> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..40);
        prop::collection::vec((0..=Position::MAX_LSN.0, bytes(), bytes()), 1..10)
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let page = page(&[(1, b"key".to_vec(), b"value".to_vec()), (2, b"".to_vec(), b"".to_vec())]);
        for bit in 0..page.len() * 8 {
            let mut damaged = page.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_page_with_more_or_fewer_rows_than_it_says_is_refused() {
        for claimed in [0, 1, 3, u32::MAX] {
            let mut draft = Draft::default();
            draft.push(Lsn(1), b"a", b"");
            draft.push(Lsn(1), b"b", b"");
            draft.rows = claimed;
            let bytes = draft.seal(IDENTITY, TableId(5)).to_vec();
            let (page, _) = decode(&bytes).unwrap();
            assert!(page.rows().any(|row| row.is_err()), "{claimed}");
        }
    }

    #[test]
    fn a_version_that_no_log_can_reach_is_refused() {
        let bytes = page(&[(Position::MAX_LSN.0 + 1, Vec::new(), Vec::new())]);
        assert!(decode(&bytes).unwrap().0.rows().any(|row| row.is_err()));
    }

    proptest! {
        #[test]
        fn pages_read_back(first in rows(), second in rows()) {
            let bytes = [page(&first), page(&second)].concat();
            let mut rest = bytes.as_slice();
            for expected in [first, second] {
                let (page, behind) = decode(rest).unwrap();
                prop_assert_eq!((page.identity, page.table), (IDENTITY, TableId(5)));
                let own = |row: Result<Row<'_>, Refusal>| row.map(|(lsn, key, value)| (lsn.0, key.to_vec(), value.to_vec()));
                prop_assert_eq!(page.rows().map(own).collect::<Result<Vec<_>, _>>().unwrap(), expected);
                rest = behind;
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(payload in prop::collection::vec(any::<u8>(), 0..200), rows in 0_u32..9) {
            let _ = decode(&payload);
            // Rows that are nonsense behind checksums that fit.
            let mut draft = Draft { bytes: [&[0; HEADER], payload.as_slice()].concat(), rows };
            let bytes = draft.seal(IDENTITY, TableId(5)).to_vec();
            prop_assert!(decode(&bytes).unwrap().0.rows().count() <= 10);
        }
    }
}
