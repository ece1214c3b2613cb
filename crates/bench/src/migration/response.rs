//! How long clients wait for a file while a migration is a quarter, a half, three quarters done, for both orders of directories and both passes (P5a.8,
//! figures 2.13 to 2.16).
//!
//! As in the paper one client opens files drawn at random one after the other, reads a byte of each, and the crawler rests meanwhile. How far a migration is
//! counts in time, which is the only measure that both passes have: a whole migration of the same kind is timed first, in the same round.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use ishigaki_migrate::engine::{Depth, Passes};
use serde_json::json;

use super::tree::{Shape, Tree};
use super::{Link, Protocol, RESPONSE, Running, case, io, wrong};
use crate::{Line, Metric, Progress, Result};

/// What the tree is called.
pub(super) const TREE: &str = "asked";
/// How many parts of a hundred are done, the whole first since it says how long the others last.
const SHARES: [u32; 5] = [100, 75, 50, 25, 0];
/// Which shares of the times are told.
const QUANTILES: [f64; 9] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 1.0];

const STRATEGIES: [(Depth, Passes); 4] = [
    (Depth::BreadthFirst, Passes::MetadataFirst),
    (Depth::BreadthFirst, Passes::Bulk),
    (Depth::DepthFirst, Passes::MetadataFirst),
    (Depth::DepthFirst, Passes::Bulk),
];

/// What clients ask for.
#[derive(Clone, Debug)]
pub struct Response {
    /// How many files are opened.
    pub files: usize,
    /// The ways to the old server.
    pub links: Vec<Link>,
}

impl Response {
    pub(super) fn runs(&self) -> usize {
        self.links.len() * Protocol::BOTH.len() * STRATEGIES.len() * SHARES.len()
    }
}

/// What is asked, and what must come.
struct Asked<'a> {
    files: Vec<(&'a Path, u8)>,
}

impl Running<'_> {
    /// Of the office's tree.
    pub(super) fn response(&mut self, response: &Response, progress: &mut dyn Progress) -> Result<Vec<Line>> {
        let tree = Tree::new(Shape::Office, self.settings.shrink, self.settings.origin.seed.derive(0x7e));
        self.write(&tree, TREE)?;
        let asked = Asked::draw(&tree, response.files, &mut self.settings.origin.seed.derive(0x7e).generator());
        let mut lines = Vec::new();
        for &link in &response.links {
            self.server.set_link(link)?;
            for protocol in Protocol::BOTH {
                // By strategy, share and round.
                let mut times = [(); STRATEGIES.len()].map(|()| [(); SHARES.len()].map(|()| Vec::new()));
                for _ in 0..self.settings.rounds {
                    for (strategy, of) in STRATEGIES.into_iter().zip(&mut times) {
                        let mut whole = Duration::MAX;
                        for (share, of) in SHARES.into_iter().zip(of) {
                            let now = format!("waiting of clients by {protocol} over {link}, {share}% done");
                            self.step(&now, progress)?;
                            of.push(self.ask(protocol, strategy, share, &mut whole, &asked)?);
                        }
                    }
                }
                for (strategy, of) in STRATEGIES.into_iter().zip(&times) {
                    for (share, rounds) in SHARES.into_iter().zip(of) {
                        lines.extend(self.response_lines(protocol, link, strategy, share, rounds));
                    }
                }
            }
        }
        self.server.set_link(Link::Lan)?;
        self.remove(TREE)?;
        Ok(lines)
    }

    fn ask(
        &self,
        protocol: Protocol,
        (depth, passes): (Depth, Passes),
        share: u32,
        whole: &mut Duration,
        asked: &Asked<'_>,
    ) -> Result<Vec<f64>> {
        let stay = self.server.stay_here()?;
        let served = self.serve(protocol, TREE, |config| {
            (config.depth, config.passes, config.paused) = (depth, passes, share == 0);
        })?;
        match share {
            100 => *whole = served.until_done()?,
            0 => {}
            _ => drop(served.pause_at(*whole * share / 100)?),
        }
        let times = asked.of(&served.at)?;
        drop(stay);
        self.end(served)?;
        Ok(times)
    }

    fn response_lines(
        &self,
        protocol: Protocol,
        link: Link,
        (depth, passes): (Depth, Passes),
        share: u32,
        rounds: &[Vec<f64>],
    ) -> Vec<Line> {
        let depth = if depth == Depth::BreadthFirst { "breadth first" } else { "depth first" };
        let passes = if passes == Passes::MetadataFirst { "metadata first" } else { "all at once" };
        let figure_line = |of: &str, percent: f64, figure: &dyn Fn(&[f64]) -> f64| {
            let case = case(json!({
                "server": protocol.to_string(), "link": link.to_string(), "strategy": format!("{depth}, {passes}"),
                "done": share, "of": of, "percent": percent, "files": rounds[0].len(),
            }));
            let values = rounds.iter().map(|times| figure(times)).collect();
            Line::new(RESPONSE, case, Metric::Elapsed, values, &self.settings.origin)
        };
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len().max(1) as f64;
        let mut lines = vec![figure_line("mean", 0.0, &mean)];
        for quantile in QUANTILES {
            lines.push(figure_line("quantile", quantile * 100.0, &|times| at_quantile(times, quantile)));
        }
        lines
    }
}

impl<'a> Asked<'a> {
    /// Files that have a byte, each once, in the same order for all.
    fn draw(tree: &'a Tree, count: usize, random: &mut fastrand::Rng) -> Self {
        let mut numbers: Vec<usize> = (0..tree.files.len()).filter(|number| tree.files[*number].1 > 0).collect();
        random.shuffle(&mut numbers);
        numbers.truncate(count.max(1));
        let file = |number: usize| (tree.files[number].0.as_path(), tree.content(number)[0]);
        Self { files: numbers.into_iter().map(file).collect() }
    }

    /// How long each took, the least first.
    fn of(&self, root: &Path) -> Result<Vec<f64>> {
        let mut times = Vec::new();
        for (file, expected) in &self.files {
            let path = root.join(file);
            let mut byte = [0];
            let began = Instant::now();
            File::open(&path)
                .and_then(|mut file| file.read_exact(&mut byte))
                .map_err(|source| io(&path, "reading a byte", source))?;
            times.push(began.elapsed().as_secs_f64());
            if byte != [*expected] {
                return Err(wrong(&path, "its first byte is another".to_owned()));
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    }
}

/// The time that this share of sorted times stays within.
fn at_quantile(times: &[f64], quantile: f64) -> f64 {
    let place = (times.len() as f64 * quantile).ceil() as usize;
    times.get(place.max(1) - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_time_that_so_many_stay_within() {
        let times: Vec<f64> = (1..=200).map(f64::from).collect();
        let found = [0.1, 0.5, 0.99, 1.0].map(|quantile| at_quantile(&times, quantile));
        assert_eq!(found.map(f64::to_bits), [20.0_f64, 100.0, 198.0, 200.0].map(f64::to_bits));
        assert_eq!(at_quantile(&[7.0], 0.1).to_bits(), 7.0_f64.to_bits());
    }
}
