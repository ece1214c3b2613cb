//! `figures`: all experiments of a paper at a given scale, and what is to be seen of them.
//!
//! ```text
//! p1::run(), p2::run(), p4::run() ──▶ lines ──▶ write(): p1.jsonl, a plot (SVG) for each chart, p1.md
//!                                       ▲ ▲
//!                    read() ────────────┘ │  of an earlier run
//!                    ishigaki-tpch ───────┘  paper 3, whose experiments run queries
//! ```
//!
//! Plots and page are made of lines and nothing else, so that they can be drawn again, from one run or from several. They
//! say for each medium and machine what was measured there; whatever has no lines is left out. What a person wrote between
//! the page's marks stays when it is written again.
//!
//! Rooms: `p1` to `p4`, `p5a` and `p5b` are the papers (`p4_tpcc` is a second page about the fourth): what is measured, what the authors found, which charts, which page. `compared` is
//! where those of the fourth are done, `cases` what they ask of lines, `findings` puts theirs beside ours, `chart` and `units` draw, and `notes` is what a person wrote.

mod cases;
mod chart;
mod compared;
pub mod endurance;
mod findings;
mod notes;
pub mod p1;
pub mod p2;
mod p3;
pub mod p4;
pub mod p4_tpcc;
pub mod p5a;
pub mod p5b;
mod paper;
mod units;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub use compared::Compared;
pub use paper::Paper;
pub use units::Unit;

use crate::{Error, Line, Result};

/// Writes the lines, their plots and the page about a paper into a directory, which is made if it is not there. Gives the
/// files. A page that is there keeps its notes; one without a place for notes is refused, after all else is written, since
/// what is by hand in it would be lost.
pub fn write(directory: &Path, paper: Paper, lines: &[Line]) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(directory).map_err(|source| failed(directory, "making the directory", source))?;
    let mut files = Vec::new();
    let mut put = |name: String, content: String| {
        let path = directory.join(name);
        fs::write(&path, content).map_err(|source| failed(&path, "writing a figure", source))?;
        files.push(path);
        Ok::<_, Error>(())
    };
    put(format!("{paper}.jsonl"), lines.iter().map(|line| line.json() + "\n").collect())?;
    let plots = plots(paper, lines)?;
    let page = paper.page(lines, &plots);
    for Plot { name, svg, .. } in plots {
        put(format!("{name}.svg"), svg)?;
    }
    let name = format!("{paper}.md");
    let page = with_notes(&directory.join(&name), page)?;
    put(name, page)?;
    Ok(files)
}

/// The page with the notes of the one that is there, if one is.
fn with_notes(path: &Path, page: String) -> Result<String> {
    match fs::read_to_string(path) {
        Ok(earlier) => notes::keep(&page, &earlier).ok_or_else(|| {
            let reason = format!(
                "{} has no place for notes, and what is by hand in it would be lost; put it away, or draw into another \
                 directory",
                path.display()
            );
            Error::Invalid { setting: "out", reason }
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(page),
        Err(source) => Err(failed(path, "reading the page that is there", source)),
    }
}

/// A plot that was drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// Its file's name, without the ending.
    pub name: String,
    /// What is to be seen.
    pub title: String,
    /// The picture. Of the same lines always the same.
    pub svg: String,
}

/// The plots about a paper that these lines give.
pub fn plots(paper: Paper, lines: &[Line]) -> Result<Vec<Plot>> {
    let draw = |chart: chart::Chart| {
        let svg = chart.svg()?;
        Ok(Plot { name: chart.name, title: chart.title, svg })
    };
    paper.charts(lines).into_iter().map(draw).collect()
}

/// The lines of an earlier run, from a file with an object a line.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let text = fs::read_to_string(path).map_err(|source| failed(path, "reading lines", source))?;
    let parse = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| Error::Invalid {
            setting: "lines",
            reason: format!("{}, line {}: {error}", path.display(), at + 1),
        })
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect()
}

fn failed(path: &Path, operation: &'static str, source: std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), operation, source }
}
