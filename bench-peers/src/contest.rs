//! The contest: in each round every engine runs every workload at every number of clients, in an order that the seed
//! shuffles anew, so that a drift of the medium falls on all of them.
//!
//! Each run has a store of its own in a fresh directory. Before it, everything dirty in the file system is written back;
//! after it the store is closed, opened again and compared with what was acknowledged. A wrong result ends the contest and
//! stays for a closer look.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ishigaki_base::random::Seed;
use ishigaki_bench::pace::Run;
use ishigaki_bench::{Progress, Rounds};
use tempfile::TempDir;

use crate::drive::Plan;
use crate::engine::{Engine, Store};
use crate::workload::Workload;

/// What is measured, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// A directory on the medium; made if it is not there.
    pub(crate) data: PathBuf,
    pub(crate) workloads: Vec<Workload>,
    /// How many clients there are at once; each number is measured on its own. None: each engine's usual ones.
    pub(crate) clients: Vec<usize>,
    /// Measured time of each run.
    pub(crate) measured: Duration,
    pub(crate) rounds: usize,
    pub(crate) seed: Seed,
}

impl Settings {
    /// What each round measures: by workload, clients and engine.
    pub(crate) fn bouts(&self, engines: &[Box<dyn Engine>]) -> Vec<Bout> {
        let mut bouts = Vec::new();
        for &workload in &self.workloads {
            for (number, engine) in engines.iter().enumerate() {
                let clients = if self.clients.is_empty() { engine.usual_clients() } else { &self.clients };
                bouts.extend(clients.iter().map(|&clients| (workload, clients, number)));
            }
        }
        bouts.sort_unstable();
        bouts.dedup();
        bouts
    }
}

/// One kind of run: workload, clients, and the engine's place in the list.
pub(crate) type Bout = (Workload, usize, usize);

/// A fresh directory below the given one, gone at the end.
pub(crate) fn site(data: &Path) -> Result<TempDir> {
    fs::create_dir_all(data).with_context(|| format!("{}: making the directory", data.display()))?;
    let site = tempfile::Builder::new().prefix("bench-peers-").tempdir_in(data);
    site.with_context(|| format!("{}: making a fresh directory", data.display()))
}

/// Runs the rounds.
pub(crate) fn run(
    settings: &Settings,
    engines: &[Box<dyn Engine>],
    progress: &mut dyn Progress,
) -> Result<BTreeMap<Bout, Rounds>> {
    let site = site(&settings.data)?;
    let mut bouts = settings.bouts(engines);
    let of = (bouts.len() * settings.rounds) as u64;
    let (mut done, mut random) = (0, settings.seed.generator());
    let mut results: BTreeMap<Bout, Rounds> = BTreeMap::new();
    for round in 0..settings.rounds {
        random.shuffle(&mut bouts);
        for &bout in &bouts {
            let (workload, clients, engine) = bout;
            let engine = engines[engine].as_ref();
            let now = format!("round {}: {}, {clients} clients, {}", round + 1, engine.name(), workload.name());
            progress.step(&now, done, of);
            let plan = Plan::new(workload, clients, settings.seed.derive(done), settings.measured);
            let directory = site.path().join(format!("run-{done}"));
            match once(engine, &directory, &plan, |store| store.drive(&plan)).context(now)? {
                Ok(run) => results.entry(bout).or_default().add(&run),
                Err(reason) => {
                    let kept = site.keep();
                    bail!("{}: {reason}; no figures are given, and all stays in {}", engine.name(), kept.display());
                }
            }
            done += 1;
        }
    }
    progress.step("done", done, of);
    Ok(results)
}

/// One run in a fresh store, checked. `drive` has the store drive the plan. The inner error says what is wrong.
pub(crate) fn once(
    engine: &dyn Engine,
    directory: &Path,
    plan: &Plan,
    drive: impl FnOnce(&dyn Store) -> Result<Run>,
) -> Result<Result<Run, String>> {
    fs::create_dir(directory)?;
    let store = engine.create(directory, plan).context("making the store")?;
    rustix::fs::syncfs(File::open(directory)?).context("writing back what is dirty")?;
    let run = drive(store.as_ref())?;
    store.close().context("closing the store")?;
    if let Err(reason) = engine.check(directory, &plan.history(&run)).context("reading the store again")? {
        return Ok(Err(reason));
    }
    fs::remove_dir_all(directory)?;
    Ok(Ok(run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use ishigaki_bench::Silent;

    use crate::arguments::Arguments;
    use crate::engine::Side;
    use crate::workload::History;

    fn settings(data: &Path) -> Settings {
        Settings {
            data: data.to_owned(),
            workloads: vec![Workload::One, Workload::Ten],
            clients: vec![1, 5],
            measured: Duration::from_millis(20),
            rounds: 1,
            seed: Seed(9),
        }
    }

    /// Keeps nothing, and says that everything was durable.
    struct Liar;

    impl Store for Liar {
        fn drive(&self, plan: &Plan) -> Result<Run> {
            crate::drive::threads(plan, |_| Ok(|_: &[crate::workload::Row]| Ok(())))
        }

        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    impl Engine for Liar {
        fn name(&self) -> String {
            "liar".to_owned()
        }

        fn side(&self) -> Side {
            Side::Rival
        }

        fn version(&self) -> String {
            "1".to_owned()
        }

        fn settings(&self) -> String {
            String::new()
        }

        fn create(&self, _directory: &Path, _plan: &Plan) -> Result<Box<dyn Store>> {
            Ok(Box::new(Self))
        }

        fn check(&self, _directory: &Path, history: &History) -> Result<Result<(), String>> {
            history.compare(|see| {
                crate::workload::loaded(history.seed).for_each(|row| see(Some(row.key), &row.value));
                Ok(())
            })
        }
    }

    #[test]
    fn everybody_keeps_what_was_acknowledged() {
        let data = tempfile::tempdir_in(".").unwrap();
        let engines = Arguments::try_parse_from(["peers", "--data", "x"]).unwrap().engines();
        let results = run(&settings(data.path()), &engines, &mut Silent).unwrap();
        assert_eq!(results.len(), engines.len() * 4);
        assert!(results.values().all(|rounds| rounds.throughput.len() == 1 && rounds.throughput[0] > 0.0));
        assert!(fs::read_dir(data.path()).unwrap().next().is_none(), "nothing is left behind");
    }

    #[test]
    fn each_engine_has_its_usual_clients_unless_others_are_given() {
        let arguments = ["peers", "--data", "x", "--engines", "ishigaki-tasks,redb"];
        let engines = Arguments::try_parse_from(arguments).unwrap().engines();
        let of = |clients: &[usize]| {
            let settings =
                Settings { workloads: vec![Workload::Ten], clients: clients.to_vec(), ..settings(Path::new("x")) };
            settings.bouts(&engines).iter().map(|&(_, clients, engine)| (clients, engine)).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), [(1, 1), (4, 1), (16, 0), (16, 1), (64, 0), (64, 1), (256, 0)]);
        assert_eq!(of(&[256, 2]), [(2, 0), (2, 1), (256, 0), (256, 1)]);
    }

    #[test]
    fn who_lies_gets_no_figures_and_leaves_the_evidence() {
        let data = tempfile::tempdir().unwrap();
        let engines: Vec<Box<dyn Engine>> = vec![Box::new(Liar)];
        let error = run(&settings(data.path()), &engines, &mut Silent).unwrap_err().to_string();
        assert!(error.contains("liar: row") && error.contains("last acknowledged update"), "{error}");
        assert!(fs::read_dir(data.path()).unwrap().next().is_some());
    }
}
