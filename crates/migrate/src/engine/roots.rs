//! Whether a source is still the one with which the migration began.
//!
//! A server may answer before the disk that it exports is mounted, and a directory of this host may be a mount point of which the disk is missing: nothing is in
//! either, and a listing would say so. The root of each source is therefore known by its number and the time when it was made, and one that differs in both
//! is waited for as a server that does not answer; one that does so at the beginning, behind a destination that was filled ahead, is refused. The root is looked at before the first call of a process, and behind each call that was not
//! answered as it should be.
//!
//! ```text
//!   .ishigaki-migrate/roots   a line for each source: number of the root and nanoseconds since 1970 when it was made, 20 characters each; 0 for what is not told
//! ```

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Engine, Error, Origin, Result};
use crate::destination::Destination;
use crate::source::{self, Attributes, Cancel, ErrorKind, Location, Timestamp};

/// By what a root is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    number: u64,
    created: i64,
}

impl Root {
    /// Bytes of its line.
    pub(super) const LINE: usize = 2 * 21;

    fn of(attributes: &Attributes) -> Self {
        let nanos = |time: Timestamp| time.seconds.saturating_mul(1_000_000_000).saturating_add(time.nanos.into());
        Self { number: attributes.id.1, created: attributes.created.map_or(0, nanos) }
    }

    /// Either number may come anew: a server may make them up of what it does not keep.
    fn is_same(self, other: Self) -> bool {
        let is_untold = (self.number == 0 && self.created == 0) || (other.number == 0 && other.created == 0);
        let [numbers, times] = [self.number == other.number, self.created == other.created];
        is_untold || (numbers && self.number != 0) || (times && self.created != 0)
    }

    pub(super) fn line(self) -> String {
        format!("{:20} {:20}\n", self.number, self.created)
    }

    /// `None` for what is no line.
    pub(super) fn of_line(line: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let (number, created) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Self { number, created })
    }
}

/// The root of one source.
pub(super) struct KnownRoot {
    /// Empty where the migration was begun by a version that kept none.
    root: OnceLock<Root>,
    /// It was looked at, and all calls since were answered.
    is_seen: AtomicBool,
}

impl KnownRoot {
    pub(super) fn new(root: Option<Root>) -> Self {
        Self { root: root.map_or_else(OnceLock::new, OnceLock::from), is_seen: AtomicBool::default() }
    }

    /// The next call looks at it first.
    pub(super) fn doubt(&self) {
        self.is_seen.store(false, Ordering::Release);
    }

    pub(super) fn get(&self) -> Option<Root> {
        self.root.get().copied()
    }

    fn check(&self, attributes: &Attributes) -> source::Result<()> {
        if self.get().is_none_or(|root| root.is_same(Root::of(attributes))) { Ok(()) } else { Err(another()) }
    }
}

/// By what the sources of a destination are known.
pub struct Roots(Vec<Option<Root>>);

impl Roots {
    pub(super) fn new(lines: Vec<Option<Root>>) -> Self {
        Self(lines)
    }

    /// Whether a root, which says this of itself, is that of the source of that number, as far as that is known.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`] if it is another directory.
    pub fn check(&self, number: usize, attributes: &Attributes) -> source::Result<()> {
        KnownRoot::new(self.0.get(number).copied().flatten()).check(attributes)
    }

    /// One for each source.
    pub(super) fn known(self, sources: usize) -> Vec<KnownRoot> {
        let mut roots = self.0.into_iter();
        (0..sources).map(|_| KnownRoot::new(roots.next().flatten())).collect()
    }
}

fn another() -> source::Error {
    let message = "its root is another directory than before: is its disk mounted? If it was replaced on purpose, remove `.ishigaki-migrate/roots` from the \
                   destination, and start again";
    source::Error::new(ErrorKind::Unavailable, message)
}

impl<D: Destination> Engine<D> {
    /// Asks a source for its root, with which it begins. It is not waited for to be that from which files were copied ahead.
    pub(super) fn learn_root(&self, number: u32, cancel: &Cancel) -> Result<(Location, Attributes)> {
        let known = self.roots.get(number as usize).ok_or_else(|| self.unknown_source(number))?;
        known.is_seen.store(true, Ordering::Release);
        let (location, attributes) =
            self.ask(number, Path::new(""), cancel, |source| self.distances.timed(number, || source.root(cancel)))?;
        known
            .check(&attributes)
            .map_err(|error| Error::Source { path: self.origins[number as usize].source.name().into(), error })?;
        _ = known.root.set(Root::of(&attributes));
        Ok((location, attributes))
    }

    /// Whether the source is known to be the one with which the migration began.
    pub(super) fn has_its_root(&self, number: u32, origin: &Origin, cancel: &Cancel) -> source::Result<()> {
        let Some(known) = self.roots.get(number as usize).filter(|known| !known.is_seen.load(Ordering::Acquire)) else {
            return Ok(());
        };
        self.look_at_root(number, origin, cancel)?;
        known.is_seen.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether it is, looked at now. Where it is not, its name may have come to lead elsewhere.
    pub(super) fn look_at_root(&self, number: u32, origin: &Origin, cancel: &Cancel) -> source::Result<()> {
        let known = self.roots.get(number as usize);
        let check = |attributes| known.map_or(Ok(()), |known| known.check(&attributes));
        let (_, attributes) = origin.source.root(cancel)?;
        if check(attributes).is_ok() {
            return Ok(());
        }
        origin.source.reopen(cancel)?;
        check(origin.source.root(cancel)?.1)
    }

    pub(super) fn unknown_source(&self, number: u32) -> Error {
        Error::UnknownSource { node: 0, source_number: number, known: self.origins.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_known_by_its_number_or_by_the_time_when_it_was_made() {
        let root = |number, created| Root { number, created };
        for (other, is_same) in [
            (root(2, 50), true),
            (root(2, 0), true),
            (root(2, 51), true),
            (root(3, 50), true),
            (root(0, 50), true),
            (root(0, 0), true),
            (root(3, 51), false),
            (root(3, 0), false),
            (root(0, 51), false),
        ] {
            assert_eq!(root(2, 50).is_same(other), is_same, "{other:?}");
            assert_eq!(other.is_same(root(2, 50)), is_same, "{other:?}");
        }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for root in [Root { number: 0, created: 0 }, Root { number: u64::MAX, created: i64::MIN }] {
            assert_eq!(root.line().len(), Root::LINE);
            assert_eq!(Root::of_line(root.line().as_bytes()), Some(root));
        }
        for torn in [&[0; Root::LINE][..], b"", b"17\n", b"\xff \xff\n"] {
            assert_eq!(Root::of_line(torn), None);
        }
    }
}
