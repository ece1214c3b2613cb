//! The page about a long time at full speed ([`endurance`](crate::endurance)): its samples as lines, three charts, and the
//! verdict.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chart::{Axis, Chart, Point, Series};
use super::units::Unit;
use super::{failed, notes, with_notes};
use crate::endurance::{Endured, Judged, Sample, Settings, Verdict};
use crate::{Error, Result};

/// What files begin with.
const NAME: &str = "endurance";

/// A run: what was done, what was seen, and what it shows.
#[derive(Clone, Debug)]
pub struct Report {
    run: Run,
    samples: Vec<Sample>,
    verdict: Verdict,
}

/// What was done.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Run {
    device: String,
    members: usize,
    seconds: f64,
    waiting: String,
    log: u64,
    file: u64,
    real_time: Option<bool>,
    machine: String,
    commit: String,
    seed: u64,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Run(Run),
    Sample(Sample),
    Verdict(Verdict),
}

impl Report {
    /// Of what was seen with these settings.
    pub fn new(settings: &Settings, endured: Endured) -> Self {
        let Endured { samples, verdict, real_time } = endured;
        let run = Run {
            device: settings.disk.to_string(),
            members: settings.members,
            seconds: settings.duration.as_secs_f64(),
            waiting: settings.waiting.to_string(),
            log: settings.log.0,
            file: settings.file.0,
            real_time,
            machine: settings.host.origin.machine.clone(),
            commit: settings.host.origin.commit.clone(),
            seed: settings.host.origin.seed.0,
        };
        Self { run, samples, verdict }
    }

    /// Writes lines, charts and page into a directory. A page that is there keeps its notes.
    pub fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory).map_err(|source| failed(directory, "making the directory", source))?;
        let said = std::iter::once(Said::Run(self.run.clone()))
            .chain(self.samples.iter().cloned().map(Said::Sample))
            .chain([Said::Verdict(self.verdict.clone())]);
        let lines = said.map(|said| serde_json::to_string(&said)).collect::<serde_json::Result<Vec<_>>>();
        let lines = lines.map_err(|error| failed(directory, "writing the samples", error.into()))?;
        put(directory, "jsonl", "", &(lines.join("\n") + "\n"))?;
        for chart in self.charts() {
            put(directory, "svg", &chart.name[NAME.len()..], &chart.svg()?)?;
        }
        let page = with_notes(&directory.join(format!("{NAME}.md")), self.page())?;
        put(directory, "md", "", &page)
    }

    fn charts(&self) -> Vec<Chart> {
        let chart = |word: &str, title: &str, label, unit, series: Vec<Series>| Chart {
            name: format!("{NAME}-{word}"),
            title: format!("{} members on {}: {title}", self.run.members, self.run.device),
            x: Axis { label: "time", unit: Unit::Time },
            y: Axis { label, unit },
            steps: false,
            series,
        };
        let line = |name: &str, colour, dashed, of: fn(&Sample) -> f64| {
            let point = |sample: &Sample| {
                let y = of(sample);
                Point { x: sample.seconds, y, low: y, high: y }
            };
            Series { name: name.to_owned(), points: self.samples.iter().map(point).collect(), colour, dashed }
        };
        let throughput = vec![line("commits", 0, false, |sample| sample.rate)];
        let space = vec![
            line("bound", 7, true, |sample| sample.log_bound as f64),
            line("files", 1, false, |sample| sample.log_files as f64),
            line("needed", 0, false, |sample| sample.log_live as f64),
        ];
        let memory = vec![
            line("resident", 0, false, |sample| sample.resident as f64),
            line("blocks not home", 2, false, |sample| sample.not_home as f64),
        ];
        vec![
            chart("throughput", "commits", "acknowledged", Unit::Rate, throughput),
            chart("space", "the log's space", "bytes", Unit::Bytes, space),
            chart("memory", "the service's memory", "bytes", Unit::Bytes, memory),
        ]
    }

    fn page(&self) -> String {
        let Self { run, samples, verdict } = self;
        let mut page = format!(
            "# A long time at full speed\n\n\
             Members commit through a pool's folders, each of them one commit after the other, with nothing behind them that takes \
             time: whole blocks with 346 fresh bytes, and a sync. The log takes {} at most, much less than is written, so that its \
             space is used again and again; members' files of {} go round as well. Log and homes lie on one ext4 of `{}`. In the \
             end the service was killed and started again, and every member's file had what was acknowledged, byte for byte. All \
             samples are in [{NAME}.jsonl]({NAME}.jsonl).\n\n\
             | | |\n|---|---|\n| machine | {}; source {} |\n| time | {:.0} s |\n| members | {} |\n| way of waiting | {} |\n\n{}\n",
            Unit::Bytes.show(run.log as f64),
            Unit::Bytes.show(run.file as f64),
            run.device,
            run.machine,
            run.commit,
            run.seconds,
            run.members,
            run.waiting,
            notes::place(),
        );
        page.push_str("## What it shows\n\n| aim | here | holds |\n|---|---|---|\n");
        let mut row = |aim: String, here: String, judged: &Judged| {
            let _ = writeln!(page, "| {aim} | {here} | {} |", if judged.holds { "yes" } else { "**no**" });
        };
        let bytes = |bytes: u64| Unit::Bytes.show(bytes as f64);
        let [live, files, bound] = verdict.log;
        row(
            format!("The log keeps to its bound of {}", bytes(bound)),
            format!("{} needed at most, in files of {} at most", bytes(live), bytes(files)),
            &verdict.log_is_bounded,
        );
        let [second, last] = verdict.memory;
        row(
            format!(
                "The service takes no more memory in the last twelfth of the time than {:.2} of the second one's",
                verdict.memory_is_bounded.limit
            ),
            format!(
                "{} and {}: {:.2}; at most {} at any time",
                bytes(second),
                bytes(last),
                verdict.memory_is_bounded.ratio,
                bytes(verdict.most_memory)
            ),
            &verdict.memory_is_bounded,
        );
        let [second, last] = verdict.throughput;
        row(
            format!("The last twelfth has {:.2} of the second one's commits at least", verdict.throughput_lasts.limit),
            format!("{} and {}: {:.3}", Unit::Rate.show(second), Unit::Rate.show(last), verdict.throughput_lasts.ratio),
            &verdict.throughput_lasts,
        );
        if let Some(last) = samples.last() {
            let disk = last.disk.map_or_else(String::new, |[writes, bytes, syncs]| {
                format!(
                    " The disk was asked for {writes} writes of {} together and for {syncs} syncs.",
                    Unit::Bytes.show(bytes as f64)
                )
            });
            let _ = writeln!(
                page,
                "\nCommits: {}, by {} writes of the log. Rounds that brought changes home: {}.{disk}",
                last.commits, last.log_writes, last.rounds
            );
        }
        if run.real_time == Some(false) {
            page.push_str("\nThe disk had no real-time priority here: it waited for processors as all else did.\n");
        }
        for chart in self.charts() {
            let _ = writeln!(page, "\n![{}]({}.svg)", chart.title, chart.name);
        }
        page
    }
}

/// Draws the page again of the lines that are there.
pub fn draw(directory: &Path) -> Result<()> {
    let path = directory.join(format!("{NAME}.jsonl"));
    let text = fs::read_to_string(&path).map_err(|source| failed(&path, "reading the samples", source))?;
    let invalid = |reason: String| Error::Invalid { setting: "lines", reason: format!("{}: {reason}", path.display()) };
    let (mut run, mut samples, mut verdict) = (None, Vec::new(), None);
    for line in text.lines() {
        match serde_json::from_str(line).map_err(|error| invalid(error.to_string()))? {
            Said::Run(said) => run = Some(said),
            Said::Sample(said) => samples.push(said),
            Said::Verdict(said) => verdict = Some(said),
        }
    }
    let (Some(run), Some(verdict)) = (run, verdict) else {
        return Err(invalid("what was done, or the verdict, is not in it".to_owned()));
    };
    Report { run, samples, verdict }.write(directory)
}

fn put(directory: &Path, ending: &str, word: &str, content: &str) -> Result<()> {
    let path = directory.join(format!("{NAME}{word}.{ending}"));
    fs::write(&path, content).map_err(|source| failed(&path, "writing a figure", source))
}
