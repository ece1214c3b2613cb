//! Where a guest's files lie on its disk, as an agent in the guest tells.
//!
//! A guest may tell anything. What can not be is refused as a whole; what is untrue costs that guest's hits, because a layout is only ever a hint.

/// Files of one layout at most.
pub const MOST_FILES: usize = 1 << 16;

/// Extents of one layout at most.
pub const MOST_EXTENTS: usize = 1 << 20;

/// Bytes of a file's name at most.
const LONGEST_NAME: usize = 512;

/// A piece of a file that lies in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the file, in bytes.
    pub logical: u64,
    /// Where it begins on the disk, in bytes.
    pub physical: u64,
    /// Its bytes.
    pub length: u64,
}

impl Extent {
    /// Its parts, chunk by chunk: the number of each chunk of the disk, and what of the extent lies in it.
    pub fn parts(self, chunk: u64) -> impl Iterator<Item = (u64, Self)> {
        let end = self.physical + self.length;
        let mut at = self.physical;
        std::iter::from_fn(move || {
            let number = at / chunk;
            let next = ((number + 1) * chunk).min(end);
            let part =
                Self { logical: self.logical + (at - self.physical), physical: at, length: next.checked_sub(at)? };
            at = next;
            (part.length > 0).then_some((number, part))
        })
    }
}

/// A file, or what else the agent takes for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// For people: a table's name, or a path.
    pub name: String,
    /// Its pieces, in any order.
    pub extents: Vec<Extent>,
}

/// Why a layout is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// It is too large.
    #[error("a layout has {MOST_FILES} files and {MOST_EXTENTS} extents at most")]
    Large,
    /// A name is too long, or could do something to the terminal that it is shown on.
    #[error("a file's name has {LONGEST_NAME} bytes at most, and no control characters")]
    Name,
    /// An extent lies behind the end of the disk, or has no end.
    #[error("file {file}: {length} bytes at {physical} are not on the disk")]
    Outside {
        /// The file's place in the layout.
        file: usize,
        /// Where the extent begins.
        physical: u64,
        /// Its bytes.
        length: u64,
    },
}

/// The files of one disk, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    files: Vec<File>,
}

impl Layout {
    /// Takes what an agent has told of a disk of so many bytes.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] for what can not be. Extents of several files may lie over each other: files may share blocks.
    pub fn new(mut files: Vec<File>, disk: u64) -> Result<Self, LayoutError> {
        if files.len() > MOST_FILES || files.iter().map(|file| file.extents.len()).sum::<usize>() > MOST_EXTENTS {
            return Err(LayoutError::Large);
        }
        for (number, file) in files.iter_mut().enumerate() {
            if file.name.len() > LONGEST_NAME || file.name.chars().any(char::is_control) {
                return Err(LayoutError::Name);
            }
            let is_outside = |extent: &&Extent| {
                let end = extent.physical.checked_add(extent.length);
                end.is_none_or(|end| end > disk) || extent.logical.checked_add(extent.length).is_none()
            };
            if let Some(&Extent { physical, length, .. }) = file.extents.iter().find(is_outside) {
                return Err(LayoutError::Outside { file: number, physical, length });
            }
            file.extents.retain(|extent| extent.length > 0);
            file.extents.sort_unstable_by_key(|extent| extent.logical);
        }
        Ok(Self { files })
    }

    /// The files, the extents of each in the order of the file.
    pub fn files(&self) -> &[File] {
        &self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(extents: &[(u64, u64, u64)]) -> File {
        let extents = extents.iter().map(|&(logical, physical, length)| Extent { logical, physical, length }).collect();
        File { name: "file".to_owned(), extents }
    }

    #[test]
    fn extents_are_put_in_order_and_those_that_can_not_be_are_refused() {
        let layout = Layout::new(vec![file(&[(8, 0, 8), (0, 90, 8), (4, 1, 0)])], 98).unwrap();
        assert_eq!(layout.files(), [file(&[(0, 90, 8), (8, 0, 8)])]);
        for wrong in [(0, 91, 8), (0, u64::MAX, 1), (u64::MAX, 0, 1), (0, 0, u64::MAX)] {
            let refused = Layout::new(vec![file(&[]), file(&[(0, 0, 1), wrong])], 98).unwrap_err();
            assert!(matches!(refused, LayoutError::Outside { file: 1, .. }), "{wrong:?}");
        }
    }

    #[test]
    fn a_layout_has_bounds() {
        assert_eq!(Layout::new(vec![file(&[]); MOST_FILES + 1], 1), Err(LayoutError::Large));
        assert_eq!(Layout::new(vec![file(&vec![(0, 0, 1); MOST_EXTENTS + 1])], 1), Err(LayoutError::Large));
        let name = File { name: "x".repeat(LONGEST_NAME + 1), extents: Vec::new() };
        assert_eq!(Layout::new(vec![name], 1), Err(LayoutError::Name));
        let name = File { name: "\x1b[2J".to_owned(), extents: Vec::new() };
        assert_eq!(Layout::new(vec![name], 1), Err(LayoutError::Name));
    }
}
