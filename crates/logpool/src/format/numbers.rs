//! Numbers of one to ten bytes: seven bits a byte, the lowest first, the eighth bit set if more follow.

use ishigaki_base::LogId;

use crate::paths;

/// Appends a number.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends several numbers.
pub(super) fn put_all(bytes: &mut Vec<u8>, numbers: &[u64]) {
    for &number in numbers {
        put(bytes, number);
    }
}

/// Appends a text behind its length.
pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Takes bytes apart from the front. Everything is `None` where the bytes do not fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    pub(super) fn run(&mut self, length: u64) -> Option<&'a [u8]> {
        let (run, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(run)
    }

    /// A number in its shortest form: there is one way only to write each.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 || shift > 0 && byte == 0 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn short(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> Option<u64> {
        self.number().filter(|&number| number < end)
    }

    /// The identity of a log, which has all its bytes.
    pub(super) fn log(&mut self) -> Option<LogId> {
        Some(LogId(u64::from_le_bytes(self.run(8)?.try_into().ok()?)))
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let length = self.below(1 << 16)?;
        String::from_utf8(self.run(length)?.to_vec()).ok()
    }

    /// A text that may be a file's path.
    pub(super) fn path(&mut self) -> Option<String> {
        self.text().filter(|path| paths::check(path).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_reads_back_and_is_refused_when_cut_short(number: u64, shift in 0_u32..64) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut reader = Reader(&bytes);
            prop_assert_eq!(reader.number(), Some(number));
            prop_assert!(reader.is_empty());
            prop_assert_eq!(Reader(&bytes[..bytes.len() - 1]).number(), None);
        }
    }

    #[test]
    fn a_number_in_a_longer_form_is_refused() {
        assert_eq!(Reader(&[0x80, 0]).number(), None);
        assert_eq!(Reader(&[0xFF; 10]).number(), None);
    }
}
