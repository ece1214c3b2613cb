//! A trace: reads of files in the order in which a storage node began them, as it notes them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use crate::{Error, Result};

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The position of its file among the trace's.
    pub file: usize,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub length: usize,
}

impl Access {
    /// Pages of that size that it touches.
    pub(super) fn pages(self, page: u64) -> impl Iterator<Item = (usize, u64)> {
        (self.offset / page..(self.offset + self.length as u64).div_ceil(page)).map(move |number| (self.file, number))
    }
}

/// What was read, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Names of the files below the node's folder.
    pub files: Vec<String>,
    /// The reads.
    pub accesses: Vec<Access>,
}

impl Trace {
    /// The notes of a node.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|source| Error::Io {
            path: path.to_owned(),
            operation: "reading the notes of reads",
            source,
        })?;
        Self::parse(&text).ok_or_else(|| Error::invalid("trace", format!("{}: no notes of reads", path.display())))
    }

    fn parse(text: &str) -> Option<Self> {
        let (mut trace, mut known) = (Self::default(), HashMap::new());
        for line in text.lines() {
            let (offset, rest) = line.split_once(' ')?;
            let (length, name) = rest.split_once(' ')?;
            let file = *known.entry(name).or_insert_with(|| {
                trace.files.push(name.to_owned());
                trace.files.len() - 1
            });
            let (offset, length): (u64, u32) = (offset.parse().ok()?, length.parse().ok()?);
            offset.checked_add(u64::from(length))?;
            trace.accesses.push(Access { file, offset, length: length as usize });
        }
        Some(trace)
    }

    /// Bytes that were read.
    pub fn bytes(&self) -> u64 {
        self.accesses.iter().map(|access| access.length as u64).sum()
    }

    /// How many different pages of that size they touch.
    pub fn footprint(&self, page: u64) -> usize {
        self.accesses.iter().flat_map(|access| access.pages(page)).collect::<HashSet<_>>().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_whatever_a_file_is_called_and_others_are_refused() {
        let trace = Trace::parse("0 4096 a b\n8192 512 c\n4096 8192 a b\n").expect("notes");
        assert_eq!(trace.files, ["a b", "c"]);
        assert_eq!(trace.accesses[2], Access { file: 0, offset: 4096, length: 8192 });
        assert_eq!((trace.bytes(), trace.footprint(4096)), (12_800, 4));
        for bad in ["x 1 a", "1 a", "1", "18446744073709551615 1 a", "1 -1 a"] {
            assert_eq!(Trace::parse(bad), None, "{bad}");
        }
    }
}
