//! Until all is here: a migration from each server beside its rivals, over the same link.

use std::time::{Duration, Instant};

use super::old_server::OldServer;
use super::tree::{Fidelity, Shape, Tree};
use super::{Link, OVER_RSYNC, Protocol, Running, TOTAL, wrong};
use crate::{Line, Metric, Progress, Result};

/// Which way to get a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ishigaki(Protocol),
    Rsync,
    /// By `WebDAV` from another rclone, in NFS' place, or from smbd.
    Rclone(Protocol),
}

impl Side {
    /// Those that this host can have.
    fn all() -> Vec<Self> {
        let mut sides = vec![Self::Ishigaki(Protocol::Nfs), Self::Ishigaki(Protocol::Smb), Self::Rsync];
        if OldServer::has_rclone() {
            sides.extend(Protocol::BOTH.map(Self::Rclone));
        }
        sides
    }

    /// As cases call it.
    fn name(self) -> &'static str {
        match self {
            Self::Ishigaki(Protocol::Nfs) => "ishigaki nfs",
            Self::Ishigaki(Protocol::Smb) => "ishigaki smb",
            Self::Rsync => "rsync",
            Self::Rclone(Protocol::Nfs) => "rclone webdav",
            Self::Rclone(Protocol::Smb) => "rclone smb",
        }
    }
}

/// How many runs a comparison has in each round.
pub(super) fn runs() -> usize {
    Side::all().len()
}

impl Running<'_> {
    /// All sides, in an order drawn anew for each round.
    pub(super) fn total(
        &mut self,
        shape: Shape,
        tree: &Tree,
        link: Link,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Line>> {
        self.server.set_link(link)?;
        let mut random = self.settings.origin.seed.derive(0x5a).generator();
        let sides = Side::all();
        let mut times = vec![Vec::new(); sides.len()];
        for _ in 0..self.settings.rounds {
            let mut order: Vec<usize> = (0..sides.len()).collect();
            random.shuffle(&mut order);
            for at in order {
                self.step(&format!("{} brings {shape} over {link}", sides[at].name()), progress)?;
                let time = match sides[at] {
                    Side::Ishigaki(protocol) => self.migrate(protocol, shape, tree)?,
                    Side::Rsync => self.rsync(shape, tree)?,
                    Side::Rclone(protocol) => self.rclone(protocol, shape, tree)?,
                };
                times[at].push(time.as_secs_f64());
            }
        }
        self.server.set_link(Link::Lan)?;
        let rsync = sides.iter().position(|side| *side == Side::Rsync).unwrap_or(0);
        let theirs = times[rsync].clone();
        let mut lines = Vec::new();
        for (side, times) in sides.iter().zip(times) {
            let mut case = self.case(&shape.to_string(), tree, link, self.settings.shrink);
            case.insert("side".to_owned(), side.name().into());
            let ratios = times.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
            lines.push(Line::new(TOTAL, case.clone(), Metric::Elapsed, times, &self.settings.origin));
            if *side != Side::Rsync {
                case.insert("of".to_owned(), OVER_RSYNC.into());
                lines.push(Line::new(TOTAL, case, Metric::Ratio, ratios, &self.settings.origin));
            }
        }
        Ok(lines)
    }

    fn migrate(&self, protocol: Protocol, shape: Shape, tree: &Tree) -> Result<Duration> {
        let stay = self.server.stay_here()?;
        let served = self.serve(protocol, &shape.to_string(), |_| {})?;
        let time = served.until_done()?;
        drop(stay);
        let to = served.finish()?;
        // By SMB, owners and modes are the migration's to choose.
        let fidelity = if protocol == Protocol::Nfs { Fidelity::Owners } else { Fidelity::Times };
        self.check(shape, tree, &to, fidelity)?;
        self.clear(&[&to])?;
        Ok(time)
    }

    fn rsync(&self, shape: Shape, tree: &Tree) -> Result<Duration> {
        let from = self.server.rsync(&shape.to_string());
        self.copy(shape, tree, Fidelity::Owners, "rsync", &["-aHAX", "--numeric-ids", &from])
    }

    fn rclone(&self, protocol: Protocol, shape: Shape, tree: &Tree) -> Result<Duration> {
        let obscured = self.call("rclone", &["obscure", OldServer::password()])?;
        let obscured = String::from_utf8_lossy(&obscured.stdout).trim().to_owned();
        let from = self.server.rclone(protocol, &shape.to_string(), &obscured);
        let mut words = vec!["copy", "--config=", "--transfers=16", "--checkers=16"];
        words.extend(from.iter().map(String::as_str));
        self.copy(shape, tree, Fidelity::Bytes, "rclone", &words)
    }

    /// A program that copies the tree, whose last word is the destination.
    fn copy(
        &self,
        shape: Shape,
        tree: &Tree,
        fidelity: Fidelity,
        program: &'static str,
        words: &[&str],
    ) -> Result<Duration> {
        let to = self.fresh("to")?;
        let last = format!("{}/", to.display());
        let stay = self.server.stay_here()?;
        let began = Instant::now();
        self.call(program, &[words, &[&last]].concat())?;
        let time = began.elapsed();
        drop(stay);
        self.check(shape, tree, &to, fidelity)?;
        self.clear(&[&to])?;
        Ok(time)
    }

    fn check(&self, shape: Shape, tree: &Tree, to: &std::path::Path, fidelity: Fidelity) -> Result<()> {
        tree.check(&self.server.tree(&shape.to_string()), to, fidelity).map_err(|reason| wrong(to, reason))
    }
}
