//! Reading through the copies that the client keeps.

use std::ops::Range;
use std::sync::Arc;

use ishigaki_device::{AlignedBuffer, Result};

use super::copies::{Claim, Copies, Flight, Lead, Noted};
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
        let mut read = Read { device: self, copies, live, opened, offset, buffer };
        let pages = offset / page..end.div_ceil(page);
        // Much that is read once is kept by nobody, and nobody needs it at the same time.
        let alone = (pages.end - pages.start) * page > copies.longest_run() as u64;
        let mut number = pages.start;
        while number < pages.end {
            if let Some(bytes) = copies.get(opened.file, number) {
                read.take(number * page, &bytes);
                number += 1;
                continue;
            }
            let lead = if alone { None } else { copies.lead(opened.file, number) };
            number = match lead {
                Some(lead) => read.fly(lead, pages.end)?,
                None => read.fetch_missing(number..pages.end)?,
            };
        }
        Ok(())
    }
}

/// A read under way.
struct Read<'a> {
    device: &'a RemoteDevice,
    copies: &'a Copies,
    live: &'a Live,
    opened: &'a Opened,
    offset: u64,
    buffer: &'a mut [u8],
}

impl Read<'_> {
    /// Copies those of `bytes` that are wanted, which begin at `from` of the device.
    fn take(&mut self, from: u64, bytes: &[u8]) {
        copy(from, bytes, self.offset, self.buffer);
    }

    /// One read for all that are missing side by side; the number of the page behind them, and behind what was found there.
    fn fly(&mut self, mut lead: Lead<'_>, end: u64) -> Result<u64> {
        let page = self.copies.page() as u64;
        let mut other = None;
        while lead.pages().end < end && other.is_none() {
            other = match self.copies.claim(&mut lead) {
                Claim::Lead => None,
                claim => Some(claim),
            };
        }
        let next = lead.pages().end;
        if lead.pages().is_empty() {
            drop(lead);
        } else {
            let noted = lead.noted();
            let (begin, bytes) = self.fetch(Some(noted), lead.pages())?;
            let bytes = Arc::new(bytes);
            lead.land(begin, &bytes);
            self.take(begin, &bytes);
        }
        // Only now: nobody waits while others wait for him.
        match other {
            None | Some(Claim::Lead) => return Ok(next),
            Some(Claim::Found(bytes)) => self.take(next * page, &bytes),
            Some(Claim::Join(flight)) => self.join(&flight, next)?,
        }
        Ok(next + 1)
    }

    /// Waits for a page that another reader has asked for.
    fn join(&mut self, flight: &Flight, number: u64) -> Result<()> {
        let page = self.copies.page() as u64;
        if let Some((begin, bytes)) = flight.wait() {
            let from = number * page;
            let part = &bytes[(from - begin) as usize..];
            self.take(from, &part[..part.len().min(page as usize)]);
            self.copies.joined();
            return Ok(());
        }
        // The other one's failure is not ours.
        let (begin, bytes) = self.fetch(self.copies.note(self.opened.file), number..number + 1)?;
        self.take(begin, &bytes);
        Ok(())
    }

    /// One read for all that are missing side by side, whoever else reads them; the number of the page behind them.
    fn fetch_missing(&mut self, pages: Range<u64>) -> Result<u64> {
        let (page, first) = (self.copies.page() as u64, pages.start);
        let mut number = first + 1;
        let mut found = None;
        while number < pages.end && found.is_none() {
            found = self.copies.get(self.opened.file, number);
            number += u64::from(found.is_none());
        }
        let (begin, end) = (first * page, (number * page).min(self.opened.length));
        if (end - begin) as usize > self.copies.longest_run() {
            // Only what is wanted, and nothing is kept: it would drive out everything else.
            let (from, to) = (begin.max(self.offset), end.min(self.offset + self.buffer.len() as u64));
            let part = (from - self.offset) as usize..(to - self.offset) as usize;
            self.copies.missed(number - first);
            self.device.read_pieces(self.live, self.opened.handle, from, &mut self.buffer[part])?;
        } else {
            let (begin, bytes) = self.fetch(self.copies.note(self.opened.file), first..number)?;
            self.take(begin, &bytes);
        }
        if let Some(bytes) = found {
            self.take(number * page, &bytes);
            number += 1;
        }
        Ok(number)
    }

    /// Reads pages from the node and keeps them if that is right; where they begin, and their bytes.
    fn fetch(&self, noted: Option<Noted>, pages: Range<u64>) -> Result<(u64, AlignedBuffer)> {
        let page = self.copies.page() as u64;
        let (begin, end) = (pages.start * page, (pages.end * page).min(self.opened.length));
        self.copies.missed(pages.end - pages.start);
        let mut bytes = AlignedBuffer::zeroed((end - begin) as usize);
        self.device.read_pieces(self.live, self.opened.handle, begin, &mut bytes)?;
        self.copies.keep(noted, pages.start, &bytes);
        Ok((begin, bytes))
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
