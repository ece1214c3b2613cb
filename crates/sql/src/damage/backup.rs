//! A backup with the page files of paged tables.
//!
//! Page files have commits of their own, beside the log. So a moment that both show is found by looking twice: page files are
//! copied, then the log, and then the page files must be as they were copied. Between the two looks they did not change,
//! whatever moment of that time the log's copy shows.

use ishigaki_page::State;
use ishigaki_txn::{BackupReport, Progress, Source, Unfinished};

use super::definitions::Definitions;
use super::pages::{Places, Target};
use crate::database::Database;
use crate::paged::{at, directory_of};
use crate::table::{Location, TableDefinition};
use crate::{Error, Result};

/// How often page files may change while the log is copied.
const ATTEMPTS: usize = 5;

/// What a backup has.
#[derive(Clone, Debug)]
pub struct BackedUp {
    /// Checkpoint and log.
    pub engine: BackupReport,
    /// Tables, paged ones among them.
    pub tables: usize,
    /// Views.
    pub views: usize,
    /// Page files, with their old and new places.
    pub pages: Vec<(String, String, String)>,
}

/// Makes a database of its own of a copy of another one, with its page files. `settings` are those that the copy is opened
/// with once, to check it. `progress` counts bytes.
///
/// # Errors
///
/// If the database is damaged, or changed faster than it could be copied.
pub fn backup(
    source: Source<'_>,
    to: &Target,
    settings: &ishigaki_txn::Settings,
    progress: &Progress,
) -> Result<BackedUp> {
    make(to, settings, |unfinished| ishigaki_txn::backup(source, unfinished, progress))
}

impl Database {
    /// Makes a backup of this database while it is used: everything that was acknowledged before is in it.
    ///
    /// ```
    /// # let (from, to) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// use ishigaki_sql::{Database, Settings, Target};
    ///
    /// let database = Database::open(from.path(), Settings::default())?;
    /// database.session().execute_blocking("CREATE TABLE t AS SELECT 1 AS a")?;
    /// database.backup(&Target::folder(to.path())?, &Default::default())?;
    /// let copy = Database::open(to.path(), Settings::default())?;
    /// assert_eq!(copy.session().query_blocking("SELECT a FROM t")?[0].num_rows(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`backup`].
    pub fn backup(&self, to: &Target, progress: &Progress) -> Result<BackedUp> {
        make(to, self.engine_settings(), |unfinished| self.engine().backup(unfinished, progress))
    }
}

fn make(
    to: &Target,
    settings: &ishigaki_txn::Settings,
    mut copy: impl FnMut(&Unfinished) -> Result<BackupReport, ishigaki_txn::Error>,
) -> Result<BackedUp> {
    let unfinished = to.begin()?;
    let directory = unfinished.directory().as_ref();
    let mut copied = Vec::new();
    for _ in 0..ATTEMPTS {
        let engine = copy(&unfinished)?;
        let definitions = Definitions::read(directory, directory)?;
        let seen = definitions.files().map(|(table, location)| state(table, location)).collect::<Result<Vec<_>>>();
        if seen.is_ok_and(|seen| seen == copied) {
            let mut places = Places::new(to);
            for (table, location) in definitions.files() {
                places.directory(table.name(), location)?;
            }
            // They have not changed since before the log was copied: so the catalog knows of no later appends.
            let states: Vec<State> = copied.iter().map(|(_, _, state)| *state).collect();
            check(&definitions, &states)?;
            places.settle(&unfinished, settings, &definitions, None)?;
            unfinished.finish()?;
            let moved = |(table, location): (&std::sync::Arc<TableDefinition>, &Location)| {
                let new = places.of(location).unwrap_or_default();
                (table.name().to_owned(), location.place.clone(), new.to_owned())
            };
            let pages = definitions.files().map(moved).collect();
            let tables = definitions.rows.len() + definitions.paged.len();
            return Ok(BackedUp { engine, tables, views: definitions.views.len(), pages });
        }
        copied = pages(to, &definitions).or_else(|error| {
            // Pages that are not whole may be those of another manifest, which says more.
            let states = definitions.files().map(|(table, location)| Ok(state(table, location)?.2));
            states.collect::<Result<Vec<_>>>().and_then(|states| check(&definitions, &states))?;
            Err(error)
        })?;
    }
    let reason = "its page files changed each time while the log was copied; make the backup while nothing is appended";
    Err(Error::File { path: to.path.clone().unwrap_or_default(), reason: reason.to_owned(), source: None })
}

/// Which page file, with how many appends.
type Copied = (String, String, State);

fn state(table: &TableDefinition, location: &Location) -> Result<Copied> {
    let directory = directory_of(table.name(), location)?;
    let state = ishigaki_page::state(directory.as_ref(), table.name())?;
    Ok((table.name().to_owned(), location.place.clone(), state))
}

/// Refuses page files that are others than the catalog knows of, or older; `states` are those of all, in order.
fn check(definitions: &Definitions, states: &[State]) -> Result<()> {
    for ((table, location), state) in definitions.files().zip(states) {
        if let Some(noted) = definitions.state(table, location) {
            state.check(table.name(), noted).map_err(|source| at(table.name(), location, source))?;
        }
    }
    Ok(())
}

/// Copies all page files; what is there of an earlier copy of the same files is kept.
fn pages(to: &Target, definitions: &Definitions) -> Result<Vec<Copied>> {
    let (mut places, mut copied) = (Places::new(to), Vec::new());
    for (table, location) in definitions.files() {
        let directory = places.directory(table.name(), location)?;
        let from = directory_of(table.name(), location)?;
        // Another file of that name may have been there: a table was dropped and made again.
        let old = ishigaki_page::state(directory.as_ref(), table.name()).ok();
        let new = ishigaki_page::state(from.as_ref(), table.name())?;
        if old.is_some_and(|old| old.identity != new.identity) {
            ishigaki_page::remove(directory.as_ref(), table.name())?;
        }
        let appends = ishigaki_page::copy(from.as_ref(), &directory, table.name())?;
        copied.push((table.name().to_owned(), location.place.clone(), State { appends, ..new }));
    }
    Ok(copied)
}
