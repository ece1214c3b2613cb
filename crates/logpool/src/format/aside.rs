//! Entries of one member that were moved aside, as the log had them.

use ishigaki_base::LogId;

use super::numbers::{Reader, put};
use super::sealed::{self, Unfit};
use super::{Entry, VERSION, unpack};
use crate::{MemberId, Result};

/// What it begins with.
const MAGIC: [u8; 4] = *b"ISPE";

/// Entries of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AsideEntries {
    pub(crate) log: LogId,
    pub(crate) member: MemberId,
    /// Payloads of records, in the order of the log.
    pub(crate) entries: Vec<Vec<u8>>,
}

impl AsideEntries {
    /// The number of the last entry; 0 if there is none.
    pub(crate) fn last(&self) -> Result<u64> {
        self.entries.last().map_or(Ok(0), |payload| Ok(Entry::decode(&unpack(payload)?)?.number))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = self.log.0.to_le_bytes().to_vec();
        put(&mut body, self.member.0.into());
        for entry in &self.entries {
            put(&mut body, entry.len() as u64);
            body.extend_from_slice(entry);
        }
        sealed::wrap(MAGIC, &body)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        sealed::decode(VERSION, MAGIC, bytes, |reader, _| Self::read(reader))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let log = reader.log()?;
        let member = MemberId(reader.number()?.try_into().ok()?);
        let mut entries = Vec::new();
        while !reader.is_empty() {
            let length = reader.number()?;
            entries.push(reader.run(length)?.to_vec());
        }
        Some(Self { log, member, entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_were_moved_aside_read_back() {
        let aside = AsideEntries { log: LogId(3), member: MemberId(4), entries: vec![vec![1; 200], vec![2]] };
        assert_eq!(AsideEntries::decode(&aside.encode()).unwrap(), aside);
    }
}
