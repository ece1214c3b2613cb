//! Whether the sources answer, and what they can not tell.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use ishigaki_migrate::destination::local::Local;
use ishigaki_migrate::engine::{Engine, HIDDEN, LOST_AND_FOUND, STATE};
use ishigaki_migrate::source::{Cancel, FileType, Location, Source};

use super::Finding;
use crate::config::SourceConfig;
use crate::shown::shown;
use crate::{Config, Error, Result};

/// Sources that have answered, by their numbers.
#[derive(Default)]
pub struct Opened(Vec<Option<Arc<dyn Source>>>);

impl Opened {
    pub(crate) fn take(&mut self, number: usize) -> Option<Arc<dyn Source>> {
        self.0.get_mut(number).and_then(Option::take)
    }
}

/// Which sources are asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    All,
    /// Those with which the migration does not go on.
    New,
}

pub(super) fn look(config: &Config, asked: Asked, cancel: &Cancel, findings: &mut Vec<Finding>) -> Result<Opened> {
    let mut all = Opened::default();
    // That of a destination that can not be read is told elsewhere.
    let to = Local::open(&config.to).ok();
    let begun = to.as_ref().and_then(|to| Engine::begun(to).ok()).unwrap_or(0);
    let roots = to.as_ref().and_then(|to| Engine::roots(to).ok());
    let first = if asked == Asked::New { begun } else { 0 };
    for (number, source) in config.sources.iter().enumerate().skip(first) {
        let opened = source.from.open(cancel);
        let asked = opened.and_then(|opened| {
            let root = opened.root(cancel).and_then(|(_, attributes)| {
                roots.as_ref().map_or(Ok(()), |roots| roots.check(number, &attributes))?;
                Ok(attributes)
            });
            Ok((opened, root.map_err(|error| source.from.failed(error))?))
        });
        let (capabilities, attributes) = match asked {
            Ok((opened, attributes)) => {
                let capabilities = opened.capabilities();
                if source.into.as_os_str().is_empty() {
                    hides(config, source, &*opened, cancel, findings);
                }
                all.0.resize_with(number, || None);
                all.0.push(Some(opened));
                (capabilities, attributes)
            }
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(error) if number < begun => {
                let message = format!("{error}; what is here is served, and the rest waits");
                findings.push(Finding::warning("from", message, "have it answer again"));
                continue;
            }
            Err(error) => {
                findings.push(Finding::problem("from", error.to_string(), "name a source that can be read from here"));
                continue;
            }
        };
        let name = &source.from;
        if attributes.file_type != FileType::Directory {
            let message = format!("{name} is no directory");
            findings.push(Finding::problem("from", message, "name a directory, or an export"));
        }
        if !capabilities.owners {
            let message = format!("{name} tells no owners by number: files will belong to root");
            findings.push(Finding::warning("from", message, "set owners when the migration is finished"));
        }
        if !capabilities.extras {
            let message = format!("{name} tells no extended attributes and no access lists: none arrive");
            findings.push(Finding::note("from", message));
        }
        if !capabilities.holes {
            findings.push(Finding::note("from", format!("{name} tells no holes: they are read as zeros")));
        }
    }
    Ok(all)
}

/// What a source that goes into the destination itself has under names that the destination's root has taken for other things.
fn hides(config: &Config, source: &SourceConfig, opened: &dyn Source, cancel: &Cancel, findings: &mut Vec<Finding>) {
    let of_others = config.sources.iter().filter_map(|other| Some((other.into.iter().next()?, other)));
    let own = [(OsStr::new(HIDDEN), "the migration keeps that name for itself".to_owned())];
    let others = of_others.map(|(name, other)| (name, format!("that is where {} goes", other.from)));
    let mut hide = |name: &OsStr, reason: &str| {
        let message = format!("{} has a `{}`: {reason}", source.from, shown(Path::new(name)));
        let remedy = "rename it there; else it is left out, which is to be accepted before the end";
        findings.push(Finding::warning("from", message, remedy));
    };
    let look = |name: &OsStr| opened.attributes(&Location { path: name.into(), handle: Box::default() }, cancel).ok();
    for (name, reason) in own.into_iter().chain(others) {
        if look(name).is_some() {
            hide(name, &reason);
        }
    }
    let name = OsStr::new(LOST_AND_FOUND);
    let Some(is_empty) = fs::read_dir(config.to.join(name)).ok().map(|mut names| names.next().is_none()) else {
        return;
    };
    let is_begun = config.to.join(HIDDEN).join(STATE).exists();
    match look(name).filter(|_| !is_begun).map(|attributes| attributes.file_type) {
        Some(FileType::Directory) if is_empty => {}
        Some(FileType::Directory) => hide(name, "the destination has one of its own with files in it"),
        Some(_) => hide(name, "the destination has a directory of that name of its own"),
        None => {}
    }
}
