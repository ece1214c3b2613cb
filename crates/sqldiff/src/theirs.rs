//! The other side: Debian's `PostgreSQL`, as a process of this host's.

use std::io;
use std::path::Path;

use ishigaki_servers::{Kind, Running, Server};
use tempfile::TempDir;

use crate::value::{Answer, Class, Value};
use crate::wire::{Connection, Reply};
use crate::{Error, Result};

/// The database: its texts sort byte by byte, as ours do.
const DATABASE: &str = "sqldiff";

/// A server, and one connection to it.
#[derive(Debug)]
pub struct Theirs {
    // In this order they go.
    connection: Connection,
    _running: Running,
    _folder: TempDir,
}

impl Theirs {
    /// Makes a server and starts it. `Err(Error::Servers)` with what is missing where there can be none.
    pub fn start() -> Result<Self> {
        let user = Kind::PostgreSql.user()?;
        let folder = crate::folder()?;
        let data = user.folder(folder.path(), "data")?;
        let log = user.folder(folder.path(), "log")?;
        // Nothing of it has to survive.
        let server = Server::new(Kind::PostgreSql, user, &data, log)
            .with(&["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "autovacuum=off", "-c", "jit=off"])
            .with(&["-c", "statement_timeout=20s", "-c", "max_parallel_workers_per_gather=0"]);
        server.make()?;
        let running = server.start()?;
        let create = format!(
            "CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8';\n"
        );
        server.run_when_up(&create, &|| false)?;
        let connection = connect(&data).map_err(Error::Io)?;
        let mut theirs = Self { connection, _running: running, _folder: folder };
        theirs.must("SET TimeZone = 'UTC'")?;
        theirs.must("SET extra_float_digits = 3")?;
        theirs.must("SET client_min_messages = error")?;
        Ok(theirs)
    }

    /// An empty schema, which is the only one that names are looked up in.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.must("ROLLBACK")?;
        self.must("DROP SCHEMA IF EXISTS public CASCADE")?;
        self.must("CREATE SCHEMA public")
    }

    /// Runs a statement.
    pub(crate) fn run(&mut self, statement: &str) -> Result<Answer> {
        Ok(match self.connection.run(statement).map_err(Error::Io)? {
            Reply::Rows { types, rows } => {
                let row = |row: Vec<Option<String>>| row.into_iter().zip(&types).map(|(text, &of)| value(text, of));
                Answer::Rows(rows.into_iter().map(|values| row(values).collect()).collect())
            }
            Reply::Done { tag } => {
                let counted = ["INSERT", "UPDATE", "DELETE"].iter().any(|verb| tag.starts_with(verb));
                Answer::Changed(tag.rsplit(' ').next().and_then(|rows| rows.parse().ok()).filter(|_| counted))
            }
            Reply::Failed { state, message } => Answer::Failed(class(&state), format!("{state} {message}")),
        })
    }

    /// Runs a statement. If it fails inside a transaction, the transaction goes on, as ours does.
    pub(crate) fn run_as_ours(&mut self, statement: &str) -> Result<Answer> {
        if !self.connection.in_transaction() {
            return self.run(statement);
        }
        self.must("SAVEPOINT tester_")?;
        let answer = self.run(statement)?;
        if let Answer::Failed(..) = answer {
            self.must("ROLLBACK TO tester_")?;
        }
        self.must("RELEASE tester_")?;
        Ok(answer)
    }

    fn must(&mut self, statement: &str) -> Result<()> {
        match self.run(statement)? {
            Answer::Failed(_, message) => Err(Error::Rival { statement: statement.to_owned(), message }),
            _ => Ok(()),
        }
    }
}

fn connect(data: &Path) -> io::Result<Connection> {
    Connection::open(data, "postgres", DATABASE)
}

/// A value from its text and the number of its type in `pg_type`.
fn value(text: Option<String>, of: u32) -> Value {
    let Some(text) = text else { return Value::Null };
    match of {
        16 => Value::Boolean(text == "t"),
        17 => Value::Bytes(text.trim_start_matches("\\x").to_owned()),
        20 | 21 | 23 | 26 => Value::Whole(text),
        1700 => Value::exact(&text),
        700 => Value::Float(f64::from(text.parse::<f32>().unwrap_or(f32::NAN)), true),
        701 => Value::Float(text.parse().unwrap_or(f64::NAN), false),
        1082 | 1083 | 1114 | 1184 => Value::Moment(text),
        _ => Value::Text(text),
    }
}

fn class(state: &str) -> Class {
    match state {
        "22003" | "22008" | "22015" => Class::Overflow,
        "22012" => Class::DivisionByZero,
        "22P02" | "22007" | "22P03" => Class::Conversion,
        "22001" => Class::TooLong,
        "23505" => Class::DuplicateKey,
        "23502" => Class::NotNull,
        "21000" => Class::Cardinality,
        "57014" => Class::Time,
        _ if state.starts_with("22") => Class::Evaluation,
        // Something still reads it.
        "2BP01" => Class::Statement,
        _ if state.starts_with("42") => Class::Statement,
        _ => Class::Other,
    }
}
