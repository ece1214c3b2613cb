//! Numbers, texts and lists of a fragment, little-endian. Reading allocates no more than the fragment is long, but for copies
//! of constants, which are bounded.

use super::Refused;

/// The most columns, arguments or branches of anything.
pub(super) const MOST: usize = 4096;

/// The most bytes of constants, counted where they are used.
const MOST_COPIED: usize = 16 << 20;

pub(super) fn put_count(to: &mut Vec<u8>, count: usize) {
    to.extend_from_slice(&(count as u32).to_le_bytes());
}

pub(super) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_count(to, bytes.len());
    to.extend_from_slice(bytes);
}

pub(super) fn put_text(to: &mut Vec<u8>, text: &str) {
    put_bytes(to, text.as_bytes());
}

pub(super) fn put_option<T>(to: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    to.push(value.is_some().into());
    if let Some(value) = value {
        put(to, value);
    }
}

/// Takes values from the front.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    /// How deep in expressions it is.
    pub(super) depth: usize,
    /// Bytes of constants that were copied to where they are used.
    copied: usize,
}

fn short() -> Refused {
    Refused::because("it is cut off")
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, depth: 0, copied: 0 }
    }

    /// So many bytes are copied; a few constants that are used again and again would become many.
    pub(super) fn copies(&mut self, bytes: usize) -> Result<(), Refused> {
        self.copied += bytes;
        if self.copied <= MOST_COPIED { Ok(()) } else { Err(Refused::because("its constants are used too often")) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let (run, rest) = self.rest.split_first_chunk().ok_or_else(short)?;
        self.rest = rest;
        Ok(*run)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Refused> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Refused> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i128(&mut self) -> Result<i128, Refused> {
        self.array().map(i128::from_le_bytes)
    }

    pub(super) fn count(&mut self) -> Result<usize, Refused> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Refused> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Refused::because("a flag is neither 0 nor 1")),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8], Refused> {
        let length = self.count()?;
        let (run, rest) = self.rest.split_at_checked(length).ok_or_else(short)?;
        self.rest = rest;
        Ok(run)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Refused> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Refused::because("a text is not UTF-8"))
    }

    pub(super) fn option<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<T, Refused>,
    ) -> Result<Option<T>, Refused> {
        if self.flag()? { take(self).map(Some) } else { Ok(None) }
    }

    /// So many values, at most `most`. Every value takes a byte at least.
    pub(super) fn list<T>(
        &mut self,
        most: usize,
        mut take: impl FnMut(&mut Self) -> Result<T, Refused>,
    ) -> Result<Vec<T>, Refused> {
        let count = self.count()?;
        if count > most || count > self.rest.len() {
            return Err(Refused::because(format!("a list of {count}")));
        }
        (0..count).map(|_| take(self)).collect()
    }

    pub(super) fn end(self) -> Result<(), Refused> {
        if self.rest.is_empty() { Ok(()) } else { Err(Refused::because("something follows behind its end")) }
    }
}
