//! Verification: everything of a database is read and checked, and nothing is changed.

use ishigaki_base::Lsn;
use ishigaki_device::Directory;
use ishigaki_wal::{Damage, LogEnd, Progress, Start, Survey};

use crate::apart;
use crate::checkpoint::leftovers::{self, Manifests};
use crate::ending;
use crate::redo::{Decoder, Operation};
use crate::table::TableId;
use crate::unread::Sources;
use crate::{Error, Result};

/// What a database's files hold, and where they are damaged.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The number of the current checkpoint, if there is one that can be read.
    pub checkpoint: Option<u64>,
    /// The number of the one before, which is kept beside it.
    pub previous: Option<u64>,
    /// Rows of the current checkpoint that can be read, names of tables among them.
    pub rows: u64,
    /// Records of the log that can be read, from where the checkpoint begins.
    pub records: u64,
    /// The last LSN that was read from the log.
    pub end: Lsn,
    /// What says where the log ended. Where nothing does, that is among the damages.
    pub log_end: LogEnd,
    /// Every damage that was found.
    pub damages: Vec<Damage>,
    /// What the medium failed to read: nothing is known of these bytes.
    pub unread: Vec<Damage>,
}

impl Verification {
    /// Whether all is as it was written.
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty() && self.unread.is_empty()
    }
}

/// Reads and checks the database in `tables`, whose log lies in `log`: the same directory, or the place of a log apart. Both
/// are locked by the caller. Both checkpoints are checked page by page, the log chunk by chunk and record by record. Nothing
/// is written. `progress` counts the bytes of the log.
///
/// # Errors
///
/// [`Error::Device`] if a directory can not be listed, or a file not be opened for want of a permission. Damage is no error, and
/// neither is what the medium fails to read.
pub fn verify(tables: &dyn Directory, log: &dyn Directory, progress: &Progress) -> Result<Verification> {
    verify_rows(tables, log, progress, |_, _, _| ())
}

/// The same, and shows every row that is whole, of the checkpoints and of the log, by table, key and value: also those that
/// later records replace or delete.
///
/// # Errors
///
/// As [`verify`].
pub fn verify_rows(
    tables: &dyn Directory,
    log: &dyn Directory,
    progress: &Progress,
    mut show: impl FnMut(TableId, &[u8], &[u8]),
) -> Result<Verification> {
    let sources = Sources::new(tables, log);
    let (tables, log): (&dyn Directory, &dyn Directory) = (&sources.tables, &sources.log);
    let manifests = Manifests::of(tables)?;
    let (current, previous) = (manifests.current.as_ref(), manifests.previous.as_ref());
    let survey = Survey::of(log, manifests.log().or_else(|| apart::made_log(tables)), progress)?;
    let number = |manifest: &crate::checkpoint::Manifest| manifest.number;
    let mut found = Verification {
        checkpoint: current.map(number),
        previous: previous.map(number),
        rows: 0,
        records: 0,
        end: Lsn::ZERO,
        log_end: survey.end().clone(),
        damages: manifests.damages.clone(),
        unread: Vec::new(),
    };
    for manifest in [current, previous].into_iter().flatten() {
        let pages = leftovers::read(tables, manifest, |table, _, key, value| show(table, key, value));
        found.damages.extend(pages.damages);
        if current.is_some_and(|current| current.number == manifest.number) {
            found.rows = pages.rows;
        }
    }
    let mut damage = |file: &str, what: String| {
        found.damages.push(Damage { file: file.to_owned(), offset: None, what });
    };
    let start = match current {
        Some(manifest) => manifest.start,
        None if manifests.damages.is_empty() && survey.start().is_some_and(|start| start > Start::default()) => {
            damage("checkpoint", "is missing, and the log was trimmed".to_owned());
            survey.start().unwrap_or_default()
        }
        None => survey.start().unwrap_or_default(),
    };
    if let (Some(manifest), Some(log)) = (current, survey.log())
        && manifest.log != log
    {
        damage("checkpoint", format!("it belongs to log {}, and there is log {log}", manifest.log));
    }
    if survey.start().is_some_and(|of_log| of_log > start) {
        damage("wal-control", format!("the log was trimmed behind {start}, where the checkpoint begins"));
    }
    let (mut records, mut strange) = (0, Vec::new());
    let rescued = survey.rescue(log, start, &mut |position, payload| {
        records += 1;
        let mut look = |operation| {
            if let Operation::Put { table, key, value } = operation {
                show(table, key, value);
            }
        };
        let why = Decoder::new(payload).and_then(|mut operations| operations.try_for_each(|one| one.map(&mut look)));
        if let Err(why) = why {
            strange.push(format!("the redo record with LSN {} can not be applied: {why}", position.lsn()));
        }
        Ok(())
    });
    let rescued = rescued.map_err(Error::Log)?;
    for what in strange {
        damage("wal-*", what);
    }
    if let Some(manifest) = current.filter(|manifest| rescued.end < manifest.end)
        && survey.damages().is_empty()
    {
        damage("wal-*", format!("the log ends at {}, and was durable up to {}", rescued.end, manifest.end));
    }
    found.damages.extend_from_slice(survey.damages());
    (found.records, found.end) = (records, rescued.end);
    found.log_end = ending::of(tables, &manifests, &survey, rescued.end);
    if let (LogEnd::Unknown(why), true) = (&found.log_end, found.damages.is_empty()) {
        found.damages.push(Damage { file: "wal-control".to_owned(), offset: None, what: why.clone() });
    }
    found.unread = sources.settle(&mut found.damages)?;
    Ok(found)
}
