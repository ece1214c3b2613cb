//! Little-endian numbers at fixed places, as every format on a medium has them.

/// Reads numbers out of bytes. What lies beyond the end is zero, so a caller checks the length first.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    /// The four bytes at `at`.
    pub fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    /// The eight bytes at `at`.
    pub fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    /// The `N` bytes at `at`.
    pub fn array<const N: usize>(self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
}
