//! The files that operators spill to. The folder for them is made for the first one.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::spill_file::{SpillFile, TempFileFactory};
use parking_lot::Mutex;

use super::SpillFolder;
use crate::Error;

/// Where statements of a database spill to.
pub(crate) struct SpillFiles {
    directory: PathBuf,
    /// The most bytes of all files.
    limit: u64,
    state: Mutex<State>,
}

enum State {
    /// Nothing was spilled yet.
    Unmade,
    Made {
        files: Arc<DiskManager>,
        /// Where they are; it goes after them.
        _folder: SpillFolder,
    },
    /// The database is closed.
    Closed,
}

/// How much is spilled at the moment, by all statements of a database together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spilled {
    /// Bytes in files.
    pub bytes: u64,
    /// Files.
    pub files: usize,
    /// The most bytes there may be.
    pub limit: u64,
}

impl SpillFiles {
    /// Files in a folder of the directory, which is made for the first of them. What killed processes have left there goes now.
    pub(crate) fn new(directory: PathBuf, limit: u64) -> Self {
        super::remove_leftovers(&directory);
        Self { directory, limit, state: Mutex::new(State::Unmade) }
    }

    /// How much there is.
    pub(crate) fn spilled(&self) -> Spilled {
        let limit = self.limit;
        match &*self.state.lock() {
            State::Made { files, .. } => {
                let now = files.spilling_progress();
                Spilled { bytes: now.current_bytes, files: now.active_files_count, limit }
            }
            State::Unmade | State::Closed => Spilled { limit, ..Spilled::default() },
        }
    }

    /// Removes the folder. Nothing is spilled any more.
    fn close(&self) {
        *self.state.lock() = State::Closed;
    }

    fn make(&self) -> Result<State> {
        let folder = SpillFolder::make(&self.directory).map_err(|error| Error::File {
            path: self.directory.clone(),
            reason: format!(
                "rows can not be spilled to this folder: {error}; `--spill-directory DIR` names another one"
            ),
            source: Some(error),
        })?;
        let files = DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::Directories(vec![folder.path().to_path_buf()]))
            .with_max_temp_directory_size(self.limit)
            .build()?;
        Ok(State::Made { files: Arc::new(files), _folder: folder })
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        let files = {
            let mut state = self.state.lock();
            if matches!(*state, State::Unmade) {
                *state = self.make()?;
            }
            match &*state {
                State::Made { files, .. } => Arc::clone(files),
                State::Unmade | State::Closed => {
                    return Err(DataFusionError::ResourcesExhausted(format!("{description}: the database is closed")));
                }
            }
        };
        files.create_tmp_file(description)
    }
}

impl fmt::Debug for SpillFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillFiles")
            .field("directory", &self.directory)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// The database's hold on the folder: dropping it removes the folder.
#[derive(Debug)]
pub(crate) struct SpillHold(pub(crate) Arc<SpillFiles>);

impl Drop for SpillHold {
    fn drop(&mut self) {
        self.0.close();
    }
}
