//! Page files of a database's tables: opening, making and removing them. One for each open database.
//!
//! Readers are kept: who looks at a table again reads only the manifests, and of segments what is new. Where the node that
//! has a file was started again meanwhile, the first request finds its connection lost; then it is opened once more.

use std::collections::HashMap;
use std::sync::Arc;

use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_page::{Reader, Settings, Writer};
use ishigaki_scan::{PageCache, PagedTable, Part};
use parking_lot::Mutex;

use super::Appender;
use super::sites::{self, Sites};
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
    sites: Sites,
    readers: Mutex<HashMap<Key, Arc<Reader>>>,
    writers: Mutex<HashMap<Key, Idle>>,
}

impl Store {
    /// Keeps pages of up to so many bytes in memory.
    pub(crate) fn new(memory: ByteSize) -> Self {
        let cache = Arc::new(PageCache::new(memory));
        Self { cache, sites: Sites::default(), readers: Mutex::default(), writers: Mutex::default() }
    }

    /// How many pieces of work storage nodes have refused.
    pub(crate) fn refused_work(&self) -> u64 {
        self.sites.refused()
    }

    /// A table as it is now.
    pub(crate) fn open(&self, table: &TableDefinition, paged: &Paged) -> Result<PagedTable> {
        let part = |location| {
            let reader = self.reader(table, location)?;
            Ok(match self.sites.node(table.name(), location)? {
                Some(node) => Part::at_node(reader, node),
                None => Part::here(reader),
            })
        };
        let parts = paged.locations.iter().map(part).collect::<Result<Vec<_>>>()?;
        Ok(PagedTable::new(table.name(), table.schema(), parts, Arc::clone(&self.cache))?)
    }

    fn reader(&self, table: &TableDefinition, location: &Location) -> Result<Arc<Reader>> {
        let key = (location.place.clone(), table.name().to_owned());
        let known = self.readers.lock().get(&key).cloned();
        // Who connects only now has no connection that could be an old one.
        let is_known = self.sites.is_known(location);
        let found = match known {
            Some(reader) => reader.refreshed().map_err(|source| at(table.name(), location, source)),
            None => self.find(table, location),
        };
        let reader = match found {
            Err(error) if error.kind() == ErrorKind::Unavailable && is_known => {
                tracing::info!(place = %location.place, %error, "connecting anew");
                self.sites.forget(location);
                self.find(table, location)?
            }
            found => found?,
        };
        let reader = Arc::new(reader);
        self.readers.lock().insert(key, Arc::clone(&reader));
        Ok(reader)
    }

    /// Opens a file that was not open.
    fn find(&self, table: &TableDefinition, location: &Location) -> Result<Reader> {
        let directory = self.sites.to_read(table.name(), location)?;
        Reader::open(directory, table.name()).map_err(|source| at(table.name(), location, source))
    }

    /// Makes the files of a new table, empty; or finds those that are to be there. What was made before a failure is
    /// removed again.
    pub(crate) fn prepare(&self, table: &TableDefinition, paged: &Paged) -> Result<()> {
        for (position, location) in paged.locations.iter().enumerate() {
            let prepared = if location.existing {
                self.find(table, location).and_then(|reader| {
                    let part = vec![Part::here(Arc::new(reader))];
                    PagedTable::new(table.name(), table.schema(), part, Arc::clone(&self.cache))
                        .map(drop)
                        .map_err(|source| at(table.name(), location, source))
                })
            } else {
                make(table, paged, location)
            };
            if let Err(error) = prepared {
                let before = Paged { locations: paged.locations[..position].to_vec(), ..paged.clone() };
                self.remove(table.name(), &before);
                return Err(error);
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
        Appender::begin(table.name(), location, idle)
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
            let removed = sites::to_write(table, location).and_then(|directory| {
                ishigaki_page::remove(directory.as_ref(), table).map_err(|source| at(table, location, source))
            });
            match removed {
                Ok(()) => tracing::info!(%table, place = %location.place, "the page file was removed"),
                Err(error) => {
                    tracing::warn!(%table, place = %location.place, %error, "the page file can not be removed; remove it by hand");
                }
            }
        }
    }
}

fn make(table: &TableDefinition, paged: &Paged, location: &Location) -> Result<()> {
    let directory = sites::to_make_in(table.name(), location)?;
    let settings = Settings { page_size: paged.page_size, ..Settings::default() };
    Writer::create(directory, table.name(), Arc::clone(table.schema()), settings)
        .map(drop)
        .map_err(|source| at(table.name(), location, source))
}

/// An error with the place where it happened.
pub(super) fn at(table: &str, location: &Location, source: ishigaki_page::Error) -> Error {
    Error::Location { table: table.to_owned(), place: location.place.clone(), source }
}
