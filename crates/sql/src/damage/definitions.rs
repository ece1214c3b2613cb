//! The table definitions of a database that is not open.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use ishigaki_device::Directory;
use ishigaki_page::State;
use ishigaki_txn::{Progress, Salvage, TableId};

use crate::catalog::{self, CATALOG, PAGE_STATES, Relation, States, VIEWS};
use crate::table::{Location, TableDefinition};
use crate::view::ViewDefinition;
use crate::{Error, Result};

/// The engine's table of the names of tables.
const NAMES: TableId = TableId(0);

/// What the catalog says.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// The engine's table of definitions.
    pub(super) catalog: Option<TableId>,
    /// Tables of rows, by the engine's table of their rows.
    pub(super) rows: BTreeMap<TableId, Arc<TableDefinition>>,
    pub(super) paged: Vec<Arc<TableDefinition>>,
    /// What is noted of page files.
    pub(super) states: States,
    /// The engine's table of views.
    pub(super) catalog_of_views: Option<TableId>,
    pub(super) views: Vec<Arc<ViewDefinition>>,
    /// Names of tables with definitions that can not be read, and why.
    pub(super) unreadable: Vec<(String, String)>,
    /// The same of views.
    pub(super) unreadable_views: Vec<(String, String)>,
    /// All tables of the engine.
    pub(super) engine: Vec<(TableId, Option<String>)>,
}

impl Definitions {
    /// Reads the catalog of a database, and keeps no other row in memory.
    pub(super) fn read(tables: &dyn Directory, log: &dyn Directory) -> Result<Self> {
        // The tables that a database gets first; one that is older than views or than notes of page files has them later, and
        // other tables there.
        let first = [1, 4, 5].map(|number| TableId(NAMES.0 + number));
        let read = |wanted: [TableId; 3]| {
            Salvage::read_some(tables, log, &Progress::default(), |table| wanted.contains(&table))
        };
        let salvage = read(first)?;
        let all = salvage.tables();
        let mut found = first;
        for (name, found) in [CATALOG, VIEWS, PAGE_STATES].into_iter().zip(&mut found) {
            *found = named(&all, name).unwrap_or(*found);
        }
        if found == first { Ok(Self::of(&salvage)) } else { Ok(Self::of(&read(found)?)) }
    }

    /// Those among the rows that were read. A catalog that has lost its name is known by its rows.
    pub(super) fn of(salvage: &Salvage) -> Self {
        let engine = salvage.tables();
        let nameless = |is_row: &dyn Fn(&[u8], &[u8]) -> bool| {
            let is_it = |id: TableId| {
                let mut rows = salvage.scan(id, Bound::Unbounded).peekable();
                rows.peek().is_some() && rows.all(|(name, value)| is_row(name, value))
            };
            engine.iter().find(|(id, name)| name.is_none() && is_it(*id)).map(|(id, _)| *id)
        };
        let of_tables = || nameless(&|name, value| catalog::decode(name, value).is_ok());
        let of_views = || nameless(&|name, value| catalog::decode_view(name, value).is_ok());
        let mut found = Self {
            catalog: named(&engine, CATALOG).or_else(of_tables),
            catalog_of_views: named(&engine, VIEWS).or_else(of_views),
            ..Self::default()
        };
        for (name, value) in found.catalog.iter().flat_map(|&id| salvage.scan(id, Bound::Unbounded)) {
            match catalog::decode(name, value) {
                Ok(table) if table.pages().is_some() => found.paged.push(Arc::new(table)),
                Ok(table) => drop(found.rows.insert(table.id(), Arc::new(table))),
                Err(error) => found.unreadable.push(lost(name, &error)),
            }
        }
        for (name, value) in found.catalog_of_views.iter().flat_map(|&id| salvage.scan(id, Bound::Unbounded)) {
            match catalog::decode_view(name, value) {
                Ok(view) => found.views.push(Arc::new(view)),
                Err(error) => found.unreadable_views.push(lost(name, &error)),
            }
        }
        // One that can not be read says nothing: a page file is known by its own words then.
        let states = named(&engine, PAGE_STATES).into_iter().flat_map(|id| salvage.scan(id, Bound::Unbounded));
        found.states = states.filter_map(|(key, value)| catalog::decode_state(key, value)).collect();
        found.engine = engine;
        found
    }

    /// What is noted of the page file that a table has in a location.
    pub(super) fn state(&self, table: &TableDefinition, location: &Location) -> Option<State> {
        let position = table.pages()?.locations.iter().position(|other| other == location)?;
        self.states.get(&(table.name().to_owned(), position as u16)).copied()
    }

    /// The names of the views that can be read.
    pub(super) fn view_names(&self) -> Vec<String> {
        self.views.iter().map(|view| view.name().to_owned()).collect()
    }

    /// The views that read what is not there, or has other columns than it had, each with that.
    pub(super) fn broken_views(&self) -> Vec<(String, String)> {
        let tables = self.rows.values().chain(&self.paged);
        let tables = tables.map(|table| (table.name(), Relation::Table(Arc::clone(table))));
        let views = self.views.iter().map(|view| (view.name(), Relation::View(Arc::clone(view))));
        let relations: HashMap<&str, Relation> = tables.chain(views).collect();
        let mut broken = Vec::new();
        for view in &self.views {
            for base in view.bases() {
                let why = match relations.get(base.name.as_str()) {
                    None => "is not there",
                    Some(relation) if base.fits(relation) => continue,
                    Some(_) => "has other columns than when the view was made",
                };
                let list: Vec<String> = base.columns.iter().map(|(name, of)| format!("{name} {of}")).collect();
                broken.push((view.name().to_owned(), format!("{} ({}), which {why}", base.name, list.join(", "))));
            }
        }
        broken
    }

    /// What people call a table of the engine.
    pub(super) fn name(&self, id: TableId) -> String {
        if let Some(table) = self.rows.get(&id) {
            return format!("table {}", table.name());
        }
        if id == NAMES {
            return "the names of tables".to_owned();
        }
        if self.catalog == Some(id) {
            return "the catalog".to_owned();
        }
        if self.catalog_of_views == Some(id) {
            return "the catalog of views".to_owned();
        }
        let name = self.engine.iter().find(|(other, _)| *other == id).and_then(|(_, name)| name.clone());
        name.map_or_else(|| format!("table {id} of the engine"), |name| format!("table {name} of the engine"))
    }

    /// The page files of all paged tables.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Arc<TableDefinition>, &Location)> {
        self.paged.iter().flat_map(|table| {
            table
                .pages()
                .into_iter()
                .flat_map(move |paged| paged.locations.iter().map(move |location| (table, location)))
        })
    }
}

/// A name whose definition can not be read.
fn lost(name: &[u8], error: &Error) -> (String, String) {
    (String::from_utf8_lossy(name).into_owned(), error.to_string())
}

fn named(tables: &[(TableId, Option<String>)], wanted: &str) -> Option<TableId> {
    tables.iter().find(|(_, name)| name.as_deref() == Some(wanted)).map(|(id, _)| *id)
}
