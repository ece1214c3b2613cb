//! What stands beside the regions: two copies of the ledger, of which one is enough, and the intent of the last round.

use std::sync::Arc;

use ishigaki_base::LogId;
use ishigaki_device::{AlignedBuffer, Device, Directory, Error as DeviceError, MAX_BLOCK_SIZE};
use parking_lot::Mutex;

use super::{EXTENT, device_name, ledger_names};
use crate::format::{Intent, Ledger, Unfit, sealed_length};
use crate::{Error, MemberId, Result};

/// What a ledger is called in messages.
const LEDGER: &str = "the ledger of a member's home";

/// A device that is written as a whole.
#[derive(Debug)]
struct Sheet {
    directory: Arc<dyn Directory>,
    name: String,
    /// One that is not there, or too short, is made when it is written next.
    device: Mutex<Option<Arc<dyn Device>>>,
}

/// Both copies of the ledger, and the intent.
#[derive(Debug)]
pub(super) struct Ledgers {
    copies: [Sheet; 2],
    intent: Sheet,
}

impl Ledgers {
    fn sheets(directory: &Arc<dyn Directory>, name: &str) -> Self {
        let sheet = |name| Sheet { directory: directory.clone(), name, device: Mutex::new(None) };
        Self { copies: ledger_names(name).map(sheet), intent: sheet(device_name(name, "intent")) }
    }

    /// Makes both copies. The caller writes them, and syncs the directory.
    pub(super) fn create(directory: &Arc<dyn Directory>, name: &str, length: u64) -> Result<Self> {
        let mut ledgers = Self::sheets(directory, name);
        for copy in &mut ledgers.copies {
            *copy.device.get_mut() = Some(directory.create(&copy.name, length)?);
        }
        Ok(ledgers)
    }

    /// Opens them, and gives the newer copy that is sound, and the intent of a round that has not come to its end. A copy that
    /// is gone, cut off or damaged is done without.
    pub(super) fn open(
        directory: &Arc<dyn Directory>,
        name: &str,
        log: LogId,
        member: MemberId,
    ) -> Result<(Self, Ledger, Option<Intent>)> {
        let ledgers = Self::sheets(directory, name);
        let (mut newest, mut refusal): (Option<Ledger>, Option<Error>) = (None, None);
        for copy in &ledgers.copies {
            let read = match copy.open() {
                Ok(Some(device)) => read(device.as_ref()),
                Ok(None) => Err(DeviceError::NotFound { name: copy.name.clone() }.into()),
                Err(error) => Err(error),
            };
            match read {
                Ok(Ok(ledger)) if (ledger.log, ledger.member) != (log, member) => {
                    let (member, log) = (ledger.member, ledger.log);
                    let what = format!("the home of `{name}` is that of member {member} of pool {log}");
                    refusal = Some(Error::corrupt(what));
                }
                Ok(Ok(ledger)) if newest.as_ref().is_none_or(|newest| newest.sequence < ledger.sequence) => {
                    newest = Some(ledger);
                }
                Ok(Ok(_)) => {}
                Ok(Err(version @ Unfit::Version(_))) => return Err(version.error(LEDGER)),
                Ok(Err(unfit)) => refusal = Some(unfit.error(LEDGER)),
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        let newest = newest.ok_or_else(|| refusal.unwrap_or_else(|| Unfit::Blank.error(LEDGER)))?;
        let intent = ledgers.intent.open()?.map(|device| read_sealed(device.as_ref())).transpose();
        // One that can not be read is done without, as one that is not there.
        let intent = intent.ok().flatten().and_then(|bytes| Intent::decode(&bytes).ok());
        let due = (log, member, newest.entries);
        let is_due = |intent: &Intent| (intent.log, intent.member, intent.base) == due;
        Ok((ledgers, newest, intent.filter(is_due)))
    }

    /// Writes both copies, one durable before the other is begun.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<()> {
        self.copies.iter().try_for_each(|copy| copy.write(bytes))
    }

    /// Makes room for ledgers and intents of so many bytes, so that to write one takes no space.
    pub(super) fn fit(&self, ledger: u64, intent: u64) -> Result<()> {
        self.copies.iter().try_for_each(|copy| copy.fit(ledger))?;
        self.intent.fit(intent)
    }

    /// Makes an intent durable.
    pub(super) fn intend(&self, intent: &Intent) -> Result<()> {
        self.intent.write(&intent.encode())
    }
}

impl Sheet {
    fn open(&self) -> Result<Option<Arc<dyn Device>>> {
        let device = match self.directory.open(&self.name) {
            Err(DeviceError::NotFound { .. }) => None,
            opened => Some(opened?),
        };
        self.device.lock().clone_from(&device);
        Ok(device)
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        let mut buffer = AlignedBuffer::zeroed(bytes.len().next_multiple_of(MAX_BLOCK_SIZE));
        buffer[..bytes.len()].copy_from_slice(bytes);
        let mut device = self.device.lock();
        match device.as_ref() {
            Some(device) if device.len() >= buffer.len() as u64 => device.write_durable(0, &buffer)?,
            // As much again, so that it lasts.
            _ => *device = Some(self.replace(&buffer, buffer.len() as u64 * 2)?),
        }
        Ok(())
    }

    /// Makes it so long, with what is in it.
    fn fit(&self, length: u64) -> Result<()> {
        let mut device = self.device.lock();
        let mut bytes = AlignedBuffer::zeroed(0);
        if let Some(device) = device.as_ref() {
            if device.len() >= length {
                return Ok(());
            }
            bytes = AlignedBuffer::zeroed(device.len() as usize);
            device.read_at(0, &mut bytes)?;
        }
        *device = Some(self.replace(&bytes, length)?);
        Ok(())
    }

    /// A longer one takes the place of one that is too short, or gone. It is whole before it has the name.
    fn replace(&self, bytes: &[u8], length: u64) -> Result<Arc<dyn Device>> {
        let new = format!("{}.new", self.name);
        match self.directory.remove(&new) {
            Ok(()) | Err(DeviceError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let device = self.directory.create(&new, length.next_multiple_of(EXTENT))?;
        if !bytes.is_empty() {
            device.write_durable(0, bytes)?;
        }
        self.directory.rename(&new, &self.name)?;
        self.directory.sync()?;
        Ok(self.directory.open(&self.name)?)
    }
}

/// What a copy of a ledger says.
pub(super) fn read(device: &dyn Device) -> Result<Result<Ledger, Unfit>> {
    Ok(Ledger::decode(&read_sealed(device)?))
}

/// As many bytes as the head says, if there are so many.
fn read_sealed(device: &dyn Device) -> Result<AlignedBuffer> {
    let mut buffer = AlignedBuffer::zeroed(device.len().min(4096) as usize);
    device.read_at(0, &mut buffer)?;
    let length = sealed_length(&buffer);
    if length > buffer.len() as u64 && length <= device.len() {
        buffer = AlignedBuffer::zeroed(length.next_multiple_of(4096).min(device.len()) as usize);
        device.read_at(0, &mut buffer)?;
    }
    Ok(buffer)
}
