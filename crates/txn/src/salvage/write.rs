//! A new database of what was found.

use std::sync::Arc;

use ishigaki_device::Directory;

use super::{Salvage, SalvageReport};
use crate::{Error, Result, Settings, Unfinished};

/// Bytes of rows in one transaction.
const BATCH: usize = 1 << 20;

impl Salvage {
    /// Makes a new database in `directory` of what was found. Tables keep their names and numbers; one that has lost its name
    /// is called `lost.table.` and its number. `step` is told how many rows have been written.
    ///
    /// The database is durable when this returns: rows in a checkpoint, the log closed.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidSetting`] if there are devices in the directory, [`Error::MemoryExhausted`] if the rows do not fit
    /// into [`Settings::memory`], and what a medium says that fails. What was written until then is refused by
    /// [`Database::open_in`](crate::Database::open_in).
    pub fn write_to(
        self,
        directory: Arc<dyn Directory>,
        settings: &Settings,
        step: impl FnMut(u64),
    ) -> Result<SalvageReport> {
        let unfinished = Unfinished::begin(directory)?;
        let report = self.write_into(&unfinished, settings, step)?;
        unfinished.finish()?;
        Ok(report)
    }

    /// The same where something is still to be added; the database is closed.
    pub fn write_into(
        mut self,
        unfinished: &Unfinished,
        settings: &Settings,
        mut step: impl FnMut(u64),
    ) -> Result<SalvageReport> {
        let mut settings = settings.clone();
        settings.checkpoint.automatic = true;
        let database = unfinished.open(settings)?;
        let session = database.session();
        let mut written = 0;
        for (id, name) in self.tables() {
            let name = name.unwrap_or_else(|| format!("lost.table.{}", id.0));
            database.reserve_table_ids_below(id);
            let made = session.run(|txn| txn.create_table(&name))?;
            if made != id {
                let reason = format!("table {name} had number {id} and would get {made}; salvage into a new directory");
                return Err(Error::InvalidSetting { reason });
            }
            let mut rows = self.rows.take(id).peekable();
            while rows.peek().is_some() {
                let (mut batch, mut bytes) = (Vec::new(), 0);
                while bytes < BATCH
                    && let Some((key, value)) = rows.next()
                {
                    bytes += key.len() + value.len() + 64;
                    batch.push((key, value));
                }
                session.run(|txn| batch.iter().try_for_each(|(key, value)| txn.put(made, key, value)))?;
                written += batch.len() as u64;
                step(written);
            }
        }
        drop(session);
        database.checkpoint()?;
        database.close()?;
        Ok(self.report)
    }
}
