//! What clients do, drawn.

use std::ops::Range;
use std::path::PathBuf;

use fastrand::Rng;
use ishigaki_migrate::source::FileType;

use super::{BLOCK, Model};

/// What a client does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Write(PathBuf, u64, Vec<u8>),
    Truncate(PathBuf, u64),
    Punch(PathBuf, Range<u64>),
    /// `fallocate` that makes zeros; the size stays.
    Zero(PathBuf, Range<u64>),
    /// `fallocate` that takes a range out: whole blocks, not up to the end. The door refuses it, so none is drawn.
    Collapse(PathBuf, Range<u64>),
    /// `copy_file_range` from one file at an offset to another file at an offset, so many bytes.
    Copy((PathBuf, u64), (PathBuf, u64), u64),
    Mode(PathBuf, u32),
    Create(PathBuf, FileType),
    /// `O_TMPFILE`, written, and then given a name.
    CreateLinked(PathBuf, Vec<u8>),
    Unlink(PathBuf),
    Link(PathBuf, PathBuf),
    Rename(PathBuf, PathBuf),
    /// A rename of a directory over one that is not empty: refused.
    RenameRefused(PathBuf, PathBuf),
}

fn draw_range(random: &mut Rng) -> (u64, u64) {
    let (a, b) = (draw_offset(random), draw_offset(random));
    (a.min(b), a.max(b) + 1)
}

fn draw_offset(random: &mut Rng) -> u64 {
    match random.u8(..3) {
        0 => random.u64(..10) * BLOCK,
        _ => random.u64(..10 * BLOCK),
    }
}

/// Draws something that can be done; in the root directory nothing but what the source has is touched.
pub(crate) fn draw_op(random: &mut Rng, model: &Model, number: usize) -> Option<Op> {
    let files = model.paths(|known| known.file_type == FileType::Regular);
    let mut directories = model.paths(|known| known.file_type == FileType::Directory);
    directories.push(PathBuf::new());
    let above = directories[random.usize(..directories.len())].clone();
    let fresh = above.join(format!("c{number}"));
    let file = (!files.is_empty()).then(|| files[random.usize(..files.len())].clone());
    let bytes = |random: &mut Rng| {
        let length = if random.bool() { random.usize(1..3) * BLOCK as usize } else { random.usize(1..6000) };
        (0..length).map(|_| random.u8(1..)).collect::<Vec<u8>>()
    };
    Some(match random.u8(..16) {
        0..=2 => Op::Write(file?, draw_offset(random), bytes(random)),
        3 | 11 => Op::Truncate(file?, draw_offset(random)),
        4 => {
            let (from, to) = draw_range(random);
            Op::Punch(file?, from..to)
        }
        5 => Op::Mode(file?, 0o600 + u32::from(random.u8(..64))),
        6 => Op::Create(fresh, if random.bool() { FileType::Regular } else { FileType::Directory }),
        7 => {
            let leaves = model.paths(|known| known.file_type != FileType::Directory);
            let leaf = (!leaves.is_empty()).then(|| leaves[random.usize(..leaves.len())].clone());
            Op::Unlink(leaf?)
        }
        8 => Op::Link(file?, fresh),
        9 => Op::Rename(file?, if random.bool() { files[random.usize(..files.len())].clone() } else { fresh }),
        10 => {
            let (from, to) = draw_range(random);
            Op::Zero(file?, from..to)
        }
        12 => {
            let from = files[random.usize(..files.len().max(1)).min(files.len().checked_sub(1)?)].clone();
            let to = file?;
            if model.names[&from] == model.names[&to] {
                return None;
            }
            Op::Copy((from, draw_offset(random)), (to, draw_offset(random)), random.u64(1..3 * BLOCK))
        }
        13 => Op::CreateLinked(fresh, bytes(random)),
        _ => {
            let moved = directories[random.usize(..directories.len())].clone();
            if moved.as_os_str().is_empty() || fresh.starts_with(&moved) {
                return None;
            }
            let victim = directories[random.usize(..directories.len())].clone();
            if random.bool() || victim.as_os_str().is_empty() {
                return Some(Op::Rename(moved, fresh));
            }
            if victim.starts_with(&moved) || moved.starts_with(&victim) {
                return None;
            }
            let is_empty = model.names.keys().all(|path| path.parent() != Some(&victim));
            if is_empty { Op::Rename(moved, victim) } else { Op::RenameRefused(moved, victim) }
        }
    })
}
