//! What is migrated, from where to where, and how.
//!
//! A configuration comes from a file, `migrate.toml`, or from the values of a command line; both go through the same [`Config::validate`], which
//! reads no disk. What is true only on this host and at this time, [`check`](crate::check) looks at.
//!
//! Parts: `origin` is a source by a word, `ids` the map of owners, `written` the file, `values` settings from text, `windows` the crawler's hours.

mod ids;
mod origin;
mod values;
mod windows;
mod written;

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ishigaki_migrate::engine::{Crawl, Depth, Passes, Settings};

use crate::{Error, Result};

pub use ids::IdMap;
pub use origin::{From, SourceConfig};
pub(crate) use values::check_first;
pub use values::{bandwidth, depth, duration, metrics, parallel, passes};
pub use windows::{Minute, Windows};

/// The most requests of the crawler under way at a time.
const MOST_PARALLEL: usize = 256;

/// A migration.
///
/// ```
/// use std::path::Path;
/// use ishigaki_migrate_service::Config;
///
/// let text = r#"
///     to = "/srv/home-data"
///     at = "/srv/home"
///     give_up = "10m"
///     bandwidth = "50MiB"
///
///     [[source]]
///     from = "nfs://old/home"
/// "#;
/// let config = Config::parse(text, Path::new("/etc/ishigaki/migrate.toml"))?;
/// assert_eq!(config.sources[0].from.to_string(), "nfs://old/home");
/// assert_eq!(config.bandwidth, Some(50 << 20));
/// # Ok::<(), ishigaki_migrate_service::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The servers that are replaced. Their order counts: stubs name their source by its number.
    pub sources: Vec<SourceConfig>,
    /// The destination: the directory that takes the files.
    pub to: PathBuf,
    /// The folder through which clients use the destination meanwhile.
    pub at: PathBuf,
    /// How long a source may not answer before a client gets an error; without it, clients wait.
    pub give_up: Option<Duration>,
    /// Owners that have other numbers at the destination.
    pub ids: IdMap,
    /// The order in which directories are listed.
    pub depth: Depth,
    /// What is brought when.
    pub passes: Passes,
    /// Bytes of data that the crawler copies a second.
    pub bandwidth: Option<u64>,
    /// Requests of the crawler under way at a time.
    pub parallel: usize,
    /// The crawler begins when it is told to resume; until then comes what clients ask for.
    pub paused: bool,
    /// Set-user-ID programs, file capabilities and devices work through the folder.
    pub set_ids_and_devices: bool,
    /// The hours in which the crawler works.
    pub windows: Windows,
    /// Paths of the destination, as they are when the migration begins: the crawler takes what is below them before everything else.
    pub first: Vec<PathBuf>,
    /// Where Prometheus finds figures: `HOST:PORT`.
    pub metrics: Option<String>,
}

impl Config {
    /// One source into one destination, everything else as it is by default.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] where the three can not be.
    pub fn new(from: &str, to: PathBuf, at: PathBuf) -> Result<Self> {
        let source = SourceConfig { from: from.parse()?, into: PathBuf::new() };
        let config = Self::of(vec![source], to, at);
        config.validate()?;
        Ok(config)
    }

    /// One source and a destination that are to be compared. Without a folder for clients, it can not be served.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] where the two can not be.
    pub fn to_compare(from: &str, to: PathBuf) -> Result<Self> {
        let source = SourceConfig { from: from.parse()?, into: PathBuf::new() };
        let config = Self::of(vec![source], to, PathBuf::new());
        config.validate_sides()?;
        Ok(config)
    }

    fn of(sources: Vec<SourceConfig>, to: PathBuf, at: PathBuf) -> Self {
        let crawl = Crawl::default();
        Self {
            sources,
            to,
            at,
            give_up: None,
            ids: IdMap::default(),
            depth: crawl.depth,
            passes: crawl.passes,
            bandwidth: crawl.bandwidth,
            parallel: crawl.threads,
            paused: false,
            set_ids_and_devices: false,
            windows: Windows::default(),
            first: Vec::new(),
            metrics: None,
        }
    }

    /// Refuses what can not be, as far as it can be told without looking at any file.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] with the first setting that can not be followed.
    pub fn validate(&self) -> Result<()> {
        self.validate_sides()?;
        let (to, at) = (tidy(&self.to), tidy(absolute("at", &self.at)?));
        if overlap(&to, &at) {
            let reason = format!("{} and the destination {} lie in each other", at.display(), to.display());
            return Err(Error::setting("at", reason, "choose a folder outside of the destination"));
        }
        self.sources.iter().try_for_each(|source| outside(source, "mount point", &at))?;
        if self.give_up.is_some_and(|limit| limit.is_zero()) {
            return Err(Error::setting("give_up", "no time is left to wait", "give a longer one, or leave it out"));
        }
        for path in &self.first {
            values::check_first(path)?;
        }
        if let Some(address) = &self.metrics {
            values::check_metrics(address)?;
        }
        Ok(())
    }

    /// Refuses sources and a destination that can not be.
    pub(crate) fn validate_sides(&self) -> Result<()> {
        if self.sources.is_empty() {
            return Err(Error::setting("source", "there is none", "give at least one, with `from`"));
        }
        let to = tidy(absolute("to", &self.to)?);
        for (number, source) in self.sources.iter().enumerate() {
            outside(source, "destination", &to)?;
            source.validate()?;
            beside(source, &self.sources[..number])?;
        }
        if self.bandwidth == Some(0) {
            return Err(Error::setting("bandwidth", "nothing would be copied", "give a larger one, or leave it out"));
        }
        values::check_parallel(self.parallel)
    }

    /// The engine's settings.
    pub fn settings(&self) -> Settings {
        let ids = self.ids.clone();
        Settings { give_up: self.give_up, owners: Arc::new(move |owner| ids.map(owner)), ..Settings::default() }
    }

    /// The crawler's.
    pub fn crawl(&self) -> Crawl {
        Crawl { threads: self.parallel, depth: self.depth, passes: self.passes, bandwidth: self.bandwidth }
    }
}

fn absolute<'a>(field: &'static str, path: &'a Path) -> Result<&'a Path> {
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Error::setting(field, format!("`{}` is no absolute path", path.display()), "write it from the root on"))
}

fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Refuses a source that is, or holds, another place of the migration.
fn outside(source: &SourceConfig, name: &str, other: &Path) -> Result<()> {
    let From::Path(path) = &source.from else { return Ok(()) };
    let path = tidy(path);
    if !overlap(&path, other) {
        return Ok(());
    }
    let reason = format!("{} and the {name} {} lie in each other", path.display(), other.display());
    Err(Error::setting("from", reason, "a source lies outside of both"))
}

/// Refuses a source whose directory lies in that of one before it. One may have the destination itself.
fn beside(source: &SourceConfig, before: &[SourceConfig]) -> Result<()> {
    let is_root = |path: &Path| path.as_os_str().is_empty();
    let lies_in =
        |other: &&SourceConfig| overlap(&source.into, &other.into) && is_root(&source.into) == is_root(&other.into);
    let Some(other) = before.iter().find(lies_in) else { return Ok(()) };
    let reason = format!("`{}` and `{}` lie in each other", other.into.display(), source.into.display());
    Err(Error::setting("into", reason, "give each source a directory of its own"))
}

/// A path without `.` and `..`, as far as its words tell.
fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if tidy.file_name().is_some() => {
                tidy.pop();
            }
            part => tidy.push(part),
        }
    }
    tidy
}

#[cfg(test)]
mod tests;
