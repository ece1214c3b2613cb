//! The units in which a volume is brought to the fast device: a few chunks that follow each other in a file of the guest, or, where no file is
//! known, on its disk.

use std::collections::BTreeMap;

use crate::layout::Layout;

/// All units of a volume: each chunk is in one of them. Some 6 bytes for each chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Unit after unit, each in the order of its file.
    chunks: Vec<u32>,
    /// Where each unit ends there.
    ends: Vec<u32>,
}

impl Units {
    /// Those of a volume without a layout: so many chunks each, as they lie on the disk.
    pub fn of_disk(chunks: u32, per_unit: usize) -> Self {
        let mut units = Self::default();
        units.add(&(0..chunks).collect::<Vec<_>>(), per_unit);
        units
    }

    /// Those of a volume of so many chunks of so many bytes, with a layout. A chunk that has bytes of several files belongs to the one that has most of it; one with
    /// none is in a unit with its neighbours on the disk.
    pub fn of_files(layout: &Layout, chunks: u32, chunk: u64, per_unit: usize) -> Self {
        // Of each chunk, by file: its bytes, and where in the file they begin.
        let mut shares: BTreeMap<u32, BTreeMap<u32, (u64, u64)>> = BTreeMap::new();
        for (file, number) in layout.files().iter().zip(0_u32..) {
            let parts = file.extents.iter().flat_map(|extent| extent.parts(chunk));
            // What lies behind the last chunk is none of the volume.
            for (within, part) in parts.filter(|(within, _)| *within < u64::from(chunks)) {
                let share = shares.entry(within as u32).or_default().entry(number).or_insert((0, part.logical));
                share.0 += part.length;
                share.1 = share.1.min(part.logical);
            }
        }
        let mut of_file: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
        let mut rest = Vec::new();
        for number in 0..chunks {
            let most = shares.get(&number).and_then(|files| files.iter().max_by_key(|(_, (bytes, _))| *bytes));
            match most {
                Some((&file, &(_, logical))) => of_file.entry(file).or_default().push((logical, number)),
                None => rest.push(number),
            }
        }
        let mut units = Self::default();
        for mut chunks in of_file.into_values() {
            chunks.sort_unstable();
            units.add(&chunks.into_iter().map(|(_, chunk)| chunk).collect::<Vec<_>>(), per_unit);
        }
        // Only what lies in a row is one unit.
        for run in rest.chunk_by(|one, other| one + 1 == *other) {
            units.add(run, per_unit);
        }
        units
    }

    /// Adds chunks that follow each other, as so many in each unit.
    fn add(&mut self, chunks: &[u32], per_unit: usize) {
        for piece in chunks.chunks(per_unit.max(1)) {
            self.chunks.extend(piece);
            self.ends.push(self.chunks.len() as u32);
        }
    }

    /// The chunks of each unit, in the order of their file.
    pub fn all(&self) -> impl Iterator<Item = &[u32]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, &end)| &self.chunks[begin as usize..end as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Extent, File};

    fn layout(files: &[&[(u64, u64, u64)]], disk: u64) -> Layout {
        let file = |extents: &&[(u64, u64, u64)]| File {
            name: String::new(),
            extents: extents.iter().map(|&(logical, physical, length)| Extent { logical, physical, length }).collect(),
        };
        Layout::new(files.iter().map(file).collect(), disk).unwrap()
    }

    fn chunks(units: &Units) -> Vec<Vec<u32>> {
        units.all().map(<[u32]>::to_vec).collect()
    }

    #[test]
    fn without_a_layout_units_are_pieces_of_the_disk() {
        let units = Units::of_disk(5, 2);
        assert_eq!(chunks(&units), [vec![0, 1], vec![2, 3], vec![4]]);
    }

    #[test]
    fn chunks_follow_each_other_as_in_their_file() {
        // A file that begins at the end of the disk and goes on at its beginning; chunk 2 is of no file.
        let layout = layout(&[&[(0, 300, 200), (200, 0, 200)]], 500);
        let units = Units::of_files(&layout, 5, 100, 3);
        assert_eq!(chunks(&units), [vec![3, 4, 0], vec![1], vec![2]]);
    }

    #[test]
    fn a_chunk_of_several_files_belongs_to_the_one_that_has_most_of_it() {
        let layout = layout(&[&[(0, 0, 130)], &[(0, 130, 70), (70, 200, 100)]], 300);
        let units = Units::of_files(&layout, 3, 100, 4);
        assert_eq!(chunks(&units), [vec![0], vec![1, 2]]);
    }

    #[test]
    fn every_chunk_is_in_one_unit_whatever_the_layout_says() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let disk = random.u64(1..5000);
            let extent = |random: &mut fastrand::Rng| {
                let physical = random.u64(0..disk);
                (random.u64(0..5000), physical, random.u64(0..=disk - physical))
            };
            let files: Vec<Vec<_>> = (0..random.usize(0..6))
                .map(|_| (0..random.usize(0..6)).map(|_| extent(&mut random)).collect())
                .collect();
            let files: Vec<&[_]> = files.iter().map(Vec::as_slice).collect();
            let chunk = random.u64(1..600);
            let count = disk.div_ceil(chunk) as u32;
            let units = Units::of_files(&layout(&files, disk), count, chunk, random.usize(1..5));
            let mut all: Vec<_> = units.all().flatten().copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
