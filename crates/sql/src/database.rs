//! The door of the database: opening a directory, and handing out sessions.
//!
//! A [`Database`] owns a small thread pool. Every statement runs there, whatever runtime the caller has or has not, so a
//! statement may block on a lock without stopping anyone else's tasks, and callers may be async or not.

use std::path::Path;
use std::sync::Arc;

use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::execution::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::TrackConsumersPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionConfig;
use ishigaki_device::Directory;
use ishigaki_scan::exact::{self, ExactNumbers, MixedTypes};
use ishigaki_scan::{PlaceScans, Placement, ScanOptions, TallyPages};
use ishigaki_txn::Progress;
use tokio::runtime::{Builder, Handle, Runtime};

use datafusion::optimizer::analyzer::{Analyzer, AnalyzerRule};

use crate::bounded::{self, JoinedTexts, LateConstants};
use crate::catalog::{Catalog, Place};
use crate::multiplicity::CountRows;
use crate::names::Planner;
use crate::paged::{Store, remove_noted, settle};
use crate::pool::SharedPool;
use crate::rules::{
    Arithmetic, Barrier, BytesAsTexts, FloatsStayFloats, Intervals, LateBranches, ListsOfConstants, OneRow, OneZero,
    OuterTypes, Recursion, SetsOfColumns, TextsAsBytes, TextsAsTimes, TruthsAsLetters, UntypedTexts, WideFrames,
    WrittenGroups,
};
use crate::spill::{SpillFiles, SpillHold, Spilled};
use crate::statement::{CATALOG, SCHEMA, STACK};
use crate::table::TableDefinition;
use crate::unnest::Unnest;
use crate::{Error, Result, Session, Settings, functions, planning};

/// How many rows a batch has where memory is not scarce, and how many a scan reads at a time.
pub(crate) const BATCH_ROWS: usize = 8192;

/// An open database. Cheap to clone; all clones are the same database, which one process at a time may have open.
///
/// Dropping the last clone closes it. What was committed stays, whether it is closed, dropped or killed.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// use ishigaki_sql::{Database, Settings};
///
/// let database = Database::open(directory.path(), Settings::default())?;
/// let session = database.session();
/// session.execute_blocking("CREATE TABLE stones (id BIGINT PRIMARY KEY, name TEXT)")?;
/// session.execute_blocking("INSERT INTO stones VALUES (1, 'corner'), (2, 'wedge')")?;
/// for batch in session.query_blocking("SELECT name FROM stones ORDER BY id")? {
///     assert_eq!(batch.num_rows(), 2);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Database {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    engine: ishigaki_txn::Database,
    /// What the engine was opened with, as far as this crate was told.
    engine_settings: ishigaki_txn::Settings,
    catalog: Catalog,
    /// Page files.
    store: Arc<Store>,
    state: SessionState,
    /// Where statements spill to; after the state, which has files there.
    spill: Option<SpillHold>,
    /// Taken out when it is shut down, which must not wait: the last clone may be dropped in async code.
    runtime: Option<Runtime>,
}

impl Database {
    /// Opens the database in a directory, which is created if it is not there, and recovers what was committed.
    ///
    /// Fails when another process has it open, when memory or disk do not suffice, and when the log is damaged.
    pub fn open(path: impl AsRef<Path>, mut settings: Settings) -> Result<Self> {
        settings.validate()?;
        let engine = ishigaki_txn::Database::open(&path, settings.txn.clone())?;
        settings.spill_directory.get_or_insert_with(|| path.as_ref().join("spill"));
        Self::over(engine, &settings)
    }

    /// Opens the database in a directory of any kind: a raw device, memory, a modelled medium.
    /// `progress` tells meanwhile how much of the log has been read.
    pub fn open_in(directory: Arc<dyn Directory>, settings: &Settings, progress: &Progress) -> Result<Self> {
        settings.validate()?;
        let engine = ishigaki_txn::Database::open_with_progress(directory, settings.txn.clone(), progress)?;
        Self::over(engine, settings)
    }

    /// SQL over tables of an engine that is open already.
    pub fn over(engine: ishigaki_txn::Database, settings: &Settings) -> Result<Self> {
        settings.validate()?;
        let threads = match settings.threads {
            Some(threads) => threads.get(),
            None => std::thread::available_parallelism().map_or(2, usize::from),
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("ishigaki-sql")
            .thread_stack_size(STACK)
            .enable_all()
            .build()
            .map_err(|error| Error::from(datafusion::error::DataFusionError::IoError(error)))?;
        let spill = spill_files(settings);
        let state = state(settings, threads, spill.as_ref())?;
        let catalog = Catalog::open(&engine.session())?;
        let store = Arc::new(Store::new(settings.page_memory));
        let tables = engine.session().run(|txn| catalog.list(txn))?;
        settle_pages(&catalog, &store, &tables)?;
        catalog.forget(&remove_noted(&catalog.noted()?, &tables))?;
        Ok(Self {
            inner: Arc::new(Inner {
                engine,
                engine_settings: settings.txn.clone(),
                catalog,
                store,
                state,
                spill: spill.map(SpillHold),
                runtime: Some(runtime),
            }),
        })
    }

    /// A new session, with no transaction open. Sessions are independent; any number may run at a time.
    pub fn session(&self) -> Session {
        Session::new(Arc::clone(&self.inner))
    }

    /// Closes the database for good: sessions that are still there get errors. Dropping the last clone and the last
    /// session closes it as well, but has nobody to tell when that fails.
    pub fn close(self) -> Result<()> {
        Ok(self.inner.engine.clone().close()?)
    }

    /// The engine below, for its figures: what recovery found, how much memory the tables use.
    pub fn engine(&self) -> &ishigaki_txn::Database {
        &self.inner.engine
    }

    pub(crate) fn engine_settings(&self) -> &ishigaki_txn::Settings {
        &self.inner.engine_settings
    }

    /// What all statements that run now have spilled to disk.
    pub fn spilled(&self) -> Spilled {
        self.inner.spill.as_ref().map(|hold| hold.0.spilled()).unwrap_or_default()
    }

    /// How many pieces of work storage nodes have refused since this database was opened, so that their pages were fetched
    /// and the work was done here.
    pub fn refused_work(&self) -> u64 {
        self.inner.store.refused_work()
    }
}

impl Inner {
    pub(crate) fn engine(&self) -> &ishigaki_txn::Database {
        &self.engine
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// DataFusion's settings and functions, to be given a catalog.
    pub(crate) fn state(&self) -> &SessionState {
        &self.state
    }

    /// Where statements run.
    pub(crate) fn runtime(&self) -> &Handle {
        self.runtime.as_ref().expect("the runtime is taken only by drop").handle()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            ishigaki_scan::end_runtime(runtime);
        }
    }
}

/// Looks at the page files of all tables, and notes which ones they are.
fn settle_pages(catalog: &Catalog, store: &Store, tables: &[Arc<TableDefinition>]) -> Result<()> {
    let states = catalog.states()?;
    let paged = || tables.iter().filter_map(|table| Some((table.name(), table.pages()?)));
    let newer: Vec<_> = paged().flat_map(|(table, paged)| settle(store, table, paged, &states)).collect();
    catalog.note_states(&newer)?;
    let is_a_tables = |(name, position): &Place| {
        paged().any(|(table, paged)| table == name && usize::from(*position) < paged.locations.len())
    };
    let gone: Vec<Place> = states.into_keys().filter(|place| !is_a_tables(place)).collect();
    catalog.forget_states(&gone)
}

/// Where statements spill to, if they may.
fn spill_files(settings: &Settings) -> Option<Arc<SpillFiles>> {
    let directory = settings.spill_directory.clone().filter(|_| settings.spill_limit.0 > 0)?;
    Some(Arc::new(SpillFiles::new(directory, settings.spill_limit.as_u64())))
}

/// How many rows a batch has. What was spilled is merged with two batches of each run in memory, so in little memory batches
/// are small: a thread has memory for 32 batches of rows of a KiB.
fn batch_rows(memory: usize, threads: usize) -> usize {
    (memory / threads.max(1) / (32 << 10)).clamp(512, BATCH_ROWS)
}

fn state(settings: &Settings, threads: usize, spill: Option<&Arc<SpillFiles>>) -> Result<SessionState> {
    let memory = usize::try_from(settings.query_memory.as_u64()).unwrap_or(usize::MAX);
    let spill_mode = match spill {
        Some(files) => DiskManagerMode::Custom(Arc::clone(files) as _),
        None => DiskManagerMode::Disabled,
    };
    let largest = std::num::NonZeroUsize::new(3).expect("three is not zero");
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(TrackConsumersPool::new(SharedPool::new(memory), largest)))
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(spill_mode))
        .build_arc()?;
    let mut config = SessionConfig::new()
        // The catalog has its own, which knows NOT NULL.
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_target_partitions(threads)
        .with_batch_size(batch_rows(memory, threads));
    // What a sort keeps for merging what it has spilled, within the memory that there is.
    let for_merge = (memory / 16 / threads.max(1)).clamp(64 << 10, 10 << 20);
    config.options_mut().execution.sort_spill_reservation_bytes = for_merge;
    // A file for each batch that an exchange spills. An exchange to whose file several partitions append can wait for ever
    // for a batch that lies in another file (apache/datafusion#24883, in 55.2).
    config.options_mut().execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(1)?;
    // 0.1 is a tenth here, not the double next to it; DECIMAL columns get what was written.
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    // The rows of a subquery keep its order: a LIMIT around it takes the first ones.
    config.options_mut().sql_parser.enable_subquery_sort_elimination = false;
    let mut scans = ScanOptions::default();
    if settings.distribute.is_some() {
        in_pieces(&mut config);
        scans.placement = Placement::Push.to_string();
        scans.divide = false;
    }
    config.options_mut().extensions.insert(scans);
    // Before DataFusion's coercion of types; behind it, what that has left.
    let mut analyzers: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(WrittenGroups),
        Arc::new(SetsOfColumns),
        // A text is of the type that is found for the others, and then all of them have one.
        Arc::new(OuterTypes::Take),
        Arc::new(MixedTypes),
        Arc::new(UntypedTexts),
        Arc::new(BytesAsTexts),
        Arc::new(Recursion),
        Arc::new(OneRow),
        Arc::new(Barrier),
        Arc::new(OuterTypes::Take),
        Arc::new(MixedTypes),
        Arc::new(ExactNumbers),
        Arc::new(FloatsStayFloats),
        Arc::new(WideFrames),
        Arc::new(TruthsAsLetters),
        Arc::new(LateConstants),
    ];
    analyzers.extend(Analyzer::new().rules);
    analyzers.push(Arc::new(OuterTypes::Check));
    analyzers.push(Arc::new(LateBranches));
    analyzers.push(Arc::new(ListsOfConstants));
    analyzers.push(Arc::new(TextsAsBytes));
    analyzers.push(Arc::new(TextsAsTimes));
    analyzers.push(Arc::new(Intervals));
    analyzers.push(Arc::new(ExactNumbers));
    analyzers.push(Arc::new(JoinedTexts));
    analyzers.push(Arc::new(CountRows));
    // Also in the windows that count rows.
    analyzers.push(Arc::new(OneZero));
    analyzers.push(Arc::new(Unnest));
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_type_planner(Arc::new(Planner))
        .with_scalar_functions(if settings.distribute.is_none() { functions::all() } else { Vec::new() })
        .with_default_features()
        .with_analyzer_rules(planning::analyzers(analyzers))
        .with_optimizer_rules(planning::optimizers())
        .with_physical_optimizer_rules(planning::physical_optimizers())
        // The last ones: what they send away, no other rule sees any more.
        .with_physical_optimizer_rule(Arc::new(PlaceScans));
    // The first planner that knows an operator plans it; of functions of one name the last one is called.
    state.expr_planners().get_or_insert_default().insert(0, Arc::new(Arithmetic));
    state.aggregate_functions().get_or_insert_default().extend(exact::aggregates());
    state.scalar_functions().get_or_insert_default().extend(exact::functions());
    state.scalar_functions().get_or_insert_default().extend(bounded::functions());
    state.scalar_functions().get_or_insert_default().extend(functions::planned());
    if settings.distribute.is_none() {
        state.aggregate_functions().get_or_insert_default().extend(functions::aggregates());
    }
    Ok(match &settings.distribute {
        Some(distribute) => state.with_physical_optimizer_rule(Arc::clone(distribute)).build(),
        None => state.with_physical_optimizer_rule(Arc::new(TallyPages)).build(),
    })
}

/// Has plans made whose pieces run in processes of their own, and so share nothing while they run.
fn in_pieces(config: &mut SessionConfig) {
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.enable_dynamic_filter_pushdown = false;
    optimizer.enable_topk_dynamic_filter_pushdown = false;
    optimizer.enable_join_dynamic_filter_pushdown = false;
    optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    // Rows go to other partitions by their keys or not at all.
    optimizer.enable_round_robin_repartition = false;
}
