//! The control block on the medium: made with the log, read when it opens, overwritten in place.
//!
//! ```text
//!  wal-control   │ copy 0 │ copy 1 │   each 4096 bytes, of which one sector is used; the larger sequence number counts
//! ```
//!
//! A change goes to the copy that does not count, which counts from then on, and then to the other one. Nothing that a change
//! allows is done before both say it: no chunk of a new generation is written, no segment before a new start is freed. So a
//! crash between the two writes leaves copies of which either is true, and at all other times they say the same. Where one
//! copy is damaged, the other counts, and opening makes both anew.

use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_base::{Generation, LogId, Lsn};
use ishigaki_device::{AlignedBuffer, Device, Directory, MAX_BLOCK_SIZE, SECTOR};
use parking_lot::Mutex;

use crate::format::{CONTROL, Control, ControlCopy, OLD_VERSION, parse_segment_name};
use crate::{Error, Result, Start};

/// The control block of an open log.
#[derive(Debug)]
pub(crate) struct ControlBlock {
    device: Arc<dyn Device>,
    /// What it says, and the number of the last write.
    contents: Mutex<ControlCopy>,
}

/// The number of the last write of a new control block; the one before went to the other copy.
const FIRST: u64 = 2;

/// Where copies begin.
const COPIES: [u64; 2] = [0, MAX_BLOCK_SIZE as u64];

/// A control block as it was read.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) control: Control,
    sequence: u64,
    /// Copies that can not be read: where, and why.
    pub(crate) damaged: Vec<(u64, String)>,
    /// One copy, of the version before.
    is_old: bool,
}

impl ControlBlock {
    /// Opens the one of a directory; makes the log's first one in a directory that has no log.
    pub(crate) fn open(directory: &dyn Directory) -> Result<Self> {
        Self::open_or_make(directory, LogId(Seed::from_entropy().0))
    }

    /// Opens the one of a directory; makes it for a log of that identity where there is none.
    pub(crate) fn open_or_make(directory: &dyn Directory, log: LogId) -> Result<Self> {
        let names = directory.list()?;
        let mut control = Control {
            log,
            generation: Generation(0),
            base: Lsn::FIRST,
            clean: Some(Lsn::ZERO),
            start: Start::default(),
        };
        if names.iter().any(|name| name == CONTROL) {
            let device = directory.open(CONTROL)?;
            let found = find(device.as_ref())?;
            control = found.control;
            let has_numbers = found.sequence <= u64::MAX / 2;
            if control.generation > Generation(0) && found.damaged.is_empty() && !found.is_old && has_numbers {
                let contents = Mutex::new(ControlCopy { sequence: found.sequence, control });
                return Ok(Self { device, contents });
            }
            for (offset, why) in found.damaged {
                tracing::warn!(
                    offset,
                    why,
                    "a copy of the log's control block is damaged; the other one is used, and both are made anew"
                );
            }
            // Or there are no numbers for copies that come. Or the log was never opened: the sync of this name may have failed, and then no later one helps. It is made
            // again.
        } else if let Some(segment) = names.iter().find(|name| parse_segment_name(name).is_some()) {
            return Err(Error::Corrupt { stream: None, what: format!("there is {segment} but no {CONTROL}") });
        }
        let device = make(directory, &control)?;
        Ok(Self { device, contents: Mutex::new(ControlCopy { sequence: FIRST, control }) })
    }

    /// What it says.
    pub(crate) fn contents(&self) -> Control {
        self.contents.lock().control
    }

    /// Changes both copies durably, one after the other. After an error it says either.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Control)) -> Result<()> {
        let mut contents = self.contents.lock();
        change(&mut contents.control);
        for _ in COPIES {
            contents.sequence += 1;
            write(self.device.as_ref(), &contents)?;
        }
        Ok(())
    }

    /// The block size of the medium.
    pub(crate) fn block_size(&self) -> usize {
        self.device.promise().block_size
    }
}

/// Makes a control block that says this, durably, in place of one that is there.
pub(crate) fn make(directory: &dyn Directory, control: &Control) -> Result<Arc<dyn Device>> {
    // Born under another name, so that a control block is always a whole one.
    let unborn = format!("{CONTROL}.new");
    if directory.list()?.contains(&unborn) {
        directory.remove(&unborn)?;
    }
    let device = directory.create(&unborn, (COPIES.len() * MAX_BLOCK_SIZE) as u64)?;
    let copy = |sequence| ControlCopy { sequence, control: *control };
    write(device.as_ref(), &copy(FIRST - 1))?;
    write(device.as_ref(), &copy(FIRST))?;
    directory.rename(&unborn, CONTROL)?;
    directory.sync()?;
    Ok(device)
}

/// The identity of a directory's log, if there is one.
pub(crate) fn identity(directory: &dyn Directory) -> Result<Option<LogId>> {
    Ok(of(directory)?.map(|control| control.log))
}

/// From where a directory's log is there, if there is one.
pub(crate) fn beginning(directory: &dyn Directory) -> Result<Option<Start>> {
    Ok(of(directory)?.map(|control| control.start))
}

fn of(directory: &dyn Directory) -> Result<Option<Control>> {
    if !directory.list()?.iter().any(|name| name == CONTROL) {
        return Ok(None);
    }
    read(directory.open(CONTROL)?.as_ref()).map(Some)
}

/// What a control block says.
pub(crate) fn read(device: &dyn Device) -> Result<Control> {
    find(device).map(|found| found.control)
}

/// What a control block says, and which copies of it are damaged.
///
/// # Errors
///
/// If no copy can be read.
pub(crate) fn find(device: &dyn Device) -> Result<Found> {
    let corrupt = |what: String| Error::Corrupt { stream: None, what };
    if device.len() < MAX_BLOCK_SIZE as u64 {
        return Err(corrupt(format!("{CONTROL} is too short")));
    }
    let read = |offset: u64| {
        if device.len() < offset + MAX_BLOCK_SIZE as u64 {
            return Err(corrupt("a copy of its control block is missing".to_owned()));
        }
        let mut block = AlignedBuffer::zeroed(MAX_BLOCK_SIZE);
        device.read_at(offset, &mut block)?;
        Ok((ControlCopy::decode(&block[..SECTOR])?, block[4]))
    };
    let first = read(COPIES[0]);
    if let Ok((ControlCopy { control, .. }, OLD_VERSION)) = first {
        return Ok(Found { control, sequence: 0, damaged: Vec::new(), is_old: true });
    }
    let copies = [first, read(COPIES[1])];
    let mut found: Option<Found> = None;
    let (mut damaged, mut refused) = (Vec::new(), None);
    for (offset, copy) in COPIES.into_iter().zip(copies) {
        match copy {
            Ok((ControlCopy { sequence, control }, _)) => {
                if let Some(other) = found.as_ref().filter(|found| found.control.log != control.log) {
                    let other = other.control.log;
                    return Err(corrupt(format!("its control block is of log {other} and of log {}", control.log)));
                }
                if found.as_ref().is_none_or(|found| found.sequence < sequence) {
                    found = Some(Found { control, sequence, damaged: Vec::new(), is_old: false });
                }
            }
            // What a newer program has written is not for this one to repair.
            Err(error @ Error::Version { .. }) => return Err(error),
            Err(error) => {
                let why = match &error {
                    Error::Corrupt { what, .. } => what.clone(),
                    other => other.to_string(),
                };
                damaged.push((offset, why));
                refused.get_or_insert(error);
            }
        }
    }
    match (found, refused) {
        (Some(found), _) => Ok(Found { damaged, ..found }),
        (None, Some(error)) => Err(error),
        (None, None) => Err(corrupt("it has no control block".to_owned())),
    }
}

/// Writes the copy whose turn it is.
fn write(device: &dyn Device, copy: &ControlCopy) -> Result<()> {
    let mut block = AlignedBuffer::zeroed(device.promise().block_size);
    copy.encode(&mut block[..SECTOR]);
    let place = COPIES[(copy.sequence % COPIES.len() as u64) as usize];
    Ok(device.write_durable(place, &block)?)
}

#[cfg(test)]
mod tests {
    use ishigaki_base::ByteSize;
    use ishigaki_device::MemoryDirectory;

    use super::*;
    use crate::format::OLD_VERSION;
    use crate::{Log, Settings};

    fn settings() -> Settings {
        Settings { streams: 2, segment: ByteSize::kib(16), background: false, ..Settings::default() }
    }

    /// Opens, appends so many records to what is there, and closes the log; how many were there.
    fn live(directory: &Arc<dyn Directory>, records: usize, closes: bool) -> Result<usize> {
        let mut found = 0;
        let (log, _) = Log::open(directory.clone(), settings(), &mut |_, _| {
            found += 1;
            Ok(())
        })?;
        for number in 0..records {
            let stream = log.assign();
            stream.wait(stream.append(&[number as u8; 300])?)?;
        }
        if closes {
            log.close()?;
        } else {
            // As a process that dies.
            std::mem::forget(log);
        }
        Ok(found)
    }

    fn bytes(directory: &dyn Directory) -> AlignedBuffer {
        let device = directory.open(CONTROL).expect("it is there");
        let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
        device.read_at(0, &mut bytes).expect("readable");
        bytes
    }

    fn copy_of(from: &dyn Directory) -> Arc<dyn Directory> {
        let to = MemoryDirectory::new();
        for name in from.list().expect("listed") {
            let device = from.open(&name).expect("it is there");
            let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
            device.read_at(0, &mut bytes).expect("readable");
            to.create(&name, device.len()).expect("new").write_at(0, &bytes).expect("writable");
        }
        Arc::new(to)
    }

    #[test]
    fn a_damaged_copy_of_the_control_block_is_made_good_by_the_other() {
        for closes in [true, false] {
            let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
            for life in 0..3 {
                assert_eq!(live(&directory, 20, closes).expect("sound"), life * 20);
                for offset in COPIES {
                    for bit in 0..crate::format::CONTROL_BYTES * 8 {
                        let damaged = copy_of(directory.as_ref());
                        let mut block = AlignedBuffer::zeroed(MAX_BLOCK_SIZE);
                        let device = damaged.open(CONTROL).expect("it is there");
                        device.read_at(offset, &mut block).expect("readable");
                        block[bit / 8] ^= 1 << (bit % 8);
                        device.write_durable(offset, &block).expect("writable");
                        let whole = find(device.as_ref()).expect("one is whole");
                        assert_eq!(whole.damaged.len(), 1, "copy at {offset}, bit {bit}");
                        if bit % 7 == 0 {
                            assert_eq!(live(&damaged, 1, closes).expect("repaired"), life * 20 + 20, "{offset}, {bit}");
                            let whole = find(damaged.open(CONTROL).expect("it is there").as_ref()).expect("whole");
                            assert!(whole.damaged.is_empty());
                        }
                    }
                }
            }
        }
    }

    /// What either copy says.
    fn both(directory: &dyn Directory) -> [Control; 2] {
        let bytes = bytes(directory);
        let copies = COPIES.map(|offset| ControlCopy::decode(&bytes[offset as usize..][..SECTOR]).expect("whole"));
        assert_eq!(copies[0].sequence.abs_diff(copies[1].sequence), 1);
        copies.map(|copy| copy.control)
    }

    #[test]
    fn whatever_has_changed_both_copies_say_the_same() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        live(&directory, 5, true).expect("new");
        let [closed, other] = both(directory.as_ref());
        assert!(closed == other && closed.clean.is_some());
        live(&directory, 5, false).expect("sound");
        let [killed, other] = both(directory.as_ref());
        assert!(killed == other && killed.clean.is_none() && killed.generation > closed.generation);
        let (log, _) = Log::open(directory.clone(), settings(), &mut |_, _| Ok(())).expect("sound");
        log.assign().append(b"one more").expect("appended");
        log.trim(log.here()).expect("trimmed");
        let [trimmed, other] = both(directory.as_ref());
        assert!(trimmed == other && trimmed.start == log.start() && trimmed.start > killed.start);
    }

    /// No program writes so many: the numbers of copies that come begin anew.
    #[test]
    fn a_control_block_without_numbers_for_more_copies_is_made_anew() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        live(&directory, 5, true).expect("new");
        let [control, _] = both(directory.as_ref());
        for sequence in [u64::MAX - 1, u64::MAX] {
            let device = directory.open(CONTROL).expect("there");
            write(device.as_ref(), &ControlCopy { sequence, control }).expect("written");
        }
        live(&directory, 5, true).expect("sound");
        let [after, other] = both(directory.as_ref());
        assert!(after == other && after.generation > control.generation);
    }

    /// A trim takes segments away that the copy from before it would ask for.
    #[test]
    fn a_trimmed_log_of_which_a_copy_of_the_control_block_is_damaged_is_opened_whole() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        for life in 0..4 {
            let (log, _) = Log::open(directory.clone(), settings(), &mut |_, _| Ok(())).expect("sound");
            for number in 0..400 {
                log.assign().append(&[number as u8; 300]).expect("appended");
                if number == 350 {
                    log.trim(log.here()).expect("trimmed");
                }
            }
            if life % 2 == 0 {
                log.close().expect("closed");
            } else {
                log.flush().expect("flushed");
                std::mem::forget(log);
            }
            for offset in COPIES {
                let damaged = copy_of(directory.as_ref());
                let device = damaged.open(CONTROL).expect("it is there");
                device.write_durable(offset, &AlignedBuffer::zeroed(MAX_BLOCK_SIZE)).expect("writable");
                assert_eq!(live(&damaged, 1, true).expect("repaired"), 49, "life {life}, copy at {offset}");
            }
        }
    }

    #[test]
    fn a_log_whose_control_block_is_of_the_version_before_is_taken_over() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        live(&directory, 9, true).expect("new");
        let mut old = AlignedBuffer::zeroed(MAX_BLOCK_SIZE);
        let found = find(directory.open(CONTROL).expect("it is there").as_ref()).expect("whole");
        ControlCopy { sequence: 0, control: found.control }.encode(&mut old[..SECTOR]);
        old[4] = OLD_VERSION;
        old[56..68].fill(0);
        let crc = ishigaki_base::crc32c(&old[..56]);
        old[56..60].copy_from_slice(&crc.to_le_bytes());
        directory.remove(CONTROL).expect("removed");
        directory.create(CONTROL, MAX_BLOCK_SIZE as u64).expect("new").write_at(0, &old).expect("writable");
        assert_eq!(live(&directory, 1, true).expect("taken over"), 9);
        assert_eq!(bytes(directory.as_ref()).len(), 2 * MAX_BLOCK_SIZE);
        assert_eq!(live(&directory, 0, true).expect("sound"), 10);
    }
}
