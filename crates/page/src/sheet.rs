//! The common form of what a page file's segments are made of: a header, then chunks, each with its place and its
//! checksum in the header.
//!
//! Pages are such sheets, of a fixed size and filled up with zeros; so are the zone maps of a segment, which are as
//! long as they are. A reader checks the header first and then only the chunks that it wants.

use ishigaki_base::{Fields, crc32c, crc32c_append};

use crate::error::Refusal;

/// The version of the format, in every sheet and in the manifest.
pub(crate) const VERSION: u8 = 1;

const COLUMNS: usize = 6;
const FILE: usize = 8;
const SEGMENT: usize = 16;
const NUMBER: usize = 24;
const ROWS: usize = 28;
const END: usize = 32;
pub(crate) const CHECKSUM: usize = 36;
pub(crate) const TABLE: usize = 40;
/// What the header has for each chunk.
const ENTRY: usize = 8;

/// What a sheet is, and whose. A sheet of another place can not pass for this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) magic: [u8; 4],
    /// Of the file.
    pub(crate) file: u64,
    /// Of the segment.
    pub(crate) segment: u64,
    /// Its place in the segment.
    pub(crate) number: u32,
}

/// How long the header is with so many chunks.
pub(crate) fn header_len(chunks: usize) -> usize {
    TABLE + chunks * ENTRY
}

/// The checksum of a header, itself left out.
pub(crate) fn header_checksum(header: &[u8]) -> u32 {
    let (fields, table) = header.split_at(TABLE.min(header.len()));
    crc32c_append(crc32c(&fields[..CHECKSUM.min(fields.len())]), table)
}

/// Puts a sheet together.
pub(crate) struct Builder {
    bytes: Vec<u8>,
    chunks: usize,
    done: usize,
}

impl Builder {
    /// With room for that many chunks in the header, in a buffer of about `size` bytes.
    pub(crate) fn new(chunks: usize, size: usize) -> Self {
        let mut bytes = Vec::with_capacity(size);
        bytes.resize(header_len(chunks), 0);
        Self { bytes, chunks, done: 0 }
    }

    /// Appends the next chunk.
    pub(crate) fn chunk<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let start = self.bytes.len();
        let written = write(&mut self.bytes);
        let checksum = crc32c(&self.bytes[start..]);
        let entry = TABLE + self.done * ENTRY;
        self.bytes[entry..entry + 4].copy_from_slice(&(start as u32).to_le_bytes());
        self.bytes[entry + 4..entry + 8].copy_from_slice(&checksum.to_le_bytes());
        self.done += 1;
        written
    }

    /// The bytes of all chunks and the header.
    pub(crate) fn finish(mut self, identity: Identity, rows: u32) -> Vec<u8> {
        debug_assert_eq!(self.done, self.chunks, "the header has an entry for every chunk");
        let end = self.bytes.len() as u32;
        let header = &mut self.bytes[..header_len(self.chunks)];
        header[..4].copy_from_slice(&identity.magic);
        header[4] = VERSION;
        header[COLUMNS..FILE].copy_from_slice(&(self.chunks as u16).to_le_bytes());
        header[FILE..SEGMENT].copy_from_slice(&identity.file.to_le_bytes());
        header[SEGMENT..NUMBER].copy_from_slice(&identity.segment.to_le_bytes());
        header[NUMBER..ROWS].copy_from_slice(&identity.number.to_le_bytes());
        header[ROWS..END].copy_from_slice(&rows.to_le_bytes());
        header[END..CHECKSUM].copy_from_slice(&end.to_le_bytes());
        let checksum = header_checksum(header);
        header[CHECKSUM..TABLE].copy_from_slice(&checksum.to_le_bytes());
        self.bytes
    }
}

/// Where a chunk is, and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: usize,
    pub(crate) end: usize,
    checksum: u32,
}

impl Place {
    /// Refuses bytes that are not this chunk's.
    pub(crate) fn check(self, chunk: &[u8]) -> Result<&[u8], Refusal> {
        if crc32c(chunk) == self.checksum { Ok(chunk) } else { Err("a column does not fit its checksum") }
    }
}

/// A sheet's header, found sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'a> {
    table: &'a [u8],
    pub(crate) rows: u32,
    /// Where the last chunk ends.
    pub(crate) end: usize,
}

impl<'a> Header<'a> {
    /// Reads the header at the beginning of `bytes`, of a sheet that is `length` bytes long and has so many chunks.
    pub(crate) fn parse(bytes: &'a [u8], length: usize, identity: Identity, chunks: usize) -> Result<Self, Refusal> {
        let header = bytes.get(..header_len(chunks)).ok_or("it is shorter than its header")?;
        let fields = Fields(header);
        if fields.array::<4>(0) != identity.magic {
            return Err("it does not begin as it should");
        }
        if header_checksum(header) != fields.u32(CHECKSUM) {
            return Err("its header does not fit its checksum");
        }
        if header[4] != VERSION || header[5] != 0 || u16::from_le_bytes(fields.array(COLUMNS)) as usize != chunks {
            return Err("it has another version or another number of columns than its file");
        }
        let place = Identity {
            magic: identity.magic,
            file: fields.u64(FILE),
            segment: fields.u64(SEGMENT),
            number: fields.u32(NUMBER),
        };
        if place != identity {
            return Err("it belongs to another file or another place");
        }
        let header = Self { table: &header[TABLE..], rows: fields.u32(ROWS), end: fields.u32(END) as usize };
        header.check_places(length, chunks)?;
        Ok(header)
    }

    /// Chunks must follow each other closely, up to the end, within the sheet.
    fn check_places(&self, length: usize, chunks: usize) -> Result<(), Refusal> {
        let first = Fields(self.table).u32(0) as usize;
        let starts_right = if chunks == 0 { self.end } else { first } == header_len(chunks);
        let in_order = (0..chunks).all(|index| self.place(index).start <= self.place(index).end);
        let fault = "its columns are not where they can be";
        if starts_right && in_order && self.end <= length { Ok(()) } else { Err(fault) }
    }

    /// Where the chunk of that index is, which must be one of the sheet's.
    pub(crate) fn place(&self, index: usize) -> Place {
        let entry = Fields(self.table);
        let start = entry.u32(index * ENTRY) as usize;
        let last = (index + 1) * ENTRY >= self.table.len();
        let end = if last { self.end } else { entry.u32((index + 1) * ENTRY) as usize };
        Place { start, end, checksum: entry.u32(index * ENTRY + 4) }
    }
}
