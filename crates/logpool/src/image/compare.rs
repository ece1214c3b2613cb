//! What a write changes: found by comparison with what is known of the file (paper 4 logs whole requests; servers rewrite
//! the tail block of their log again and again, with a few new bytes each time).

use super::contents::Contents;
use crate::format::Run;

/// Bytes of a block, the unit in which files are kept in memory.
pub(crate) const BLOCK: u64 = 4096;

/// Equal bytes between changed ones that are written again, because to say that they are equal takes as many.
const BRIDGE: usize = 4;

/// Zero bytes from which on it pays to say that they are zero.
const ZEROS: usize = 24;

/// Bytes compared at once where nothing changes.
const STRIDE: usize = 32;

/// What is known of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known<'a> {
    /// Its bytes.
    Bytes(&'a [u8]),
    /// That it is zero.
    Zero,
    /// Nothing, without a look at home: all of a request's bytes count as changed.
    Nothing,
}

static ZERO_BLOCK: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// The runs of `bytes` that change the file when they are written at `offset`.
pub(crate) fn changed_runs<'a>(contents: &Contents, offset: u64, bytes: &'a [u8]) -> Vec<Run<'a>> {
    let mut changed: Vec<(usize, usize)> = Vec::new();
    let mut note = |from: usize, to: usize| match changed.last_mut() {
        Some((_, end)) if from <= *end + BRIDGE => *end = to,
        _ => changed.push((from, to)),
    };
    let mut at = 0;
    while at < bytes.len() {
        let place = offset + at as u64;
        let within = (place % BLOCK) as usize;
        let part = &bytes[at..bytes.len().min(at + BLOCK as usize - within)];
        match contents.known(place / BLOCK) {
            Known::Bytes(old) => compare(&old[within..within + part.len()], part, at, &mut note),
            Known::Zero => compare(&ZERO_BLOCK[..part.len()], part, at, &mut note),
            Known::Nothing => note(at, at + part.len()),
        }
        at += part.len();
    }
    let mut runs = Vec::with_capacity(changed.len());
    for (from, to) in changed {
        split_at_zeros(bytes, from, to, &mut runs);
    }
    runs
}

/// Notes the ranges in which `new` differs from `old`, `at` bytes further on.
fn compare(old: &[u8], new: &[u8], at: usize, note: &mut impl FnMut(usize, usize)) {
    let mut index = 0;
    for (old, new) in old.chunks(STRIDE).zip(new.chunks(STRIDE)) {
        if old != new {
            for (place, _) in old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new) {
                note(at + index + place, at + index + place + 1);
            }
        }
        index += old.len();
    }
}

/// Adds the runs of a changed range: long rows of zeros by themselves.
fn split_at_zeros<'a>(bytes: &'a [u8], from: usize, to: usize, runs: &mut Vec<Run<'a>>) {
    let run = |from: usize, to: usize, zero: bool| Run {
        at: from as u64,
        length: (to - from) as u64,
        bytes: if zero { None } else { Some(&bytes[from..to]) },
    };
    let (mut begin, mut at) = (from, from);
    while at < to {
        if bytes[at] != 0 {
            at += 1;
            continue;
        }
        let end = bytes[at..to].iter().position(|&byte| byte != 0).map_or(to, |length| at + length);
        if end - at >= ZEROS {
            if begin < at {
                runs.push(run(begin, at, false));
            }
            runs.push(run(at, end, true));
            begin = end;
        }
        at = end;
    }
    if begin < to {
        runs.push(run(begin, to, false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;
    use crate::home::Base;
    use proptest::prelude::*;

    #[derive(Debug)]
    struct Nowhere;

    impl Base for Nowhere {
        fn read(&self, _: u32, _: u64, _: &mut [u8]) -> Result<()> {
            panic!("there is no home");
        }
    }

    fn with(bytes: &[u8]) -> Contents {
        let mut contents = Contents::at_home(bytes.len() as u64, Vec::new(), 0);
        contents.put(0, bytes, 1);
        contents
    }

    #[test]
    fn a_tail_block_written_again_is_as_long_as_what_is_new() {
        let mut block = vec![0; 4096];
        block[..500].fill(7);
        let contents = with(&block);
        block[500..846].fill(9);
        block[4] = 8;
        let runs = changed_runs(&contents, 0, &block);
        assert_eq!(runs.iter().map(|run| (run.at, run.length)).collect::<Vec<_>>(), [(4, 1), (500, 346)]);
        assert!(changed_runs(&contents, 4096, &[0; 4096]).is_empty(), "zeros over nothing change nothing");
    }

    #[test]
    fn zeros_over_bytes_take_no_room() {
        let runs = changed_runs(&with(&[1; 8192]), 100, &[0; 8000]);
        assert_eq!(runs, [Run { at: 0, length: 8000, bytes: None }]);
    }

    proptest! {
        #[test]
        fn the_runs_make_the_old_bytes_the_new_ones(
            old in prop::collection::vec(0_u8..2, 1..9000),
            edits in prop::collection::vec((0_usize..9000, 0_usize..300, 0_u8..3), 0..8),
            offset in 0_usize..5000,
        ) {
            let mut new = old.clone();
            for (at, length, byte) in edits {
                let end = new.len().min(at + length);
                if at < end {
                    new[at..end].fill(byte);
                }
            }
            let offset = offset.min(old.len() - 1);
            let mut contents = with(&old);
            let request = new[offset..].to_vec();
            let runs: Vec<_> = changed_runs(&contents, offset as u64, &request);
            for run in &runs {
                match run.bytes {
                    Some(bytes) => contents.put(offset as u64 + run.at, bytes, 2),
                    None => contents.zero(offset as u64 + run.at, run.length, 2),
                }
            }
            let mut read = vec![0; old.len()];
            contents.read(&Nowhere, 0, &mut read).unwrap();
            prop_assert_eq!(&read[..offset], &old[..offset]);
            prop_assert_eq!(&read[offset..], &new[offset..]);
        }
    }
}
