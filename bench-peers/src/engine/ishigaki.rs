//! Ishigaki's transactions (`ishigaki-txn`), without SQL, in one or more configurations of its log.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use ishigaki_base::ByteSize;
use ishigaki_txn::{self as txn, Database, Session, TableId};
use ishigaki_wal as wal;

use super::{Engine, Side, Store};
use crate::drive::{self, Plan, Run};
use crate::workload::{self, History, Row, key_of};

const TABLE: &str = "rows";

/// How Ishigaki is set: `streams=4,segment=64MiB`. What is not given has the default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configuration {
    /// As it was given, for the name in figures.
    text: String,
    log: wal::Settings,
}

impl FromStr for Configuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut log = wal::Settings::default();
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').ok_or_else(|| format!("`{setting}` is not NAME=VALUE"))?;
            match name {
                "streams" => log.streams = read(name, value)?,
                "segment" => log.segment = read::<ByteSize>(name, value)?,
                "group-transactions" => log.group.transactions = read(name, value)?,
                "group-bytes" => log.group.bytes = read::<ByteSize>(name, value)?,
                "group-time-us" => log.group.time = Duration::from_micros(read(name, value)?),
                _ => {
                    let known = "streams, segment, group-transactions, group-bytes, group-time-us";
                    return Err(format!("there is no setting `{name}`; known are {known}"));
                }
            }
        }
        Ok(Self { text: text.to_owned(), log })
    }
}

fn read<T: FromStr<Err: fmt::Display>>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|error| format!("{name}: `{value}`: {error}"))
}

/// Ishigaki in one configuration.
#[derive(Clone, Debug)]
pub(crate) struct Ishigaki {
    configuration: Configuration,
}

impl Ishigaki {
    pub(crate) fn new(configuration: Configuration) -> Self {
        Self { configuration }
    }

    fn open(&self, directory: &Path) -> Result<Database> {
        let settings = txn::Settings { log: self.configuration.log.clone(), ..txn::Settings::default() };
        Ok(Database::open(directory, settings)?)
    }
}

impl Engine for Ishigaki {
    fn name(&self) -> String {
        format!("ishigaki {}", self.configuration.text).trim_end().to_owned()
    }

    fn side(&self) -> Side {
        Side::Ours
    }

    fn version(&self) -> String {
        env!("PEERS_COMMIT").to_owned()
    }

    fn settings(&self) -> String {
        let wal::Settings { streams, segment, group, .. } = &self.configuration.log;
        let wal::Group { transactions, bytes, time } = group;
        format!("{streams} streams, segments of {segment}, groups of {transactions} transactions, {bytes}, {time:?}")
    }

    fn create(&self, directory: &Path, plan: &Plan) -> Result<Box<dyn Store>> {
        let database = self.open(directory)?;
        let table = database.session().run(|transaction| {
            let table = transaction.create_table(TABLE)?;
            workload::loaded(plan.seed)
                .try_for_each(|row| transaction.put(table, &row.key_bytes(), &row.value))
                .map(|()| table)
        })?;
        Ok(Box::new(Open { database, table }))
    }

    fn check(&self, directory: &Path, history: &History) -> Result<Result<(), String>> {
        let database = self.open(directory)?;
        let mut transaction = database.session().begin()?;
        let table = transaction.table(TABLE)?.context("the table is gone")?;
        let compared = history.compare(|see| {
            transaction.scan(table, (Bound::Unbounded, Bound::Unbounded), |key, value| {
                see(key_of(key), value);
                ControlFlow::Continue(())
            })
        })?;
        transaction.rollback();
        database.close()?;
        Ok(compared)
    }
}

struct Open {
    database: Database,
    table: TableId,
}

impl Store for Open {
    fn drive(&self, plan: &Plan) -> Result<Run> {
        drive::threads(plan, |_| {
            let (session, table) = (self.database.session(), self.table);
            Ok(move |rows: &[Row]| update(&session, table, rows))
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.close()?)
    }
}

fn update(session: &Session, table: TableId, rows: &[Row]) -> Result<()> {
    Ok(session
        .run(|transaction| rows.iter().try_for_each(|row| transaction.put(table, &row.key_bytes(), &row.value)))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_and_names_itself() {
        let configuration: Configuration = "streams=3,segment=64MiB,group-time-us=500".parse().unwrap();
        assert_eq!(configuration.log.streams, 3);
        assert_eq!(configuration.log.segment, ByteSize::mib(64));
        assert_eq!(configuration.log.group.time, Duration::from_micros(500));
        assert_eq!(Ishigaki::new(configuration).name(), "ishigaki streams=3,segment=64MiB,group-time-us=500");
        assert_eq!(Ishigaki::new(Configuration::default()).name(), "ishigaki");
    }

    #[test]
    fn an_unknown_setting_is_refused_with_the_known_ones() {
        assert!("stream=3".parse::<Configuration>().unwrap_err().contains("known are streams"));
        assert!("streams=many".parse::<Configuration>().unwrap_err().contains("`many`"));
    }
}
