//! What stands under all servers: the disk, memory for their data, and an empty database of which they are copies.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_device::{FileDirectory, ProbeSettings};
use ishigaki_servers::{Memory, Server, User};

use super::disk::{self, folder};
use super::{Settings, load};
use crate::site::Site;
use crate::{Error, Line, Progress, Result, Target, media};

/// How long the disk is measured by itself, with each count of threads.
const PROBED: Duration = Duration::from_secs(1);

/// It is all gone when this is dropped, whatever happened.
pub(super) struct Standing {
    // In the order in which they go.
    pub(super) disk: disk::Standing,
    pub(super) template: Server,
    pub(super) user: User,
    memory: Memory,
    mounts: Site,
}

impl Standing {
    pub(super) fn new(settings: &Settings, user: User) -> Result<Self> {
        let mounts = Site::new(&settings.scratch, super::NAME)?;
        pass(&mounts)?;
        let memory = Memory::new(&folder(&mounts, "memory")?)?;
        let disk = disk::Standing::new(&settings.disk, &settings.program, &mounts)?;
        let [data, log] = ["data", "log"].map(|name| user.folder(memory.root(), name));
        let template = Server::new(settings.kind, user, data?, log?);
        let standing = Self { disk, template, user, memory, mounts };
        standing.make_template(settings)?;
        Ok(standing)
    }

    /// An empty database with the tables, ended so that nothing is to be recovered.
    fn make_template(&self, settings: &Settings) -> Result<()> {
        self.template.make()?;
        let running = self.template.start()?;
        let tables: String = settings.integers.iter().map(|&integers| load::table(integers)).collect();
        self.template.run_when_up(&tables, &|| settings.is_stopped())?;
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
    pub(super) fn is_real_time(&self) -> Option<bool> {
        self.disk.is_real_time()
    }

    /// What the disk takes by itself: durable writes of 4 KiB in a row, by one, and by as many as there are servers, each in a
    /// file of its own.
    pub(super) fn probe(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Vec<Line>> {
        let mut threads = vec![1, settings.most_servers()];
        threads.dedup();
        let probe = ProbeSettings {
            threads,
            sizes: vec![ByteSize::kib(4)],
            duration: PROBED,
            rounds: settings.rounds,
            seed: settings.origin.seed,
            ..ProbeSettings::default()
        };
        let folder = self.on_disk("probe")?;
        let target = Target::new(settings.disk.to_string(), Arc::new(FileDirectory::open(&folder.0)?));
        settings.go_on()?;
        media::run(&probe, &target, &settings.origin, progress)
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
