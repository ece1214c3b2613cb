//! A log that lies elsewhere than its database's tables: in a log pool, or on a medium of its own.
//!
//! The database's directory remembers whose log it is by a *note*, and that the log was made:
//!
//! ```text
//!  note: log 7, not made yet ─▶ an empty log 7 is made over there ─▶ note: log 7, made ─▶ opened as ever
//! ```
//!
//! Each step is durable before the next begins. So from the first commit on there is a note that says "made", and then a place
//! without a log, or with another one, is refused: an empty log in place of one with commits would be silent loss. So is
//! opening the database as if its log lay beside its tables. A database can not be moved from one to the other.

use std::fmt;
use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_base::{Fields, LogId, crc32c};
use ishigaki_device::{AlignedBuffer, Directory, MAX_BLOCK_SIZE};
use ishigaki_wal::Log;

use crate::{Error, Result};

/// Where a log is, if not beside the tables.
#[derive(Clone, Debug)]
pub struct LogPlace {
    /// Its directory, which nothing else is in.
    pub directory: Arc<dyn Directory>,
    /// What people call it, for those who open the database without it.
    pub name: String,
}

impl fmt::Display for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The note.
pub(crate) const NOTE: &str = "log-place";

/// A note that does not count yet.
const UNBORN: &str = "log-place.new";

/// Bytes of the note before the place's name.
const HEADER: usize = 20;

/// Bytes of the longest name.
const LONGEST: usize = 2048;

const MAGIC: [u8; 4] = *b"ISGP";
const VERSION: u8 = 1;

/// What a database's directory remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    log: LogId,
    /// The log is there, and if it is not, it is lost.
    made: bool,
    place: String,
}

/// Refuses to open a database without the place of its log.
pub(crate) fn refuse_note(directory: &dyn Directory) -> Result<()> {
    match read(directory)? {
        None => Ok(()),
        Some(Note { place, .. }) => {
            Err(refusal(format!("its log is at {place}, not beside its tables; open it with that place for the log")))
        }
    }
}

/// Where the log of the database in that directory is, if not beside its tables: by the name that it was opened with.
///
/// # Errors
///
/// [`Error::CorruptLogPlace`] if what the directory remembers of it is damaged.
pub fn log_place(directory: &dyn Directory) -> Result<Option<String>> {
    Ok(read(directory)?.map(|note| note.place))
}

/// The log that the database in that directory has elsewhere, if its directory remembers that it was made.
pub(crate) fn made_log(directory: &dyn Directory) -> Option<LogId> {
    read(directory).ok().flatten().filter(|note| note.made).map(|note| note.log)
}

/// Sees that the log at that place is the database's own; makes an empty one for a database that has none. Both directories
/// are locked.
pub(crate) fn settle(directory: &dyn Directory, place: &LogPlace) -> Result<()> {
    if place.name.len() > LONGEST {
        return Err(refusal(format!("the name of a place has {LONGEST} bytes at most")));
    }
    let there = Log::identity(place.directory.as_ref())?;
    let mut note = match read(directory)? {
        Some(note) => note,
        None if crate::checkpoint::current(directory)?.is_some() || Log::identity(directory)?.is_some() => {
            return Err(refusal(format!("its log lies beside its tables; open it so, without {place}")));
        }
        None if there.is_some() => {
            return Err(refusal(format!(
                "at {place} is the log of another database; give this one a place of its own"
            )));
        }
        None => Note { log: LogId(Seed::from_entropy().0), made: false, place: String::new() },
    };
    match there {
        None if note.made => {
            let log = note.log;
            return Err(refusal(format!(
                "its log ({log}) is not at {place}, where there is none; give the place where it is, or restore it there"
            )));
        }
        Some(other) if other != note.log => {
            let log = note.log;
            return Err(refusal(format!(
                "its log ({log}) is not at {place}, where there is another database's ({other}); give the place where it is"
            )));
        }
        _ => {}
    }
    note.place.clone_from(&place.name);
    if !note.made {
        write(directory, &note)?;
        Log::make(place.directory.as_ref(), note.log)?;
        note.made = true;
    }
    // Once more also if nothing has changed: the sync that made it durable may have failed, and then no later one helps.
    write(directory, &note)
}

fn read(directory: &dyn Directory) -> Result<Option<Note>> {
    if !directory.list()?.iter().any(|name| name == NOTE) {
        return Ok(None);
    }
    let device = directory.open(NOTE)?;
    let mut bytes = AlignedBuffer::zeroed(device.len().min(2 * MAX_BLOCK_SIZE as u64) as usize);
    device.read_at(0, &mut bytes)?;
    decode(&bytes).map(Some).map_err(|what| Error::CorruptLogPlace { what })
}

fn write(directory: &dyn Directory, note: &Note) -> Result<()> {
    if directory.list()?.iter().any(|name| name == UNBORN) {
        directory.remove(UNBORN)?;
    }
    let bytes = note.encode();
    let mut buffer = AlignedBuffer::zeroed(bytes.len().next_multiple_of(MAX_BLOCK_SIZE));
    buffer[..bytes.len()].copy_from_slice(&bytes);
    directory.create(UNBORN, buffer.len() as u64)?.write_durable(0, &buffer)?;
    directory.rename(UNBORN, NOTE)?;
    Ok(directory.sync()?)
}

fn refusal(reason: String) -> Error {
    Error::LogPlace { reason }
}

impl Note {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.place.len() + 4);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, u8::from(self.made), 0, 0]);
        bytes.extend_from_slice(&self.log.0.to_le_bytes());
        bytes.extend_from_slice(&(self.place.len() as u32).to_le_bytes());
        bytes.extend_from_slice(self.place.as_bytes());
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// Reads a note; what is behind it does not matter.
pub(crate) fn decode(bytes: &[u8]) -> Result<Note, String> {
    let damaged =
        || format!("what it remembers of its log's place (`{NOTE}`) is damaged; restore that file from a copy");
    let fields = Fields(bytes);
    if bytes.len() < HEADER || bytes[..4] != MAGIC {
        return Err(damaged());
    }
    let length = fields.u32(16) as usize;
    let (Some(told), true) = (bytes.get(..HEADER + length), length <= LONGEST) else { return Err(damaged()) };
    if bytes.len() < told.len() + 4 || fields.u32(told.len()) != crc32c(told) {
        return Err(damaged());
    }
    if bytes[4] != VERSION {
        return Err(format!("`{NOTE}` has format version {}; this program reads version {VERSION}", bytes[4]));
    }
    let (made, place) = (bytes[5], String::from_utf8(told[HEADER..].to_vec()));
    match (made, place) {
        (0 | 1, Ok(place)) => Ok(Note { log: LogId(fields.u64(8)), made: made == 1, place }),
        _ => Err(damaged()),
    }
}

#[cfg(fuzzing)]
pub(crate) mod fuzz {
    //! The note's part of the door for `fuzz/`.

    use super::{Fields, HEADER, LogId, Note, crc32c, decode};

    /// Decodes a note, with its checksum put right; says whether that was one.
    ///
    /// # Panics
    ///
    /// If a note that was accepted does not encode to the same bytes, but for spare ones.
    pub fn note(bytes: &[u8]) -> bool {
        let _ = decode(bytes);
        let mut bytes = bytes.to_vec();
        let end = HEADER + Fields(&bytes).u32(16) as usize;
        if let Some((told, crc)) = bytes.split_at_mut_checked(end)
            && let Some(crc) = crc.first_chunk_mut()
        {
            *crc = crc32c(told).to_le_bytes();
        }
        let Ok(found) = decode(&bytes) else { return false };
        assert_eq!(decode(&found.encode()), Ok(found));
        true
    }

    /// Notes.
    pub fn notes() -> Vec<Vec<u8>> {
        let note = |made, place: &str| Note { log: LogId(7), made, place: place.to_owned() };
        vec![note(false, "").encode(), note(true, "pool:/srv/orders.ring").encode()]
    }
}

#[cfg(test)]
mod tests {
    use ishigaki_device::{Fault, MemoryDirectory, SimDirectory};

    use super::*;

    #[test]
    fn a_log_that_was_made_is_found_again_wherever_the_power_of_the_tables_was_cut() {
        for seed in 0..10 {
            for operation in 0.. {
                let (tables, log) = (SimDirectory::with_seed(Seed(seed)), Arc::new(MemoryDirectory::new()));
                let place = LogPlace { directory: log.clone(), name: "elsewhere".to_owned() };
                tables.inject(Fault::PowerCut { operation });
                let settled = settle(&tables, &place);
                let survivors = tables.survivors(Seed(seed * 1000 + operation));
                if settled.is_ok() {
                    // All of it is durable.
                    assert!(refuse_note(&survivors).is_err());
                }
                settle(&survivors, &place).unwrap();
                let empty = LogPlace { directory: Arc::new(MemoryDirectory::new()), ..place };
                let error = settle(&survivors, &empty).unwrap_err().to_string();
                assert!(error.contains("where there is none"), "{error}");
                if settled.is_ok() && tables.operations() <= operation {
                    assert!(operation > 6);
                    break;
                }
            }
        }
    }

    #[test]
    fn a_note_reads_back_and_a_flipped_bit_or_a_missing_byte_is_found() {
        for place in ["", "pool:/srv/orders.ring"] {
            let note = Note { log: LogId(7), made: true, place: place.to_owned() };
            let bytes = note.encode();
            assert_eq!(decode(&[&bytes[..], &[0; 100]].concat()), Ok(note));
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&damaged).is_err(), "bit {bit}");
            }
            assert!((0..bytes.len()).all(|length| decode(&bytes[..length]).is_err()));
        }
    }
}
