//! Lives of a log: opened, worked on, ended by whatever its medium has in store.

use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_device::{Fault, SimDirectory};
use ishigaki_wal::{Log, Progress, Result, Settings, Start};

use super::{Model, Shown, Way};

/// What all lives of a log have in common.
pub(crate) struct Trial {
    /// How it is opened.
    pub(crate) settings: fn(Way, Seed) -> Settings,
    /// What is done with it in so many turns. Ends at the first error.
    pub(crate) work: fn(&Log, &mut Model, Seed, usize, Way) -> Result<()>,
}

/// Every write and every sync that there was, to fail in a life that does the same.
pub(crate) fn failures(of: &SimDirectory) -> impl Iterator<Item = Fault> + use<> {
    let writes = (0..of.writes()).map(|nth| Fault::WriteError { nth });
    writes.chain((0..of.syncs()).map(|nth| Fault::SyncError { nth }))
}

impl Trial {
    /// Opens one record after the other or in parallel, from the beginning or from where the rest is elsewhere, and checks
    /// against the model.
    pub(crate) fn recover(&self, medium: &SimDirectory, model: &mut Model, seed: Seed, way: Way) -> Result<Arc<Log>> {
        let shown = Shown::default();
        let mut random = seed.generator();
        let from = if random.bool() { model.elsewhere } else { Start::default() };
        let threads = random.choice([0, 1, 0, 1, 0, 1, 3]).expect("there are some");
        let settings = (self.settings)(way, seed);
        let opened = way.medium.directory(medium).map_err(Into::into).and_then(|directory| {
            if threads == 0 {
                Log::open_from(directory, settings, from, &mut |position, payload| {
                    ishigaki_wal::Sink::take(&shown, position, payload)
                })
            } else {
                let settings = Settings { recovery_threads: threads, ..settings };
                Log::recover(directory, settings, from, &shown, &Progress::default())
            }
        });
        // It may have noted where it was to start before it failed.
        model.asked = model.asked.max(from);
        let (log, recovery) = opened?;
        model.check(&shown, &recovery, from, way.commit);
        Ok(log)
    }

    /// A life.
    pub(crate) fn live(
        &self,
        medium: &SimDirectory,
        model: &mut Model,
        seed: Seed,
        turns: usize,
        way: Way,
    ) -> Result<()> {
        let log = self.recover(medium, model, seed, way)?;
        (self.work)(&log, model, seed, turns, way)?;
        log.close()?;
        model.acknowledge_up_to(log.last_drawn());
        Ok(())
    }

    /// The medium after a life in which nothing went wrong: how many operations, writes and syncs that has.
    pub(crate) fn complete(&self, seed: Seed, turns: usize, way: Way) -> SimDirectory {
        let medium = way.medium.fresh(seed);
        self.live(&medium, &mut Model::default(), seed, turns, way).unwrap();
        medium
    }

    /// The medium and the model after the power was cut at that operation of a life.
    pub(crate) fn cut_at(&self, operation: u64, seed: Seed, turns: usize, way: Way) -> (SimDirectory, Model) {
        let medium = way.medium.fresh(seed);
        medium.inject(Fault::PowerCut { operation });
        let mut model = Model::default();
        let lived = self.live(&medium, &mut model, seed, turns, way);
        assert!(lived.is_err(), "the cut at {operation} is noticed");
        (medium, model)
    }

    /// Cuts the power at each of so many operations of a life. Some survivors of each live on for `more` turns, and are then
    /// opened once more: what was dropped must not be there again.
    pub(crate) fn cut_at_each(&self, operations: u64, seed: Seed, turns: usize, more: usize, survivors: u64, way: Way) {
        for operation in 0..operations {
            let (medium, model) = self.cut_at(operation, seed, turns, way);
            for survivor in 0..survivors {
                let (mut model, survivors) = (model.clone(), medium.survivors(seed.derive(survivor)));
                self.live(&survivors, &mut model, seed.derive(!survivor), more, way).unwrap();
                self.recover(&survivors, &mut model, seed.derive(survivor), way).unwrap();
            }
        }
    }

    /// Kills the process at some of the operations of a life of so many turns. The next one recovers what is seen of that, and goes on until the
    /// power is cut under it. What either had in flight may be lost then, but nothing from below what is durable.
    pub(crate) fn killed_and_cut(&self, operations: impl Iterator<Item = u64>, seed: Seed, turns: usize, way: Way) {
        for operation in operations {
            let (medium, model) = self.cut_at(operation, seed, turns, way);
            for seed in (0..4).map(|index| seed.derive(operation).derive(index)) {
                // The power is on again before anything was lost: as if it had never been off.
                let (next, mut model) = (medium.process_crash(), model.clone());
                next.inject(Fault::PowerCut { operation: seed.0 % 40 });
                let _ = self.live(&next, &mut model, seed, 12, way);
                self.recover(&next.survivors(seed), &mut model, seed, way).unwrap();
            }
        }
    }

    /// Cuts the recovery of this medium at each of its operations and hands on what survives.
    pub(crate) fn cut_each_recovery(
        &self,
        medium: &SimDirectory,
        model: &Model,
        seed: Seed,
        way: Way,
        then: &mut dyn FnMut(&SimDirectory, &Model),
    ) {
        for operation in 0.. {
            // Survivors of a medium that is at rest are a copy of it.
            let (copy, mut model) = (medium.survivors(seed), model.clone());
            copy.inject(Fault::PowerCut { operation });
            let opened = self.recover(&copy, &mut model, seed, way);
            let uncut = opened.is_ok() && copy.operations() <= operation;
            copy.power_cut_now();
            drop(opened);
            if uncut {
                return;
            }
            then(&copy.survivors(seed.derive(operation)), &model);
        }
    }
}
