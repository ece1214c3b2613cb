//! Power cuts of the node's host, at every operation of its medium: what was acknowledged over the network is there.

#[allow(dead_code, reason = "shared by several tests")]
mod kit;

use std::collections::BTreeMap;
use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_base::{ByteSize, Lsn};
use ishigaki_device::{Directory, Fault, SimDirectory};
use ishigaki_remote::{Export, Mode};
use ishigaki_testkit::seeded_runs;
use ishigaki_wal::{Log, Settings};

use kit::{client, full, node, read, settings};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 16;

/// What each block of the device was last known to hold durably, and what may have been written over it since.
#[derive(Default)]
struct Model {
    durable: BTreeMap<u64, u8>,
    since: BTreeMap<u64, Vec<u8>>,
    named: bool,
}

/// Writes to a remote device until something fails.
fn work(directory: &dyn Directory, model: &mut Model, seed: Seed) -> ishigaki_device::Result<()> {
    let mut random = seed.generator();
    let device = directory.create("pages", BLOCKS * BLOCK as u64)?;
    directory.sync()?;
    model.named = true;
    for turn in 1..30 {
        let block = random.u64(0..BLOCKS);
        let bytes = full(BLOCK, turn);
        model.since.entry(block).or_default().push(turn);
        match random.u8(0..4) {
            0 => device.write_at(block * BLOCK as u64, &bytes)?,
            1 => {
                device.write_durable(block * BLOCK as u64, &bytes)?;
                // It says nothing of the block's earlier writes, but they can not come after it.
                model.since.remove(&block);
                model.durable.insert(block, turn);
            }
            2 => {
                let other = (block + 1) % BLOCKS;
                model.since.entry(other).or_default().push(turn);
                device.write_all_durable(&[(block * BLOCK as u64, &bytes), (other * BLOCK as u64, &bytes)])?;
                for block in [block, other] {
                    model.since.remove(&block);
                    model.durable.insert(block, turn);
                }
            }
            _ => {
                device.write_at(block * BLOCK as u64, &bytes)?;
                device.sync()?;
                for (block, written) in std::mem::take(&mut model.since) {
                    model.durable.extend(written.last().map(|&turn| (block, turn)));
                }
            }
        }
    }
    Ok(())
}

fn check(survivors: &SimDirectory, model: &Model) {
    let Ok(device) = survivors.open("pages") else {
        assert!(!model.named, "the name was made durable");
        return;
    };
    for block in 0..BLOCKS {
        let bytes = read(device.as_ref(), block * BLOCK as u64, BLOCK);
        let durable = model.durable.get(&block).copied().unwrap_or(0);
        let since = model.since.get(&block).map_or(&[][..], |since| &since[..]);
        for (sector, bytes) in bytes.chunks(512).enumerate() {
            let found = bytes[0];
            let allowed = found == durable || since.contains(&found);
            assert!(allowed && bytes.iter().all(|&byte| byte == found), "block {block}, sector {sector}: {found}");
        }
    }
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_of_the_node_at_any_operation() {
    seeded_runs("what_was_acknowledged_survives_a_power_cut_of_the_node_at_any_operation", 2, |seed| {
        for mode in [Mode::Static, Mode::Ring] {
            let sim = SimDirectory::with_seed(seed);
            let mut operations = u64::MAX;
            let mut cut = 0;
            while cut <= operations {
                let sim = if operations == u64::MAX { sim.clone() } else { SimDirectory::with_seed(seed) };
                if operations != u64::MAX {
                    sim.inject(Fault::PowerCut { operation: cut });
                }
                let node = node(&Export::Directory(Arc::new(sim.clone())), settings(mode));
                let mut model = Model::default();
                let outcome = work(&client(&node).directory(""), &mut model, seed);
                if operations == u64::MAX {
                    outcome.expect("without a fault nothing fails");
                    operations = sim.operations();
                    continue;
                }
                assert!(outcome.is_err() || cut >= operations, "the cut at {cut} is told");
                drop(node);
                for survivors in 0..3 {
                    check(&sim.survivors(seed.derive(survivors)), &model);
                }
                cut += 3;
            }
        }
    });
}

fn log_settings() -> Settings {
    Settings { streams: 2, segment: ByteSize::kib(16), background: false, ..Settings::default() }
}

/// Records of a log on a remote directory; returns those that were acknowledged.
fn append(directory: Arc<dyn Directory>, seed: Seed) -> Vec<(Lsn, Vec<u8>)> {
    let mut acknowledged = Vec::new();
    let mut random = seed.generator();
    let Ok((log, _)) = Log::open(directory, log_settings(), &mut |_, _| Ok(())) else { return acknowledged };
    for turn in 0..20_u8 {
        let record = vec![turn; random.usize(1..2000)];
        let stream = log.assign();
        let Ok(lsn) = stream.append(&record) else { break };
        if stream.wait(lsn).is_err() {
            break;
        }
        acknowledged.push((lsn, record));
    }
    acknowledged
}

#[test]
fn a_log_on_a_remote_disk_keeps_what_it_has_acknowledged() {
    seeded_runs("a_log_on_a_remote_disk_keeps_what_it_has_acknowledged", 2, |seed| {
        let operations = {
            let sim = SimDirectory::with_seed(seed);
            let node = node(&Export::Directory(Arc::new(sim.clone())), settings(Mode::Static));
            assert_eq!(append(Arc::new(client(&node).directory("")), seed).len(), 20);
            sim.operations()
        };
        for cut in (0..operations).step_by(4) {
            let sim = SimDirectory::with_seed(seed);
            sim.inject(Fault::PowerCut { operation: cut });
            let first = node(&Export::Directory(Arc::new(sim.clone())), settings(Mode::Static));
            let acknowledged = append(Arc::new(client(&first).directory("")), seed);
            drop(first);
            let survivors = Arc::new(sim.survivors(seed.derive(cut)));
            let second = node(&Export::Directory(survivors), settings(Mode::Static));
            let (mut found, directory) = (Vec::new(), Arc::new(client(&second).directory("")));
            let opened = Log::open(directory, log_settings(), &mut |position, record| {
                found.push((position.lsn(), record.to_vec()));
                Ok(())
            });
            opened.expect("recovered");
            assert!(acknowledged.iter().all(|record| found.contains(record)), "cut at {cut}");
        }
    });
}

#[test]
fn a_failed_write_or_sync_of_the_nodes_medium_is_told() {
    let sim = SimDirectory::with_seed(Seed(5));
    let node = node(&Export::Directory(Arc::new(sim.clone())), settings(Mode::Ring));
    let device = client(&node).directory("").create("pages", 65536).expect("created");
    sim.inject(Fault::WriteError { nth: sim.writes() });
    assert!(device.write_at(0, &full(BLOCK, 1)).is_err());
    sim.inject(Fault::SyncError { nth: sim.syncs() });
    assert!(device.sync().is_err());
    sim.inject(Fault::ReadError { nth: sim.reads() });
    let mut buffer = full(BLOCK, 0);
    assert!(device.read_at(0, &mut buffer).is_err());
    device.read_at(0, &mut buffer).expect("and then it goes on");
}
