//! What the log is a sequence of; the table is in `docs/format/stub.md`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ishigaki_base::{Fields, crc32c};

use super::super::progress::{Problem, Progress};
use crate::destination::NodeId;

/// Before the body: its length, and its checksum.
const HEAD: usize = 8;
/// The longest body that is taken for one.
pub(super) const LONGEST: usize = 2 << 20;
/// The longest message of a problem that is kept.
const MESSAGE: usize = 8 << 10;
const CONFLICT: u64 = 1;
const LEFT_OUT: u64 = 2;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A directory was found, below another one unless it is a source's root.
    Found { node: NodeId, above: Option<NodeId>, name: Cow<'a, OsStr> },
    /// A directory was listed; its files, and their bytes.
    Listed { node: NodeId, files: u64, bytes: u64 },
    /// All files of a directory are whole.
    Copied { node: NodeId },
    /// Names have moved.
    Moved,
    /// An object of a source could not be copied.
    Problem { source: u32, problem: Cow<'a, Problem> },
    /// There is no problem with it any more.
    Mended { source: u32, path: Cow<'a, Path> },
    /// What all events so far come to.
    Totals(Progress),
}

fn body(kind: u8, numbers: &[u64], names: &[&[u8]]) -> Vec<u8> {
    let mut body = vec![kind];
    for number in numbers {
        body.extend(number.to_le_bytes());
    }
    for name in names {
        body.extend(*name);
    }
    body
}

/// The beginning of a text that has room.
fn shortened(text: &str) -> &str {
    let end = (0..=MESSAGE.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

impl Event<'_> {
    /// Appends it to others.
    pub(super) fn write(&self, events: &mut Vec<u8>) {
        let body = match self {
            Self::Found { node, above, name } => {
                body(1, &[node.0, above.map_or(0, |above| above.0)], &[name.as_bytes()])
            }
            Self::Listed { node, files, bytes } => body(2, &[node.0, *files, *bytes], &[]),
            Self::Copied { node } => body(3, &[node.0], &[]),
            Self::Moved => body(4, &[], &[]),
            Self::Problem { source, problem } => {
                let flags = if problem.conflict { CONFLICT } else { 0 } | if problem.left_out { LEFT_OUT } else { 0 };
                let (path, message) = (problem.path.as_os_str().as_bytes(), shortened(&problem.message));
                let numbers = [u64::from(*source), flags, path.len() as u64];
                body(5, &numbers, &[path, message.as_bytes()])
            }
            Self::Mended { source, path } => body(6, &[u64::from(*source)], &[path.as_os_str().as_bytes()]),
            Self::Totals(now) => {
                body(7, &[now.directories, now.listed, now.files, now.bytes, now.whole, now.here], &[])
            }
        };
        events.extend((body.len() as u32).to_le_bytes());
        events.extend(crc32c(&body).to_le_bytes());
        events.extend(body);
    }
}

/// The first event, and what follows it; `None` if it is not whole, or no event.
pub(super) fn first(bytes: &[u8]) -> Option<(Event<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let length = Fields(head).u32(0) as usize;
    let (body, rest) = rest.split_at_checked(length)?;
    if length > LONGEST || crc32c(body) != Fields(head).u32(4) {
        return None;
    }
    Some((decode(body)?, rest))
}

fn decode(body: &[u8]) -> Option<Event<'_>> {
    let (kind, rest) = body.split_first()?;
    let number = |at: usize| rest.get(8 * at..8 * at + 8).map(|_| Fields(rest).u64(8 * at));
    let node = |at: usize| number(at).map(NodeId);
    let name = |from: usize| rest.get(8 * from..).map(OsStr::from_bytes);
    let ends = |from: usize| rest.len() == 8 * from;
    Some(match kind {
        1 => {
            let above = Some(node(1)?).filter(|above| above.0 != 0);
            Event::Found { node: node(0)?, above, name: name(2)?.into() }
        }
        2 if ends(3) => Event::Listed { node: node(0)?, files: number(1)?, bytes: number(2)? },
        3 if ends(1) => Event::Copied { node: node(0)? },
        4 if ends(0) => Event::Moved,
        5 => {
            let (flags, length) = (number(1)?, usize::try_from(number(2)?).ok()?);
            let (path, message) = rest.get(24..)?.split_at_checked(length)?;
            if flags & !(CONFLICT | LEFT_OUT) != 0 {
                return None;
            }
            let problem = Problem {
                path: OsStr::from_bytes(path).into(),
                message: std::str::from_utf8(message).ok()?.to_owned(),
                conflict: flags & CONFLICT != 0,
                left_out: flags & LEFT_OUT != 0,
            };
            Event::Problem { source: u32::try_from(number(0)?).ok()?, problem: Cow::Owned(problem) }
        }
        6 => Event::Mended { source: u32::try_from(number(0)?).ok()?, path: Path::new(name(1)?).into() },
        7 if ends(6) => Event::Totals(Progress {
            directories: number(0)?,
            listed: number(1)?,
            files: number(2)?,
            bytes: number(3)?,
            whole: number(4)?,
            here: number(5)?,
            ..Progress::default()
        }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_reads_back_as_it_was() {
        let problem = Problem { path: "a/b".into(), message: "it is refused".into(), conflict: true, left_out: true };
        let totals =
            Progress { directories: 1, listed: 2, files: 3, bytes: 4, whole: 5, here: 6, ..Progress::default() };
        let events = [
            Event::Found { node: NodeId(7), above: None, name: OsStr::new("at").into() },
            Event::Found { node: NodeId(8), above: Some(NodeId(7)), name: OsStr::from_bytes(b"\xff").into() },
            Event::Listed { node: NodeId(8), files: 2, bytes: 30 },
            Event::Copied { node: NodeId(8) },
            Event::Moved,
            Event::Problem { source: 3, problem: Cow::Owned(problem) },
            Event::Mended { source: 3, path: Path::new("a/b").into() },
            Event::Totals(totals),
        ];
        let mut bytes = Vec::new();
        for event in &events {
            event.write(&mut bytes);
        }
        let mut rest = &bytes[..];
        for event in &events {
            let (read, behind) = first(rest).expect("an event");
            assert_eq!(read, *event);
            rest = behind;
        }
        assert!(rest.is_empty() && first(rest).is_none());
    }

    #[test]
    fn a_long_message_is_kept_in_part() {
        assert_eq!(shortened(&"ä".repeat(MESSAGE)).len(), MESSAGE);
        assert_eq!(shortened(&("a".to_owned() + &"ä".repeat(MESSAGE))).len(), MESSAGE - 1);
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn a_body_of_another_length_is_no_event() {
        for kind in [2, 3, 4, 7] {
            for extra in [1, 8] {
                let numbers = match kind {
                    2 => 3,
                    3 => 1,
                    7 => 6,
                    _ => 0,
                };
                assert!(decode(&body(kind, &vec![1; numbers], &[])).is_some());
                assert!(decode(&body(kind, &vec![1; numbers], &[&vec![0; extra]])).is_none());
            }
        }
        assert!(decode(&body(5, &[0, 0, u64::MAX], &[])).is_none());
        assert!(decode(&body(8, &[], &[])).is_none() && decode(&[]).is_none());
    }
}
