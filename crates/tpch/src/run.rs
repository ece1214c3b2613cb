//! Running: the queries in every placement, their answers, their times, and what they took of both machines.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ishigaki_base::ByteSize;
use ishigaki_bench::{Case, Line, Metric, Origin, Progress};
use ishigaki_remote::Status;
use ishigaki_scan::{Placement, Wish};
use rustix::time::{ClockId, clock_gettime};

use crate::answer::{Answer, expected};
use crate::node::Serving;
use crate::{Bench, Error, Host, Query, Result, Rows};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the data were loaded.
    pub data: PathBuf,
    /// Which queries.
    pub queries: Vec<Query>,
    /// How often each, after a first time that is not counted.
    pub rounds: usize,
    /// Where the work on pages is to be done: here, for `local`; else the page files are those of a node.
    pub placements: Vec<Wish>,
    /// Which node, if one is needed.
    pub host: Host,
    /// Threads that run a query; as many as the machine has cores if it is not said.
    pub threads: Option<NonZeroUsize>,
    /// What pages may take in memory, on each side; none means that each query reads them from the medium.
    pub page_memory: Option<ByteSize>,
}

/// One placement, with a database of its own, and so with pages in memory of its own.
struct Side {
    wish: Wish,
    bench: Arc<Bench>,
}

/// One run of a query.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    seconds: f64,
    client: f64,
    node: f64,
    received: f64,
}

/// All rounds of a query in one placement.
#[derive(Clone, Debug, Default)]
struct Taking {
    rounds: Vec<Taken>,
    /// What the placements of its scans were, where work may go to the node.
    chosen: Vec<String>,
}

/// Runs each query in each placement, one round after the other and in an order drawn anew, so that what disturbs the machine
/// disturbs all of them. An answer that is not the expected one, not that of the first time, or not that of the other
/// placements, is an error instead of a figure.
pub fn run(settings: &Settings, origin: &Origin, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    validate(settings)?;
    let here = Arc::new(Bench::open(&settings.data, Some(settings))?);
    let at_node = settings.placements.iter().any(|wish| *wish != LOCAL);
    let pages = settings.data.join("pages");
    let begin = || Serving::begin(&settings.host, &pages, settings.page_memory, None);
    let mut node = at_node.then(begin).transpose()?;
    let measured = rounds(settings, origin, &here, &mut node, progress);
    ended(measured, node)
}

/// What was measured, when its node has ended well.
pub(crate) fn ended(measured: Result<Vec<Line>>, node: Option<Serving>) -> Result<Vec<Line>> {
    match (measured, node) {
        (Err(error), Some(mut node)) => Err(node.explain(error)),
        (Ok(lines), Some(node)) => node.end().map(|()| lines),
        (measured, None) => measured,
    }
}

pub(crate) const LOCAL: Wish = Wish::Fixed(Placement::Local);

pub(crate) fn validate(settings: &Settings) -> Result<()> {
    let invalid = |setting, reason: &str| Err(Error::Invalid { setting, reason: reason.to_owned() });
    if settings.rounds == 0 {
        return invalid("rounds", "at least one round is needed, and an odd number has a median");
    }
    let twice = |(at, wish): (usize, &Wish)| settings.placements[..at].contains(wish);
    if settings.placements.is_empty() || settings.placements.iter().enumerate().any(twice) {
        return invalid("placement", "give one or more, each once, of local, fetch, push and auto");
    }
    Ok(())
}

/// All rounds of all queries, over the data here and over a node that serves the same, if one is needed.
pub(crate) fn rounds(
    settings: &Settings,
    origin: &Origin,
    here: &Arc<Bench>,
    node: &mut Option<Serving>,
    progress: &mut dyn Progress,
) -> Result<Vec<Line>> {
    let mut sides = Vec::new();
    for &wish in settings.placements.iter().filter(|wish| **wish != LOCAL) {
        if let Some(node) = node {
            sides.push(Side { wish, bench: Arc::new(here.at_node(node.location(), wish, settings)?) });
        }
    }
    if settings.placements.contains(&LOCAL) {
        sides.insert(0, Side { wish: LOCAL, bench: Arc::clone(here) });
    }
    let mut random = origin.seed.generator();
    let mut measured = vec![vec![Taking::default(); sides.len()]; settings.queries.len()];
    let mut first: Vec<Option<Rows>> = vec![None; settings.queries.len()];
    let of = (settings.queries.len() * (settings.rounds + 1) * sides.len()) as u64;
    let mut done = 0;
    for round in 0..=settings.rounds {
        for (at, &query) in settings.queries.iter().enumerate() {
            let mut order: Vec<usize> = (0..sides.len()).collect();
            random.shuffle(&mut order);
            for number in order {
                let side = &sides[number];
                progress.step(&format!("query {query}, {}", side.wish), done, of);
                let taking = &mut measured[at][number];
                let (taken, rows) = once(side, query, node.as_ref(), taking)?;
                match &first[at] {
                    Some(first) => same_rows(side, query, &rows, first)?,
                    None => first[at] = Some(rows),
                }
                if round > 0 {
                    taking.rounds.push(taken);
                }
                done += 1;
            }
        }
    }
    let mut lines = Vec::new();
    for (&query, measured) in settings.queries.iter().zip(&measured) {
        let local = sides.iter().position(|side| side.wish == LOCAL).map(|at| &measured[at]);
        for (side, taking) in sides.iter().zip(measured) {
            lines.extend(figures(settings, origin, side, query, taking, local.filter(|_| side.wish != LOCAL)));
        }
    }
    Ok(lines)
}

/// Runs a query and judges its answer by what is known.
fn once(side: &Side, query: Query, node: Option<&Serving>, taking: &mut Taking) -> Result<(Taken, Rows)> {
    // As a fixed wish, too, it is not for every scan.
    if matches!(side.wish, Wish::Auto | Wish::Fixed(Placement::Push)) {
        let chosen = side.bench.placements(query)?;
        if !taking.chosen.contains(&chosen) {
            taking.chosen.push(chosen);
        }
    }
    let node = node.filter(|_| side.wish != LOCAL);
    let refused = side.bench.refused();
    let before = (node.map(Serving::status).transpose()?, processor());
    let begin = Instant::now();
    let batches = side.bench.rows(query)?;
    let seconds = begin.elapsed().as_secs_f64();
    let after = (processor(), node.map(Serving::status).transpose()?);
    let count = side.bench.refused() - refused;
    if count > 0 {
        return Err(Error::Refused { query: query.number(), placement: side.wish, count });
    }
    let summed = Answer::of(&batches);
    let rows = summed.and_then(|answer| Ok((answer, Rows::of(&batches)?)));
    let (answer, rows) = rows.map_err(|error| Error::Query { query: query.number(), source: error.into() })?;
    let should = expected(side.bench.scale(), query.number());
    if let Some(reason) = should.and_then(|should| answer.difference(&should)) {
        return Err(wrong(side, query, reason));
    }
    let (node, received) = between(before.0, after.1);
    Ok((Taken { seconds, client: after.0.saturating_sub(before.1).as_secs_f64(), node, received }, rows))
}

fn same_rows(side: &Side, query: Query, rows: &Rows, first: &Rows) -> Result<()> {
    let text = side.bench.text(query);
    match rows.difference(first, &Query::ordered_by(&text)) {
        Some(reason) => Err(wrong(side, query, format!("not the rows of the first time: {reason}"))),
        None => Ok(()),
    }
}

fn wrong(side: &Side, query: Query, reason: String) -> Error {
    Error::Wrong { query: query.number(), placement: side.wish, reason }
}

/// Processor time of this process so far.
fn processor() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Seconds of the node's processors, and bytes that it sent, between two of its words.
fn between(before: Option<Status>, after: Option<Status>) -> (f64, f64) {
    let (Some(before), Some(after)) = (before, after) else { return (0.0, 0.0) };
    let sent = |status: &Status| status.bytes_read + status.bytes_of_results;
    let nanos = after.processor_nanos.saturating_sub(before.processor_nanos);
    (Duration::from_nanos(nanos).as_secs_f64(), sent(&after).saturating_sub(sent(&before)) as f64)
}

/// The lines of a query in a placement.
fn figures(
    settings: &Settings,
    origin: &Origin,
    side: &Side,
    query: Query,
    taking: &Taking,
    local: Option<&Taking>,
) -> Vec<Line> {
    let case = case(settings, side, query, taking);
    let values = |of: fn(&Taken) -> f64| taking.rounds.iter().map(of).collect::<Vec<_>>();
    let line = |case: &Case, metric, runs| Line::new("tpch", case.clone(), metric, runs, origin);
    let with = |key: &str, word: &str| {
        let mut case = case.clone();
        case.insert(key.to_owned(), word.into());
        case
    };
    let mut lines = vec![
        line(&case, Metric::LatencyP50, values(|taken| taken.seconds)),
        line(&with("side", "client"), Metric::Processor, values(|taken| taken.client)),
    ];
    if side.wish != LOCAL {
        lines.push(line(&with("side", "node"), Metric::Processor, values(|taken| taken.node)));
        lines.push(line(&case, Metric::BytesReceived, values(|taken| taken.received)));
    }
    if let Some(local) = local {
        let pairs = taking.rounds.iter().zip(&local.rounds);
        let ratios = pairs.map(|(own, local)| own.seconds / local.seconds).collect();
        lines.push(line(&with("of", "time over local"), Metric::Ratio, ratios));
    }
    lines
}

fn case(settings: &Settings, side: &Side, query: Query, taking: &Taking) -> Case {
    let (scale, memory) = (side.bench.scale(), settings.page_memory);
    let mut case = Case::from_iter([
        ("query".to_owned(), query.number().into()),
        ("scale".to_owned(), scale.into()),
        ("placement".to_owned(), side.wish.to_string().into()),
        ("page".to_owned(), side.bench.page_size().into()),
    ]);
    let mut add = |key: &str, value: serde_json::Value| _ = case.insert(key.to_owned(), value);
    if let Some(memory) = memory {
        add("page_memory", memory.as_u64().into());
    }
    if let Some(threads) = settings.threads {
        add("threads", threads.get().into());
    }
    if !taking.chosen.is_empty() {
        add("chosen", taking.chosen.join(", then ").into());
    }
    let known = expected(scale, query.number()).is_some();
    add("checked", if known { "expected answer" } else { "same answer" }.into());
    case
}
