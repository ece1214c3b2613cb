//! Where a new database's page files lie, and the new catalog that says so.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ishigaki_device::{Directory, FileDirectory};
use ishigaki_txn::Unfinished;

use super::definitions::Definitions;
use crate::catalog::{Catalog, forget_all};
use crate::table::{Location, Paged, TableDefinition};
use crate::{Error, Result};

/// Files of which each database has one.
const FILES: [&str; 3] = ["wal-control", "checkpoint", "log-place"];

/// The folder of page files in a database's own.
const FOLDER: &str = "pages";

/// Where a new database is made.
#[derive(Clone, Debug)]
pub struct Target {
    /// The directory, which is empty.
    pub directory: Arc<dyn Directory>,
    /// The same as a folder of this machine's file system, if it is one: page files lie in a folder `pages` in it.
    pub path: Option<PathBuf>,
}

impl Target {
    /// A folder of this machine, made if it is not there.
    ///
    /// # Errors
    ///
    /// If it lies in a database's directory, where the database would take its files for its own; and what the file system says.
    pub fn folder(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        if let Some(database) = database_around(&path) {
            let reason = format!(
                "lies in {}, which is the directory of a database; name a directory outside of it",
                database.display()
            );
            return Err(Error::File { path, reason, source: None });
        }
        let directory = FileDirectory::open(&path).map_err(ishigaki_txn::Error::from)?;
        Ok(Self { directory: Arc::new(directory), path: Some(path) })
    }

    /// Whether a database can be made there. Nothing is made.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(folder) = self.path.as_ref().map(|path| path.join(FOLDER)).filter(|folder| folder.exists()) {
            let reason = "is in the way: a database is made in an empty directory; name another one".to_owned();
            return Err(Error::File { path: folder, reason, source: None });
        }
        Ok(Unfinished::check(self.directory.as_ref())?)
    }

    /// Begins a database there.
    pub(super) fn begin(&self) -> Result<Unfinished> {
        self.check()?;
        Ok(Unfinished::begin(self.directory.clone())?)
    }
}

/// The directory above a path that has a database's files, if one has.
fn database_around(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    // Links in the part that is there lead elsewhere.
    let there = path.ancestors().find(|part| part.exists())?;
    let is_itself = there == path;
    let there = there.canonicalize().ok()?;
    let is_database = |folder: &&Path| FILES.iter().any(|name| folder.join(name).is_file());
    there.ancestors().skip(usize::from(is_itself)).find(is_database).map(Path::to_owned)
}

/// The new place of each page file.
#[derive(Debug)]
pub(super) struct Places {
    folder: Option<PathBuf>,
    /// Old places, each with its new one.
    places: HashMap<String, String>,
}

impl Places {
    pub(super) fn new(target: &Target) -> Self {
        Self { folder: target.path.as_ref().map(|path| path.join(FOLDER)), places: HashMap::new() }
    }

    /// Where the files of an old place go, in a place of their own.
    pub(super) fn directory(&mut self, table: &str, location: &Location) -> Result<Arc<dyn Directory>> {
        let Some(folder) = &self.folder else {
            let what = format!("page files of table {table} in a database that is no folder of this machine");
            return Err(Error::unsupported(what, "name a directory with --to"));
        };
        let folder = std::path::absolute(folder).map_err(|error| Error::file(folder, error))?;
        let next = self.places.len() + 1;
        let place = if let Some(place) = self.places.get(&location.place) {
            place.clone()
        } else {
            let path = folder.join(next.to_string()).into_os_string().into_string();
            path.map_err(|path| Error::File {
                path: path.into(),
                reason: "the path is not UTF-8, which a catalog can not hold; name another directory".to_owned(),
                source: None,
            })?
        };
        let directory = FileDirectory::open(&place).map_err(ishigaki_txn::Error::from)?;
        self.places.insert(location.place.clone(), place);
        Ok(Arc::new(directory))
    }

    /// The new place of an old one.
    pub(super) fn of(&self, location: &Location) -> Option<&str> {
        self.places.get(&location.place).map(String::as_str)
    }

    /// Opens the new database, which checks it, and writes the new places into its catalog. Of one that was salvaged, no hidden
    /// row id below `salvaged` is given out, and nothing is noted of its page files, which were made anew.
    pub(super) fn settle(
        &self,
        unfinished: &Unfinished,
        settings: &ishigaki_txn::Settings,
        definitions: &Definitions,
        salvaged: Option<u64>,
    ) -> Result<()> {
        let mut settings = settings.clone();
        settings.checkpoint.automatic = false;
        let database = unfinished.open(settings)?;
        let session = database.session();
        let (paged, row_ids) = (&definitions.paged, salvaged.unwrap_or(0));
        if !paged.is_empty() || row_ids > 0 {
            let catalog = Catalog::open(&session)?;
            if salvaged.is_some() {
                catalog.forget_states(&definitions.states.keys().cloned().collect::<Vec<_>>())?;
            }
            session.run(|txn| {
                catalog.reserve_row_ids(txn, row_ids)?;
                paged.iter().try_for_each(|table| catalog.replace(txn, &self.moved(table)?))
            })?;
        }
        // They are of the other database's files.
        forget_all(&session)?;
        drop(session);
        Ok(database.close()?)
    }

    fn moved(&self, table: &TableDefinition) -> Result<TableDefinition> {
        let page_size = table.pages().map(|paged| paged.page_size).unwrap_or_default();
        let locations = table.pages().into_iter().flat_map(|paged| &paged.locations);
        let moved = |location| self.of(location).map(|place| Location { place: place.to_owned(), existing: false });
        let paged = Paged { page_size, locations: locations.filter_map(moved).collect() };
        TableDefinition::paged(table.name().to_owned(), table.columns().to_vec(), paged)
    }
}
