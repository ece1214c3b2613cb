//! `ishigaki bench tpch`: queries on paged tables.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_bench::Line;
use ishigaki_bench::hosts::Speed;
use ishigaki_remote::Location;
use ishigaki_scan::Wish;
use ishigaki_tpch::{Apart, Host, Load, LoadSettings, Query, Settings, run_apart};

use super::{Bar, EXAMPLES, Report, program};
use crate::failure::Failure;
use crate::human;

/// TPC-H: the 22 queries on paged tables, each answer checked
///
/// `--load` makes the data of the specification's generator, all eight tables in page files below the directory. Then each
/// query is run in each placement once to warm up, and `--rounds` times for the figure. For all placements but local the page
/// files are those of a storage node, a process of its own. All placements and rounds must give the same rows, in the order
/// that the query asks for; and at scales 0.01, 0.1 and 1 an answer must be the one that another database gives.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TpchArguments {
    /// The directory of the data; made by `--load`
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Make the data, and run nothing unless `--query` is given
    #[arg(long)]
    load: bool,

    /// The scale of data to load; 1 is about a gigabyte of text
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, requires = "load")]
    scale: f64,

    /// The size of a page of data to load, from 4KiB to 1MiB
    #[arg(long, value_name = "SIZE", default_value = "128KiB", requires = "load")]
    page_size: ByteSize,

    /// Queries to run: numbers as in 1,3,6, or all
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    query: Vec<String>,

    /// Where the work on pages is done: local (pages and work here), fetch (pages at a node, work here), push (both at a
    /// node), auto (at a node, as it is estimated to be faster); several take turns
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "local")]
    placement: Vec<Wish>,

    /// A node that is there and has the loaded page files, HOST:PORT or node://HOST:PORT/DIR; without it one is started
    #[arg(long, value_name = "PLACE", value_parser = location)]
    node: Option<Location>,

    /// Measure over links of these speeds, as in 1Gbit,none, to a node on another host that is made of this one: with a network
    /// and processors of its own. The client keeps no pages, the node keeps --page-memory. Takes root
    #[arg(long, value_name = "SPEEDS", value_delimiter = ',', conflicts_with_all = ["node", "threads"])]
    link: Vec<Speed>,

    /// What that node's host does meanwhile: idle, spinning (four processes on each of its processors), scans (four other
    /// clients have query 1 pushed there); one after the other
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "idle", requires = "link")]
    busy: Vec<Load>,

    /// Rounds of each query
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,

    /// Threads that run a query, or fill tables; all cores if it is not given
    #[arg(long, value_name = "NUMBER")]
    threads: Option<NonZeroUsize>,

    /// What pages may take in memory between queries, on each side; 0 reads all of them from the medium each time
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    page_memory: ByteSize,

    #[command(flatten)]
    report: Report,
}

pub(super) fn run(arguments: &TpchArguments) -> Result<(), Failure> {
    if arguments.load {
        load(arguments)?;
        if arguments.query.is_empty() {
            return Ok(());
        }
    }
    if !arguments.link.is_empty() {
        return run_links(arguments);
    }
    let host = match &arguments.node {
        Some(location) => Host::Named(Box::new(location.clone())),
        None => Host::Own { program: program()? },
    };
    let settings = Settings {
        data: arguments.data.clone(),
        queries: queries(arguments)?,
        rounds: arguments.rounds,
        placements: arguments.placement.clone(),
        host,
        threads: arguments.threads,
        page_memory: Some(arguments.page_memory),
    };
    let mut bar = Bar::new();
    let lines = ishigaki_tpch::run(&settings, &arguments.report.origin(), &mut bar);
    bar.0.finish_and_clear();
    let lines = lines?;
    if arguments.report.json {
        return arguments.report.show(&lines);
    }
    Ok(io::stdout().write_all(ishigaki_tpch::table(&lines).as_bytes())?)
}

fn queries(arguments: &TpchArguments) -> Result<Vec<Query>, Failure> {
    let words = if arguments.query.is_empty() { &["all".to_owned()][..] } else { &arguments.query[..] };
    Ok(Query::list(words)?)
}

/// Over links to a host of its own: a table for each link and load.
fn run_links(arguments: &TpchArguments) -> Result<(), Failure> {
    let apart = Apart {
        data: arguments.data.clone(),
        program: program()?,
        queries: queries(arguments)?,
        placements: arguments.placement.clone(),
        links: arguments.link.clone(),
        loads: arguments.busy.clone(),
        rounds: arguments.rounds,
        memory: arguments.page_memory,
    };
    let mut bar = Bar::new();
    let lines = run_apart(&apart, &arguments.report.origin(), &mut bar);
    bar.0.finish_and_clear();
    let lines = lines?;
    if arguments.report.json {
        return arguments.report.show(&lines);
    }
    let mut out = io::stdout().lock();
    for link in &arguments.link {
        for load in &arguments.busy {
            let is = |line: &&Line| line.case["link"] == link.to_string() && line.case["node"] == load.to_string();
            let own: Vec<Line> = lines.iter().filter(is).cloned().collect();
            writeln!(out, "Link {link}, node {load}")?;
            out.write_all(ishigaki_tpch::table(&own).as_bytes())?;
        }
    }
    Ok(())
}

/// A node by its address alone, or a directory of one.
fn location(text: &str) -> Result<Location, String> {
    let whole = if text.starts_with("node:") { text.to_owned() } else { format!("node://{text}/") };
    whole.parse().map_err(|error: ishigaki_remote::Error| error.to_string())
}

fn load(arguments: &TpchArguments) -> Result<(), Failure> {
    let settings = LoadSettings {
        data: arguments.data.clone(),
        scale: arguments.scale,
        page_size: arguments.page_size,
        threads: arguments.threads.map(NonZeroUsize::get),
    };
    let mut bar = Bar::new();
    let begin = Instant::now();
    let loaded = ishigaki_tpch::load(&settings, &mut bar);
    bar.0.finish_and_clear();
    let loaded = loaded?;
    // Figures alone are on stdout if they are JSON.
    if !arguments.report.json {
        let bytes = ByteSize(loaded.pages * arguments.page_size.as_u64());
        let (rows, pages) = (human::counted(loaded.rows, "row"), human::counted(loaded.pages, "page"));
        writeln!(io::stdout(), "Loaded {rows} in {pages}, {bytes}, in {}.", human::duration(begin.elapsed()))?;
    }
    Ok(())
}

impl From<ishigaki_tpch::Error> for Failure {
    fn from(error: ishigaki_tpch::Error) -> Self {
        match error {
            // Settings of workloads are arguments of the command.
            ishigaki_tpch::Error::Invalid { .. } => Self::usage(error.to_string()),
            ishigaki_tpch::Error::Bench(error) => error.into(),
            error => Self::of(error.kind(), error),
        }
    }
}
