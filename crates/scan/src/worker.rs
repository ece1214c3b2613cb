//! The node's side: fragments of clients, done beside the pages.
//!
//! A [`FragmentWorker`] is what `ishigaki node` gives to its storage node. Each fragment runs in a thread that waits for
//! DataFusion's operators and hands batches out as Arrow's stream, no faster than its client takes them; the operators run
//! on the worker's own threads. Their memory and time are bounded, and who goes away stops his fragment.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use ishigaki_base::ByteSize;
use ishigaki_device::Error;
use ishigaki_page::Reader;
use ishigaki_remote::{Folder, Results, Stopped, WorkError, Worker};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::PageCache;
use crate::fragment::{Fragment, Site};
use crate::runtime::end_runtime;

/// What fragments may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Threads that all fragments share; `None`: as many as there are cores.
    pub threads: Option<usize>,
    /// What all of them may use at a time for groups and orders.
    pub memory: ByteSize,
    /// What pages that may be needed again may take.
    pub page_memory: ByteSize,
    /// How many run at a time.
    pub fragments: usize,
    /// How long one may take, with all the time that its client takes for results.
    pub longest: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            threads: None,
            memory: ByteSize::gib(1),
            page_memory: ByteSize::gib(1),
            fragments: 64,
            longest: Duration::from_mins(15),
        }
    }
}

/// How often it is looked whether anybody still wants the results.
const LOOK: Duration = Duration::from_millis(100);

/// How many page files are kept open.
const READERS: usize = 64;

/// Does clients' fragments. Dropping it stops them.
#[derive(Debug)]
pub struct FragmentWorker {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

#[derive(Debug)]
struct Shared {
    settings: WorkerSettings,
    threads: usize,
    engine: Arc<RuntimeEnv>,
    cache: Arc<PageCache>,
    readers: Mutex<HashMap<(String, String), Arc<Reader>>>,
    running: AtomicUsize,
}

impl FragmentWorker {
    /// With threads of its own.
    pub fn new(settings: WorkerSettings) -> std::io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = settings.threads.unwrap_or(cores).max(1);
        let runtime =
            Builder::new_multi_thread().worker_threads(threads).thread_name("node-work").enable_time().build()?;
        let memory = usize::try_from(settings.memory.as_u64()).unwrap_or(usize::MAX);
        let engine = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(GreedyMemoryPool::new(memory)))
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled))
            .build_arc()
            .map_err(std::io::Error::other)?;
        let cache = Arc::new(PageCache::new(settings.page_memory));
        let (readers, running) = (Mutex::default(), AtomicUsize::new(0));
        let shared = Arc::new(Shared { settings, threads, engine, cache, readers, running });
        Ok(Self { shared, runtime: Some(runtime) })
    }
}

impl Drop for FragmentWorker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            end_runtime(runtime);
        }
    }
}

impl Worker for FragmentWorker {
    fn take(&self, order: &[u8], folder: Folder, results: Results) -> Result<(), WorkError> {
        let fragment = Fragment::decode(order).map_err(|error| invalid(&error.to_string()))?;
        let Some(runtime) = &self.runtime else { return Err(refused("the node is ending")) };
        let Some(place) = Running::begin(&self.shared) else {
            return Err(refused("the node has too many fragments to do; try again, or fetch the pages"));
        };
        let (shared, handle) = (Arc::clone(&self.shared), runtime.handle().clone());
        runtime.spawn_blocking(move || {
            let _place = place;
            match shared.run(&fragment, &folder, &handle, &results) {
                Ok(()) => results.finish(Ok(())),
                Err(Failed::Stopped) => drop(results),
                Err(Failed::Work(error)) => results.finish(Err(error)),
            }
        });
        Ok(())
    }
}

/// Why a fragment came to nothing.
enum Failed {
    /// Nobody wants it any more.
    Stopped,
    Work(WorkError),
}

impl From<DataFusionError> for Failed {
    fn from(error: DataFusionError) -> Self {
        Self::Work(of_engine(&error))
    }
}

impl From<datafusion::arrow::error::ArrowError> for Failed {
    fn from(error: datafusion::arrow::error::ArrowError) -> Self {
        DataFusionError::from(error).into()
    }
}

impl From<Stopped> for Failed {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl Shared {
    fn run(&self, fragment: &Fragment, folder: &Folder, handle: &Handle, results: &Results) -> Result<(), Failed> {
        let until = Instant::now() + self.settings.longest;
        let reader = self.reader(fragment, folder).map_err(|error| Failed::Work(of_pages(&error).into()))?;
        let site = Site { reader, cache: Arc::clone(&self.cache), threads: self.threads };
        let config = SessionConfig::new().with_target_partitions(self.threads);
        let context = TaskContext::default().with_session_config(config).with_runtime(Arc::clone(&self.engine));
        // Planning and running spawn tasks.
        let entered = handle.enter();
        let mut batches = execute_stream(fragment.plan(&site)?, Arc::new(context))?;
        let mut writer = StreamWriter::try_new(Vec::new(), &batches.schema())?;
        loop {
            let next = handle.block_on(async { tokio::time::timeout(LOOK, batches.next()).await });
            if results.is_stopped() {
                return Err(Failed::Stopped);
            }
            if Instant::now() >= until {
                return Err(Failed::Work(self.too_long()));
            }
            match next {
                Err(_) => {}
                Ok(None) => break,
                Ok(Some(batch)) => {
                    writer.write(&compact(&batch?)?)?;
                    self.send(results, std::mem::take(writer.get_mut()), until)?;
                }
            }
        }
        drop(entered);
        self.send(results, writer.into_inner()?, until)
    }

    fn send(&self, results: &Results, bytes: Vec<u8>, until: Instant) -> Result<(), Failed> {
        if results.send_until(bytes, until)? { Ok(()) } else { Err(Failed::Work(self.too_long())) }
    }

    fn too_long(&self) -> WorkError {
        refused(&format!("the fragment took longer than {:?}, which is the most here", self.settings.longest))
    }

    /// The file as it is now.
    fn reader(&self, fragment: &Fragment, folder: &Folder) -> ishigaki_page::Result<Arc<Reader>> {
        let key = (fragment.directory.clone(), fragment.file.clone());
        let known = self.readers.lock().get(&key).cloned();
        let opened = known.and_then(|reader| reader.refreshed().ok());
        let opened = match opened {
            Some(reader) => reader,
            None => Reader::open(folder.directory(&fragment.directory)?, &fragment.file)?,
        };
        let reader = Arc::new(opened);
        let mut readers = self.readers.lock();
        if readers.len() >= READERS {
            readers.clear();
        }
        readers.insert(key, Arc::clone(&reader));
        Ok(reader)
    }
}

/// One of the fragments that run.
struct Running(Arc<Shared>);

impl Running {
    fn begin(shared: &Arc<Shared>) -> Option<Self> {
        let before = shared.running.fetch_add(1, Ordering::SeqCst);
        let place = Self(Arc::clone(shared));
        (before < shared.settings.fragments).then_some(place)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Views of strings would travel with all the memory that they look into.
fn compact(batch: &RecordBatch) -> datafusion::arrow::error::Result<RecordBatch> {
    let compacted = |column: &ArrayRef| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => {
                let views = column.as_string_view();
                let (held, used) = (held(views.data_buffers()), used(views.lengths()));
                if held > 2 * used + 4096 { Arc::new(views.gc()) } else { Arc::clone(column) }
            }
            DataType::BinaryView => {
                let views = column.as_binary_view();
                let (held, used) = (held(views.data_buffers()), used(views.lengths()));
                if held > 2 * used + 4096 { Arc::new(views.gc()) } else { Arc::clone(column) }
            }
            _ => Arc::clone(column),
        }
    };
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().iter().map(compacted).collect();
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

fn held(buffers: &[datafusion::arrow::buffer::Buffer]) -> usize {
    buffers.iter().map(datafusion::arrow::buffer::Buffer::len).sum()
}

fn used(lengths: impl Iterator<Item = u32>) -> usize {
    lengths.map(|length| length as usize).sum()
}

/// Nothing is wrong with such work; its client may fetch the pages.
fn refused(reason: &str) -> WorkError {
    WorkError::Refused { reason: reason.to_owned() }
}

fn invalid(reason: &str) -> Error {
    Error::Invalid { name: String::new(), reason: reason.to_owned() }
}

/// As it is told to a client: of what kind it is stays, names of the node's own do not.
fn of_pages(error: &ishigaki_page::Error) -> Error {
    match error {
        ishigaki_page::Error::Device(error) => told(error),
        ishigaki_page::Error::Damaged { .. } | ishigaki_page::Error::Version { .. } => {
            Error::Damaged { name: String::new(), reason: error.to_string() }
        }
        other => invalid(&other.to_string()),
    }
}

fn told(error: &Error) -> Error {
    match error {
        Error::NotFound { .. } => Error::NotFound { name: String::new() },
        Error::Damaged { reason, .. } => Error::Damaged { name: String::new(), reason: reason.clone() },
        Error::Io { operation, source, .. } => {
            let source = std::io::Error::new(source.kind(), source.to_string());
            Error::Io { name: String::new(), operation, source }
        }
        other => invalid(&other.to_string()),
    }
}

fn of_engine(error: &DataFusionError) -> WorkError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(pages) = error.downcast_ref::<ishigaki_page::Error>() {
            return of_pages(pages).into();
        }
        cause = error.source();
    }
    let root = error.find_root();
    if let DataFusionError::ResourcesExhausted(what) = root {
        return refused(&format!("the node has not the memory for it: {what}"));
    }
    let text = root.message();
    invalid(text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(&text)).into()
}
