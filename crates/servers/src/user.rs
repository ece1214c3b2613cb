//! Users of the host, and folders that are theirs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::failed;
use crate::{Error, Result};

/// Where the host's users are.
const USERS: &str = "/etc/passwd";

/// A user of the host, with his group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// His number.
    pub user: u32,
    /// His group's number.
    pub group: u32,
}

/// Whether this process may do what root may.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl User {
    /// The one of that name, if there is one.
    pub(crate) fn find(name: &str) -> Result<Option<Self>> {
        let users = fs::read_to_string(USERS).map_err(failed(USERS.as_ref(), "reading the host's users"))?;
        let numbers = users.lines().find_map(|line| {
            let mut fields = line.strip_prefix(name)?.strip_prefix(':')?.split(':').skip(1);
            Some(Self { user: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
        });
        Ok(numbers)
    }

    /// A new folder of that user's, in one that everybody may pass through.
    pub fn folder(self, place: &Path, name: &str) -> Result<PathBuf> {
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        open(place, 0o755).map_err(failed(place, "letting everybody pass"))?;
        let folder = place.join(name);
        fs::create_dir(&folder).map_err(failed(&folder, "making a server's folder"))?;
        open(&folder, 0o700).map_err(failed(&folder, "closing it to others"))?;
        self.give(&folder)?;
        Ok(folder)
    }

    /// Makes a file or folder his.
    pub(crate) fn give(self, path: &Path) -> Result<()> {
        chown(path, Some(self.user), Some(self.group)).map_err(failed(path, "giving it to the server's user"))
    }

    /// A program that he runs, beyond the reach of Ctrl-C.
    pub(crate) fn command(self, program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.uid(self.user).gid(self.group).current_dir(folder).process_group(0);
        command
    }
}

/// Runs a program to its end; what it said if that was a bad one.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(failed(program.as_ref(), "starting it"))?;
    if !output.status.success() {
        let said = [output.stderr, output.stdout].concat();
        return Err(Error::Program { program, said: String::from_utf8_lossy(&said).trim().to_owned() });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
