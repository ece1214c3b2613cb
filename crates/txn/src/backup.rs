//! A backup: a copy of a database's files that is itself a database, of one that is stopped or in use.
//!
//! ```text
//!  manifest ─▶ parts of the checkpoint, each page checked ─▶ log, chunk by chunk ─▶ the same manifest still? ─▶ whole
//!      ▲                                                                                 │ no
//!      └────────────────────────── a newer checkpoint has come meanwhile ────────────────┘
//! ```
//!
//! The log is only trimmed, and parts of a checkpoint are only removed, after a newer manifest has become current. So a copy
//! between two looks at the same manifest has all that this manifest needs. [`ishigaki_wal::copy`] says which moment of a
//! log in use it shows: everything that was durable before the backup began is in it.

use ishigaki_base::Lsn;
use ishigaki_device::{AlignedBuffer, Directory, Error as DeviceError};
use ishigaki_wal::Progress;

use crate::checkpoint::{Manifest, files, leftovers};
use crate::unread::Sources;
use crate::{Database, Error, Result, Unfinished};

/// How often a backup begins again because a checkpoint came in between.
const ATTEMPTS: usize = 5;

/// How often that may happen before this process lets no checkpoint begin.
const FREE_ATTEMPTS: usize = 2;

/// Bytes read and written at once.
const PIECE: usize = 4 << 20;

/// What a backup has copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The number of the checkpoint, if there was one.
    pub checkpoint: Option<u64>,
    /// Rows of the checkpoint, names of tables among them.
    pub rows: u64,
    /// Records of the log.
    pub records: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// The last LSN that is in it.
    pub end: Lsn,
    /// How often copying began again because a newer checkpoint had come.
    pub again: usize,
}

/// Where a database lies that is to be copied.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its tables.
    pub tables: &'a dyn Directory,
    /// Its log: the same directory, or the place of a log apart.
    pub log: &'a dyn Directory,
    /// It is open in this or another process. Where it is not, the caller holds the locks of both.
    pub is_in_use: bool,
}

/// Copies a database into `to`, in place of an earlier copy there. `progress` counts the bytes.
///
/// # Errors
///
/// [`Error::Log`], [`Error::CorruptCheckpoint`] if the database is damaged: a copy would be, too.
/// [`Error::BackupOvertaken`] if checkpoints followed each other faster than the database could be copied.
pub fn backup(source: Source<'_>, to: &Unfinished, progress: &Progress) -> Result<BackupReport> {
    copy(source, to, progress, ATTEMPTS)
}

impl Database {
    /// Copies this database into `to` while it is used. What was acknowledged before is in the copy.
    ///
    /// Where checkpoints follow each other too fast, the next one waits until the copy is there; the log grows meanwhile.
    ///
    /// # Errors
    ///
    /// As [`backup`].
    pub fn backup(&self, to: &Unfinished, progress: &Progress) -> Result<BackupReport> {
        let (tables, log) = self.directories();
        let source = Source { tables: tables.as_ref(), log: log.as_ref(), is_in_use: true };
        match copy(source, to, progress, FREE_ATTEMPTS) {
            Err(Error::BackupOvertaken) => {}
            done => return done,
        }
        let _turn = self.hold_checkpoints();
        copy(source, to, progress, 1).map(|report| BackupReport { again: FREE_ATTEMPTS, ..report })
    }
}

fn copy(source: Source<'_>, to: &Unfinished, progress: &Progress, attempts: usize) -> Result<BackupReport> {
    let sources = Sources::new(source.tables, source.log);
    let source = Source { tables: &sources.tables, log: &sources.log, ..source };
    attempt(source, to, progress, attempts).map_err(|error| match error {
        Error::BackupOvertaken => error,
        error => sources.cause(error),
    })
}

fn attempt(source: Source<'_>, to: &Unfinished, progress: &Progress, attempts: usize) -> Result<BackupReport> {
    let copying = Copying { source, to: to.directory().as_ref(), progress };
    for again in 0..attempts {
        let manifest = files::current(source.tables)?;
        match copying.attempt(manifest.as_ref()) {
            Ok(Some(report)) => return Ok(BackupReport { again, ..report }),
            // A file that went away while it was read is no damage if a checkpoint came in between.
            Err(error) if !source.is_in_use || files::current(source.tables)? == manifest => return Err(error),
            Ok(None) | Err(_) => {}
        }
        tracing::info!("a checkpoint came while the database was copied; copying again");
    }
    Err(Error::BackupOvertaken)
}

struct Copying<'a> {
    source: Source<'a>,
    to: &'a dyn Directory,
    progress: &'a Progress,
}

impl Copying<'_> {
    /// Copies everything once; nothing is returned if that does not fit together.
    fn attempt(&self, manifest: Option<&Manifest>) -> Result<Option<BackupReport>> {
        self.clear(manifest)?;
        let mut report = BackupReport::default();
        if let Some(manifest) = manifest {
            self.parts(manifest)?;
            report.checkpoint = Some(manifest.number);
            (report.rows, report.bytes) = (manifest.rows, manifest.bytes());
        }
        let Source { tables, log, is_in_use } = self.source;
        let copied = ishigaki_wal::copy(log, self.to, is_in_use, self.progress)?;
        let ishigaki_wal::Copied::Whole { bytes, records, end, .. } = copied else { return Ok(None) };
        if files::current(tables)?.as_ref() != manifest {
            return Ok(None);
        }
        if let Some(manifest) = manifest {
            files::publish(self.to, manifest, || Ok(())).map_err(files::Unpublished::error)?;
        }
        self.to.sync()?;
        report.bytes += bytes;
        (report.records, report.end) = (records, end);
        Ok(Some(report))
    }

    /// Removes what an earlier attempt has left, but for parts of the checkpoint that is still current.
    fn clear(&self, manifest: Option<&Manifest>) -> Result<()> {
        let number = manifest.map(|manifest| manifest.number);
        for name in self.to.list()? {
            let is_part = name.starts_with("checkpoint-");
            let is_old = is_part && (number.is_none() || files::parse_part_name(&name) != number);
            if is_old || name == files::MANIFEST || name.starts_with("wal-") {
                self.to.remove(&name)?;
            }
        }
        Ok(self.to.sync()?)
    }

    /// Copies the parts of a checkpoint, and checks every page of the copy.
    fn parts(&self, manifest: &Manifest) -> Result<()> {
        let there = self.to.list()?;
        self.progress.expect(manifest.bytes());
        for (place, part) in manifest.parts.iter().enumerate() {
            let name = files::part_name(manifest.number, place);
            if !there.contains(&name) {
                self.part(&name, part.length)?;
            }
            self.progress.advance(part.length);
        }
        let copied = leftovers::read(self.to, manifest, |_, _, _, _| ());
        match copied.damages.first() {
            Some(damage) => Err(Error::damaged(damage.to_string())),
            None => Ok(()),
        }
    }

    fn part(&self, name: &str, length: u64) -> Result<()> {
        let from = self.source.tables.open(name).map_err(|error| match error {
            DeviceError::NotFound { .. } => Error::damaged(format!("{name}: is missing")),
            other => other.into(),
        })?;
        if from.len() < length {
            return Err(Error::damaged(format!("{name}: is cut short")));
        }
        // A name that is there stands for a part that was copied whole.
        let unborn = format!("{name}.new");
        let to = self.to.create(&unborn, length)?;
        let block = from.promise().block_size.max(to.promise().block_size);
        let mut buffer = AlignedBuffer::zeroed(PIECE);
        let mut at = 0;
        while at < length {
            let size = ((length - at).min(PIECE as u64) as usize).next_multiple_of(block);
            let readable = ((from.len() - at).min(size as u64)) as usize;
            buffer[..size].fill(0);
            from.read_at(at, &mut buffer[..readable])?;
            let writable = ((to.len() - at).min(size as u64)) as usize;
            to.write_at(at, &buffer[..writable])?;
            at += size as u64;
        }
        to.sync()?;
        Ok(self.to.rename(&unborn, name)?)
    }
}
