//! Ishigaki's transactions (`ishigaki-txn`), without SQL, in one or more configurations of its log.
//!
//! Its clients are threads that wait, or tasks that await their tickets ([`Clients`]): the same transactions on the same
//! sessions, one for each client, either way.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use ishigaki_base::ByteSize;
use ishigaki_bench::pace::Run;
use ishigaki_txn::{self as txn, Database, Session, TableId, Ticket, Transaction};
use ishigaki_wal as wal;

use super::{Engine, Side, Store};
use crate::drive::{self, Plan};
use crate::workload::{self, History, Row, key_of};

const TABLE: &str = "rows";

/// How Ishigaki is set: `streams=4,segment=64MiB`. What is not given has the default, and `default` is nothing given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configuration {
    /// As it was given, for the name in figures.
    text: String,
    settings: txn::Settings,
}

impl Configuration {
    /// Those that take part if none is given: the default, and one stream and two beside it, unless that is the default.
    pub(crate) fn usual() -> Vec<Self> {
        let default = Self::default();
        let streams = |streams| {
            let mut other = Self { text: format!("streams={streams}"), ..default.clone() };
            other.settings.log.streams = streams;
            other
        };
        let others = [1, 2].map(streams).into_iter().filter(|other| other.settings.log != default.settings.log);
        [default.clone()].into_iter().chain(others).collect()
    }
}

impl FromStr for Configuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut settings = txn::Settings::default();
        let log = &mut settings.log;
        let text = if text == "default" { "" } else { text };
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
        Ok(Self { text: text.to_owned(), settings })
    }
}

fn read<T: FromStr<Err: fmt::Display>>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|error| format!("{name}: `{value}`: {error}"))
}

/// What a client of Ishigaki is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// A thread that waits until its transaction is durable.
    Threads,
    /// A task that awaits its ticket; so many threads run all of them.
    Tasks(usize),
}

/// Ishigaki in one configuration.
#[derive(Clone, Debug)]
pub(crate) struct Ishigaki {
    configuration: Configuration,
    clients: Clients,
}

impl Ishigaki {
    pub(crate) fn new(configuration: Configuration, clients: Clients) -> Self {
        Self { configuration, clients }
    }

    fn open(&self, directory: &Path) -> Result<Database> {
        Ok(Database::open(directory, self.configuration.settings.clone())?)
    }
}

impl Engine for Ishigaki {
    fn name(&self) -> String {
        let tasks = match self.clients {
            Clients::Threads => String::new(),
            Clients::Tasks(1) => "(tasks)".to_owned(),
            Clients::Tasks(threads) => format!("(tasks, {threads} threads)"),
        };
        let parts = ["ishigaki", &self.configuration.text, &tasks];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn side(&self) -> Side {
        Side::Ours
    }

    fn version(&self) -> String {
        env!("PEERS_COMMIT").to_owned()
    }

    fn settings(&self) -> String {
        let wal::Settings { streams, segment, group, .. } = &self.configuration.settings.log;
        let wal::Group { transactions, bytes, time } = group;
        let clients = match self.clients {
            Clients::Threads => String::new(),
            Clients::Tasks(threads) => format!("; clients are tasks, threads for all of them: {threads}"),
        };
        format!(
            "streams: {streams}, segments of {segment}, groups of {transactions} transactions, {bytes}, {time:?}{clients}"
        )
    }

    fn usual_clients(&self) -> &'static [usize] {
        match self.clients {
            Clients::Threads => &[1, 4, 16, 64],
            Clients::Tasks(_) => &[16, 64, 256],
        }
    }

    fn create(&self, directory: &Path, plan: &Plan) -> Result<Box<dyn Store>> {
        let database = self.open(directory)?;
        let table = database.session().run(|transaction| {
            let table = transaction.create_table(TABLE)?;
            workload::loaded(plan.seed)
                .try_for_each(|row| transaction.put(table, &row.key_bytes(), &row.value))
                .map(|()| table)
        })?;
        Ok(Box::new(Open { database, table, clients: self.clients }))
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
    clients: Clients,
}

impl Store for Open {
    fn drive(&self, plan: &Plan) -> Result<Run> {
        let table = self.table;
        match self.clients {
            Clients::Threads => drive::threads(plan, |_| {
                let session = self.database.session();
                Ok(move |rows: &[Row]| Ok(session.run(|transaction| update(transaction, table, rows))?))
            }),
            Clients::Tasks(threads) => drive::tasks(plan, threads, |_| {
                let session = self.database.session();
                Ok(async move |rows: &[Row]| Ok(commit(&session, table, rows)?.durable().await?))
            }),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.close()?)
    }
}

fn update(transaction: &mut Transaction, table: TableId, rows: &[Row]) -> txn::Result<()> {
    rows.iter().try_for_each(|row| transaction.put(table, &row.key_bytes(), &row.value))
}

/// [`Session::run`] without its waiting. No two clients update the same row, so that conflicts are as good as never.
fn commit(session: &Session, table: TableId, rows: &[Row]) -> txn::Result<Ticket> {
    let mut transaction = session.begin()?;
    let age = transaction.age();
    loop {
        match update(&mut transaction, table, rows).and_then(|()| transaction.commit()) {
            Err(txn::Error::Conflict { .. }) => transaction = session.begin_with_age(age)?,
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_and_names_itself() {
        let configuration: Configuration = "streams=3,segment=64MiB,group-time-us=500".parse().unwrap();
        assert_eq!(configuration.settings.log.streams, 3);
        assert_eq!(configuration.settings.log.segment, ByteSize::mib(64));
        assert_eq!(configuration.settings.log.group.time, Duration::from_micros(500));
        let name = |clients| Ishigaki::new(configuration.clone(), clients).name();
        assert_eq!(name(Clients::Threads), "ishigaki streams=3,segment=64MiB,group-time-us=500");
        assert_eq!(name(Clients::Tasks(2)), "ishigaki streams=3,segment=64MiB,group-time-us=500 (tasks, 2 threads)");
        let default = || "default".parse().unwrap();
        assert_eq!(Ishigaki::new(default(), Clients::Threads).name(), "ishigaki");
        assert_eq!(Ishigaki::new(default(), Clients::Tasks(1)).name(), "ishigaki (tasks)");
        assert_eq!(default().settings.log, txn::Settings::default().log);
    }

    #[test]
    fn one_stream_and_two_take_part_beside_the_default_and_nothing_twice() {
        let usual = Configuration::usual();
        assert_eq!(usual[0].text, "");
        let streams: Vec<u16> = usual.iter().map(|configuration| configuration.settings.log.streams).collect();
        assert!(streams.contains(&1) && streams.contains(&2), "{streams:?}");
        assert_eq!(streams.iter().collect::<std::collections::BTreeSet<_>>().len(), streams.len());
    }

    #[test]
    fn an_unknown_setting_is_refused_with_the_known_ones() {
        assert!("stream=3".parse::<Configuration>().unwrap_err().contains("known are streams"));
        assert!("streams=many".parse::<Configuration>().unwrap_err().contains("`many`"));
    }
}
