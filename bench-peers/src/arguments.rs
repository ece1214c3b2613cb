//! What can be said on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use ishigaki_base::random::Seed;

use crate::engine::{self, Clients, Configuration, Engine};
use crate::workload::{MOST_CLIENTS, Workload};

const EXAMPLES: &str = "\
Examples:
  peers --data /srv/bench                                        everything: about half an hour
  peers --data /srv/bench --json > peers.jsonl                   the same as JSON lines
  peers --from peers.jsonl                                       the tables of kept lines
  peers --from peers.jsonl --from syncs.jsonl --page peers.md    the same, put into a page
  peers --data /srv/bench --engines ishigaki,rocksdb --clients 16 --workload one --rounds 9
  peers --data /srv/bench --ishigaki streams=1 --ishigaki streams=4   two configurations beside each other
  peers --data /srv/bench --engines ishigaki-tasks,rocksdb --clients 16,256 --task-threads 1,2
  peers --data /srv/bench --sync-counts --seconds 1              what each engine syncs for a transaction

Where other programs use the machine, `chrt -f 10 peers …` keeps them from having a say.";

/// The same durable updates on Ishigaki and on its rivals, alternating in one run
///
/// A transaction updates one row (or ten) of 65,536 and is durable before its client begins the next. Each client is a
/// thread that blocks, and for `ishigaki (tasks)` a task of few threads. After every run the store is opened again and
/// every row compared with its last acknowledged update.
#[derive(Debug, Parser)]
#[command(name = "peers", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A directory on the medium to measure; a fresh folder in it is used, and removed at the end
    #[arg(long, value_name = "DIR", required_unless_present = "from")]
    pub(crate) data: Option<PathBuf>,

    /// Who takes part; everybody if it is not given
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    engines: Vec<Name>,

    /// How many clients there are at once; each number is measured on its own [default: 1,4,16,64, and 16,64,256 tasks]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = parse_clients)]
    pub(crate) clients: Vec<usize>,

    /// How many threads run the tasks of `ishigaki (tasks)`; several: as many beside each other
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1", value_parser = parse_clients)]
    task_threads: Vec<usize>,

    /// Updates in a transaction
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "one,ten")]
    pub(crate) workload: Vec<Workload>,

    /// Measured time of each run
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_seconds)]
    pub(crate) seconds: Duration,

    /// How often everything is measured
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rounds: u16,

    /// Ishigaki's settings, as in `streams=4,segment=64MiB` or `default`; several times: as many configurations beside each
    /// other. If it is not given: the default, and for threads one stream and two beside it
    #[arg(long, value_name = "SETTINGS")]
    ishigaki: Vec<Configuration>,

    /// The seed of everything random, as in 7 or 0x2a; drawn if it is not given
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<Seed>,

    /// Print figures as JSON, one object a line, and nothing else on stdout
    #[arg(long)]
    pub(crate) json: bool,

    /// Trace one run of each instead (with strace) and give which syncs and writes a transaction took
    #[arg(long)]
    pub(crate) sync_counts: bool,

    /// Measure nothing and print the tables of the JSON lines in this file; several times: of all of them together
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "json", "sync_counts"])]
    pub(crate) from: Vec<PathBuf>,

    /// Put the tables between the marks of this page in Markdown instead of printing them
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) page: Option<PathBuf>,
}

/// An engine's name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    Ishigaki,
    IshigakiTasks,
    #[cfg(feature = "rocksdb")]
    #[value(name = "rocksdb")]
    RocksDb,
    Redb,
    Fjall,
    Sqlite,
    Lmdb,
    OneFile,
    FilePerClient,
}

impl Arguments {
    /// Those who take part, Ishigaki once in each configuration.
    pub(crate) fn engines(&self) -> Vec<Box<dyn Engine>> {
        let chosen = |name: &Name| self.engines.is_empty() || self.engines.contains(name);
        Name::value_variants().iter().filter(|name| chosen(name)).flat_map(|name| self.engine(*name)).collect()
    }

    fn engine(&self, name: Name) -> Vec<Box<dyn Engine>> {
        let one: Box<dyn Engine> = match name {
            Name::Ishigaki => return self.ours(Configuration::usual, &[Clients::Threads]),
            Name::IshigakiTasks => {
                let threads: Vec<Clients> = self.task_threads.iter().copied().map(Clients::Tasks).collect();
                return self.ours(|| vec![Configuration::default()], &threads);
            }
            #[cfg(feature = "rocksdb")]
            Name::RocksDb => Box::new(engine::RocksDb),
            Name::Redb => Box::new(engine::Redb),
            Name::Fjall => Box::new(engine::Fjall),
            Name::Sqlite => Box::new(engine::Sqlite),
            Name::Lmdb => Box::new(engine::Lmdb),
            Name::OneFile => Box::new(engine::OneFile),
            Name::FilePerClient => Box::new(engine::FilePerClient),
        };
        vec![one]
    }

    /// Every configuration that was given, or the usual ones, with every kind of clients.
    fn ours(&self, usual: impl FnOnce() -> Vec<Configuration>, clients: &[Clients]) -> Vec<Box<dyn Engine>> {
        let configurations = if self.ishigaki.is_empty() { usual() } else { self.ishigaki.clone() };
        let ours = |configuration: Configuration| {
            let with = move |clients: &Clients| {
                Box::new(engine::Ishigaki::new(configuration.clone(), *clients)) as Box<dyn Engine>
            };
            clients.iter().map(with)
        };
        configurations.into_iter().flat_map(ours).collect()
    }
}

fn parse_clients(text: &str) -> Result<usize, String> {
    let clients: usize = text.parse().map_err(|error| format!("{error}"))?;
    let possible = (1..=MOST_CLIENTS).contains(&clients);
    if possible { Ok(clients) } else { Err(format!("give numbers from 1 to {MOST_CLIENTS}")) }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("a run takes some time, such as 2".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn names(arguments: &[&str]) -> Vec<String> {
        let all = ["peers", "--data", "x"].iter().chain(arguments);
        Arguments::try_parse_from(all).unwrap().engines().iter().map(|engine| engine.name()).collect()
    }

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn each_configuration_of_ishigaki_takes_part() {
        let chosen = ["--engines", "ishigaki,redb", "--ishigaki", "streams=1", "--ishigaki", "streams=2"];
        assert_eq!(names(&chosen), ["ishigaki streams=1", "ishigaki streams=2", "redb"]);
    }

    #[test]
    fn tasks_take_part_in_each_configuration_on_each_number_of_threads() {
        let chosen = ["--engines", "ishigaki-tasks", "--ishigaki", "streams=1", "--ishigaki", "default"];
        let threads = ["--task-threads", "1,2"];
        let expected = [
            "ishigaki streams=1 (tasks)",
            "ishigaki streams=1 (tasks, 2 threads)",
            "ishigaki (tasks)",
            "ishigaki (tasks, 2 threads)",
        ];
        assert_eq!(names(&[&chosen[..], &threads[..]].concat()), expected);
    }

    #[test]
    fn everybody_takes_part_under_a_name_of_their_own() {
        let mut all = names(&[]);
        let count = all.len();
        assert!(count >= 7);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
