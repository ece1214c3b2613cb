//! The redo record: what a committed transaction changed, as the log keeps it. `docs/format/redo.md` has the byte tables.
//!
//! A record is a version byte and a sequence of operations up to its end. It says what the state is afterwards, not how it
//! came about, so it needs no undo part; recovery applies whole records in LSN order. The decoder never panics, copies
//! nothing, and refuses what it does not know: an unknown version or tag, a number that is too large or not in its
//! shortest form, a length beyond the end, a write before its table was named.

use ishigaki_base::Lsn;

use crate::key::{Key, MAX_KEY, MAX_VALUE};
use crate::table::TableId;
use crate::{Error, Result};

/// The only version there is.
const VERSION: u8 = 1;

/// Makes a table with a number that none had before.
const CREATE: u8 = 0x01;
/// Removes a table and all that is in it.
const DROP: u8 = 0x02;
/// Names the table of the writes that follow.
const TABLE: u8 = 0x03;
/// Stores a value under a key.
const PUT: u8 = 0x04;
/// Removes a key.
const DELETE: u8 = 0x05;

/// One change that a committed transaction made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "table, name, key and value are what they are called")]
pub enum Operation<'a> {
    /// Makes a table, with a number that none had before.
    Create { table: TableId, name: &'a [u8] },
    /// Removes a table and all that is in it.
    Drop { table: TableId, name: &'a [u8] },
    /// Stores a value under a key, whatever was there.
    Put { table: TableId, key: &'a [u8], value: &'a [u8] },
    /// Removes a key.
    Delete { table: TableId, key: &'a [u8] },
}

/// What a record of a database's log says that its transaction changed, in order; `lsn` is the record's, for the error of
/// one that is not to be understood. For readers of the log's [`Changes`](ishigaki_wal::Changes).
///
/// # Errors
///
/// [`Error::Corrupt`] for what no database of this version has written.
pub fn operations(lsn: Lsn, record: &[u8]) -> Result<Vec<Operation<'_>>> {
    let read = Decoder::new(record).and_then(Iterator::collect);
    read.map_err(|reason| Error::Corrupt { lsn: lsn.0, reason })
}

/// Builds a record.
#[derive(Debug)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    /// Of the writes that follow, if it has been named.
    table: Option<TableId>,
}

impl Encoder {
    /// Builds it in a vector, in place of what that holds.
    pub(crate) fn within(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.push(VERSION);
        Self { bytes, table: None }
    }

    pub(crate) fn create(&mut self, table: TableId, name: &[u8]) {
        self.named(CREATE, table, name);
    }

    pub(crate) fn drop(&mut self, table: TableId, name: &[u8]) {
        self.named(DROP, table, name);
    }

    #[inline]
    pub(crate) fn write(&mut self, table: TableId, key: &Key, value: Option<&[u8]>) {
        // Once for all of it: a tag and two lengths take few bytes.
        self.bytes.reserve(key.len() + value.map_or(0, <[u8]>::len) + 32);
        if self.table != Some(table) {
            self.bytes.push(TABLE);
            self.number(u64::from(table.0));
            self.table = Some(table);
        }
        self.bytes.push(if value.is_some() { PUT } else { DELETE });
        self.run(key);
        if let Some(value) = value {
            self.run(value);
        }
    }

    /// The record.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn named(&mut self, tag: u8, table: TableId, name: &[u8]) {
        self.bytes.push(tag);
        self.number(u64::from(table.0));
        self.run(name);
    }

    #[inline]
    fn run(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// The number of a table as the system table stores it.
pub(crate) fn encode_id(table: TableId) -> [u8; 4] {
    table.0.to_le_bytes()
}

/// Reads what [`encode_id`] wrote.
pub(crate) fn decode_id(bytes: &[u8]) -> Option<TableId> {
    Some(TableId(u32::from_le_bytes(bytes.try_into().ok()?)))
}

/// Reads the operations of a record, in order. After an error there is nothing more.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
    table: Option<TableId>,
}

/// Why a record is refused.
pub(crate) type Refusal = String;

impl<'a> Decoder<'a> {
    pub(crate) fn new(record: &'a [u8]) -> Result<Self, Refusal> {
        match record.split_first() {
            Some((&VERSION, rest)) => Ok(Self { rest, table: None }),
            Some((version, _)) => Err(format!("its version is {version}, and only {VERSION} is known")),
            None => Err("it is empty".to_owned()),
        }
    }

    fn operation(&mut self, tag: u8) -> Result<Option<Operation<'a>>, Refusal> {
        Ok(Some(match tag {
            CREATE => Operation::Create { table: self.table_id()?, name: self.run(MAX_KEY)? },
            DROP => Operation::Drop { table: self.table_id()?, name: self.run(MAX_KEY)? },
            TABLE => {
                self.table = Some(self.table_id()?);
                return Ok(None);
            }
            PUT => Operation::Put { table: self.named()?, key: self.run(MAX_KEY)?, value: self.run(MAX_VALUE)? },
            DELETE => Operation::Delete { table: self.named()?, key: self.run(MAX_KEY)? },
            tag => return Err(format!("it has an unknown operation {tag:#04x}")),
        }))
    }

    fn named(&self) -> Result<TableId, Refusal> {
        self.table.ok_or_else(|| "it has a write before the table is named".to_owned())
    }

    fn table_id(&mut self) -> Result<TableId, Refusal> {
        let number = self.number()?;
        match u32::try_from(number) {
            Ok(id) if id != TableId::SYSTEM.0 => Ok(TableId(id)),
            _ => Err(format!("{number} is not the number of a table")),
        }
    }

    fn run(&mut self, limit: usize) -> Result<&'a [u8], Refusal> {
        let length = self.number()?;
        let fits = usize::try_from(length).ok().filter(|&length| length <= limit);
        let Some((run, rest)) = fits.and_then(|length| self.rest.split_at_checked(length)) else {
            return Err(format!("a length of {length} bytes goes beyond its end or the limit"));
        };
        self.rest = rest;
        Ok(run)
    }

    fn number(&mut self) -> Result<u64, Refusal> {
        let mut number = 0_u64;
        for (at, &byte) in self.rest.iter().enumerate().take(10) {
            let part = u64::from(byte & 0x7f);
            if (at == 9 && part > 1) || (at > 0 && byte == 0) {
                return Err("a number is too large or not in its shortest form".to_owned());
            }
            number |= part << (7 * at);
            if byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(number);
            }
        }
        Err("a number does not end".to_owned())
    }
}

impl<'a> Iterator for Decoder<'a> {
    type Item = Result<Operation<'a>, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&tag, rest) = self.rest.split_first()?;
            self.rest = rest;
            match self.operation(tag) {
                Ok(Some(operation)) => return Some(Ok(operation)),
                Ok(None) => {}
                Err(refusal) => {
                    self.rest = &[];
                    return Some(Err(refusal));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
