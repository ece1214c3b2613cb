//! Little-endian numbers at fixed places.

/// Reads numbers out of bytes; what lies beyond the end is zero, so a caller checks the length first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    pub(super) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    pub(super) fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    pub(super) fn array<const N: usize>(self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
}
