//! The fuzzer's bytes, taken apart from the front.

/// What is left of an input. Beyond its end everything is zero, so that every input means something.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes, `length` of them if there are so many.
    pub fn run(&mut self, length: usize) -> &'a [u8] {
        let (run, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        run
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let run = self.run(N);
        array[..run.len()].copy_from_slice(run);
        array
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// The next number, little-endian.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }
}
