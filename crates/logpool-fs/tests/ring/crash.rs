//! The power is cut at every operation of a medium that has both, the pool and the tables of a database whose log is in it.

use std::path::Path;

use ishigaki_base::random::Seed;
use ishigaki_device::{Fault, SimDirectory};
use ishigaki_logpool::{MemberSettings, Pool};
use ishigaki_logpool_fs::{Access, Ring};
use ishigaki_testkit::seeded;

use super::below::Below;
use super::{log_at, open, pool_settings, rows, served, settings};

/// What a client of the database knows.
#[derive(Clone, Debug, Default)]
struct Known {
    /// So many rows were acknowledged, from the first one on.
    acknowledged: u64,
    /// And so many were tried.
    tried: u64,
}

fn value(key: u64) -> Vec<u8> {
    let mut value = vec![key as u8; 40 + (key % 7) as usize * 30];
    value[..8].copy_from_slice(&(key * key).to_le_bytes());
    value
}

/// Opens everything, checks what is there, puts so many rows and ends. The pool works in one thread, the database in another.
fn live(medium: &SimDirectory, path: &Path, known: &mut Known, turns: u64) -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::open_together(Below::of(medium, "pool-"), pool_settings(false))?;
    let member = if pool.members().is_empty() {
        let MemberSettings { profile, quota } = served("orders", path).member;
        pool.add("orders", MemberSettings { profile, quota })?
    } else {
        pool.member("orders")?
    };
    let _ring = Ring::new(member, path, Access::own(), 1)?;
    let database = open(Below::of(medium, "db-"), &log_at(path)?, settings(false))?;
    let found = rows(&database);
    assert!(found.iter().map(|(key, _)| *key).eq(0..found.len() as u64), "not the first rows");
    assert!(found.iter().all(|(key, bytes)| *bytes == value(*key)), "other bytes");
    let count = found.len() as u64;
    assert!((known.acknowledged..=known.tried).contains(&count), "{count} rows, and {known:?}");
    // What was shown stays.
    *known = Known { acknowledged: count, tried: count };

    let session = database.session();
    let table = session.run(|transaction| -> ishigaki_txn::Result<_> {
        match transaction.table("t")? {
            Some(table) => Ok(table),
            None => transaction.create_table("t"),
        }
    })?;
    for turn in 0..turns {
        let key = known.tried;
        known.tried += 1;
        session.run(|transaction| transaction.insert(table, &key.to_be_bytes(), &value(key)))?;
        known.acknowledged = known.tried;
        match turn {
            5 => pool.bring_home()?,
            8 => {
                database.checkpoint()?;
            }
            _ => {}
        }
    }
    drop(session);
    database.close()?;
    Ok(pool.close()?)
}

#[test]
fn every_acknowledged_commit_is_there_wherever_the_power_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    seeded("every_acknowledged_commit_is_there_wherever_the_power_is_cut", |seed: Seed| {
        let medium = SimDirectory::with_seed(seed);
        let mut known = Known::default();
        live(&medium, &path, &mut known, 12).unwrap();
        assert_eq!((known.acknowledged, known.tried), (12, 12));
        let operations = medium.operations();
        assert!(operations > 60, "only {operations}");
        for operation in 0..operations {
            let (medium, mut known) = (SimDirectory::with_seed(seed), Known::default());
            medium.inject(Fault::PowerCut { operation });
            if live(&medium, &path, &mut known, 12).is_ok() {
                // Threads have done the same things in another order, and fewer of them.
                continue;
            }
            for survivor in 0..2 {
                let survivors = medium.survivors(seed.derive(operation * 2 + survivor));
                let mut known = known.clone();
                live(&survivors, &path, &mut known, 2).unwrap();
                live(&survivors.survivors(seed), &path, &mut known, 0).unwrap();
            }
        }
    });
}
