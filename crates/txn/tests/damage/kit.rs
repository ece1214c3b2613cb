//! A database with everything in it that can be damaged, what it holds, and copies of its files.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use ishigaki_base::{ByteSize, Lsn};
use ishigaki_device::{AlignedBuffer, Directory, MemoryDirectory};
use ishigaki_txn::{CheckpointSettings, Database, Result, Settings, TableId};

/// Names of tables with their rows.
pub(crate) type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Small files, nothing by itself, no threads of the log's.
pub(crate) fn settings(streams: u16) -> Settings {
    let log = ishigaki_wal::Settings {
        streams,
        segment: ByteSize::kib(64),
        space: ByteSize::mib(8),
        background: false,
        ..Default::default()
    };
    let checkpoint = CheckpointSettings { automatic: false, part: ByteSize::kib(160), ..Default::default() };
    Settings { log, checkpoint, memory: ByteSize::mib(64), ..Default::default() }
}

pub(crate) fn open(directory: &Arc<dyn Directory>) -> Result<Database> {
    Database::open_in(directory.clone(), settings(1))
}

/// All rows of all tables.
pub(crate) fn contents(database: &Database) -> Contents {
    let session = database.session();
    let read = session.run(|txn| {
        let mut all = Contents::new();
        for (name, table) in txn.tables()? {
            let mut rows = BTreeMap::new();
            txn.scan(table, (Bound::Unbounded, Bound::Unbounded), |key, value| {
                rows.insert(key.to_vec(), value.to_vec());
                ControlFlow::Continue(())
            })?;
            all.insert(name, rows);
        }
        Ok::<_, ishigaki_txn::Error>(all)
    });
    read.unwrap()
}

/// The bytes of all files.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Image(pub(crate) BTreeMap<String, Vec<u8>>);

impl Image {
    pub(crate) fn of(directory: &dyn Directory) -> Self {
        let read = |name: String| {
            let device = directory.open(&name).unwrap();
            let mut bytes = AlignedBuffer::zeroed(device.len() as usize);
            device.read_at(0, &mut bytes).unwrap();
            (name, bytes.to_vec())
        };
        Self(directory.list().unwrap().into_iter().map(read).collect())
    }

    /// A directory with these files.
    pub(crate) fn directory(&self) -> Arc<dyn Directory> {
        let directory = MemoryDirectory::new();
        for (name, bytes) in &self.0 {
            let device = directory.create(name, bytes.len() as u64).unwrap();
            let mut aligned = AlignedBuffer::zeroed(bytes.len());
            aligned.copy_from_slice(bytes);
            if !bytes.is_empty() {
                device.write_durable(0, &aligned).unwrap();
            }
        }
        Arc::new(directory)
    }
}

/// A database, as it lies in its directory.
pub(crate) struct Sample {
    /// At several moments; the last one is how it is.
    pub(crate) images: Vec<Image>,
    /// After each commit: its LSN, and what there was.
    pub(crate) history: Vec<(Lsn, Contents)>,
    /// By table's number and key: the LSN that wrote or deleted it last.
    pub(crate) written: BTreeMap<(TableId, Vec<u8>), Lsn>,
    pub(crate) numbers: BTreeMap<TableId, String>,
    /// How many of the last commits are in no generation but the newest, which was not closed.
    pub(crate) unclosed: usize,
}

impl Sample {
    /// One that was closed, with a log of several streams.
    pub(crate) fn closed() -> Self {
        Self::make(3, true)
    }

    /// One whose process was killed, with a log of one stream.
    pub(crate) fn killed() -> Self {
        Self::make(1, false)
    }

    pub(crate) fn image(&self) -> &Image {
        self.images.last().unwrap()
    }

    pub(crate) fn contents(&self) -> Contents {
        self.history.last().unwrap().1.clone()
    }

    fn make(streams: u16, is_closed: bool) -> Self {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let mut sample = Self {
            images: Vec::new(),
            history: Vec::new(),
            written: BTreeMap::new(),
            numbers: BTreeMap::new(),
            unclosed: 0,
        };
        // Three lives, with checkpoints in the first two.
        for life in 0..3_u64 {
            let database = Database::open_in(directory.clone(), settings(streams)).unwrap();
            sample.unclosed = 0;
            for round in 0..3 {
                sample.work(&database, life * 3 + round);
                sample.images.push(Image::of(directory.as_ref()));
                if life < 2 && round == 1 {
                    database.checkpoint().unwrap();
                    sample.images.push(Image::of(directory.as_ref()));
                }
            }
            if life < 2 || is_closed {
                database.close().unwrap();
                sample.unclosed = 0;
                sample.images.push(Image::of(directory.as_ref()));
            }
        }
        sample
    }

    /// Changes rows of some tables, makes one and drops one.
    fn work(&mut self, database: &Database, round: u64) {
        let sessions: Vec<_> = (0..3).map(|_| database.session()).collect();
        let mut state = self.history.last().map(|(_, state)| state.clone()).unwrap_or_default();
        if round == 2 {
            let mut txn = sessions[0].begin().unwrap();
            txn.drop_table("table 1").unwrap();
            txn.commit().unwrap().wait().unwrap();
            state.remove("table 1");
            self.note(database, &state);
        }
        let name = format!("table {round}");
        let made = sessions[1].run(|txn| txn.create_table(&name)).unwrap();
        self.numbers.insert(made, name.clone());
        state.insert(name, BTreeMap::new());
        self.note(database, &state);
        let tables: Vec<_> = self
            .numbers
            .iter()
            .filter(|(_, name)| state.contains_key(*name))
            .map(|(id, name)| (*id, name.clone()))
            .collect();
        for number in 0..45_u64 {
            let mut txn = sessions[(number % 3) as usize].begin().unwrap();
            let mut changes = Vec::new();
            for part in 0..3_u64 {
                let dice = (round * 1000 + number * 3 + part).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
                let (table, name) = &tables[(dice % tables.len() as u64) as usize];
                let key = format!("key {:04}", (dice >> 8) % 120).into_bytes();
                let is_delete = (dice >> 16).is_multiple_of(8);
                if is_delete {
                    if !txn.delete(*table, &key).unwrap() {
                        continue;
                    }
                    state.get_mut(name).unwrap().remove(&key);
                } else {
                    let value =
                        format!("{round}.{number}.{part};").repeat(20 + (dice >> 24) as usize % 300).into_bytes();
                    txn.put(*table, &key, &value).unwrap();
                    state.get_mut(name).unwrap().insert(key.clone(), value);
                }
                changes.push((*table, key));
            }
            let ticket = txn.commit().unwrap();
            // Those in between name one another in the log.
            if number % 5 == 4 {
                ticket.wait().unwrap();
            }
            let lsn = self.note(database, &state);
            self.written.extend(changes.into_iter().map(|place| (place, lsn)));
        }
    }

    fn note(&mut self, database: &Database, state: &Contents) -> Lsn {
        let lsn = database.log().last_drawn();
        self.history.push((lsn, state.clone()));
        self.unclosed += 1;
        lsn
    }
}
