//! `one-file`: the least that group commit into one log can cost.
//!
//! A preallocated file of zeros. Each client puts a slot of 512 bytes into the group that is being gathered; who finds
//! nobody writing becomes the leader and writes the group for everybody in it with one `pwrite` and one `fdatasync`. What
//! arrives meanwhile is the next group. No tables, no memory of rows.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow};
use ishigaki_bench::pace::Run;
use parking_lot::{Condvar, Mutex};

use super::{Engine, Side, Store, slot};
use crate::drive::{self, Plan};
use crate::workload::{History, Row, Workload};

const FILE: &str = "log";

/// Bytes of the file; it is written round and round.
const BYTES: usize = 64 << 20;

/// The loop over one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneFile;

/// Whole slots only.
fn places(workload: Workload) -> u64 {
    (BYTES / slot::bytes(workload)) as u64
}

impl Engine for OneFile {
    fn name(&self) -> String {
        "one-file".to_owned()
    }

    fn side(&self) -> Side {
        Side::Bare
    }

    fn version(&self) -> String {
        "-".to_owned()
    }

    fn settings(&self) -> String {
        format!("group commit of a leader: pwrite and fdatasync, preallocated file of {} MiB", BYTES >> 20)
    }

    fn create(&self, directory: &Path, plan: &Plan) -> Result<Box<dyn Store>> {
        let file = File::create(directory.join(FILE))?;
        file.write_all_at(&vec![0; BYTES], 0)?;
        file.sync_all()?;
        Ok(Box::new(Log::new(file, plan.workload)))
    }

    fn check(&self, directory: &Path, history: &History) -> Result<Result<(), String>> {
        let mut slots = fs::read(directory.join(FILE))?;
        slots.truncate(places(history.workload) as usize * slot::bytes(history.workload));
        Ok(slot::check(&[slots], &[history.done.iter().sum()], history))
    }
}

struct Log {
    file: File,
    slot: usize,
    places: u64,
    state: Mutex<State>,
}

struct State {
    /// What is being gathered.
    slots: Vec<u8>,
    /// Who waits for it.
    group: Arc<Group>,
    /// Slots drawn so far.
    drawn: u64,
    /// Whether a leader is at work.
    writing: bool,
    failed: Option<String>,
}

/// Those whose slots are written together.
#[derive(Default)]
struct Group {
    /// Changes under the lock of the state, once the group is durable.
    done: AtomicBool,
    turn: Condvar,
}

impl Log {
    fn new(file: File, workload: Workload) -> Self {
        let state = State { slots: Vec::new(), group: Arc::default(), drawn: 0, writing: false, failed: None };
        Self { file, slot: slot::bytes(workload), places: places(workload), state: Mutex::new(state) }
    }

    /// Returns when the slot is durable.
    fn commit(&self, client: usize, turn: u64, rows: &[Row]) -> Result<()> {
        let mut state = self.state.lock();
        let (number, at) = (state.drawn, state.slots.len());
        state.drawn += 1;
        state.slots.resize(at + self.slot, 0);
        slot::fill(&mut state.slots[at..], number, client, turn, rows);
        let group = Arc::clone(&state.group);
        loop {
            if let Some(failed) = &state.failed {
                return Err(anyhow!("the file can not be written: {failed}"));
            }
            if group.done.load(Ordering::Relaxed) {
                return Ok(());
            }
            if !state.writing {
                break;
            }
            group.turn.wait(&mut state);
        }
        // The leader: nobody writes, and this group is not durable, so it is the one being gathered.
        state.writing = true;
        let slots = std::mem::take(&mut state.slots);
        state.group = Arc::default();
        let first = state.drawn - (slots.len() / self.slot) as u64;
        drop(state);
        let written = self.write(first, &slots);
        let mut state = self.state.lock();
        state.writing = false;
        match written {
            Ok(()) => group.done.store(true, Ordering::Relaxed),
            Err(error) => state.failed = Some(error.to_string()),
        }
        // One of the next group takes the lead; after a failure all of it wakes and says so.
        let next = Arc::clone(&state.group);
        let failed = state.failed.clone();
        drop(state);
        group.turn.notify_all();
        if let Some(failed) = failed {
            next.turn.notify_all();
            return Err(anyhow!("the file can not be written: {failed}"));
        }
        next.turn.notify_one();
        Ok(())
    }

    /// Writes consecutive slots, over the end of the file and on at its beginning if need be, and makes them durable.
    fn write(&self, first: u64, slots: &[u8]) -> std::io::Result<()> {
        let place = first % self.places;
        let fitting = ((self.places - place) as usize * self.slot).min(slots.len());
        let (here, over) = slots.split_at(fitting);
        self.file.write_all_at(here, place * self.slot as u64)?;
        self.file.write_all_at(over, 0)?;
        self.file.sync_data()
    }
}

impl Store for Log {
    fn drive(&self, plan: &Plan) -> Result<Run> {
        drive::threads(plan, |client| {
            let mut turn = 0;
            Ok(move |rows: &[Row]| {
                turn += 1;
                self.commit(client, turn - 1, rows)
            })
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ishigaki_base::random::Seed;
    use std::fs::OpenOptions;
    use std::time::Duration;

    #[test]
    fn a_changed_byte_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan::new(Workload::Ten, 3, Seed(3), Duration::from_millis(20));
        let store = OneFile.create(directory.path(), &plan).unwrap();
        let history = plan.history(&store.drive(&plan).unwrap());
        store.close().unwrap();
        assert_eq!(OneFile.check(directory.path(), &history).unwrap(), Ok(()));
        let file = OpenOptions::new().write(true).open(directory.path().join(FILE)).unwrap();
        file.write_all_at(&[0], slot::bytes(Workload::Ten) as u64 + 24 + 40).unwrap();
        assert!(OneFile.check(directory.path(), &history).unwrap().unwrap_err().contains("other bytes"));
    }

    #[test]
    fn a_group_goes_on_at_the_beginning_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan::new(Workload::One, 1, Seed(4), Duration::ZERO);
        OneFile.create(directory.path(), &plan).unwrap();
        let file = OpenOptions::new().write(true).open(directory.path().join(FILE)).unwrap();
        let log = Log::new(file, Workload::One);
        log.write(log.places - 1, &[[1; 512], [2; 512]].concat()).unwrap();
        let bytes = fs::read(directory.path().join(FILE)).unwrap();
        assert_eq!((bytes[0], bytes[BYTES - 1], bytes[512]), (2, 1, 0));
    }
}
