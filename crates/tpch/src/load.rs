//! Loading: the generator's rows into page files.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ishigaki_base::ByteSize;
use ishigaki_bench::Progress;
use ishigaki_device::FileDirectory;
use ishigaki_page::Writer;
use ishigaki_sql::Session;
use parking_lot::Mutex;

use crate::{Bench, Error, Result, Table};

/// How often a person hears of progress.
const TELL: Duration = Duration::from_millis(100);

/// What to load, and where to.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// The directory; a folder for the database and one for the page files are made in it.
    pub data: PathBuf,
    /// 1 is about a gigabyte of text.
    pub scale: f64,
    /// Of all page files.
    pub page_size: ByteSize,
    /// Tables that are filled at a time; as many as the machine has cores if it is not said.
    pub threads: Option<usize>,
}

/// What was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// In all tables.
    pub rows: u64,
    /// In all tables.
    pub pages: u64,
}

/// Fills a new directory. What an interrupted load leaves is not used: load into another directory, or remove it.
pub fn load(settings: &LoadSettings, progress: &mut dyn Progress) -> Result<Loaded> {
    if !(settings.scale > 0.0 && settings.scale <= 100_000.0) {
        return Err(Error::Invalid {
            setting: "scale",
            reason: "it is a number above 0, such as 0.01, 1 or 10".to_owned(),
        });
    }
    let database = Bench::database(&settings.data, None)?;
    let session = database.session();
    if let Some(scale) = Bench::scale_of(&session)? {
        return Err(Error::Loaded { path: settings.data.clone(), scale });
    }
    create(&session, settings)?;
    let loaded = fill(settings, progress)?;
    // Last, so that only what is complete counts as loaded.
    session.execute_blocking("CREATE TABLE tpch_load (scale TEXT NOT NULL, page_size TEXT NOT NULL)")?;
    session
        .execute_blocking(&format!("INSERT INTO tpch_load VALUES ('{}', '{}')", settings.scale, settings.page_size))?;
    drop(session);
    database.close()?;
    Ok(loaded)
}

fn pages_in(settings: &LoadSettings) -> PathBuf {
    settings.data.join("pages")
}

fn create(session: &Session, settings: &LoadSettings) -> Result<()> {
    let location = pages_in(settings).display().to_string().replace('\'', "''");
    for table in Table::ALL {
        session.execute_blocking(&format!(
            "CREATE TABLE {} ({}) WITH (storage = 'paged', location = '{location}', page_size = '{}')",
            table.name(),
            table.columns(),
            settings.page_size
        ))?;
    }
    Ok(())
}

/// Fills several tables at a time, each by a thread that makes rows and one that makes pages of them.
fn fill(settings: &LoadSettings, progress: &mut dyn Progress) -> Result<Loaded> {
    let threads = settings.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
    let total: u64 = Table::ALL.iter().map(|table| table.rows(settings.scale)).sum();
    let (rows, pages, ended) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let waiting = Mutex::new(VecDeque::from(Table::ALL));
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(table) = next(&waiting, &failed) {
                    match fill_table(table, settings, &rows) {
                        Ok(filled) => _ = pages.fetch_add(filled, Ordering::Relaxed),
                        Err(error) => _ = failed.lock().get_or_insert(error),
                    }
                }
                ended.fetch_add(1, Ordering::Release);
            });
        }
        while ended.load(Ordering::Acquire) < threads.max(1) as u64 {
            progress.step("rows", rows.load(Ordering::Relaxed), total);
            std::thread::sleep(TELL);
        }
    });
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(Loaded { rows: rows.into_inner(), pages: pages.into_inner() }),
    }
}

fn next(waiting: &Mutex<VecDeque<Table>>, failed: &Mutex<Option<Error>>) -> Option<Table> {
    if failed.lock().is_some() { None } else { waiting.lock().pop_front() }
}

/// How many pages.
fn fill_table(table: Table, settings: &LoadSettings, rows: &AtomicU64) -> Result<u64> {
    let directory = Arc::new(FileDirectory::open(pages_in(settings))?);
    let mut writer = Writer::open(directory, table.name(), ishigaki_page::Settings::default())?;
    let mut append = writer.append()?;
    let (sender, batches) = std::sync::mpsc::sync_channel(8);
    std::thread::scope(|scope| {
        let scale = settings.scale;
        // Ends with its rows, or when nobody wants them.
        scope.spawn(move || table.generate(scale).try_for_each(|batch| sender.send(batch).map_err(drop)));
        for batch in batches {
            append.write(&batch)?;
            rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        }
        Ok(append.commit()?.pages)
    })
}
