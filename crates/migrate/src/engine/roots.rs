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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Engine, Error, Origin, Result};
use crate::destination::Destination;
use crate::source::{self, Attributes, Cancel, ErrorKind, Identity, Location, Source};

/// Bytes of a line of the file.
pub(super) const LINE: usize = 2 * 21;

pub(super) fn line(root: Identity) -> String {
    format!("{:20} {:20}\n", root.number, root.created)
}

/// The line of a source that was begun by a version that kept none.
pub(super) fn unknown() -> String {
    "-".repeat(LINE - 1) + "\n"
}

/// `None` for what is no line.
pub(super) fn of_line(line: &[u8]) -> Option<Identity> {
    let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let (number, created) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Identity { number, created })
}

/// The root of one source.
pub(super) struct KnownRoot {
    /// Empty where the migration was begun by a version that kept none.
    root: OnceLock<Identity>,
    /// It was looked at, and all calls since were answered.
    is_seen: AtomicBool,
    /// How often another directory was found in its place. What was answered meanwhile may be of that.
    others: AtomicU64,
}

impl KnownRoot {
    pub(super) fn new(root: Option<Identity>) -> Self {
        Self {
            root: root.map_or_else(OnceLock::new, OnceLock::from),
            is_seen: AtomicBool::default(),
            others: AtomicU64::default(),
        }
    }

    /// The next call looks at it first.
    pub(super) fn doubt(&self) {
        self.is_seen.store(false, Ordering::Release);
    }

    /// How often it has been another one.
    pub(super) fn others(&self) -> u64 {
        self.others.load(Ordering::Acquire)
    }

    pub(super) fn get(&self) -> Option<Identity> {
        self.root.get().copied()
    }

    /// Whether a source is known to be the one with which the migration began.
    pub(super) fn is_that_of(&self, source: &dyn Source, cancel: &Cancel) -> source::Result<()> {
        if !self.is_seen.load(Ordering::Acquire) {
            self.look_at(source, cancel)?;
            self.is_seen.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Whether it is, looked at now. Where it is not, its name may have come to lead elsewhere.
    pub(super) fn look_at(&self, source: &dyn Source, cancel: &Cancel) -> source::Result<()> {
        let (_, attributes) = source.root(cancel)?;
        if check(self.get(), &attributes).is_ok() {
            return Ok(());
        }
        self.others.fetch_add(1, Ordering::AcqRel);
        source.reopen(cancel)?;
        check(self.get(), &source.root(cancel)?.1)
    }
}

/// By what the sources of a destination are known.
pub struct Roots(Vec<Option<Identity>>);

impl Roots {
    pub(super) fn new(lines: Vec<Option<Identity>>) -> Self {
        Self(lines)
    }

    /// Whether a root, which says this of itself, is that of the source of that number, as far as that is known.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`] if it is another directory.
    pub fn check(&self, number: usize, attributes: &Attributes) -> source::Result<()> {
        check(self.0.get(number).copied().flatten(), attributes)
    }

    /// One for each source.
    pub(super) fn known(self, sources: usize) -> Vec<KnownRoot> {
        let mut roots = self.0.into_iter();
        (0..sources).map(|_| KnownRoot::new(roots.next().flatten())).collect()
    }
}

/// Whether a root that says this of itself is the one that is known, if one is.
fn check(known: Option<Identity>, attributes: &Attributes) -> source::Result<()> {
    if known.is_none_or(|known| known.is_same(Identity::of(attributes))) {
        return Ok(());
    }
    let message = "its root is another directory than before: is its disk mounted? If it was replaced on purpose, remove `.ishigaki-migrate/roots` from the \
                   destination, and start again";
    Err(source::Error::new(ErrorKind::Unavailable, message))
}

impl<D: Destination> Engine<D> {
    /// A source, and its root.
    pub(super) fn source(&self, number: u32) -> Result<(&Origin, &KnownRoot)> {
        let unknown = || Error::UnknownSource { node: 0, source_number: number, known: self.origins.len() };
        self.origins.iter().zip(&self.roots).nth(number as usize).ok_or_else(unknown)
    }

    /// Asks a source for its root, with which it begins. It is not waited for to be that from which files were copied ahead.
    pub(super) fn learn_root(&self, number: u32, cancel: &Cancel) -> Result<(Location, Attributes)> {
        let (origin, known) = self.source(number)?;
        known.is_seen.store(true, Ordering::Release);
        let (location, attributes) =
            self.ask(number, Path::new(""), cancel, |source| self.distances.timed(number, || source.root(cancel)))?;
        check(known.get(), &attributes).map_err(|error| Error::Source { path: origin.source.name().into(), error })?;
        _ = known.root.set(Identity::of(&attributes));
        Ok((location, attributes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for root in [Identity { number: 0, created: 0 }, Identity { number: u64::MAX, created: i64::MIN }] {
            assert_eq!(line(root).len(), LINE);
            assert_eq!(of_line(line(root).as_bytes()), Some(root));
        }
        for torn in [&[0; LINE][..], b"", b"17\n", b"\xff \xff\n"] {
            assert_eq!(of_line(torn), None);
        }
    }
}
