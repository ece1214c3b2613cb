//! External data representation (RFC 4506): what ONC RPC and NFS are written in.
//!
//! A reader never takes more than the record holds, and what it gives is a slice of the record: a length in an answer makes
//! no room by itself.

/// What a record breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// Reads a record from its beginning to its end.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(record: &'a [u8]) -> Self {
        Self { left: record }
    }

    /// Bytes that are not read.
    pub(super) fn left(&self) -> usize {
        self.left.len()
    }

    /// So many bytes, without padding.
    fn fixed(&mut self, size: usize) -> Result<&'a [u8], Malformed> {
        let (taken, left) = self.left.split_at_checked(size).ok_or(Malformed("it ends too early"))?;
        self.left = left;
        Ok(taken)
    }

    fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], Malformed> {
        let (taken, left) = self.left.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.left = left;
        Ok(*taken)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a truth value is neither 0 nor 1")),
        }
    }

    /// Bytes with their length before and padding behind them, `most` of them at most.
    pub(super) fn opaque(&mut self, most: usize) -> Result<&'a [u8], Malformed> {
        let size = self.u32()? as usize;
        if size > most {
            return Err(Malformed("a length is above what the protocol allows"));
        }
        let bytes = self.fixed(size)?;
        self.fixed(size.next_multiple_of(4) - size)?;
        Ok(bytes)
    }

    /// What may be there or not: a truth value, and the thing if it is true.
    pub(super) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }
}

/// Appends to a record.
pub(super) trait Put {
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    /// Bytes with their length before and padding behind them.
    fn put_opaque(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_opaque(&mut self, bytes: &[u8]) {
        self.put_u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
        self.resize(self.len() + bytes.len().next_multiple_of(4) - bytes.len(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read() {
        let mut record = Vec::new();
        record.put_u32(7);
        record.put_u64(1 << 40);
        record.put_opaque(b"hello");
        record.put_u32(1);
        let mut reader = Reader::new(&record);
        assert_eq!((reader.u32(), reader.u64()), (Ok(7), Ok(1 << 40)));
        assert_eq!(reader.opaque(5), Ok(&b"hello"[..]));
        assert_eq!((reader.bool(), reader.u32()), (Ok(true), Err(Malformed("it ends too early"))));
    }

    #[test]
    fn an_absurd_length_is_refused() {
        let record = u32::MAX.to_be_bytes();
        assert!(Reader::new(&record).opaque(1 << 20).is_err());
        assert!(Reader::new(&record).opaque(usize::MAX).is_err());
        assert!(Reader::new(&[0, 0, 0, 5, 1, 2, 3, 4, 5]).opaque(8).is_err());
    }
}
