//! Salvage: every row that a damaged database still has, and which rows and commits are missing.
//!
//! ```text
//!  current checkpoint ── whole pages ───────────────────────┐
//!        │ rows of damaged pages                            ├─▶ per key the largest LSN ─▶ a new database
//!        └─▶ previous checkpoint, and the log behind that ──┤
//!  log behind the current checkpoint ── whole chunks ───────┘
//! ```
//!
//! [`Database::open`](crate::Database::open) refuses a database that is damaged where nothing replaces what was there. This
//! is the way out: [`Salvage::read`] reads around each damage, [`Salvage::write_to`] makes a new database of what it found.
//! Nothing is written to the damaged one.
//!
//! What a whole page of the current checkpoint says is final as of where that checkpoint's log begins. For rows between two
//! whole pages ([`Gap`]) the previous checkpoint is asked, and the log behind it; without either they are missing. Records of
//! the log that lie in a damaged chunk are missing, too: their commits are named by LSN ([`ishigaki_wal::Survey`] says which
//! may have been there). Other rows may then be older than they were, or be back although they were deleted. Where nothing says
//! where the log ended ([`LogEnd::Unknown`](crate::LogEnd)), commits behind the last one that is there may be missing, too.
//!
//! Parts: [`rows`] keeps what was found, [`report`] says what is missing, [`write`](mod@write) makes the new database.

mod report;
mod rows;
mod write;

use std::ops::Bound;

use ishigaki_base::{LogId, Lsn};
use ishigaki_device::Directory;
use ishigaki_wal::{Damage, Progress, Rescued, Start, Survey};

pub use report::{Missing, SalvageReport, SalvagedTable};

use crate::apart;
use crate::checkpoint::Manifest;
use crate::checkpoint::leftovers::{self, Gap, Leftovers, Manifests};
use crate::ending;
use crate::redo::Decoder;
use crate::table::TableId;
use crate::unread::Sources;
use crate::{Error, Result};
use rows::Rows;

/// What a damaged database still has, in memory.
#[derive(Debug)]
pub struct Salvage {
    rows: Rows<'static>,
    report: SalvageReport,
}

/// Where reading begins, and what is missing there.
struct Ground {
    /// The checkpoint that counts; its log begins here.
    start: Start,
    /// The log is asked from here on, for the rows in the gaps.
    low: Start,
    gaps: Vec<Gap>,
    /// Nothing but the log could fill a gap wholly, and it reaches back far enough.
    can_fill: bool,
    /// Up to here the log was durable when the checkpoint was made.
    end: Lsn,
    log: Option<LogId>,
}

impl Salvage {
    /// Reads a database in `tables`, whose log lies in `log`: the same directory, or the place of a log apart. Both are
    /// locked by the caller. All rows are held in memory. `progress` counts the bytes of the log.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if a directory can not be listed, or a file not be opened for want of a permission. Damage is no error, and
    /// neither is what the medium fails to read: the report has both.
    pub fn read(tables: &dyn Directory, log: &dyn Directory, progress: &Progress) -> Result<Self> {
        Self::read_some(tables, log, progress, |_| true)
    }

    /// The same, keeping in memory the rows of those tables alone that `wanted` says, and the names of all. The report counts
    /// no others either.
    pub fn read_some(
        tables: &dyn Directory,
        log: &dyn Directory,
        progress: &Progress,
        wanted: impl Fn(TableId) -> bool,
    ) -> Result<Self> {
        let sources = Sources::new(tables, log);
        let (tables, log): (&dyn Directory, &dyn Directory) = (&sources.tables, &sources.log);
        let manifests = Manifests::of(tables)?;
        let hint = manifests.log().or_else(|| apart::made_log(tables));
        let survey = Survey::of(log, hint, progress)?;
        let mut rows = Rows::new(wanted);
        let mut report = SalvageReport { damages: manifests.damages.clone(), ..SalvageReport::default() };
        report.damages.extend_from_slice(survey.damages());
        let ground = ground(tables, &manifests, &survey, &mut rows, &mut report);
        let other = survey.log().filter(|&other| ground.log.is_some_and(|log| log != other));
        let rescued = if let Some(other) = other {
            let what = format!("it is of log {other}, and the checkpoint is of another");
            report.damages.push(Damage { file: "wal-control".to_owned(), offset: Some(0), what });
            Rescued { end: ground.start.lsn.previous(), ..Rescued::default() }
        } else {
            replay(log, &survey, &ground, &mut rows, &mut report)?
        };
        let log_end = ending::of(tables, &manifests, &survey, rescued.end);
        report.judge(&ground.gaps, ground.can_fill, ground.start, ground.end, &rescued);
        report.judge_end(log_end, ground.end);
        report.tell_apart(&sources)?;
        rows.settle();
        report.count(&rows);
        Ok(Self { rows: rows.owned(), report })
    }

    /// What was found, what is damaged, what is missing.
    pub fn report(&self) -> &SalvageReport {
        &self.report
    }

    /// The tables, by number, with the names of those that have one.
    pub fn tables(&self) -> Vec<(TableId, Option<String>)> {
        self.rows.tables()
    }

    /// Gives a table a name that has lost its own.
    pub fn name(&mut self, table: TableId, name: &str) {
        self.rows.name(table, name);
        self.report.count(&self.rows);
    }

    /// The rows of a table from a key on, in order.
    pub fn scan<'a>(&'a self, table: TableId, from: Bound<&'a [u8]>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.rows.scan(table, from)
    }
}

/// Loads what checkpoints hold.
fn ground(
    tables: &dyn Directory,
    manifests: &Manifests,
    survey: &Survey,
    rows: &mut Rows<'_>,
    report: &mut SalvageReport,
) -> Ground {
    let log_start = survey.start();
    let reaches = |start: Start| log_start.is_none_or(|of_log| of_log <= start);
    let note = |report: &mut SalvageReport, found: &Leftovers| report.damages.extend(found.damages.iter().cloned());
    let of = |manifest: &Manifest| Ground {
        start: manifest.start,
        low: manifest.start,
        gaps: Vec::new(),
        can_fill: false,
        end: manifest.end,
        log: Some(manifest.log),
    };
    match (&manifests.current, &manifests.previous) {
        (Some(current), previous) => {
            let found = leftovers::read(tables, current, |table, lsn, key, value| rows.put(table, lsn, key, value));
            note(report, &found);
            report.checkpoint = Some(current.number);
            let mut ground = Ground { gaps: found.gaps, ..of(current) };
            if ground.gaps.is_empty() {
                return ground;
            }
            let is_before = |previous: &&Manifest| previous.log == current.log && previous.number < current.number;
            if let Some(previous) = previous.as_ref().filter(is_before) {
                let gaps = &ground.gaps;
                let older = leftovers::read(tables, previous, |table, lsn, key, value| {
                    if gaps.iter().any(|gap| gap.holds(table, key)) {
                        rows.put(table, lsn, key, value);
                    }
                });
                note(report, &older);
                ground.low = previous.start;
                ground.can_fill = older.damages.is_empty() && reaches(previous.start);
            } else if log_start == Some(Start::default()) {
                ground.low = Start::default();
                ground.can_fill = true;
            }
            ground
        }
        (None, Some(previous)) => {
            let found = leftovers::read(tables, previous, |table, lsn, key, value| rows.put(table, lsn, key, value));
            note(report, &found);
            if manifests.damages.is_empty() {
                let what = "is missing".to_owned();
                report.damages.push(Damage { file: "checkpoint".to_owned(), offset: None, what });
            }
            report.checkpoint = Some(previous.number);
            Ground { gaps: found.gaps, ..of(previous) }
        }
        (None, None) => {
            let start = log_start.unwrap_or_default();
            let nothing = Ground { start, low: start, gaps: Vec::new(), can_fill: false, end: Lsn::ZERO, log: None };
            // The log holds everything: parts that are there are of a checkpoint that was not finished.
            if log_start == Some(Start::default()) || survey.is_empty() && manifests.numbers.is_empty() {
                return nothing;
            }
            if manifests.damages.is_empty() {
                let what = "is missing".to_owned();
                report.damages.push(Damage { file: "checkpoint".to_owned(), offset: None, what });
            }
            // The first one was finished; of a later one that can not be told.
            let Some(&number) = manifests.numbers.first() else {
                let damage = Damage {
                    file: "checkpoint".to_owned(),
                    offset: None,
                    what: "all of its files are missing".to_owned(),
                };
                let gap = Gap { after: None, before: None, damage };
                return Ground { gaps: vec![gap], ..nothing };
            };
            let found = leftovers::read_without_manifest(tables, number, survey.log(), |table, lsn, key, value| {
                rows.put(table, lsn, key, value);
            });
            note(report, &found);
            report.checkpoint = Some(number);
            Ground { gaps: found.gaps, ..nothing }
        }
    }
}

/// Applies what the log holds.
fn replay(
    log: &dyn Directory,
    survey: &Survey,
    ground: &Ground,
    rows: &mut Rows<'_>,
    report: &mut SalvageReport,
) -> Result<Rescued> {
    let mut strange = Vec::new();
    let rescued = survey.rescue(log, ground.low, &mut |position, payload| {
        let lsn = position.lsn();
        let counts =
            |table: TableId, key: &[u8]| lsn >= ground.start.lsn || ground.gaps.iter().any(|gap| gap.holds(table, key));
        let mut apply = |operation| {
            rows.apply(lsn, operation, &counts);
            Ok(())
        };
        let applied = Decoder::new(payload).and_then(|mut operations| operations.try_for_each(|one| apply(one?)));
        if let Err(why) = applied {
            let what = format!("the redo record with LSN {lsn} can not be applied: {why}");
            strange.push(Damage { file: "wal-*".to_owned(), offset: None, what });
        }
        Ok(())
    });
    report.damages.append(&mut strange);
    rescued.map_err(Error::Log)
}
