//! Lives of a pool: opened, worked on, ended by whatever its medium has in store.

use std::sync::Arc;

use ishigaki_base::ByteSize;
use ishigaki_base::random::Seed;
use ishigaki_device::{Directory, Fault, SimDirectory, VigilantDirectory};
use ishigaki_logpool::{Homes, MemberSettings, Pool, Profile, Quota, Result, Settings, rebuild, verify};

use super::model::{Collector, Model, shown};
use super::work::work;

/// Everything in one directory, for what reads offline.
#[derive(Debug)]
pub(crate) struct Here(pub(crate) SimDirectory);

impl Homes for Here {
    fn directory(&self, _: &str) -> ishigaki_device::Result<Arc<dyn Directory>> {
        Ok(Arc::new(self.0.clone()))
    }
}

/// A pool that is soon full everywhere.
pub(crate) fn settings() -> Settings {
    Settings {
        log: ByteSize::kib(512),
        segment: ByteSize::kib(32),
        region: ByteSize::kib(256),
        cache: ByteSize::kib(16),
        background: false,
        ..Settings::default()
    }
}

pub(crate) fn quota() -> Quota {
    Quota { share: ByteSize::kib(64), home: ByteSize::mib(1), files: 12 }
}

/// Members of every profile.
pub(crate) fn models() -> Vec<Model> {
    vec![Model::new("a", Profile::MARIADB), Model::new("b", Profile::GENERIC)]
}

/// Opens the pool, checks all that it shows, and makes members that are not there yet.
pub(crate) fn open(medium: &SimDirectory, models: &mut [Model]) -> Result<Pool> {
    let watched = Arc::new(VigilantDirectory::new(Arc::new(medium.clone())));
    let pool = Pool::open_together(watched, settings())?;
    for (model, profile) in models.iter_mut().zip([Profile::MARIADB, Profile::GENERIC]) {
        if !pool.members().contains(&model.name) {
            pool.add(&model.name, MemberSettings { profile, quota: quota() })?;
        }
        model.recovered(shown(&pool.member(&model.name)?)?);
    }
    Ok(pool)
}

/// A life of so many turns, closed at its end.
pub(crate) fn live(medium: &SimDirectory, models: &mut [Model], seed: Seed, turns: usize) -> Result<()> {
    let pool = open(medium, models)?;
    work(&pool, models, &mut seed.generator(), turns)?;
    pool.close()?;
    models.iter_mut().for_each(Model::synced);
    Ok(())
}

/// What is rebuilt offline is one of the states that may be, too, and all checksums fit.
pub(crate) fn check_offline(medium: &SimDirectory, models: &[Model]) {
    let found = match verify(medium, &Here(medium.clone())) {
        Ok(found) => found,
        // The cut came before there was a pool.
        Err(error) if models.iter().all(|model| model.now().is_empty()) => {
            assert!(error.to_string().contains("not found") || error.to_string().contains("no such"), "{error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(found.problems, [""; 0]);
    for model in models.iter().filter(|model| found.members.contains(&model.name)) {
        let mut collector = Collector::default();
        rebuild(medium, &Here(medium.clone()), &model.name, &mut collector).unwrap();
        model.check(&collector.files);
    }
}

/// Every write and every sync that there was, to fail in a life that does the same.
pub(crate) fn failures(of: &SimDirectory) -> impl Iterator<Item = Fault> + use<> {
    let writes = (0..of.writes()).map(|nth| Fault::WriteError { nth });
    writes.chain((0..of.syncs()).map(|nth| Fault::SyncError { nth }))
}
