//! The initial population as statements, the same rows that the transaction engine is filled with.

use std::fmt::Write as _;

use ishigaki_servers::Kind;

use super::rows::{InSql, Place};
use crate::oltp::Stop;
use crate::tpcc::{Company, load};

/// Rows of one statement.
const ROWS: usize = 200;

const SCHEMA: &str = include_str!("schema.sql");
const OF_MARIADB: &str = include_str!("mariadb.sql");
const OF_POSTGRESQL: &str = include_str!("postgresql.sql");

/// What makes the tables and the transactions, and fills them.
pub(super) fn statements(company: &Company, kind: Kind) -> Result<String, Stop> {
    let mut script = Script { text: SCHEMA.to_owned() + "begin;\n", tables: Vec::new() };
    load::pour(&mut script, company.scale, company.warehouses.get(), company.seed)?;
    let Script { mut text, mut tables } = script;
    for table in &mut tables {
        table.write(&mut text);
    }
    text.push_str("commit;\n");
    text.push_str(match kind {
        Kind::MariaDb => OF_MARIADB,
        Kind::PostgreSql => OF_POSTGRESQL,
    });
    Ok(text)
}

/// Rows on their way into statements.
struct Script {
    text: String,
    tables: Vec<Rows>,
}

/// Those of a table that are in no statement yet.
struct Rows {
    table: &'static str,
    rows: Vec<String>,
}

impl Rows {
    fn write(&mut self, text: &mut String) {
        if !self.rows.is_empty() {
            let _ = writeln!(text, "insert into {} values ({});", self.table, self.rows.join("), ("));
            self.rows.clear();
        }
    }
}

impl load::Sink for Script {
    fn add<R: InSql>(&mut self, key: &R::Key, row: &R) -> Result<(), Stop> {
        let Some(Place { table, .. }) = R::PLACE else { return Ok(()) };
        let place = self.tables.iter().position(|rows| rows.table == table).unwrap_or_else(|| {
            self.tables.push(Rows { table, rows: Vec::new() });
            self.tables.len() - 1
        });
        let rows = &mut self.tables[place];
        rows.rows.push(R::values(key, row));
        if rows.rows.len() >= ROWS {
            rows.write(&mut self.text);
        }
        Ok(())
    }
}
