//! The leases that a node gives, remembered beyond its end.
//!
//! Who keeps copies may use them for a lease after the node has last heard of it, whether the node lives or not. So the next
//! run of the node must change nothing before the leases of this one have ended. That there are any is noted in the served
//! folder, durably, before the first one is given; where a node finds no note, nobody can have a lease, and it need not
//! wait. A note is removed by the first change of a run that has waited for it, and at the end of a run whose leases have all
//! ended.
//!
//! ```text
//!   start            note? ─ no ─▶ change at once
//!                      └ yes ─▶ the first change waits until the note's lease has passed since the start, removes it
//!   first watch      note durable ─▶ lease
//! ```
//!
//! Serving for reading only, the note is made all the same, since the next run may write. Where the folder can not be
//! written to at all, leases are given without one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ishigaki_base::{Fields, crc32c};
use ishigaki_device::{Access, AlignedBuffer, Directory, Error, FileDirectory, Result, SECTOR};
use parking_lot::Mutex;

use super::Export;

/// The note's name in the served folder, which no client can use.
pub(super) const NOTE: &str = "ishigaki-leases";

/// How a note begins, with its version. Pictured in `docs/format/remote.md`.
const MAGIC: [u8; 8] = *b"ISGLEAS1";

/// No lease is longer, and no note is believed that says so.
pub(super) const LONGEST: Duration = Duration::from_hours(1);

/// What is known about leases, of this run and of the one before.
#[derive(Debug)]
pub(super) struct Leases {
    lease: Duration,
    /// Where the note is.
    directory: Arc<dyn Directory>,
    access: Access,
    /// When the leases of the run before have ended at the latest.
    old_until: Instant,
    /// They have, and their note is gone or ours.
    settled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The lease that the note in the folder says.
    noted: Option<Duration>,
    /// The note speaks of leases of ours as well.
    ours: bool,
    /// When the last lease of ours ends.
    until: Option<Instant>,
}

impl Leases {
    pub(super) fn open(export: &Export, access: Access, lease: Duration) -> Result<Self> {
        let directory: Arc<dyn Directory> = match export {
            Export::Folder(path) => Arc::new(FileDirectory::confined(path, Access::ReadWrite)?),
            Export::Directory(directory) => Arc::clone(directory),
        };
        let noted = match read(directory.as_ref()) {
            // It changes nothing, so it need not wait; and may be unable to open the note.
            Err(_) if access == Access::ReadOnly => None,
            noted => noted?,
        };
        let state = Mutex::new(State { noted, ..State::default() });
        let old_until = Instant::now() + noted.unwrap_or_default();
        let settled = AtomicBool::new(noted.is_none());
        Ok(Self { lease, directory, access, old_until, settled, state })
    }

    /// Returns when no lease of an earlier run can last any more.
    pub(super) fn wait_for_old(&self) -> Result<()> {
        if self.settled.load(Ordering::Acquire) {
            return Ok(());
        }
        std::thread::sleep(self.old_until.saturating_duration_since(Instant::now()));
        let mut state = self.state.lock();
        if !state.ours && state.noted.is_some() {
            self.remove(&mut state)?;
        }
        self.settled.store(true, Ordering::Release);
        Ok(())
    }

    /// A lease is about to be given, or to begin anew: it is noted first.
    pub(super) fn begin(&self) -> Result<()> {
        let mut state = self.state.lock();
        if !state.ours {
            let lease = state.noted.unwrap_or_default().max(self.lease);
            match write(self.directory.as_ref(), lease) {
                Ok(()) => state.noted = Some(lease),
                // Nobody who serves for reading only changes anything, and who is to write here later needs other rights.
                Err(error) if self.access == Access::ReadOnly => {
                    tracing::debug!(%error, "leases are given without a note of them");
                }
                Err(error) => return Err(error),
            }
            state.ours = true;
        }
        state.until = Some(Instant::now() + self.lease);
        Ok(())
    }

    /// The run ends. What it leaves tells the next one what to wait for.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let over = now >= self.old_until && state.until.is_none_or(|until| now >= until);
        if over
            && state.noted.is_some()
            && self.access == Access::ReadWrite
            && let Err(error) = self.remove(&mut state)
        {
            // Only makes the next run wait in vain.
            tracing::debug!(%error, "the note of leases stays");
        }
    }

    fn remove(&self, state: &mut State) -> Result<()> {
        match self.directory.remove(NOTE) {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        self.directory.sync()?;
        state.noted = None;
        Ok(())
    }
}

/// Reads the note, if there is one.
fn read(directory: &dyn Directory) -> Result<Option<Duration>> {
    let device = match directory.open(NOTE) {
        Ok(device) => device,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut block = AlignedBuffer::zeroed(device.promise().block_size.max(SECTOR));
    if device.len() < block.len() as u64 {
        return Err(damaged());
    }
    device.read_at(0, &mut block)?;
    // It was made and never written: no lease was given on it.
    if block.iter().all(|&byte| byte == 0) {
        return Ok(Some(Duration::ZERO));
    }
    decode(&block).map(Some).ok_or_else(damaged)
}

/// Makes the note, or says another lease in it; durable when this returns.
fn write(directory: &dyn Directory, lease: Duration) -> Result<()> {
    let device = match directory.open(NOTE) {
        Err(Error::NotFound { .. }) => directory.create(NOTE, SECTOR as u64)?,
        opened => opened?,
    };
    let mut block = AlignedBuffer::zeroed(device.promise().block_size.max(SECTOR));
    block[..16].copy_from_slice(&encode(lease));
    device.write_durable(0, &block)?;
    directory.sync()
}

fn encode(lease: Duration) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&(lease.as_millis() as u32).to_le_bytes());
    let checksum = crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn decode(block: &[u8]) -> Option<Duration> {
    let lease = Duration::from_millis(Fields(block).u32(8).into());
    let sound = block.starts_with(&MAGIC) && Fields(block).u32(12) == crc32c(&block[..12]) && lease <= LONGEST;
    sound.then_some(lease)
}

fn damaged() -> Error {
    let reason = "is no note of leases; remove it if no node has served this folder in the last hour".to_owned();
    Error::Damaged { name: NOTE.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use ishigaki_device::MemoryDirectory;

    use super::*;

    fn leases(directory: &Arc<dyn Directory>, access: Access) -> Leases {
        let lease = Duration::from_millis(80);
        Leases::open(&Export::Directory(Arc::clone(directory)), access, lease).expect("opened")
    }

    fn waits(leases: &Leases) -> Duration {
        let begin = Instant::now();
        leases.wait_for_old().expect("waited");
        begin.elapsed()
    }

    #[test]
    fn only_a_run_whose_predecessor_gave_leases_waits_and_only_once() {
        for access in [Access::ReadWrite, Access::ReadOnly] {
            let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
            let first = leases(&directory, access);
            assert!(waits(&first) < Duration::from_millis(60), "nobody was before it");
            first.begin().expect("given");
            // Killed: nothing is closed.
            let second = leases(&directory, Access::ReadWrite);
            assert!(waits(&second) >= Duration::from_millis(60));
            assert!(waits(&second) < Duration::from_millis(60));
            assert_eq!(directory.list().expect("listed"), [""; 0]);
            assert!(waits(&leases(&directory, Access::ReadWrite)) < Duration::from_millis(60));
        }
    }

    #[test]
    fn a_run_that_ends_leaves_a_note_only_while_its_leases_last() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let first = leases(&directory, Access::ReadWrite);
        first.begin().expect("given");
        first.close();
        assert_eq!(directory.list().expect("listed"), [NOTE], "a lease lasts");
        std::thread::sleep(Duration::from_millis(100));
        first.close();
        assert_eq!(directory.list().expect("listed"), [""; 0]);
    }

    #[test]
    fn the_longer_lease_of_the_run_before_is_not_forgotten() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        write(directory.as_ref(), Duration::from_secs(9)).expect("written");
        let second = leases(&directory, Access::ReadWrite);
        second.begin().expect("given, while it waits");
        assert_eq!(read(directory.as_ref()).expect("read"), Some(Duration::from_secs(9)));
    }

    #[test]
    fn what_is_no_note_is_refused_and_a_note_that_was_never_written_means_no_lease() {
        let directory = MemoryDirectory::new();
        let device = directory.create(NOTE, 512).expect("created");
        assert_eq!(read(&directory).expect("read"), Some(Duration::ZERO));
        let mut block = AlignedBuffer::zeroed(512);
        block[..16].copy_from_slice(&encode(Duration::from_secs(2)));
        for at in 0..16 {
            block[at] ^= 1;
            device.write_durable(0, &block).expect("written");
            assert!(matches!(read(&directory), Err(Error::Damaged { .. })), "byte {at}");
            block[at] ^= 1;
        }
        block[..16].copy_from_slice(&encode(LONGEST + Duration::from_secs(1)));
        device.write_durable(0, &block).expect("written");
        assert!(read(&directory).is_err());
    }
}
