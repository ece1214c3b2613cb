//! Reading through the copies that the client keeps.

use ishigaki_device::{AlignedBuffer, Result};

use super::copies::Copies;
use super::device::RemoteDevice;
use super::link::Live;
use crate::protocol::{Answer, Opened, Request};

impl RemoteDevice {
    /// Fills the buffer from copies, and what is missing from the node.
    pub(super) fn read_through(
        &self,
        copies: &Copies,
        live: &Live,
        opened: &Opened,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        tell(copies, live, opened);
        let page = copies.page() as u64;
        let end = offset + buffer.len() as u64;
        let (mut number, last) = (offset / page, (end - 1) / page);
        while number <= last {
            if let Some(bytes) = copies.get(opened.file, number) {
                copy(number * page, &bytes, offset, buffer);
                number += 1;
                continue;
            }
            // One read for all that are missing side by side.
            let first = number;
            number += 1;
            let mut found = None;
            while number <= last && found.is_none() {
                found = copies.get(opened.file, number);
                number += 1;
            }
            let behind = if found.is_some() { number - 1 } else { number };
            self.fetch(copies, live, opened, first..behind, offset, buffer)?;
            if let Some(bytes) = found {
                copy((number - 1) * page, &bytes, offset, buffer);
            }
        }
        Ok(())
    }

    /// Reads pages from the node, keeps them if that is right, and copies what is wanted of them.
    fn fetch(
        &self,
        copies: &Copies,
        live: &Live,
        opened: &Opened,
        pages: std::ops::Range<u64>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        let page = copies.page() as u64;
        let (begin, end) = (pages.start * page, (pages.end * page).min(opened.length));
        let length = (end - begin) as usize;
        if length > copies.longest_run() {
            // Only what is wanted: it would drive out everything else.
            let (from, to) = (begin.max(offset), end.min(offset + buffer.len() as u64));
            let part = (from - offset) as usize..(to - offset) as usize;
            return self.read_pieces(live, opened.handle, from, &mut buffer[part]);
        }
        let noted = copies.note(opened.file);
        let mut bytes = AlignedBuffer::zeroed(length);
        self.read_pieces(live, opened.handle, begin, &mut bytes)?;
        copies.keep(noted, pages.start, &bytes);
        copy(begin, &bytes, offset, buffer);
        Ok(())
    }
}

/// Tells the node that we keep copies of the file, if it does not know. Where that fails nothing is kept, and the read
/// itself finds out what is wrong.
pub(super) fn tell(copies: &Copies, live: &Live, opened: &Opened) {
    if let Some(watch) = copies.watch_to_tell(opened.file)
        && matches!(live.ask(&Request::Keep { handle: opened.handle, watch }), Ok(Answer::Done))
    {
        copies.told(opened.file, watch);
    }
}

/// Copies those of `bytes`, which begin at `from` of the device, that belong into `buffer`, which begins at `to`.
pub(super) fn copy(from: u64, bytes: &[u8], to: u64, buffer: &mut [u8]) {
    let begin = from.max(to);
    let end = (from + bytes.len() as u64).min(to + buffer.len() as u64);
    if begin < end {
        let length = (end - begin) as usize;
        let (source, target) = ((begin - from) as usize, (begin - to) as usize);
        buffer[target..target + length].copy_from_slice(&bytes[source..source + length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_into_a_buffer_is_copied_and_nothing_else() {
        let bytes: Vec<u8> = (0..10).collect();
        for (from, to, expected) in [
            (0, 0, [0, 1, 2, 3]),
            (0, 4, [4, 5, 6, 7]),
            (0, 8, [8, 9, 99, 99]),
            (2, 0, [99, 99, 0, 1]),
            (0, 10, [99; 4]),
            (10, 0, [99; 4]),
        ] {
            let mut buffer = [99; 4];
            copy(from, &bytes, to, &mut buffer);
            assert_eq!(buffer, expected, "{from} to {to}");
        }
    }
}
