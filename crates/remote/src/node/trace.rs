//! Noting what clients read, so that the same reads can be done again.
//!
//! The order is that in which the node began them. Nobody fails because his read can not be noted: what was noted up to
//! there stays, and the log says that no more is.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::{Error, Result};

/// The file with the notes, written out when the node ends. May be shared between threads.
#[derive(Debug)]
pub(super) struct Trace {
    path: PathBuf,
    /// Nothing once a write has failed.
    file: Mutex<Option<BufWriter<File>>>,
}

impl Trace {
    /// Begins with an empty file.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|error| Error::Invalid {
            reason: format!("{}: reads can not be noted there: {error}", path.display()),
        })?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(Some(BufWriter::new(file))) })
    }

    /// Notes a read.
    pub(super) fn note(&self, name: &str, offset: u64, length: u32) {
        let mut file = self.file.lock();
        // The name comes last: whatever stands in it, the numbers are the first two words.
        if let Some(Err(error)) = file.as_mut().map(|file| writeln!(file, "{offset} {length} {name}")) {
            tracing::warn!(path = %self.path.display(), %error, "no more reads are noted");
            *file = None;
        }
    }

    /// Writes out what was noted; what is noted later goes out when the trace is dropped.
    pub(super) fn flush(&self) {
        if let Some(Err(error)) = self.file.lock().as_mut().map(Write::flush) {
            tracing::warn!(path = %self.path.display(), %error, "not all reads are noted");
        }
    }
}
