//! Both copies of the table on the device.

use super::medium::Medium;
use super::table::{COPY, DATA, Read, TAIL, Table};
use crate::{AlignedBuffer, Error, Result};

/// What is known about the copies.
#[derive(Debug)]
pub(super) struct Copies {
    /// Of the newest table.
    sequence: u64,
    /// The copy to be written first: the one that is broken, or older, or as good as the other. 0 or 1.
    first: u64,
    /// That copy is broken. A power cut may have left a part of a table there, which must not become whole by chance when
    /// the next one is written over it and the power is cut again.
    broken: bool,
    /// So many bytes of the other copy were read and may be in flight: a process that was killed has written them. They are made durable before
    /// the first copy is written, or a power cut could tear both.
    unsure: usize,
}

impl Copies {
    /// Writes two copies of an empty table. What was here before is unreadable before the first is there.
    pub(super) fn format(medium: &Medium) -> Result<Self> {
        let zeros = AlignedBuffer::zeroed(COPY as usize);
        medium.write_durable(&[(0, &zeros), (COPY, &zeros)])?;
        let mut copies = Self { sequence: 0, first: 0, broken: false, unsure: 0 };
        copies.write(medium, &Table::default())?;
        Ok(copies)
    }

    /// The newest whole table.
    pub(super) fn open(medium: &Medium) -> Result<(Self, Table)> {
        let name = || format!("{:?}", medium.device());
        let mut newest: Option<(Self, Table, u64)> = None;
        let (mut blank, mut broken) = (0, false);
        for copy in 0..2 {
            let mut bytes = AlignedBuffer::zeroed(COPY as usize);
            medium.device().read_at(copy * COPY, &mut bytes)?;
            match Table::decode(&bytes) {
                Read::Whole(table, sequence, device) => {
                    if newest.as_ref().is_none_or(|(newest, ..)| newest.sequence < sequence) {
                        let unsure = table.size();
                        newest = Some((Self { sequence, first: 1 - copy, broken: false, unsure }, table, device));
                    }
                }
                Read::Blank => blank += 1,
                Read::Broken => broken = true,
                Read::Newer(version) => {
                    let reason =
                        format!("its table has version {version}, and this program knows 1; use a newer program");
                    return Err(Error::Invalid { name: name(), reason });
                }
            }
        }
        match newest {
            Some((mut copies, table, device)) if device <= medium.device().len() => {
                copies.broken = broken;
                if broken {
                    tracing::warn!(
                        device = name(),
                        "one copy of the table of names is broken, as by a power cut; the other is whole and used"
                    );
                }
                Ok((copies, table))
            }
            Some((_, _, device)) => {
                let reason = format!("it has {} bytes, and had {device} when it was formatted", medium.device().len());
                Err(Error::Damaged { name: name(), reason })
            }
            None if blank == 2 => {
                let reason = "there is no directory on it; format it first".to_owned();
                Err(Error::Invalid { name: name(), reason })
            }
            None => {
                let reason = "neither copy of its table of names can be read, or it holds something else".to_owned();
                Err(Error::Damaged { name: name(), reason })
            }
        }
    }

    /// Makes a table durable: over the older copy, without its header if it is broken, and then over the other.
    pub(super) fn write(&mut self, medium: &Medium, table: &Table) -> Result<()> {
        let Some(sequence) = self.sequence.checked_add(1) else {
            let reason = "its table of names has a sequence number that nothing can follow; format it anew".to_owned();
            return Err(Error::Invalid { name: format!("{:?}", medium.device()), reason });
        };
        let block = medium.device().promise().block_size;
        let mut bytes = AlignedBuffer::zeroed(table.size().next_multiple_of(block));
        table.encode(sequence, medium.device().len(), &mut bytes);
        if self.unsure > 0 {
            let mut kept = AlignedBuffer::zeroed(self.unsure.next_multiple_of(block));
            let place = (1 - self.first) * COPY;
            medium.device().read_at(place, &mut kept)?;
            medium.write_durable(&[(place, &kept)])?;
            self.unsure = 0;
        }
        if self.broken {
            medium.write_durable(&[(self.first * COPY, &AlignedBuffer::zeroed(block))])?;
            self.broken = false;
        }
        for copy in [self.first, 1 - self.first] {
            medium.write_durable(&[(copy * COPY, &bytes)])?;
        }
        self.sequence = sequence;
        Ok(())
    }
}

/// Refuses a device that holds something.
pub(super) fn check_blank(medium: &Medium) -> Result<()> {
    for (offset, length) in [(0, DATA), (medium.device().len() - TAIL, TAIL)] {
        let mut bytes = AlignedBuffer::zeroed(length as usize);
        medium.device().read_at(offset, &mut bytes)?;
        if let Some(place) = bytes.iter().position(|byte| *byte != 0) {
            let reason = format!(
                "it is not blank: there is something at byte {}; if nobody needs it, format the device anyway",
                offset + place as u64
            );
            return Err(Error::Invalid { name: format!("{:?}", medium.device()), reason });
        }
    }
    Ok(())
}
