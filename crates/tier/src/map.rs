//! The map on the medium: a log of its own, read at the start, and kept short by saying it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use ishigaki_base::{ByteSize, LogId, Lsn};
use ishigaki_device::Directory;
use ishigaki_wal::{CommitRule, Group, Log, Stream};

use crate::record::{Mapped, Record, Session, SlotId, VERSION, VolumeId};
use crate::settings::Mode;
use crate::{Error, Result, Settings};

/// The log of the map.
#[derive(Debug)]
pub(crate) struct Map {
    log: Arc<Log>,
    stream: Stream,
}

/// What the map says of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) mode: Mode,
    /// All of it is to be on the fast device.
    pub(crate) pinned: bool,
    pub(crate) length: u64,
    pub(crate) name: String,
}

impl Known {
    pub(crate) fn record(&self, id: VolumeId) -> Record {
        Record::Volume { id, mode: self.mode, pinned: self.pinned, length: self.length, name: self.name.clone() }
    }
}

/// What was in the log.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Bytes of a chunk; `None` of a pool that is to be made.
    pub(crate) chunk: Option<u64>,
    pub(crate) volumes: BTreeMap<VolumeId, Known>,
    pub(crate) slots: BTreeMap<SlotId, Mapped>,
    /// Whose memory counted last, if any did.
    pub(crate) session: Option<Session>,
    /// The number that the next volume gets.
    pub(crate) next: u32,
}

impl Found {
    fn take(&mut self, record: Record) -> Result<()> {
        let damaged = |what: String| Err(Error::Damaged { what });
        match record {
            Record::Pool { version, chunk } => {
                if version != VERSION {
                    return damaged(format!("it has version {version}; this program reads version {VERSION}"));
                }
                if self.chunk.is_some_and(|known| known != chunk) {
                    return damaged("it speaks of chunks of two sizes".to_owned());
                }
                self.chunk = Some(chunk);
            }
            Record::Volume { id, mode, pinned, length, name } => {
                self.next = self.next.max(id.0 + 1);
                self.volumes.insert(id, Known { mode, pinned, length, name });
            }
            Record::Gone { id } => {
                self.next = self.next.max(id.0 + 1);
                self.volumes.remove(&id);
                self.slots.retain(|_, mapped| mapped.owner.0 != id);
            }
            Record::Slot { id, mapped } => {
                self.slots.insert(id, mapped);
            }
            Record::Free { id } => {
                self.slots.remove(&id);
            }
            Record::Session(session) => self.session = Some(session),
        }
        Ok(())
    }

    /// Refuses what the records do not allow together.
    fn check(&self) -> Result<()> {
        let mut owners = BTreeMap::new();
        for (id, mapped) in &self.slots {
            let chunk = self.chunk.unwrap_or_default();
            let what = match self.volumes.get(&mapped.owner.0) {
                _ if !mapped.fits(chunk) => format!("slot {} does not hold a chunk of {chunk} bytes", id.0),
                None => format!("slot {} belongs to no volume", id.0),
                Some(known) if u64::from(mapped.owner.1) * chunk >= known.length => {
                    format!("slot {} lies behind the end of volume `{}`", id.0, known.name)
                }
                Some(_) => match owners.insert(mapped.owner, id) {
                    Some(other) => format!("slots {} and {} have the same chunk", other.0, id.0),
                    None => continue,
                },
            };
            return Err(Error::Damaged { what });
        }
        Ok(())
    }
}

impl Map {
    /// Opens the log of a directory, or makes one there.
    pub(crate) fn open(directory: Arc<dyn Directory>, settings: &Settings) -> Result<(Self, Found)> {
        let log_settings = ishigaki_wal::Settings {
            commit: CommitRule::Watermark,
            streams: 1,
            relief: 0,
            group: Group { transactions: usize::MAX, bytes: ByteSize::kib(256), ..Group::default() },
            segment: settings.segment,
            space: settings.log,
            background: settings.background,
            ..ishigaki_wal::Settings::default()
        };
        let mut found = Found::default();
        let (log, _) = Log::open(directory, log_settings, &mut |position, bytes| {
            let unknown = || Error::Damaged { what: format!("record {} is of no known kind", position.lsn()) };
            Ok(Record::decode(bytes).ok_or_else(unknown).and_then(|record| found.take(record))?)
        })?;
        found.check()?;
        let stream = log.assign();
        Ok((Self { log, stream }, found))
    }

    /// Says something, not durably yet. May be called under a slot's lock.
    pub(crate) fn append(&self, record: &Record) -> Result<Lsn> {
        Ok(self.stream.append(&record.encode())?)
    }

    /// The number that this pool alone has.
    pub(crate) fn id(&self) -> LogId {
        self.log.id()
    }

    /// Whether all is durable that was said up to there.
    pub(crate) fn is_durable(&self, lsn: Lsn) -> bool {
        self.log.is_durable(lsn)
    }

    /// Returns when all is durable that was said up to there.
    pub(crate) fn wait(&self, lsn: Lsn) -> Result<()> {
        Ok(self.stream.wait(lsn)?)
    }

    /// Returns when all is durable that was said.
    pub(crate) fn flush(&self) -> Result<()> {
        Ok(self.log.flush()?)
    }

    /// Fails once the log has failed.
    pub(crate) fn check(&self) -> Result<()> {
        self.log.failure().map_or(Ok(()), |cause| Err(cause.into()))
    }

    /// Whether it is time to say the map again.
    pub(crate) fn is_long(&self) -> bool {
        let space = self.log.space();
        space.live > space.easy
    }

    /// Has the map said again as a whole by `say`, and gives free what was said before.
    pub(crate) fn restate(&self, say: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = self.log.here();
        say()?;
        self.log.flush()?;
        Ok(self.log.trim(start)?)
    }
}
