//! Running: the queries, their answers and their times.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ishigaki_base::ByteSize;
use ishigaki_bench::{Case, Line, Metric, Origin, Progress};
use ishigaki_device::FileDirectory;
use ishigaki_scan::{Placement, Wish};
use ishigaki_sql::arrow::array::{AsArray, RecordBatch};
use ishigaki_sql::{Database, Session};

use crate::answer::{Answer, expected};
use crate::{Error, Query, Result};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the data were loaded.
    pub data: PathBuf,
    /// Which queries.
    pub queries: Vec<Query>,
    /// How often each, after a first time that is not counted.
    pub rounds: usize,
    /// Where the work on pages is to be done.
    pub placement: Wish,
    /// Threads that run a query; as many as the machine has cores if it is not said.
    pub threads: Option<NonZeroUsize>,
    /// What pages may take in memory; none means that each query reads them from the medium.
    pub page_memory: Option<ByteSize>,
}

/// The benchmark's database, opened.
#[derive(Debug)]
pub struct Bench {
    session: Session,
    /// As it was said when the data were loaded.
    scale: String,
    page_size: String,
}

impl Bench {
    /// Opens what was loaded.
    pub fn open(data: &Path, settings: Option<&Settings>) -> Result<Self> {
        let not_loaded = || Error::NotLoaded { path: data.to_owned() };
        if !data.join("database").is_dir() {
            return Err(not_loaded());
        }
        let session = Self::database(data, settings)?.session();
        let scale = Self::scale_of(&session)?.ok_or_else(not_loaded)?;
        let page_size = word(&session.query_blocking("SELECT page_size FROM tpch_load")?).ok_or_else(not_loaded)?;
        Ok(Self { session, scale, page_size })
    }

    pub(crate) fn database(data: &Path, settings: Option<&Settings>) -> Result<Database> {
        let mut own = ishigaki_sql::Settings::default();
        if let Some(settings) = settings {
            own.threads = settings.threads;
            own.page_memory = settings.page_memory.unwrap_or(own.page_memory);
        }
        // Made here, since a database makes only its own folder.
        drop(FileDirectory::open(data)?);
        Ok(Database::open(data.join("database"), own)?)
    }

    pub(crate) fn scale_of(session: &Session) -> Result<Option<String>> {
        match session.query_blocking("SELECT scale FROM tpch_load") {
            Ok(rows) => Ok(word(&rows)),
            Err(ishigaki_sql::Error::NoSuchTable { .. } | ishigaki_sql::Error::Plan { .. }) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// The scale of the data, as it was said when they were loaded.
    pub fn scale(&self) -> &str {
        &self.scale
    }

    /// Runs a query once and sums its answer up.
    pub fn answer(&self, query: Query) -> Result<Answer> {
        let of_query = |source| Error::Query { query: query.number(), source };
        let rows = self.session.query_blocking(&self.text(query)).map_err(of_query)?;
        Answer::of(&rows).map_err(|error| of_query(error.into()))
    }

    /// A query's text for these data.
    pub fn text(&self, query: Query) -> String {
        query.text(self.scale.parse().unwrap_or(1.0))
    }
}

/// The text in the first row and column.
fn word(rows: &[RecordBatch]) -> Option<String> {
    let column = rows.first().filter(|rows| rows.num_rows() > 0)?.column(0);
    Some(column.as_string_view_opt()?.value(0).to_owned())
}

/// Runs each query, one round after the other, so that what disturbs the machine disturbs all of them. An answer that is
/// not the expected one, or not that of the first time, is an error instead of a figure.
pub fn run(settings: &Settings, origin: &Origin, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    if settings.rounds == 0 {
        let reason = "at least one round is needed, and an odd number has a median".to_owned();
        return Err(Error::Invalid { setting: "rounds", reason });
    }
    if !matches!(settings.placement, Wish::Auto | Wish::Fixed(Placement::Local)) {
        let reason = format!("these data lie on this machine, and {} is for others; say local", settings.placement);
        return Err(Error::Invalid { setting: "placement", reason });
    }
    let bench = Bench::open(&settings.data, Some(settings))?;
    let mut first: Vec<Answer> = Vec::new();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); settings.queries.len()];
    let of = (settings.queries.len() * (settings.rounds + 1)) as u64;
    let mut done = 0;
    for round in 0..=settings.rounds {
        for (at, &query) in settings.queries.iter().enumerate() {
            progress.step(&format!("query {query}"), done, of);
            let begin = Instant::now();
            let answer = bench.answer(query)?;
            let elapsed = begin.elapsed().as_secs_f64();
            done += 1;
            let should = if round == 0 { expected(bench.scale(), query.number()) } else { Some(first[at].clone()) };
            if let Some(reason) = should.and_then(|should| answer.difference(&should)) {
                return Err(Error::Wrong { query: query.number(), reason });
            }
            if round == 0 {
                first.push(answer);
            } else {
                times[at].push(elapsed);
            }
        }
    }
    let line = |(&query, runs): (&Query, Vec<f64>)| {
        Line::new("tpch", bench.case(settings, query), Metric::LatencyP50, runs, origin)
    };
    Ok(settings.queries.iter().zip(times).map(line).collect())
}

impl Bench {
    fn case(&self, settings: &Settings, query: Query) -> Case {
        let mut case = Case::new();
        case.insert("query".to_owned(), query.number().into());
        case.insert("scale".to_owned(), self.scale.clone().into());
        case.insert("placement".to_owned(), Placement::Local.to_string().into());
        case.insert("page".to_owned(), self.page_size.clone().into());
        if let Some(threads) = settings.threads {
            case.insert("threads".to_owned(), threads.get().into());
        }
        let checked = expected(&self.scale, query.number()).is_some();
        case.insert("checked".to_owned(), if checked { "expected answer" } else { "same answer" }.into());
        case
    }
}
