//! Verification: the engine's, every row against its table's definition, and every page.

use std::collections::BTreeMap;
use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_device::{Directory, ReadFault};
use ishigaki_page::{Reader, State};
use ishigaki_scan::{PageCache, PagedTable, Part};
use ishigaki_txn::{Damage, Progress, TableId};

use super::definitions::Definitions;
use super::fault_of;
use crate::catalog::rows_of;
use crate::paged::directory_of;
use crate::row::RowDecoder;
use crate::table::{Location, TableDefinition};
use crate::{Error, Result, key};

/// Rows that are decoded together.
const ROWS: usize = 1024;

/// Damaged rows of one table that are named; the others are counted.
const NAMED: u64 = 20;

/// What a database's files hold, and where they are damaged.
#[derive(Clone, Debug)]
pub struct Verification {
    /// What the engine says of checkpoints and log.
    pub engine: ishigaki_txn::Verification,
    /// The tables of the catalog.
    pub tables: Vec<VerifiedTable>,
    /// The views of the catalog.
    pub views: Vec<String>,
    /// Damages of the catalog, of rows and of page files.
    pub damages: Vec<Damage>,
    /// Page files, or pages, that a medium or a node failed to read: nothing is known of them.
    pub unread: Vec<Damage>,
}

/// A table that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedTable {
    /// Its name.
    pub name: String,
    /// Of a paged table its rows; of others the rows that were decoded: in the checkpoints and in the log, also those that
    /// later ones replace.
    pub rows: u64,
    /// Of a paged table its pages that are whole.
    pub pages: Option<u64>,
    /// Damages of its rows or page files.
    pub damaged: u64,
}

impl Verification {
    /// Whether all is as it was written.
    pub fn is_sound(&self) -> bool {
        self.engine.is_sound() && self.damages.is_empty() && self.unread.is_empty()
    }

    /// Every damage.
    pub fn all_damages(&self) -> impl Iterator<Item = &Damage> {
        self.engine.damages.iter().chain(&self.damages)
    }

    /// All that could not be read.
    pub fn all_unread(&self) -> impl Iterator<Item = &Damage> {
        self.engine.unread.iter().chain(&self.unread)
    }
}

/// Reads and checks the database in `tables`, whose log lies in `log`. Both are locked by the caller. Nothing is written.
/// `progress` counts the bytes of the log.
///
/// # Errors
///
/// If a directory can not be listed, or this process may not read a file. Damage is no error, and neither is what a medium or a
/// node fails to read.
pub fn verify(tables: &dyn Directory, log: &dyn Directory, progress: &Progress) -> Result<Verification> {
    let definitions = Definitions::read(tables, log)?;
    let mut checks: BTreeMap<TableId, RowCheck> =
        definitions.rows.iter().map(|(&id, table)| (id, RowCheck::new(Arc::clone(table)))).collect();
    let engine = ishigaki_txn::verify_rows(tables, log, progress, |table, key, value| {
        if let Some(check) = checks.get_mut(&table) {
            check.take(key, value);
        }
    })?;
    let mut found = Verification {
        engine,
        tables: Vec::new(),
        views: definitions.view_names(),
        damages: Vec::new(),
        unread: Vec::new(),
    };
    let mut damage = |file: &str, what: String| {
        found.damages.push(Damage { file: file.to_owned(), offset: None, what });
    };
    for (name, why) in &definitions.unreadable {
        damage("the catalog", format!("table {name}: {why}"));
    }
    for (name, why) in &definitions.unreadable_views {
        damage("the catalog", format!("view {name}: {why}"));
    }
    for (view, what) in definitions.broken_views() {
        damage("the catalog", format!("view {view} reads {what}"));
    }
    for (id, table) in &definitions.rows {
        let engine = definitions.engine.iter().find(|(other, _)| other == id).and_then(|(_, name)| name.as_deref());
        if engine != Some(rows_of(table.name()).as_str()) {
            damage(
                "the catalog",
                format!("table {}: its rows are to be in table {id}, which is not theirs", table.name()),
            );
        }
    }
    for check in checks.into_values() {
        let (table, damages) = check.finish();
        found.tables.push(table);
        found.damages.extend(damages);
    }
    for table in &definitions.paged {
        let mut checked = VerifiedTable { name: table.name().to_owned(), rows: 0, pages: Some(0), damaged: 0 };
        for location in table.pages().into_iter().flat_map(|paged| &paged.locations) {
            let faults = match file(table, location, definitions.state(table, location), &mut checked) {
                Ok(faults) => faults,
                Err(error) => {
                    let is_unread = match fault_of(&error) {
                        ReadFault::Damage => false,
                        ReadFault::Medium => true,
                        ReadFault::Refusal => return Err(error),
                    };
                    let file = format!("{}/{}", location.place, table.name());
                    vec![(Damage { file, offset: None, what: error.to_string() }, is_unread)]
                }
            };
            for (damage, is_unread) in faults {
                if is_unread {
                    found.unread.push(damage);
                } else {
                    checked.damaged += 1;
                    found.damages.push(damage);
                }
            }
        }
        found.tables.push(checked);
    }
    found.tables.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Reads a page file. What is wrong with it, and of each whether it only could not be read.
fn file(
    table: &Arc<TableDefinition>,
    location: &Location,
    noted: Option<State>,
    checked: &mut VerifiedTable,
) -> Result<Vec<(Damage, bool)>> {
    let directory = directory_of(table.name(), location)?;
    let survey = ishigaki_page::survey(&directory, table.name(), noted, |_| Ok(()))?;
    checked.rows += survey.rows;
    checked.pages = checked.pages.map(|pages| pages + survey.pages);
    // Whether its columns are the table's.
    match Reader::open(directory, table.name()) {
        Ok(reader) => {
            let (part, cache) = (Part::here(Arc::new(reader)), Arc::new(PageCache::new(ByteSize::default())));
            PagedTable::new(table.name(), table.schema(), vec![part], cache)?;
        }
        // The survey has read what this refuses.
        Err(_) if !survey.is_sound() => {}
        Err(error) => return Err(error.into()),
    }
    let damage = |damage: ishigaki_page::FileDamage| {
        let what = match damage.pages {
            Some((first, last)) if first < last => format!("pages {first} to {last}: {}", damage.what),
            Some((page, _)) => format!("page {page}: {}", damage.what),
            None => damage.what,
        };
        let file = format!("{}/{}", location.place, damage.device);
        (Damage { file, offset: damage.offset, what }, damage.is_unread)
    };
    Ok(survey.damages.into_iter().map(damage).collect())
}

/// Decodes the rows of one table.
struct RowCheck {
    table: Arc<TableDefinition>,
    decoder: RowDecoder,
    rows: u64,
    damaged: u64,
    damages: Vec<Damage>,
}

impl RowCheck {
    fn new(table: Arc<TableDefinition>) -> Self {
        let decoder = RowDecoder::new(Arc::clone(&table), None);
        Self { table, decoder, rows: 0, damaged: 0, damages: Vec::new() }
    }

    fn take(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        if let Err(error) = self.decoder.push(key, value) {
            // It is of no use after an error; the rows before were sound one by one.
            self.decoder = RowDecoder::new(Arc::clone(&self.table), None);
            self.lose(&format!("key {}: {}", key::describe(&self.table, key), reason(&error)));
        }
        if self.decoder.len() >= ROWS {
            self.close();
        }
    }

    fn close(&mut self) {
        if let Err(error) = self.decoder.finish() {
            self.lose(&reason(&error));
        }
    }

    fn lose(&mut self, what: &str) {
        self.damaged += 1;
        if self.damaged <= NAMED {
            let file = format!("table {}", self.table.name());
            self.damages.push(Damage { file, offset: None, what: what.to_owned() });
        }
    }

    fn finish(mut self) -> (VerifiedTable, Vec<Damage>) {
        self.close();
        let name = self.table.name().to_owned();
        if self.damaged > NAMED {
            let what = format!("{} more rows can not be read", self.damaged - NAMED);
            self.damages.push(Damage { file: format!("table {name}"), offset: None, what });
        }
        let (rows, damaged) = (self.rows - self.damaged.min(self.rows), self.damaged);
        (VerifiedTable { name, rows, pages: None, damaged }, self.damages)
    }
}

fn reason(error: &Error) -> String {
    match error {
        Error::Corrupt { what } => what.clone(),
        other => other.to_string(),
    }
}
