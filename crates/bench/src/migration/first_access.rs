//! The first access to a file of a server that was just replaced, by its depth and by the names in each directory above it (P5a.8, figure 2.7).
//!
//! The crawler rests, so that a client waits for everything that it needs: each directory on the way is listed, and the first block comes.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use super::tree::Tree;
use super::{FIRST, Link, Protocol, Running, case, wrong};
use crate::{Line, Metric, Progress, Result};

/// Of the file that is read: a block of a file system.
const BYTES: u64 = 4096;

/// Which places a file has.
#[derive(Clone, Debug)]
pub struct FirstAccess {
    /// How many directories lie on the way, the root among them.
    pub depths: Vec<usize>,
    /// Names in each of them.
    pub widths: Vec<usize>,
    /// The ways to the old server.
    pub links: Vec<Link>,
}

impl FirstAccess {
    pub(super) fn runs(&self) -> usize {
        self.depths.len() * self.widths.len() * self.links.len() * Protocol::BOTH.len()
    }
}

/// What the tree is called.
pub(super) fn tree_name(width: usize) -> String {
    format!("wide-{width}")
}

impl Running<'_> {
    pub(super) fn first_access(&mut self, first: &FirstAccess, progress: &mut dyn Progress) -> Result<Vec<Line>> {
        let deepest = first.depths.iter().copied().max().unwrap_or(1);
        let mut lines = Vec::new();
        for &width in &first.widths {
            let tree = Tree::nested(deepest, width, BYTES, self.settings.origin.seed.derive(width as u64));
            let name = tree_name(width);
            self.write(&tree, &name)?;
            for &link in &first.links {
                self.server.set_link(link)?;
                for &depth in &first.depths {
                    let mut times = [Vec::new(), Vec::new()];
                    for _ in 0..self.settings.rounds {
                        for protocol in Protocol::BOTH {
                            let now = format!("first access by {protocol} over {link}, depth {depth}, width {width}");
                            self.step(&now, progress)?;
                            times[protocol as usize].push(self.access(protocol, &tree, &name, depth)?);
                        }
                    }
                    for (protocol, times) in Protocol::BOTH.into_iter().zip(times) {
                        let case = case(json!({
                            "server": protocol.to_string(), "link": link.to_string(), "width": width, "depth": depth,
                        }));
                        lines.push(Line::new(FIRST, case, Metric::Elapsed, times, &self.settings.origin));
                    }
                }
            }
            self.server.set_link(Link::Lan)?;
            self.remove(&name)?;
        }
        Ok(lines)
    }

    fn access(&self, protocol: Protocol, tree: &Tree, name: &str, depth: usize) -> Result<f64> {
        let mut path: PathBuf = (1..depth).map(|_| "directory").collect();
        path.push("file 0");
        let number = tree.files.iter().position(|(file, _)| *file == path);
        let stay = self.server.stay_here()?;
        let served = self.serve(protocol, name, |config| config.paused = true)?;
        let asked = served.at.join(&path);
        let began = Instant::now();
        let found = fs::read(&asked);
        let time = began.elapsed();
        drop(stay);
        let found = found.map_err(|source| super::io(&asked, "reading for the first time", source))?;
        if number.is_none_or(|number| tree.content(number) != found) {
            return Err(wrong(&asked, "it has other bytes".to_owned()));
        }
        self.end(served)?;
        Ok(time.as_secs_f64())
    }
}
