//! What stands under all servers: the disk, memory for their data, and an empty database of which they are copies.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_device::{FileDirectory, ProbeSettings};
use ishigaki_servers::{Memory, Server, User};

use super::Under;
use super::disk::{self, folder};
use crate::site::Site;
use crate::{Error, Line, Origin, Progress, Result, Target, media};

/// How long the disk is measured by itself, with each count of threads.
const PROBED: Duration = Duration::from_secs(1);

/// It is all gone when this is dropped, whatever happened.
pub(crate) struct Standing<'a> {
    pub(super) under: Under<'a>,
    // In the order in which they go.
    pub(super) disk: disk::Standing,
    pub(super) template: Server,
    pub(super) user: User,
    memory: Memory,
    mounts: Site,
}

impl<'a> Standing<'a> {
    /// With a database that these statements have filled.
    pub(crate) fn new(under: Under<'a>, user: User, statements: &str) -> Result<Self> {
        let mounts = Site::new(&under.host.scratch, under.workload)?;
        pass(&mounts)?;
        let memory = Memory::new(&folder(&mounts, "memory")?)?;
        let disk =
            disk::Standing::new(under.workload, under.disk, disk::size(under.servers), &under.host.program, &mounts)?;
        let [data, log] = ["data", "log"].map(|name| user.folder(memory.root(), name));
        let template = Server::new(under.kind, user, data?, log?);
        let standing = Self { under, disk, template, user, memory, mounts };
        standing.make_template(statements)?;
        Ok(standing)
    }

    /// The database, ended so that nothing is to be recovered.
    fn make_template(&self, statements: &str) -> Result<()> {
        self.template.make()?;
        let running = self.template.start()?;
        self.template.run_when_up(statements, &|| self.under.is_stopped())?;
        Ok(running.end()?)
    }

    /// A new folder in memory, for servers' data of one side.
    pub(super) fn in_memory(&self, name: &str) -> Result<Fresh> {
        Fresh::new(self.memory.root().join(name))
    }

    /// A new folder on the disk, for the logs of one side.
    pub(super) fn on_disk(&self, name: &str) -> Result<Fresh> {
        Fresh::new(self.disk.root().join(name))
    }

    /// A new folder for mounts.
    pub(super) fn for_mounts(&self, name: &str) -> Result<Fresh> {
        Fresh::new(self.mounts.join(name))
    }

    /// Whether the drive's threads come before others, if it is emulated.
    pub(crate) fn is_real_time(&self) -> Option<bool> {
        self.disk.is_real_time()
    }

    /// Makes everything durable that was written to the disk, so that the next to come does not pay for it.
    pub(crate) fn settle(&self) -> Result<()> {
        self.disk.settle()
    }

    /// What the disk takes by itself: durable writes of 4 KiB in a row, by one, and by as many as there are servers, each in a
    /// file of its own.
    pub(crate) fn probe(&self, rounds: usize, origin: &Origin, progress: &mut dyn Progress) -> Result<Vec<Line>> {
        let mut threads = vec![1, self.under.servers];
        threads.dedup();
        let probe = ProbeSettings {
            threads,
            sizes: vec![ByteSize::kib(4)],
            duration: PROBED,
            rounds,
            seed: origin.seed,
            ..ProbeSettings::default()
        };
        let folder = self.on_disk("probe")?;
        let target = Target::new(self.under.disk.to_string(), Arc::new(FileDirectory::open(&folder.0)?));
        self.under.go_on()?;
        media::run(&probe, &target, origin, progress)
    }
}

/// A new folder that everybody may pass through; gone when dropped.
pub(super) struct Fresh(pub(super) PathBuf);

impl Fresh {
    fn new(path: PathBuf) -> Result<Self> {
        fs::create_dir(&path).map_err(|source| Error::Io {
            path: path.clone(),
            operation: "making a folder",
            source,
        })?;
        Ok(Self(path))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // What can not be removed goes with the disk, or says by its name whose it was.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Servers' users must come through to their folders.
fn pass(site: &Site) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let path = site.path().to_owned();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(|source| Error::Io {
        path,
        operation: "letting everybody pass",
        source,
    })
}
