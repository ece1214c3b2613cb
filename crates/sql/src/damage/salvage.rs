//! Salvage with the catalog's names and the pages that can be read.

use std::ops::Bound;
use std::sync::Arc;

use ishigaki_device::{Directory, ReadFault};
use ishigaki_page::{Settings as PageSettings, State, Survey, Writer};
use ishigaki_txn::{Missing, Progress, Salvage, SalvageReport, TableId};

use super::definitions::Definitions;
use super::fault_of;
use super::pages::{Places, Target};
use crate::catalog::{CATALOG, ROWS, VIEWS, rows_of};
use crate::paged::directory_of;
use crate::table::{Location, TableDefinition};
use crate::{Error, Result, key};

/// What a salvage has saved, and what is missing.
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// Rows, damages, and what is missing, in the engine's words.
    pub engine: SalvageReport,
    /// The tables of rows, with how many rows they have.
    pub tables: Vec<(String, u64)>,
    /// Tables of the engine whose name or definition is lost: their rows are there, and SQL does not see them.
    pub nameless: Vec<(String, u64)>,
    /// Tables whose definitions can not be read, and why.
    pub unreadable: Vec<(String, String)>,
    /// The same of views.
    pub unreadable_views: Vec<(String, String)>,
    /// The views whose definitions were read.
    pub views: Vec<String>,
    /// Those among them that read what is not there or has other columns now, each with that and the columns that it had.
    pub broken_views: Vec<(String, String)>,
    /// Page files.
    pub pages: Vec<SalvagedPages>,
    /// What is missing of tables of rows, in words.
    pub missing: Vec<String>,
}

/// A page file of a paged table.
#[derive(Clone, Debug)]
pub struct SalvagedPages {
    /// The table.
    pub table: String,
    /// Where the file lay.
    pub from: String,
    /// Where its rows are now.
    pub to: String,
    /// What was read; or why nothing was.
    pub found: Result<Survey, String>,
    /// Nothing was read because a medium or a node failed: the file may be as it was.
    pub is_unread: bool,
}

impl Salvaged {
    /// Whether everything is there that was committed.
    pub fn is_complete(&self) -> bool {
        let is_whole = |pages: &SalvagedPages| {
            pages.found.as_ref().is_ok_and(|found| found.rows == found.expected_rows && found.is_sound())
        };
        self.engine.is_complete()
            && self.nameless.is_empty()
            && self.unreadable.is_empty()
            && self.unreadable_views.is_empty()
            && self.broken_views.is_empty()
            && self.pages.iter().all(is_whole)
    }

    /// Whether all that is missing could only not be read, by a medium or a node: no byte that was read is damaged.
    pub fn is_only_unread(&self) -> bool {
        let mut of_files = self.pages.iter().flat_map(|pages| pages.found.iter().flat_map(|found| &found.damages));
        let is_read = |pages: &SalvagedPages| pages.found.is_ok() || pages.is_unread;
        let is_sound = self.engine.damages.is_empty() && self.pages.iter().all(is_read);
        let is_unread = !self.engine.unread.is_empty()
            || self.engine.is_complete() && self.nameless.is_empty() && self.unreadable.is_empty();
        !self.is_complete() && is_sound && is_unread && of_files.all(|damage| damage.is_unread)
    }
}

/// Makes a new database of every row that can be read of the one in `tables`, whose log lies in `log`; both are locked by the
/// caller, and nothing is written there. Rows of paged tables are read page by page, and lie beside the new database.
///
/// All rows but those of paged tables are in memory meanwhile. `progress` counts the bytes of the log.
///
/// # Errors
///
/// If a directory can not be listed, or this process may not read a file; and what writing the new database fails with. Damage is no
/// error, and neither is what a medium or a node fails to read.
pub fn salvage(
    tables: &dyn Directory,
    log: &dyn Directory,
    to: &Target,
    settings: &ishigaki_txn::Settings,
    progress: &Progress,
) -> Result<Salvaged> {
    to.check()?;
    let mut salvage = Salvage::read(tables, log, progress)?;
    let definitions = Definitions::of(&salvage);
    for (table, location) in definitions.files() {
        let looked_at = directory_of(table.name(), location)
            .and_then(|directory| Ok(ishigaki_page::state(directory.as_ref(), table.name())?));
        if let Some(error) = looked_at.err().filter(|error| fault_of(error) == ReadFault::Refusal) {
            return Err(error);
        }
    }
    let unfinished = to.begin()?;
    name(&mut salvage, &definitions);
    let missing = salvage.report().missing.iter().map(|missing| words(missing, &definitions)).collect();
    let row_ids = definitions.rows.values().filter(|table| table.has_row_id());
    let row_ids = row_ids.filter_map(|table| last_row_id(&salvage, table.id())).max().map_or(0, |last| last + 1);
    let engine = salvage.write_into(&unfinished, settings, |_| ())?;
    let mut places = Places::new(to);
    let mut pages = Vec::new();
    for (table, location) in definitions.files() {
        let directory = places.directory(table.name(), location)?;
        let found = rows(table, location, definitions.state(table, location), directory)?;
        let is_unread = found.as_ref().is_err_and(|error| fault_of(error) == ReadFault::Medium);
        pages.push(SalvagedPages {
            table: table.name().to_owned(),
            from: location.place.clone(),
            to: places.of(location).unwrap_or_default().to_owned(),
            found: found.map_err(|error| error.to_string()),
            is_unread,
        });
    }
    places.settle(&unfinished, settings, &definitions, Some(row_ids))?;
    unfinished.finish()?;
    let of_rows = |table: &ishigaki_txn::SalvagedTable| {
        let known = definitions.rows.get(&table.id).map(|known| known.name().to_owned());
        let is_own = table.name.as_deref().is_some_and(|name| !name.starts_with(ROWS));
        (known, is_own, table.rows, table.name.clone().unwrap_or_else(|| format!("lost.table.{}", table.id.0)))
    };
    let (mut known, mut nameless) = (Vec::new(), Vec::new());
    for (name, is_own, rows, engine) in engine.tables.iter().map(of_rows) {
        match name {
            Some(name) => known.push((name, rows)),
            None if is_own => {}
            None => nameless.push((engine, rows)),
        }
    }
    let (views, broken_views) = (definitions.view_names(), definitions.broken_views());
    let Definitions { unreadable, unreadable_views, .. } = definitions;
    Ok(Salvaged { engine, tables: known, views, broken_views, nameless, unreadable, unreadable_views, pages, missing })
}

/// Gives tables that have lost their names those that the catalog has for them.
fn name(salvage: &mut Salvage, definitions: &Definitions) {
    for (id, name) in salvage.tables() {
        if name.is_some() {
            continue;
        }
        if definitions.catalog == Some(id) {
            salvage.name(id, CATALOG);
        } else if definitions.catalog_of_views == Some(id) {
            salvage.name(id, VIEWS);
        } else if let Some(table) = definitions.rows.get(&id) {
            salvage.name(id, &rows_of(table.name()));
        }
    }
}

fn last_row_id(salvage: &Salvage, table: TableId) -> Option<u64> {
    let (key, _) = salvage.scan(table, Bound::Unbounded).last()?;
    key.try_into().ok().map(u64::from_be_bytes)
}

/// Writes the rows of all whole pages of a file into a new one. The inner error is one of reading.
fn rows(
    table: &Arc<TableDefinition>,
    location: &Location,
    noted: Option<State>,
    to: Arc<dyn Directory>,
) -> Result<Result<Survey, Error>> {
    let page_size = table.pages().map(|paged| paged.page_size).unwrap_or_default();
    let settings = PageSettings { page_size, ..PageSettings::default() };
    let mut writer = Writer::create(to, table.name(), Arc::clone(table.schema()), settings)?;
    let from = match directory_of(table.name(), location) {
        Ok(from) => from,
        Err(error) => return Ok(Err(error)),
    };
    let mut append = writer.append()?;
    let mut failed = None;
    let found = ishigaki_page::survey(&from, table.name(), noted, |batch| {
        append.write(&batch).inspect_err(|error| failed = Some(error.to_string()))
    });
    if failed.is_some() {
        return Err(found.map(drop).err().map_or_else(|| Error::corrupt("pages could not be written"), Error::from));
    }
    append.commit()?;
    match found.map_err(Error::from) {
        Err(error) if fault_of(&error) == ReadFault::Refusal => Err(error),
        found => Ok(found),
    }
}

/// Which rows may be missing.
fn words(missing: &Missing, definitions: &Definitions) -> String {
    let key = |(table, key): &(TableId, Vec<u8>)| match definitions.rows.get(table) {
        Some(definition) => key::describe(definition, key),
        None => format!("\"{}\"", key.escape_ascii()),
    };
    let end = |place: &(TableId, Vec<u8>)| format!("{} of {}", key(place), definitions.name(place.0));
    let rows = match (&missing.after, &missing.before) {
        (Some(after), Some(before)) if after.0 == before.0 => {
            format!("rows of {} behind {} and before {}", definitions.name(after.0), key(after), key(before))
        }
        (Some(after), Some(before)) => format!("rows behind {}, up to those before {}", end(after), end(before)),
        (Some(after), None) => format!("rows behind {}, and those of all later tables", end(after)),
        (None, Some(before)) => format!("rows before {}, and those of all earlier tables", end(before)),
        (None, None) => "all rows of the checkpoint".to_owned(),
    };
    let partly = if missing.partly { "; the log has given back those that were written since" } else { "" };
    format!("{rows}{partly} ({})", missing.damage)
}
