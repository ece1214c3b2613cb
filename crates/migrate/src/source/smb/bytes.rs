//! Fields of messages, little endian, at fixed places.

/// What a message of the server breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

const SHORT: Malformed = Malformed("it is shorter than it says");

/// The bytes of a message or of a part of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes(self, at: usize, size: usize) -> Result<&'a [u8], Malformed> {
        let end = at.checked_add(size).ok_or(SHORT)?;
        self.0.get(at..end).ok_or(SHORT)
    }

    pub(super) fn from(self, at: usize) -> Result<Self, Malformed> {
        self.0.get(at..).map(Self).ok_or(SHORT)
    }

    pub(super) fn array<const N: usize>(self, at: usize) -> Result<[u8; N], Malformed> {
        self.bytes(at, N)?.try_into().map_err(|_| SHORT)
    }

    pub(super) fn u16(self, at: usize) -> Result<u16, Malformed> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn u32(self, at: usize) -> Result<u32, Malformed> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn u64(self, at: usize) -> Result<u64, Malformed> {
        self.array(at).map(u64::from_le_bytes)
    }
}

/// A message that grows.
#[derive(Default)]
pub(super) struct Body(pub(super) Vec<u8>);

impl Body {
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn u8(self, value: u8) -> Self {
        self.bytes(&[value])
    }

    pub(super) fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    /// Zeros until the size is a multiple of 8.
    pub(super) fn padded(self) -> Self {
        let missing = self.0.len().next_multiple_of(8) - self.0.len();
        self.zeros(missing)
    }
}
