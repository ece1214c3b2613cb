//! The servers' databases, as they are before a run: each on a volume's bytes, in memory.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_device::{AlignedBuffer, Device, Directory, MemoryDirectory, MemorySettings};
use ishigaki_emulate::BlockDevice;
use ishigaki_servers::{Ext4, Kind, Server, User};
use ishigaki_volume_service::agent::gather;

use super::load::{DATA_SHARES, GROUPS};
use super::{Settings, Size};
use crate::site::Site;
use crate::{Error, Result};

/// Tables of a server.
pub(super) const TABLES: usize = 4;

/// Rows of a page of 8 KiB, and bytes of each beside its numbers.
const ROWS_OF_A_PAGE: u64 = 6;
const FILLER: usize = 30;

/// What the tables grow by at a time, one after the other, as those of a database in use do.
const GROWTH: ByteSize = ByteSize::mib(2);

/// What a server has beside its tables: the system's own, its log, and what the file system keeps.
const BESIDE: ByteSize = ByteSize::mib(224);

/// Bytes that are copied at a time.
const PIECE: u64 = 4 << 20;

/// The blocks of volumes.
const BLOCK: usize = 4096;

/// How a server is told to be, beside what it is made as.
const ARGUMENTS: [&str; 12] = [
    "-c",
    "shared_buffers=2MB",
    "-c",
    "autovacuum=off",
    "-c",
    "max_connections=40",
    "-c",
    "jit=off",
    "-c",
    "log_min_messages=fatal",
    "-c",
    "wal_buffers=512kB",
];

/// One server and where it lies.
#[derive(Debug)]
pub(super) struct Database {
    /// Of the volume.
    pub(super) name: String,
    /// Rows of each table.
    pub(super) rows: u64,
    /// Bytes of its tables.
    pub(super) bytes: u64,
    /// Where its volume is mounted.
    pub(super) root: PathBuf,
    pub(super) server: Server,
}

/// All of them.
pub(super) struct Databases {
    pub(super) all: Vec<Database>,
    bytes: MemoryDirectory,
    extents: u64,
    pub(super) site: Site,
}

impl Databases {
    /// Makes them.
    pub(super) fn make(settings: &Settings, user: User) -> Result<Self> {
        let site = Site::new(&settings.scratch, "volumes")?;
        open(site.path())?;
        let bytes = memory();
        let mut all = Vec::new();
        for number in 0..settings.size.servers * GROUPS {
            all.push(Database::of(number, &settings.size, site.path(), user));
        }
        let mut made = Self { all, bytes, extents: 0, site };
        for database in &made.all {
            settings.go_on()?;
            let length = volume(database.bytes);
            let device = made.bytes.create(&database.name, length)?;
            made.extents += database.make(device, &made.site, user, &|| settings.go_on().is_err())?;
        }
        Ok(made)
    }

    /// A copy of all volumes.
    pub(super) fn copy(&self) -> Result<MemoryDirectory> {
        let copy = memory();
        for database in &self.all {
            let from = self.bytes.open(&database.name)?;
            let to = copy.create(&database.name, from.len())?;
            let mut buffer = AlignedBuffer::zeroed(PIECE as usize);
            let mut at = 0;
            while at < from.len() {
                let some = &mut buffer[..PIECE.min(from.len() - at) as usize];
                from.read_at(at, some)?;
                if some.iter().any(|&byte| byte != 0) {
                    to.write_at(at, some)?;
                }
                at += some.len() as u64;
            }
        }
        Ok(copy)
    }

    /// Bytes of all volumes.
    pub(super) fn volumes(&self) -> u64 {
        self.all.iter().map(|database| volume(database.bytes)).sum()
    }

    /// Pieces of all files.
    pub(super) fn extents(&self) -> u64 {
        self.extents
    }
}

/// Bytes of the volume of a server with tables of so many.
fn volume(tables: u64) -> u64 {
    (tables / 10 * 12 + BESIDE.as_u64()).next_multiple_of(4 << 20)
}

pub(super) fn memory() -> MemoryDirectory {
    MemoryDirectory::with(MemorySettings { block_size: BLOCK, capacity: None })
}

fn io(path: &Path, operation: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, operation, source }
}

/// Everybody may pass.
fn open(path: &Path) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(io(path, "letting everybody pass"))
}

impl Database {
    fn of(number: usize, size: &Size, mounts: &Path, user: User) -> Self {
        let group = number / size.servers;
        let whole: u64 = DATA_SHARES.iter().sum();
        let bytes = size.data.as_u64() * DATA_SHARES[group] / whole / size.servers as u64;
        let rows = (bytes / TABLES as u64 / 8192 * ROWS_OF_A_PAGE).max(100);
        let name = format!("server-{number}");
        let root = mounts.join(&name);
        let server = Server::new(Kind::PostgreSql, user, root.join("data"), root.join("log")).with(&ARGUMENTS);
        Self { name, rows, bytes, root, server }
    }

    /// Makes it on a device. How many pieces its files lie in.
    fn make(&self, device: Arc<dyn Device>, site: &Site, user: User, stop: &dyn Fn() -> bool) -> Result<u64> {
        let folder = site.join("making");
        for path in [&folder, &self.root] {
            fs::create_dir_all(path).map_err(io(path, "making a folder"))?;
        }
        let block = BlockDevice::new(device, &folder)?;
        let ext4 = Ext4::new(block.path(), &self.root)?;
        for name in ["data", "log"] {
            user.folder(&self.root, name)?;
        }
        self.server.make()?;
        let running = self.server.start()?;
        self.server.run_when_up(&self.statements(), stop)?;
        running.end()?;
        ext4.sync()?;
        let found = gather(&[self.root.join("data")], &std::collections::BTreeMap::new());
        let extents = found.map_or(0, |found| found.files.iter().map(|file| file.extents.len() as u64).sum());
        ext4.unmount()?;
        Ok(extents)
    }

    /// Tables that grow beside each other.
    fn statements(&self) -> String {
        let mut text = String::new();
        for table in 0..TABLES {
            let _ = writeln!(
                text,
                "create table t{table} (id int primary key, changed int not null, filler text) with (fillfactor = 85);"
            );
        }
        let step = (GROWTH.as_u64() / 8192 * ROWS_OF_A_PAGE) as usize;
        for first in (0..self.rows).step_by(step) {
            let last = (first + step as u64).min(self.rows) - 1;
            for table in 0..TABLES {
                let _ = writeln!(
                    text,
                    "insert into t{table} select i, 0, repeat(md5(i::text), {FILLER}) from generate_series({first}, {last}) i;"
                );
            }
            text.push_str("checkpoint;\n");
        }
        // So that a read writes nothing.
        text.push_str("vacuum (freeze, analyze);\ncheckpoint;\n");
        text
    }

    /// The row of a table at which its hot part begins: another one in each table.
    pub(super) fn hot_begin(&self, table: usize, hot: u64) -> u64 {
        (self.rows - hot) * (table as u64 * 2 + 1) / (2 * TABLES as u64)
    }
}
