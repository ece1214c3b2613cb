//! An agent for each server, as `ishigaki volume agent` is one in a guest: where the server's files lie, and what it commits a second.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ishigaki_volume_service::agent::{Gathered, Message, gather, send};

use super::session::Session;

/// What a server has committed and rolled back.
const TRANSACTIONS: &str = "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database";

/// The files of tables and indexes, from the server's own folder on.
const TABLES: &str = "SELECT string_agg(pg_relation_filepath(oid) || ' ' || relname, ',') FROM pg_class \
     WHERE pg_relation_filepath(oid) IS NOT NULL";

/// How often the places of files are looked at, in windows.
const LOOKS: u32 = 10;

/// One of them.
pub(super) struct Agent {
    volume: String,
    token: String,
    to: String,
    /// The server's data.
    data: PathBuf,
    session: Session,
    before: Option<(f64, Instant)>,
    told: Gathered,
    looks: u32,
}

impl Agent {
    pub(super) fn new(volume: &str, token: String, to: String, folder: &Path) -> std::io::Result<Self> {
        let session = Session::new(folder)?;
        let data = folder.join("db");
        let volume = volume.to_owned();
        Ok(Self { volume, token, to, data, session, before: None, told: Gathered::default(), looks: 0 })
    }

    /// Tells what has changed; a failure is one look less.
    pub(super) fn look(&mut self) -> Result<(), String> {
        let mut message =
            Message { volume: self.volume.clone(), token: self.token.clone(), files: None, work: self.work()? };
        let mut gathered = None;
        if self.looks.is_multiple_of(LOOKS) {
            let names = self.names()?;
            let found = gather(std::slice::from_ref(&self.data), &names).map_err(|error| error.to_string())?;
            if found != self.told {
                message = message.with_files(&found.files);
            }
            gathered = Some(found);
        }
        self.looks += 1;
        send(&self.to, &message).map_err(|error| error.to_string())?;
        if let Some(gathered) = gathered {
            self.told = gathered;
        }
        Ok(())
    }

    fn work(&mut self) -> Result<Option<f64>, String> {
        let told = self.session.ask(TRANSACTIONS).map_err(|error| error.to_string())?;
        let counter: f64 = told.parse().map_err(|_| format!("no number: {told}"))?;
        let now = Instant::now();
        let before = self.before.replace((counter, now));
        let rate = |(counted, then): (f64, Instant)| {
            (counter - counted).max(0.0) / now.duration_since(then).max(Duration::from_millis(1)).as_secs_f64()
        };
        Ok(before.map(rate))
    }

    fn names(&mut self) -> Result<BTreeMap<PathBuf, String>, String> {
        let told = self.session.ask(TABLES).map_err(|error| error.to_string())?;
        let pairs = told.split(',').filter_map(|pair| pair.split_once(' '));
        Ok(pairs.map(|(path, name)| (PathBuf::from(path), name.to_owned())).collect())
    }
}
