//! Page files of a database's tables: opening, making and removing them. One for each open database.
//!
//! Readers are kept: who looks at a table again reads only the manifests, and of segments what is new. Where the node that
//! has a file was started again meanwhile, the first request finds its connection lost; then it is opened once more.

use std::collections::HashMap;
use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, ErrorKind};
use ishigaki_page::{Reader, RestingWriter, Settings, State, Writer};
use ishigaki_scan::{PageCache, PagedTable, Part};
use parking_lot::Mutex;

use super::Appender;
use super::sites::{self, Site, Sites};
use crate::catalog::{PageFile, Place, States};
use crate::table::{Location, Paged, TableDefinition};
use crate::{Error, Result};

/// A page file: the place of its directory, and its name.
pub(super) type Key = (String, String);

/// The one who appends to a file, while nobody does.
pub(super) type Idle = Arc<Mutex<Option<RestingWriter>>>;

/// All page files that were opened.
#[derive(Debug)]
pub(crate) struct Store {
    cache: Arc<PageCache>,
    sites: Sites,
    readers: Mutex<HashMap<Key, Arc<Reader>>>,
    /// Which file each is, and how many appends it had when it was looked at last, or was noted to have.
    known: Mutex<HashMap<Key, State>>,
    writers: Mutex<HashMap<Key, Idle>>,
    /// Files whose fate hangs on a transaction that has not ended, and how many claim them.
    claimed: Arc<Mutex<HashMap<Key, usize>>>,
}

/// The page files of a table whose fate hangs on a transaction. Until this is dropped no other session makes or finds files of
/// those names there.
#[derive(Debug)]
pub(crate) struct Claims {
    claimed: Arc<Mutex<HashMap<Key, usize>>>,
    files: Vec<Claim>,
}

/// One of them.
#[derive(Debug)]
struct Claim {
    key: Key,
    /// What its identity is drawn from, if it is to be made.
    seed: Option<Seed>,
    /// The file's own, if it is to go with the transaction and could be looked at.
    identity: Option<u64>,
}

impl Claims {
    fn add(&mut self, key: Key) {
        *self.claimed.lock().entry(key.clone()).or_default() += 1;
        self.files.push(Claim { key, seed: None, identity: None });
    }

    /// The files that are or will be the database's own.
    pub(crate) fn own(&self) -> Vec<PageFile> {
        let own = |Claim { key: (place, name), identity, .. }: &Claim| {
            identity.map(|identity| PageFile { identity, place: place.clone(), name: name.clone() })
        };
        self.files.iter().filter_map(own).collect()
    }

    fn identity_at(&self, location: &Location) -> Option<u64> {
        self.files.iter().find(|claim| claim.key.0 == location.place)?.identity
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        let mut claimed = self.claimed.lock();
        for claim in &self.files {
            if let Some(count) = claimed.get_mut(&claim.key) {
                *count -= 1;
                if *count == 0 {
                    claimed.remove(&claim.key);
                }
            }
        }
    }
}

impl Store {
    /// Keeps pages of up to so many bytes in memory.
    pub(crate) fn new(memory: ByteSize) -> Self {
        let cache = Arc::new(PageCache::new(memory));
        let (readers, known) = (Mutex::default(), Mutex::default());
        let (writers, claimed) = (Mutex::default(), Arc::default());
        Self { cache, sites: Sites::default(), readers, known, writers, claimed }
    }

    /// Takes in what is known of a file; what comes later than that stays.
    pub(crate) fn learn(&self, table: &str, location: &Location, state: State) {
        let mut known = self.known.lock();
        let known = known.entry((location.place.clone(), table.to_owned())).or_insert(state);
        if known.identity == state.identity {
            known.appends = known.appends.max(state.appends);
        }
    }

    /// The same of a file that a new table has, whatever was known of one of its name.
    fn know(&self, key: &Key, state: State) {
        self.known.lock().insert(key.clone(), state);
    }

    /// What is known of a file.
    pub(crate) fn known(&self, table: &str, location: &Location) -> Option<State> {
        self.known.lock().get(&(location.place.clone(), table.to_owned())).copied()
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
        // Before the manifest is read: others may append meanwhile.
        let least = self.known(table.name(), location);
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
        if let Some(least) = least {
            let follows = reader.state().check(table.name(), least);
            follows.map_err(|source| at(table.name(), location, source))?;
        }
        self.learn(table.name(), location, reader.state());
        let reader = Arc::new(reader);
        self.readers.lock().insert(key, Arc::clone(&reader));
        Ok(reader)
    }

    /// Opens a file that was not open.
    fn find(&self, table: &TableDefinition, location: &Location) -> Result<Reader> {
        let directory = self.sites.to_read(table.name(), location)?;
        Reader::open(directory, table.name()).map_err(|source| at(table.name(), location, source))
    }

    /// Makes the files of a new table, which were claimed, empty; or finds those that are to be there. What was made before a
    /// failure is removed again, and `noted` files that are in the way before: no transaction has to do with those any more.
    pub(crate) fn prepare(
        &self,
        table: &TableDefinition,
        paged: &Paged,
        claims: &Claims,
        noted: &[PageFile],
    ) -> Result<()> {
        let own = claims.own();
        for left in noted.iter().filter(|left| left.name == table.name() && !own.contains(left)) {
            if let Some(location) = paged.locations.iter().find(|location| location.place == left.place) {
                remove_left(left, location)?;
            }
        }
        for (position, location) in paged.locations.iter().enumerate() {
            let prepared = match claims.files[position].seed {
                Some(seed) => {
                    make(table, paged, location, seed).map(|state| self.know(&claims.files[position].key, state))
                }
                None => self.find(table, location).and_then(|reader| {
                    self.know(&claims.files[position].key, reader.state());
                    let part = vec![Part::here(Arc::new(reader))];
                    PagedTable::new(table.name(), table.schema(), part, Arc::clone(&self.cache))
                        .map(drop)
                        .map_err(|source| at(table.name(), location, source))
                }),
            };
            if let Err(error) = prepared {
                let before = Paged { locations: paged.locations[..position].to_vec(), ..paged.clone() };
                self.known.lock().remove(&claims.files[position].key);
                self.remove(table.name(), &before, claims);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Claims the files of a new table, unless another transaction has one of them, and draws the identities of those that are
    /// to be made.
    pub(crate) fn claim(&self, table: &str, paged: &Paged) -> Result<Claims> {
        let mut claims = Claims { claimed: Arc::clone(&self.claimed), files: Vec::new() };
        for location in &paged.locations {
            let key = (location.place.clone(), table.to_owned());
            let mut claimed = self.claimed.lock();
            if claimed.contains_key(&key) && !claims.files.iter().any(|own| own.key == key) {
                let (table, place) = (table.to_owned(), location.place.clone());
                return Err(Error::Unsettled { table, place });
            }
            *claimed.entry(key.clone()).or_default() += 1;
            drop(claimed);
            let seed = (!location.existing).then(Seed::from_entropy);
            let identity = seed.map(|seed| settings_of(paged, seed).identity());
            claims.files.push(Claim { key, seed, identity });
        }
        Ok(claims)
    }

    /// Claims the files of a table that is dropped, and notes which ones they are.
    pub(crate) fn claim_dropped(&self, table: &str, paged: &Paged) -> Claims {
        let mut claims = Claims { claimed: Arc::clone(&self.claimed), files: Vec::new() };
        for location in &paged.locations {
            claims.add((location.place.clone(), table.to_owned()));
            if !location.existing {
                // One that can not be opened has no identity, and goes by its name.
                let opened = self.sites.to_read(table, location).ok().and_then(|place| Reader::open(place, table).ok());
                claims
                    .files
                    .last_mut()
                    .iter_mut()
                    .for_each(|claim| claim.identity = opened.as_ref().map(Reader::identity));
            }
        }
        claims
    }

    /// Begins an append to the file that has the fewest rows.
    pub(crate) fn append(&self, table: &TableDefinition, paged: &Paged) -> Result<Appender> {
        let mut emptiest: Option<(u64, usize, &Location)> = None;
        for (position, location) in paged.locations.iter().enumerate() {
            let rows = self.reader(table, location)?.rows();
            if emptiest.is_none_or(|(least, ..)| rows < least) {
                emptiest = Some((rows, position, location));
            }
        }
        let Some((_, position, location)) = emptiest else {
            return Err(Error::corrupt(format!("table {} has no location", table.name())));
        };
        let key = (location.place.clone(), table.name().to_owned());
        let idle = Arc::clone(self.writers.lock().entry(key).or_default());
        let known = self.known(table.name(), location);
        Appender::begin(table.name(), (position, location), idle, known)
    }

    /// Removes the files that were made for a table; those that were there before it stay, and their readers go on. The
    /// identities of those that are gone now. No caller can do anything about a failure, so the log is told.
    pub(crate) fn remove(&self, table: &str, paged: &Paged, claims: &Claims) -> Vec<u64> {
        let mut gone = Vec::new();
        for location in &paged.locations {
            let key = (location.place.clone(), table.to_owned());
            self.readers.lock().remove(&key);
            self.known.lock().remove(&key);
            let idle = self.writers.lock().remove(&key);
            // Waits for an append that is under way.
            let writer = idle.map(|idle| idle.lock().take());
            drop(writer);
            if location.existing {
                tracing::info!(%table, place = %location.place, "the page file stays: it was there before the table");
                continue;
            }
            let removed = sites::to_write(table, location).and_then(|directory| {
                let removed = match claims.identity_at(location) {
                    Some(identity) => ishigaki_page::remove_made(directory.as_ref(), table, identity),
                    None => ishigaki_page::remove(directory.as_ref(), table).map(|()| true),
                };
                removed.map_err(|source| at(table, location, source))
            });
            if removed.is_ok() {
                gone.extend(claims.identity_at(location));
            }
            match removed {
                Ok(false) => {
                    tracing::info!(%table, place = %location.place, "the page file stays: it is not the one that was made for the table");
                }
                Ok(true) => tracing::info!(%table, place = %location.place, "the page file was removed"),
                Err(error) => {
                    tracing::warn!(%table, place = %location.place, %error, "the page file can not be removed now; the next opening of the database tries again");
                }
            }
        }
        gone
    }
}

/// Looks at a table's files on this machine, of which `states` is noted, and removes what killed appends have left of those
/// that were made for it, where no other program appends now. Gives what is to be noted: files with more appends, and such of
/// which nothing was. At a node the next append does it: to connect could take long.
pub(crate) fn settle(store: &Store, table: &str, paged: &Paged, states: &States) -> Vec<(Place, State)> {
    let mut newer = Vec::new();
    for (position, location) in (0..).zip(&paged.locations) {
        let place = (table.to_owned(), position);
        let noted = states.get(&place).copied();
        if let Some(noted) = noted {
            store.learn(table, location, noted);
        }
        if !Site::of(table, location).is_ok_and(|site| !site.is_node()) {
            continue;
        }
        let settled = sites::to_write(table, location).and_then(|directory| {
            let state = ishigaki_page::durable_state(directory.as_ref(), table);
            let state = state.and_then(|state| {
                noted.map_or(Ok(()), |noted| state.check(table, noted))?;
                if !location.existing {
                    ishigaki_page::settle(directory.as_ref(), table, Some(state))?;
                }
                Ok(state)
            });
            state.map_err(|source| at(table, location, source))
        });
        match settled {
            Ok(state) if noted == Some(state) || (location.existing && noted.is_some()) => {}
            Ok(state) => {
                store.learn(table, location, state);
                newer.push((place, state));
            }
            Err(error) => {
                tracing::warn!(%table, place = %location.place, %error, "what appends have left is not looked for, and nothing removed");
            }
        }
    }
    newer
}

/// Removes files that are noted as no table's, where no other program appends now: what a process that was killed was about to
/// remove, or had made for nothing. The identities of those that are gone. At a node that is left to the next table of
/// that name: to connect could take long.
pub(crate) fn remove_noted(noted: &[PageFile], tables: &[Arc<TableDefinition>]) -> Vec<u64> {
    let is_of_a_table = |file: &PageFile| {
        let own = tables.iter().find(|table| table.name() == file.name).and_then(|table| table.pages());
        own.is_some_and(|paged| {
            paged.locations.iter().any(|location| !location.existing && location.place == file.place)
        })
    };
    let mut gone = Vec::new();
    for file in noted {
        let location = Location { place: file.place.clone(), existing: false };
        if is_of_a_table(file) {
            gone.push(file.identity);
        } else if Site::of(&file.name, &location).is_ok_and(|site| !site.is_node()) {
            match remove_left(file, &location) {
                Ok(()) => gone.push(file.identity),
                Err(error) => {
                    tracing::warn!(table = %file.name, place = %file.place, %error, "a page file of no table can not be removed now");
                }
            }
        }
    }
    gone
}

/// Removes a file of no table.
fn remove_left(file: &PageFile, location: &Location) -> Result<()> {
    let directory = sites::to_write(&file.name, location)?;
    let removed = ishigaki_page::remove_made(directory.as_ref(), &file.name, file.identity);
    if removed.map_err(|source| at(&file.name, location, source))? {
        tracing::info!(table = %file.name, place = %file.place, "a page file of no table was removed");
    }
    Ok(())
}

fn settings_of(paged: &Paged, seed: Seed) -> Settings {
    Settings { page_size: paged.page_size, seed, ..Settings::default() }
}

/// Makes a file.
fn make(table: &TableDefinition, paged: &Paged, location: &Location, seed: Seed) -> Result<State> {
    let directory = sites::to_make_in(table.name(), location)?;
    Writer::create(directory, table.name(), Arc::clone(table.schema()), settings_of(paged, seed))
        .map(|writer| writer.state())
        .map_err(|source| at(table.name(), location, source))
}

/// An error with the place where it happened.
pub(crate) fn at(table: &str, location: &Location, source: ishigaki_page::Error) -> Error {
    Error::Location { table: table.to_owned(), place: location.place.clone(), source }
}
