//! The control block on the medium: made with the log, read when it opens, overwritten in place.

use std::sync::Arc;

use ishigaki_base::random::Seed;
use ishigaki_base::{Generation, LogId, Lsn};
use ishigaki_device::{AlignedBuffer, Device, Directory, MAX_BLOCK_SIZE, SECTOR};
use parking_lot::Mutex;

use crate::format::{CONTROL, Control, parse_segment_name};
use crate::{Error, Result, Start};

/// The control block of an open log.
#[derive(Debug)]
pub(crate) struct ControlBlock {
    device: Arc<dyn Device>,
    /// What it says.
    contents: Mutex<Control>,
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
            control = read(device.as_ref())?;
            if control.generation > Generation(0) {
                return Ok(Self { device, contents: Mutex::new(control) });
            }
            // The log was never opened: the sync of this name may have failed, and then no later one helps. It is made
            // again.
        } else if let Some(segment) = names.iter().find(|name| parse_segment_name(name).is_some()) {
            return Err(Error::Corrupt { stream: None, what: format!("there is {segment} but no {CONTROL}") });
        }
        Ok(Self { device: make(directory, &control)?, contents: Mutex::new(control) })
    }

    /// What it says.
    pub(crate) fn contents(&self) -> Control {
        *self.contents.lock()
    }

    /// Changes it durably. After an error it says either.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Control)) -> Result<()> {
        let mut contents = self.contents.lock();
        change(&mut contents);
        write(self.device.as_ref(), &contents)
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
    let device = directory.create(&unborn, MAX_BLOCK_SIZE as u64)?;
    write(device.as_ref(), control)?;
    directory.rename(&unborn, CONTROL)?;
    directory.sync()?;
    Ok(device)
}

/// The identity of a directory's log, if there is one.
pub(crate) fn identity(directory: &dyn Directory) -> Result<Option<LogId>> {
    if !directory.list()?.iter().any(|name| name == CONTROL) {
        return Ok(None);
    }
    Ok(Some(read(directory.open(CONTROL)?.as_ref())?.log))
}

/// What a control block says.
pub(crate) fn read(device: &dyn Device) -> Result<Control> {
    if device.len() < MAX_BLOCK_SIZE as u64 {
        return Err(Error::Corrupt { stream: None, what: format!("{CONTROL} is too short") });
    }
    let mut block = AlignedBuffer::zeroed(MAX_BLOCK_SIZE);
    device.read_at(0, &mut block)?;
    Control::decode(&block[..SECTOR])
}

fn write(device: &dyn Device, control: &Control) -> Result<()> {
    let mut block = AlignedBuffer::zeroed(device.promise().block_size);
    control.encode(&mut block[..SECTOR]);
    Ok(device.write_durable(0, &block)?)
}
