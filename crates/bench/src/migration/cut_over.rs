//! The cut-over: from the begin of the service until `ls` of the root has its answer through the door.

use super::tree::{Shape, Shrink};
use super::{CUT_OVER, Link, Protocol, Running};
use crate::{Error, Line, Metric, Progress, Result};

impl Running<'_> {
    /// From a server with 100,000 files, or so many times fewer.
    pub(super) fn cut_over(&mut self, fewer: f64, progress: &mut dyn Progress) -> Result<Vec<Line>> {
        let shrink = Shrink { files: fewer, bytes: 1.0 };
        let tree = self.grow(Shape::Flat, shrink)?;
        let name = Shape::Flat.to_string();
        let expected = tree.directories.iter().filter(|path| path.components().count() == 1).count();
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..self.settings.rounds {
            for protocol in Protocol::BOTH {
                self.step(&format!("cut-over by {protocol}, {} files", tree.files.len()), progress)?;
                let stay = self.server.stay_here()?;
                let served = self.serve(protocol, &name, |_| {})?;
                let shown = self.call("ls", &[&served.at.display().to_string()])?;
                let time = served.began.elapsed();
                drop(stay);
                let found = String::from_utf8_lossy(&shown.stdout).lines().count();
                if found != expected {
                    let reason = format!("round {round}: ls shows {found} names of {expected}");
                    return Err(Error::Wrong { workload: CUT_OVER, reason, path: served.at.clone() });
                }
                self.end(served)?;
                times[protocol as usize].push(time.as_secs_f64());
            }
        }
        let line = |(protocol, times): (Protocol, Vec<f64>)| {
            let mut case = self.case(&name, &tree, Link::Lan, shrink);
            case.insert("server".to_owned(), protocol.to_string().into());
            Line::new(CUT_OVER, case, Metric::Elapsed, times, &self.settings.origin)
        };
        Ok(Protocol::BOTH.into_iter().zip(times).map(line).collect())
    }
}
