//! What clients get done without a migration, during one, after one through the folder, and in the directory that it leaves (P5a.8, figures 2.11 and 2.12).

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use serde_json::json;

use super::mix::Mix;
use super::tree::{Fidelity, Shape, Tree};
use super::{OVER_BARE, Protocol, Running, WORK, case, io, wrong};
use crate::{Line, Metric, Progress, Result};

/// What the tree is called.
pub(super) const TREE: &str = "work";
/// Bytes of a read.
const READ: usize = 1 << 20;
/// How often a file is read that is here, so that a run has a length.
const TIMES: u32 = 8;

/// How much clients do.
#[derive(Clone, Debug)]
pub struct Work {
    /// Bytes of a file that is read from its begin to its end.
    pub large: u64,
    /// How many are read at a time.
    pub sessions: Vec<usize>,
    /// Threads of the mix.
    pub threads: usize,
    /// Loops of each of them.
    pub loops: usize,
}

impl Work {
    fn parts(&self) -> Vec<Part> {
        self.sessions.iter().copied().map(Part::Read).chain([Part::Mix]).collect()
    }
}

/// How many runs there are in each round.
pub(super) fn runs() -> usize {
    State::all().len()
}

/// Where clients work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A directory that was never migrated.
    Bare,
    /// The folder of a migration that begins with the work.
    During(Protocol),
    /// The folder of a migration that has brought everything.
    Done(Protocol),
    /// The directory of a migration that was finished; its service has ended.
    Finished(Protocol),
}

impl State {
    fn all() -> Vec<Self> {
        let of = |protocol| [Self::During(protocol), Self::Done(protocol), Self::Finished(protocol)];
        [Self::Bare].into_iter().chain(Protocol::BOTH.into_iter().flat_map(of)).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::During(_) => "during",
            Self::Done(_) => "done",
            Self::Finished(_) => "finished",
        }
    }

    fn server(self) -> String {
        match self {
            Self::Bare => "none".to_owned(),
            Self::During(protocol) | Self::Done(protocol) | Self::Finished(protocol) => protocol.to_string(),
        }
    }
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// So many files at a time, from begin to end.
    Read(usize),
    Mix,
}

/// The tree with what clients do in it.
struct Site<'a> {
    work: &'a Work,
    tree: &'a Tree,
}

impl Running<'_> {
    pub(super) fn work(&mut self, work: &Work, progress: &mut dyn Progress) -> Result<Vec<Line>> {
        let sessions = work.sessions.iter().copied().max().unwrap_or(0);
        let seed = self.settings.origin.seed.derive(0x30);
        let tree = Tree::new(Shape::Office, self.settings.shrink, seed).with_large(sessions, work.large);
        self.write(&tree, TREE)?;
        let site = Site { work, tree: &tree };
        let (states, parts) = (State::all(), work.parts());
        // By state, part and round.
        let mut figures = vec![vec![Vec::new(); parts.len()]; states.len()];
        let mut random = seed.generator();
        for _ in 0..self.settings.rounds {
            let mut order: Vec<usize> = (0..states.len()).collect();
            random.shuffle(&mut order);
            for at in order {
                self.step(&format!("clients' work, {} ({})", states[at].name(), states[at].server()), progress)?;
                for (of, figure) in figures[at].iter_mut().zip(self.work_in(states[at], &parts, &site)?) {
                    of.push(figure);
                }
            }
        }
        self.remove(TREE)?;
        let bare = figures[0].clone();
        let mut lines = Vec::new();
        for (state, of) in states.into_iter().zip(figures) {
            for ((part, values), bare) in parts.iter().zip(of).zip(&bare) {
                let (name, sessions, metric) = match part {
                    Part::Read(sessions) => ("sequential read", *sessions, Metric::Bandwidth),
                    Part::Mix => ("mix", work.threads, Metric::Throughput),
                };
                let mut case = case(json!({
                    "work": name, "sessions": sessions, "state": state.name(), "server": state.server(),
                    "files": tree.files.len(), "large": work.large, "processors": self.server.processors(),
                }));
                let ratios = values.iter().zip(bare).map(|(ours, bare)| ours / bare).collect();
                lines.push(Line::new(WORK, case.clone(), metric, values, &self.settings.origin));
                if state != State::Bare {
                    case.insert("of".to_owned(), OVER_BARE.into());
                    lines.push(Line::new(WORK, case, Metric::Ratio, ratios, &self.settings.origin));
                }
            }
        }
        Ok(lines)
    }

    /// A figure for each part.
    fn work_in(&self, state: State, parts: &[Part], site: &Site<'_>) -> Result<Vec<f64>> {
        let stay = self.server.stay_here()?;
        let figures = match state {
            State::Bare => {
                let to = self.fresh("to")?;
                let source = self.server.tree(TREE).join(".");
                self.call("cp", &["-a", &source.display().to_string(), &to.display().to_string()])?;
                self.sync()?;
                let figures = parts.iter().map(|part| site.of(*part, &to, TIMES)).collect::<Result<_>>()?;
                self.clear(&[&to])?;
                figures
            }
            State::During(protocol) => {
                let mut figures = Vec::new();
                for part in parts {
                    let served = self.serve(protocol, TREE, |_| {})?;
                    figures.push(site.of(*part, &served.at, 1)?);
                    served.until_done()?;
                    self.end(served)?;
                }
                figures
            }
            State::Done(protocol) => {
                let served = self.serve(protocol, TREE, |_| {})?;
                served.until_done()?;
                self.sync()?;
                let figures = parts.iter().map(|part| site.of(*part, &served.at, TIMES)).collect::<Result<_>>()?;
                self.end(served)?;
                figures
            }
            State::Finished(protocol) => {
                let served = self.serve(protocol, TREE, |_| {})?;
                served.until_done()?;
                let to = served.finish()?;
                let copy = site.tree.check(&self.server.tree(TREE), &to, Fidelity::Times);
                copy.map_err(|reason| wrong(&to, reason))?;
                self.sync()?;
                let figures = parts.iter().map(|part| site.of(*part, &to, TIMES)).collect::<Result<_>>()?;
                self.clear(&[&to])?;
                figures
            }
        };
        drop(stay);
        Ok(figures)
    }
}

impl Site<'_> {
    fn of(&self, part: Part, root: &Path, times: u32) -> Result<f64> {
        match part {
            Part::Read(sessions) => self.read(root, sessions, times),
            Part::Mix => {
                let files = self.tree.files.len() - self.work.sessions.iter().copied().max().unwrap_or(0);
                let Work { threads, loops, .. } = *self.work;
                let mix = Mix { tree: self.tree, files, threads, loops };
                let time = mix.run(root)?;
                mix.check(root)?;
                Ok(mix.operations() as f64 / time.as_secs_f64())
            }
        }
    }

    /// Bytes a second of all sessions together.
    fn read(&self, root: &Path, sessions: usize, times: u32) -> Result<f64> {
        let began = Instant::now();
        let read = std::thread::scope(|scope| {
            let paths = (0..sessions).map(|number| root.join(format!("large {number}")));
            let threads: Vec<_> = paths.map(|path| scope.spawn(move || read_whole(&path, times))).collect();
            let mut read = 0;
            for thread in threads {
                read += thread.join().unwrap_or_else(|_| Err(wrong(root, "a reader has panicked".to_owned())))?;
            }
            Ok::<u64, crate::Error>(read)
        })?;
        let time = began.elapsed();
        let expected = self.work.large * sessions as u64 * u64::from(times);
        if read != expected {
            return Err(wrong(root, format!("readers had {read} bytes of {expected}")));
        }
        Ok(read as f64 / time.as_secs_f64())
    }
}

fn read_whole(path: &Path, times: u32) -> Result<u64> {
    let mut buffer = vec![0; READ];
    let mut bytes = 0;
    for _ in 0..times {
        let mut file = File::open(path).map_err(|source| io(path, "opening", source))?;
        loop {
            match file.read(&mut buffer).map_err(|source| io(path, "reading", source))? {
                0 => break,
                count => bytes += count as u64,
            }
        }
    }
    Ok(bytes)
}
