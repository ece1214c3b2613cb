//! Queries over a link to a host of its own, which may be busy: is work pushed where that pays, and does `auto` find it out?
//!
//! ```text
//!   for each link, for each load of the node
//!     rounds: each query in each placement, in an order drawn anew ─▶ lines, and the ratios that count
//! ```
//!
//! The two hosts are made of this one ([`Hosts`]): the node has a network and processors of its own, and keeps pages in memory;
//! the client, this process, keeps none, so that what is fetched travels each time. *Busy* is said by what: processes that
//! spin, or other clients whose scans are pushed to the same node.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ishigaki_base::ByteSize;
use ishigaki_bench::hosts::{Hosts, Speed, Spinning};
use ishigaki_bench::{Line, Metric, Origin, Progress, Stage};
use ishigaki_remote::Location;
use ishigaki_scan::{Placement, Wish};
use serde_json::Value;

use crate::node::Serving;
use crate::run::{ended, rounds, validate};
use crate::{Bench, Error, Host, Query, Result, Settings};

/// Processes that spin on each of the node's processors.
const SPINNERS: usize = 4;
/// Other clients.
const CLIENTS: usize = 4;
/// What they ask, again and again.
const ASKED: u8 = 1;

/// What the node's host does beside what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Nothing.
    Idle,
    /// Four processes on each of its processors count time.
    Spinning,
    /// Four other clients have query 1 pushed there, again and again.
    Scans,
}

impl Load {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Idle, Self::Spinning, Self::Scans];
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Spinning => "spinning",
            Self::Scans => "scans",
        })
    }
}

impl FromStr for Load {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|load| load.to_string() == text).ok_or_else(|| Error::Invalid {
            setting: "busy",
            reason: format!("`{text}` is none of idle, spinning and scans"),
        })
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Apart {
    /// Where the data were loaded.
    pub data: PathBuf,
    /// The program that serves when it is called as `PROGRAM node …`.
    pub program: PathBuf,
    /// Which queries.
    pub queries: Vec<Query>,
    /// In which placements.
    pub placements: Vec<Wish>,
    /// Over which links.
    pub links: Vec<Speed>,
    /// While the node does what.
    pub loads: Vec<Load>,
    /// How often each, after a first time that is not counted.
    pub rounds: usize,
    /// Pages that the node keeps.
    pub memory: ByteSize,
}

impl Default for Apart {
    fn default() -> Self {
        Self {
            data: PathBuf::new(),
            program: PathBuf::new(),
            queries: Vec::new(),
            placements: vec![Wish::Fixed(Placement::Fetch), Wish::Fixed(Placement::Push), Wish::Auto],
            links: vec![Speed::Bits(1_000_000_000), Speed::Unshaped],
            loads: Load::ALL.to_vec(),
            rounds: 5,
            memory: ByteSize::gib(1),
        }
    }
}

/// Measures all of it, one link and load after the other. Where two hosts can not be made of this one it is an error of
/// [`Hosts`].
pub fn run_apart(apart: &Apart, origin: &Origin, progress: &mut dyn Progress) -> Result<Vec<Line>> {
    let hosts = Arc::new(Hosts::new()?);
    // Before there are threads that run queries.
    let stay = hosts.stay_here()?;
    let host = Host::Apart { program: apart.program.clone(), hosts: Arc::clone(&hosts), memory: apart.memory };
    let settings = Settings {
        data: apart.data.clone(),
        queries: apart.queries.clone(),
        rounds: apart.rounds,
        placements: apart.placements.clone(),
        host,
        threads: None,
        page_memory: Some(ByteSize(0)),
    };
    validate(&settings)?;
    let here = Arc::new(Bench::open(&settings.data, Some(&settings))?);
    let mut node = Some(Serving::begin(&settings.host, &settings.data.join("pages"), None, None)?);
    let mut measured = Ok(Vec::new());
    for &link in &apart.links {
        for &load in &apart.loads {
            let Ok(lines) = &mut measured else { break };
            let mut stage = Stage::new(format!("{link}, node {load}"), &mut *progress);
            let mut measure = || {
                hosts.shape(link)?;
                let busy = Busy::begin(load, &hosts, &here, node.as_ref(), &settings)?;
                let measured = rounds(&settings, origin, &here, &mut node, &mut stage)?;
                busy.end()?;
                Ok(labelled(measured, link, load, &hosts, origin))
            };
            match measure() {
                Ok(more) => lines.extend(more),
                Err(error) => measured = Err(error),
            }
        }
    }
    drop(stay);
    ended(measured, node)
}

/// What keeps the node busy; it ends when this is dropped.
struct Busy {
    _spinning: Option<Spinning>,
    clients: Vec<JoinHandle<Result<()>>>,
    stop: Arc<AtomicBool>,
}

impl Busy {
    fn begin(load: Load, hosts: &Hosts, here: &Bench, node: Option<&Serving>, settings: &Settings) -> Result<Self> {
        let spinning = (load == Load::Spinning).then(|| hosts.spin(SPINNERS)).transpose()?;
        let mut busy = Self { _spinning: spinning, clients: Vec::new(), stop: Arc::default() };
        let location = node.map(Serving::location).filter(|_| load == Load::Scans);
        let Some((location, query)) = location.zip(Query::new(ASKED)) else { return Ok(busy) };
        for _ in 0..CLIENTS {
            busy.clients.push(client(here, location, query, settings, &busy.stop)?);
        }
        Ok(busy)
    }

    /// Ends it; a client that failed did not keep anybody busy.
    fn end(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let mut ended = std::mem::take(&mut self.clients).into_iter().map(JoinHandle::join);
        let gone = |_| Error::Invalid { setting: "busy", reason: "one of the other clients has gone".to_owned() };
        ended.try_for_each(|ended| ended.map_err(gone)?)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            // Its failure is told by `end`.
            let _ = client.join();
        }
    }
}

/// Somebody else who pushes a query, with a connection and a database of his own.
fn client(
    here: &Bench,
    location: &Location,
    query: Query,
    settings: &Settings,
    stop: &Arc<AtomicBool>,
) -> Result<JoinHandle<Result<()>>> {
    let bench = here.at_node(location, Wish::Fixed(Placement::Push), settings)?;
    let stop = Arc::clone(stop);
    Ok(std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            bench.rows(query)?;
        }
        Ok(())
    }))
}

/// The lines of one link and load, and what is to be seen of them.
fn labelled(lines: Vec<Line>, link: Speed, load: Load, hosts: &Hosts, origin: &Origin) -> Vec<Line> {
    let label = |mut line: Line| {
        "apart".clone_into(&mut line.bench);
        for (key, value) in [("link", link.to_string()), ("node", load.to_string()), ("cores", hosts.processors())] {
            line.case.insert(key.to_owned(), Value::from(value));
        }
        line
    };
    // What the node and this process did for others can not be told from what they did for these.
    let is_own = |line: &Line| load != Load::Scans || line.metric == Metric::LatencyP50;
    let mut lines: Vec<Line> = lines.into_iter().filter(is_own).map(label).collect();
    lines.extend(ratios(&lines, origin));
    lines
}

/// How far `auto` is behind the better one of the others, and fetching behind pushing, round by round.
fn ratios(lines: &[Line], origin: &Origin) -> Vec<Line> {
    let times: Vec<&Line> = lines.iter().filter(|line| line.metric == Metric::LatencyP50).collect();
    let of = |query: &Value, placement: &str| {
        let is = |line: &&&Line| line.case["query"] == *query && line.case["placement"] == placement;
        times.iter().find(is).copied()
    };
    let mut ratios = Vec::new();
    for auto in times.iter().filter(|line| line.case["placement"] == "auto") {
        let query = &auto.case["query"];
        let (Some(fetch), Some(push)) = (of(query, "fetch"), of(query, "push")) else { continue };
        let better = if fetch.median < push.median { fetch } else { push };
        for (of, over, under) in [("auto over the better", *auto, better), ("fetch over push", fetch, push)] {
            let mut case = auto.case.clone();
            for key in ["placement", "chosen"] {
                case.remove(key);
            }
            case.insert("of".to_owned(), of.into());
            let runs = over.runs.iter().zip(&under.runs).map(|(over, under)| over / under).collect();
            ratios.push(Line::new("apart", case, Metric::Ratio, runs, origin));
        }
    }
    ratios
}

#[cfg(test)]
mod tests {
    use ishigaki_base::random::Seed;
    use ishigaki_bench::Case;

    use super::*;

    #[test]
    fn auto_is_held_against_the_better_one_of_the_same_round() {
        let origin = Origin { machine: "a machine".into(), commit: "abc".into(), seed: Seed(7) };
        let line = |placement: &str, runs: [f64; 3]| {
            let case = Case::from_iter([("query".to_owned(), 6.into()), ("placement".to_owned(), placement.into())]);
            Line::new("apart", case, Metric::LatencyP50, runs.to_vec(), &origin)
        };
        let lines = [line("fetch", [8.0, 9.0, 10.0]), line("push", [1.0, 2.0, 4.0]), line("auto", [1.1, 2.0, 6.0])];
        let found = ratios(&lines, &origin);
        let runs = |of: &str| found.iter().find(|line| line.case["of"] == of).expect(of).runs.clone();
        assert_eq!(runs("auto over the better"), [1.1, 1.0, 1.5]);
        assert_eq!(runs("fetch over push"), [8.0, 4.5, 2.5]);
        assert!(found.iter().all(|line| line.case["query"] == 6 && !line.case.contains_key("placement")));
    }

    #[test]
    fn a_load_is_called_as_it_is_shown() {
        for load in Load::ALL {
            assert_eq!(load.to_string().parse::<Load>().expect("known"), load);
        }
        assert!("busy".parse::<Load>().expect_err("unknown").to_string().contains("spinning"));
    }
}
