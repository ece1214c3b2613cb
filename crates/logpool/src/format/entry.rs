//! The entry: one change of one member, a record of the log.
//!
//! An entry is there whole or not at all, because a record is; so is a request of up to 256 KiB, however many separate runs
//! of bytes it has changed.

use super::numbers::{Reader, put, put_all, put_text};
use super::packed::PACKED;
use super::{LONGEST_FILE, VERSION};
use crate::{Error, FileId, MemberId, Result};

/// A change, and whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The member.
    pub(crate) member: MemberId,
    /// Entries of this member before it and itself, from 1: a gap in these is damage.
    pub(crate) number: u64,
    /// What changed.
    pub(crate) change: Change<'a>,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// Bytes were written. The file is then at least as long as the end of the request.
    Data {
        file: FileId,
        /// Where the request began.
        offset: u64,
        /// How long it was, in bytes, whatever of it changed.
        length: u64,
        /// What changed, ascending, without overlaps, within the request.
        runs: Vec<Run<'a>>,
    },
    /// Bytes became zero.
    Zero {
        file: FileId,
        offset: u64,
        length: u64,
        /// The file does not grow by it.
        keep_length: bool,
    },
    /// The file has another length.
    Truncate { file: FileId, length: u64 },
    /// An empty file, or with `None` a directory.
    Create { path: String, file: Option<FileId> },
    /// A file or directory has another name; a file that had that name is gone.
    Rename { from: String, to: String },
    /// A file or an empty directory is gone.
    Remove { path: String },
    /// What follows, up to [`Change::Restated`], says again what has changed since `since`; the names are these.
    Restate {
        /// The number of the last entry that is not said again.
        since: u64,
        nodes: Vec<Node>,
    },
    /// All has been said again.
    Restated,
}

/// Bytes that changed within a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run<'a> {
    /// From the request's offset.
    pub(crate) at: u64,
    /// At least 1.
    pub(crate) length: u64,
    /// `None`: all zero.
    pub(crate) bytes: Option<&'a [u8]>,
}

/// A name, as a restatement has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) path: String,
    /// The file and its length; `None` for a directory.
    pub(crate) file: Option<(FileId, u64)>,
}

const DATA: u8 = 1;
const ZERO: u8 = 2;
const TRUNCATE: u8 = 3;
const CREATE: u8 = 4;
const RENAME: u8 = 5;
const REMOVE: u8 = 6;
const RESTATE: u8 = 7;
const RESTATED: u8 = 8;

/// The end of all numbers of files, and 1.
const FILES: u64 = (1 << 32) + 1;

impl Entry<'_> {
    /// The plain form, for [`pack`](super::pack).
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.push(VERSION);
        bytes.push(self.change.kind());
        put(&mut bytes, self.member.0.into());
        put(&mut bytes, self.number);
        self.change.encode(&mut bytes);
        bytes
    }
}

impl<'a> Entry<'a> {
    /// Reads the plain form, as [`unpack`](super::unpack) gives it.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        match reader.byte() {
            Some(VERSION) => {}
            Some(found) => return Err(Error::Version { what: "an entry of the pool's log", found, known: PACKED }),
            None => return Err(Error::corrupt("an entry of the log is empty")),
        }
        Self::read(&mut reader)
            .filter(|_| reader.is_empty())
            .ok_or_else(|| Error::corrupt("an entry of the log is malformed"))
    }

    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let kind = reader.byte()?;
        let member = MemberId(reader.number()?.try_into().ok()?);
        let number = reader.number()?;
        Some(Self { member, number, change: Change::read(kind, reader)? })
    }
}

impl<'a> Change<'a> {
    fn kind(&self) -> u8 {
        match self {
            Self::Data { .. } => DATA,
            Self::Zero { .. } => ZERO,
            Self::Truncate { .. } => TRUNCATE,
            Self::Create { .. } => CREATE,
            Self::Rename { .. } => RENAME,
            Self::Remove { .. } => REMOVE,
            Self::Restate { .. } => RESTATE,
            Self::Restated => RESTATED,
        }
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Data { .. } => "data",
            Self::Zero { .. } => "zero",
            Self::Truncate { .. } => "truncate",
            Self::Create { .. } => "create",
            Self::Rename { .. } => "rename",
            Self::Remove { .. } => "remove",
            Self::Restate { .. } => "restate",
            Self::Restated => "restated",
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Data { file, offset, length, runs } => {
                put_all(bytes, &[file.0.into(), *offset, *length]);
                let mut end = 0;
                for run in runs {
                    put(bytes, run.at - end);
                    put(bytes, run.length << 1 | u64::from(run.bytes.is_none()));
                    bytes.extend_from_slice(run.bytes.unwrap_or_default());
                    end = run.at + run.length;
                }
            }
            Self::Zero { file, offset, length, keep_length } => {
                put_all(bytes, &[file.0.into(), *offset, *length]);
                bytes.push(u8::from(*keep_length));
            }
            Self::Truncate { file, length } => {
                put(bytes, file.0.into());
                put(bytes, *length);
            }
            Self::Create { path, file } => {
                put_text(bytes, path);
                put(bytes, file.map_or(0, |file| u64::from(file.0) + 1));
            }
            Self::Rename { from, to } => {
                put_text(bytes, from);
                put_text(bytes, to);
            }
            Self::Remove { path } => put_text(bytes, path),
            Self::Restate { since, nodes } => {
                put(bytes, *since);
                for node in nodes {
                    put_text(bytes, &node.path);
                    put(bytes, node.file.map_or(0, |(file, _)| u64::from(file.0) + 1));
                    if let Some((_, length)) = node.file {
                        put(bytes, length);
                    }
                }
            }
            Self::Restated => {}
        }
    }

    fn read(kind: u8, reader: &mut Reader<'a>) -> Option<Self> {
        Some(match kind {
            DATA => {
                let (file, offset, length) = read_range(reader)?;
                Self::Data { file, offset, length, runs: read_runs(reader, length)? }
            }
            ZERO => {
                let (file, offset, length) = read_range(reader)?;
                let keep_length = match reader.byte()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                Self::Zero { file, offset, length, keep_length }
            }
            TRUNCATE => Self::Truncate { file: FileId(reader.short()?), length: reader.below(LONGEST_FILE)? },
            CREATE => Self::Create { path: reader.path()?, file: file_of(reader.below(FILES)?) },
            RENAME => Self::Rename { from: reader.path()?, to: reader.path()? },
            REMOVE => Self::Remove { path: reader.path()? },
            RESTATE => {
                let since = reader.number()?;
                let mut nodes = Vec::new();
                while !reader.is_empty() {
                    let path = reader.path()?;
                    let file = match file_of(reader.below(FILES)?) {
                        Some(file) => Some((file, reader.below(LONGEST_FILE)?)),
                        None => None,
                    };
                    nodes.push(Node { path, file });
                }
                Self::Restate { since, nodes }
            }
            RESTATED => Self::Restated,
            _ => return None,
        })
    }
}

/// A file's number and 1, or 0 for a directory.
fn file_of(number: u64) -> Option<FileId> {
    number.checked_sub(1).map(|file| FileId(file as u32))
}

fn read_range(reader: &mut Reader<'_>) -> Option<(FileId, u64, u64)> {
    let (file, offset, length) = (reader.short()?, reader.below(LONGEST_FILE)?, reader.below(LONGEST_FILE)?);
    (offset + length < LONGEST_FILE).then_some((FileId(file), offset, length))
}

fn read_runs<'a>(reader: &mut Reader<'a>, request: u64) -> Option<Vec<Run<'a>>> {
    let (mut runs, mut end) = (Vec::new(), 0_u64);
    while !reader.is_empty() {
        let at = end.checked_add(reader.below(LONGEST_FILE)?)?;
        let coded = reader.below(LONGEST_FILE)?;
        let length = coded >> 1;
        end = at + length;
        if length == 0 || end > request {
            return None;
        }
        let bytes = if coded & 1 == 0 { Some(reader.run(length)?) } else { None };
        runs.push(Run { at, length, bytes });
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples() -> Vec<Change<'static>> {
        let (file, bytes) = (FileId(7), Some(&b"abc"[..]));
        vec![
            Change::Data {
                file,
                offset: 8192,
                length: 4096,
                runs: vec![Run { at: 5, length: 3, bytes }, Run { at: 100, length: 3000, bytes: None }],
            },
            Change::Zero { file, offset: 0, length: 16 << 20, keep_length: true },
            Change::Truncate { file, length: 17 },
            Change::Create { path: "a/b".to_owned(), file: Some(FileId(u32::MAX)) },
            Change::Create { path: "a".to_owned(), file: None },
            Change::Rename { from: "a".to_owned(), to: "b".to_owned() },
            Change::Remove { path: "a".to_owned() },
            Change::Restate {
                since: 40,
                nodes: vec![
                    Node { path: "d".to_owned(), file: None },
                    Node { path: "d/f".to_owned(), file: Some((file, 100)) },
                ],
            },
            Change::Restated,
        ]
    }

    #[test]
    fn every_kind_reads_back_and_is_refused_when_cut_short() {
        for change in samples() {
            let entry = Entry { member: MemberId(3), number: 300, change };
            let bytes = entry.encode();
            assert_eq!(Entry::decode(&bytes).unwrap(), entry);
            for end in 0..bytes.len() {
                // What is cut between two runs or two names is a shorter one of its kind.
                let Ok(shorter) = Entry::decode(&bytes[..end]) else { continue };
                assert!(matches!(shorter.change, Change::Data { .. } | Change::Restate { .. }), "{end} of {entry:?}");
                assert_eq!(shorter.encode(), bytes[..end]);
            }
        }
    }

    #[test]
    fn an_entry_says_little_beside_its_bytes() {
        let bytes = vec![7; 346];
        let run = Run { at: 200, length: 346, bytes: Some(&bytes) };
        let change = Change::Data { file: FileId(1), offset: 1 << 25, length: 4096, runs: vec![run] };
        let entry = Entry { member: MemberId(2), number: 100_000, change };
        assert!(entry.encode().len() <= 346 + 20, "{}", entry.encode().len());
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_as_it_was(bytes in prop::collection::vec(any::<u8>(), 0..80), kind in 0_u8..10) {
            let bytes = [&[VERSION, kind], &bytes[..]].concat();
            if let Ok(entry) = Entry::decode(&bytes) {
                prop_assert_eq!(entry.encode(), bytes);
            }
        }
    }
}
