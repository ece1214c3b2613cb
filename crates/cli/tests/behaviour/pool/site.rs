//! A pool's data directory, with the folders of its members.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{Program, database};
use crate::served::{Served, unmount};

/// A data directory, and folders beside it.
pub(super) struct Site {
    place: tempfile::TempDir,
    folders: Vec<PathBuf>,
    /// Where the data is.
    data: PathBuf,
}

impl Site {
    pub(super) fn new(members: &[&str]) -> Self {
        let place = database();
        let folders: Vec<_> = members.iter().map(|name| place.path().join(name)).collect();
        for folder in &folders {
            std::fs::create_dir(folder).expect("made");
        }
        Self { data: place.path().join("data"), place, folders }
    }

    /// Has the data in a folder of that name instead.
    pub(super) fn nest(&mut self, name: &str) {
        self.data = self.path(name).join("data");
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// A command that has `--data`.
    pub(super) fn command(&self, name: &str) -> Program {
        Program::new().args(["log", name, "--data"]).arg(self.data())
    }

    /// What the service tells of itself.
    pub(super) fn status(&self) -> Value {
        let answer = self.command("status").arg("--json").succeeds();
        serde_json::from_str(&answer.stdout).expect("JSON")
    }

    /// Starts a service over the data directory.
    pub(super) fn serve(&self, arguments: &[&str]) -> Served {
        Served::start(self.command("serve").args(arguments))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What a service that was killed has left; without it nothing is mounted there any more.
        for folder in &self.folders {
            unmount(folder);
        }
    }
}
