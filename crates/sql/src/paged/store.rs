//! Page files of a database's tables: opening, making and removing them. One for each open database.
//!
//! Readers are kept: who looks at a table again reads only the manifests, and of segments what is new.

use std::collections::HashMap;
use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_device::{Access, Directory, FileDirectory};
use ishigaki_page::{Reader, Settings, Writer};
use ishigaki_scan::{PageCache, PagedTable, Part, Placement};
use parking_lot::Mutex;

use super::Appender;
use crate::table::{Location, Paged, TableDefinition};
use crate::{Error, Result};

/// A page file: the place of its directory, and its name.
pub(super) type Key = (String, String);

/// The one who appends to a file, while nobody does.
pub(super) type Idle = Arc<Mutex<Option<Writer>>>;

/// All page files that were opened.
#[derive(Debug)]
pub(crate) struct Store {
    cache: Arc<PageCache>,
    readers: Mutex<HashMap<Key, Arc<Reader>>>,
    writers: Mutex<HashMap<Key, Idle>>,
}

impl Store {
    /// Keeps pages of up to so many bytes in memory.
    pub(crate) fn new(memory: ByteSize) -> Self {
        let cache = Arc::new(PageCache::new(memory));
        Self { cache, readers: Mutex::default(), writers: Mutex::default() }
    }

    /// A table as it is now.
    pub(crate) fn open(&self, table: &TableDefinition, paged: &Paged) -> Result<PagedTable> {
        let readers = paged.locations.iter().map(|location| self.reader(table, location));
        let parts = readers.map(|reader| Ok(Part { reader: reader?, placement: Placement::Local }));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        Ok(PagedTable::new(table.name(), table.schema(), parts, Arc::clone(&self.cache))?)
    }

    fn reader(&self, table: &TableDefinition, location: &Location) -> Result<Arc<Reader>> {
        let key = (location.place.clone(), table.name().to_owned());
        let known = self.readers.lock().get(&key).cloned();
        let opened = match known {
            Some(reader) => reader.refreshed(),
            None => directory(location).and_then(|directory| Reader::open(directory, table.name())),
        };
        let reader = Arc::new(opened.map_err(|source| at(table.name(), location, source))?);
        self.readers.lock().insert(key, Arc::clone(&reader));
        Ok(reader)
    }

    /// Makes the files of a new table, empty; or finds those that are to be there. What was made before a failure is
    /// removed again.
    pub(crate) fn prepare(&self, table: &TableDefinition, paged: &Paged) -> Result<()> {
        for (position, location) in paged.locations.iter().enumerate() {
            let prepared = if location.existing {
                let found = directory(location).and_then(|directory| Reader::open(directory, table.name()));
                found.and_then(|reader| {
                    let part = Part { reader: Arc::new(reader), placement: Placement::Local };
                    PagedTable::new(table.name(), table.schema(), vec![part], Arc::clone(&self.cache)).map(drop)
                })
            } else {
                make(table, paged, location)
            };
            if let Err(source) = prepared {
                let before = Paged { locations: paged.locations[..position].to_vec(), ..paged.clone() };
                self.remove(table.name(), &before);
                return Err(at(table.name(), location, source));
            }
        }
        Ok(())
    }

    /// Begins an append to the file that has the fewest rows.
    pub(crate) fn append(&self, table: &TableDefinition, paged: &Paged) -> Result<Appender> {
        let mut emptiest: Option<(u64, &Location)> = None;
        for location in &paged.locations {
            let rows = self.reader(table, location)?.rows();
            if emptiest.is_none_or(|(least, _)| rows < least) {
                emptiest = Some((rows, location));
            }
        }
        let Some((_, location)) = emptiest else {
            return Err(Error::corrupt(format!("table {} has no location", table.name())));
        };
        let key = (location.place.clone(), table.name().to_owned());
        let idle = Arc::clone(self.writers.lock().entry(key).or_default());
        let directory = directory(location).map_err(|source| at(table.name(), location, source))?;
        Appender::begin(directory, table.name(), location, idle)
    }

    /// Removes the files that were made for a table; those that were there before it stay. Whoever reads them goes on.
    /// Nobody is there to be told of a failure, so the log is.
    pub(crate) fn remove(&self, table: &str, paged: &Paged) {
        for location in &paged.locations {
            let key = (location.place.clone(), table.to_owned());
            self.readers.lock().remove(&key);
            let idle = self.writers.lock().remove(&key);
            // Lets go of the lock on the file.
            let writer = idle.map(|idle| idle.lock().take());
            drop(writer);
            if location.existing {
                tracing::info!(%table, place = %location.place, "the page file stays: it was there before the table");
                continue;
            }
            match directory(location).and_then(|directory| ishigaki_page::remove(directory.as_ref(), table)) {
                Ok(()) => tracing::info!(%table, place = %location.place, "the page file was removed"),
                Err(error) => {
                    tracing::warn!(%table, place = %location.place, %error, "the page file can not be removed; remove it by hand");
                }
            }
        }
    }
}

/// A directory that is there.
fn directory(location: &Location) -> ishigaki_page::Result<Arc<dyn Directory>> {
    Ok(Arc::new(FileDirectory::confined(&location.place, Access::ReadWrite)?))
}

fn make(table: &TableDefinition, paged: &Paged, location: &Location) -> ishigaki_page::Result<()> {
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(&location.place)?);
    let settings = Settings { page_size: paged.page_size, ..Settings::default() };
    Writer::create(directory, table.name(), Arc::clone(table.schema()), settings).map(drop)
}

/// An error with the place where it happened.
pub(super) fn at(table: &str, location: &Location, source: ishigaki_page::Error) -> Error {
    Error::Location { table: table.to_owned(), place: location.place.clone(), source }
}
