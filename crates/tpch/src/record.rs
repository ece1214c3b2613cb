//! Recording: the page accesses of a query whose pages travel, as the node that has them notes them.
//!
//! No page is kept between two runs, so that what is noted is all that the query needs, each time.

use std::path::PathBuf;

use ishigaki_base::ByteSize;
use ishigaki_bench::replay::{self, Trace};
use ishigaki_bench::{Case, Origin, Progress};
use ishigaki_scan::{Placement, Wish};

use crate::answer::expected;
use crate::node::Serving;
use crate::{Bench, Error, Host, Query, Result, Settings};

/// What to record.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Where the data were loaded.
    pub data: PathBuf,
    /// The program that serves when it is called as `PROGRAM node …`.
    pub program: PathBuf,
    /// Which query.
    pub query: Query,
    /// How often it is run, one after the other.
    pub times: usize,
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What it was recorded of.
    pub recording: Recording,
    /// The reads of all runs.
    pub trace: Trace,
    /// The scale of the data, as it was said when they were loaded.
    pub scale: String,
    /// The size of their pages.
    pub page_size: String,
}

impl Recorded {
    /// The usual replay of it.
    pub fn replay(&self, origin: Origin) -> replay::Settings {
        let Recording { data, program, query, times } = &self.recording;
        let case = Case::from_iter([
            ("query".to_owned(), query.number().into()),
            ("times".to_owned(), (*times).into()),
            ("scale".to_owned(), self.scale.clone().into()),
            ("page".to_owned(), self.page_size.clone().into()),
        ]);
        let usual = replay::Settings::new(data.join("pages"), program, self.trace.clone(), origin);
        replay::Settings { case, ..usual }
    }
}

/// Runs the query at a node that notes reads. The answers must be right, where the right one is known.
pub fn record(recording: &Recording, progress: &mut dyn Progress) -> Result<Recorded> {
    if recording.times == 0 {
        let reason = "a query that is never run reads nothing; 5 is usual".to_owned();
        return Err(Error::Invalid { setting: "times", reason });
    }
    let placement = Wish::Fixed(Placement::Fetch);
    let host = Host::Own { program: recording.program.clone() };
    let settings = Settings {
        data: recording.data.clone(),
        queries: vec![recording.query],
        rounds: recording.times,
        placements: vec![placement],
        host: host.clone(),
        threads: None,
        page_memory: Some(ByteSize(0)),
    };
    let here = Bench::open(&recording.data, Some(&settings))?;
    let notes = Notes(recording.data.join(format!("reads-{}", std::process::id())));
    let node = Serving::begin(&host, &recording.data.join("pages"), settings.page_memory, Some(notes.0.clone()))?;
    let bench = here.at_node(node.location(), placement, &settings)?;
    for run in 0..recording.times {
        progress.step(&format!("recording query {}", recording.query), run as u64, recording.times as u64);
        let answer = bench.answer(recording.query)?;
        let should = expected(here.scale(), recording.query.number());
        if let Some(reason) = should.and_then(|should| answer.difference(&should)) {
            return Err(Error::Wrong { query: recording.query.number(), placement, reason });
        }
    }
    drop(bench);
    node.end()?;
    let (scale, page_size) = (here.scale().to_owned(), here.page_size().to_owned());
    Ok(Recorded { recording: recording.clone(), trace: Trace::read(&notes.0)?, scale, page_size })
}

/// A file that goes when it was read.
struct Notes(PathBuf);

impl Drop for Notes {
    fn drop(&mut self) {
        // What can not be removed says by its name what it is.
        let _ = std::fs::remove_file(&self.0);
    }
}
