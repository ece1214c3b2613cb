//! `file-per-client`: what the medium gives to as many writers as there are clients, if none ever waits for another.
//!
//! Each client has a preallocated file of zeros, opened past the page cache (`O_DIRECT`) with every write durable
//! (`O_DSYNC`), and writes one slot of 512 bytes after the other, round and round. No tables, no common order.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ishigaki_bench::pace::Run;
use ishigaki_device::AlignedBuffer;
use rustix::fs::OFlags;

use super::{Engine, Side, Store, slot};
use crate::drive::{self, Plan};
use crate::workload::{History, Row, Workload};

/// Bytes of each file.
const BYTES: usize = 2 << 20;

/// The loop over files of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilePerClient;

fn places(workload: Workload) -> u64 {
    (BYTES / slot::bytes(workload)) as u64
}

fn path(directory: &Path, client: usize) -> PathBuf {
    directory.join(format!("client-{client}"))
}

impl Engine for FilePerClient {
    fn name(&self) -> String {
        "file-per-client".to_owned()
    }

    fn side(&self) -> Side {
        Side::Bare
    }

    fn version(&self) -> String {
        "-".to_owned()
    }

    fn settings(&self) -> String {
        format!("O_DIRECT and O_DSYNC writes, preallocated files of {} MiB", BYTES >> 20)
    }

    fn create(&self, directory: &Path, plan: &Plan) -> Result<Box<dyn Store>> {
        let create = |client| {
            let path = path(directory, client);
            let file = File::create(&path)?;
            file.write_all_at(&vec![0; BYTES], 0)?;
            file.sync_all()?;
            let flags = OFlags::DIRECT | OFlags::DSYNC;
            let opened = OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(&path);
            opened.with_context(|| format!("{}: opening with O_DIRECT | O_DSYNC", path.display()))
        };
        Ok(Box::new(Files { files: (0..plan.clients).map(create).collect::<Result<_>>()? }))
    }

    fn check(&self, directory: &Path, history: &History) -> Result<Result<(), String>> {
        let whole = places(history.workload) as usize * slot::bytes(history.workload);
        let read = |client| {
            let mut slots = fs::read(path(directory, client))?;
            slots.truncate(whole);
            Ok(slots)
        };
        let files = (0..history.done.len()).map(read).collect::<Result<Vec<_>>>()?;
        Ok(slot::check(&files, &history.done, history))
    }
}

struct Files {
    files: Vec<File>,
}

impl Store for Files {
    fn drive(&self, plan: &Plan) -> Result<Run> {
        let (bytes, places) = (slot::bytes(plan.workload), places(plan.workload));
        drive::threads(plan, |client| {
            let file = &self.files[client];
            let (mut turn, mut buffer) = (0, AlignedBuffer::zeroed(bytes));
            Ok(move |rows: &[Row]| {
                slot::fill(&mut buffer, turn, client, turn, rows);
                file.write_all_at(&buffer, turn % places * bytes as u64).context("a direct write of a slot")?;
                turn += 1;
                Ok(())
            })
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
