//! The benchmark's tables, opened: here, or at a storage node that serves the same page files.

use std::path::Path;
use std::sync::Arc;

use ishigaki_device::{FileDirectory, MemoryDirectory};
use ishigaki_remote::Location;
use ishigaki_scan::Wish;
use ishigaki_sql::arrow::array::{AsArray, RecordBatch};
use ishigaki_sql::{Database, Session};

use crate::answer::Answer;
use crate::{Error, Query, Result, Rows, Settings, Table};

/// The benchmark's database, opened.
#[derive(Debug)]
pub struct Bench {
    database: Database,
    session: Session,
    /// As it was said when the data were loaded.
    scale: String,
    page_size: String,
}

impl Bench {
    /// Opens what was loaded.
    pub fn open(data: &Path, settings: Option<&Settings>) -> Result<Self> {
        let not_loaded = || Error::NotLoaded { path: data.to_owned() };
        if !data.join("database").is_dir() {
            return Err(not_loaded());
        }
        let database = Self::database(data, settings)?;
        let session = database.session();
        let scale = Self::scale_of(&session)?.ok_or_else(not_loaded)?;
        let page_size = word(&session.query_blocking("SELECT page_size FROM tpch_load")?).ok_or_else(not_loaded)?;
        Ok(Self { database, session, scale, page_size })
    }

    /// The same tables with their page files at a node: a database in memory, which is gone with this.
    pub fn at_node(&self, node: &Location, wish: Wish, settings: &Settings) -> Result<Self> {
        let directory = Arc::new(MemoryDirectory::new());
        let database = Database::open_in(directory, &own(Some(settings)), &ishigaki_wal::Progress::default())?;
        let session = database.session();
        let place = node.to_string().replace('\'', "''");
        for table in Table::ALL {
            session.execute_blocking(&format!(
                "CREATE TABLE {} ({}) WITH (storage = 'paged', location = '{place}', page_size = '{}', existing = true)",
                table.name(),
                table.columns(),
                self.page_size
            ))?;
        }
        session.execute_blocking(&format!("SET ishigaki.placement = '{wish}'"))?;
        Ok(Self { database, session, scale: self.scale.clone(), page_size: self.page_size.clone() })
    }

    pub(crate) fn database(data: &Path, settings: Option<&Settings>) -> Result<Database> {
        // Made here, since a database makes only its own folder.
        drop(FileDirectory::open(data)?);
        Ok(Database::open(data.join("database"), own(settings))?)
    }

    pub(crate) fn scale_of(session: &Session) -> Result<Option<String>> {
        match session.query_blocking("SELECT scale FROM tpch_load") {
            Ok(rows) => Ok(word(&rows)),
            Err(ishigaki_sql::Error::NoSuchTable { .. } | ishigaki_sql::Error::Plan { .. }) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// The scale of the data, as it was said when they were loaded.
    pub fn scale(&self) -> &str {
        &self.scale
    }

    /// The size of their pages, as it was said.
    pub fn page_size(&self) -> &str {
        &self.page_size
    }

    /// Runs a query once.
    pub fn rows(&self, query: Query) -> Result<Vec<RecordBatch>> {
        let of_query = |source| Error::Query { query: query.number(), source };
        self.session.query_blocking(&self.text(query)).map_err(of_query)
    }

    /// Runs a query once and sums its answer up.
    pub fn answer(&self, query: Query) -> Result<Answer> {
        Answer::of(&self.rows(query)?).map_err(|error| Error::Query { query: query.number(), source: error.into() })
    }

    /// Where the scans of a query would be done now: `fetch`, `push`, or both in the order of their names.
    pub fn placements(&self, query: Query) -> Result<String> {
        let plan = self.session.query_blocking(&format!("EXPLAIN {}", self.text(query)));
        let plan = plan.map_err(|source| Error::Query { query: query.number(), source })?;
        let plan = format!("{:?}", Rows::of(&plan).map_err(ishigaki_sql::Error::from)?);
        let found = ["fetch", "local", "push"].into_iter().filter(|name| plan.contains(&format!("placement={name}")));
        Ok(found.collect::<Vec<_>>().join("+"))
    }

    /// How many pieces of work the node has refused so far.
    pub fn refused(&self) -> u64 {
        self.database.refused_work()
    }

    /// A query's text for these data.
    pub fn text(&self, query: Query) -> String {
        query.text(self.scale.parse().unwrap_or(1.0))
    }
}

fn own(settings: Option<&Settings>) -> ishigaki_sql::Settings {
    let mut own = ishigaki_sql::Settings::default();
    if let Some(settings) = settings {
        own.threads = settings.threads;
        own.page_memory = settings.page_memory.unwrap_or(own.page_memory);
    }
    own
}

/// The text in the first row and column.
fn word(rows: &[RecordBatch]) -> Option<String> {
    let column = rows.first().filter(|rows| rows.num_rows() > 0)?.column(0);
    Some(column.as_string_view_opt()?.value(0).to_owned())
}
