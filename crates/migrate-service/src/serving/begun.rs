//! From where a migration was begun: `sources` in its hidden directory, a line of JSON for each source.
//!
//! Stubs name their source by its number, so a start with other sources, or in another order, would bring wrong files. New ones come behind them. What stands behind the
//! `?` of an address may change.

use std::fs;
use std::io;
use std::path::PathBuf;

use ishigaki_migrate::engine::HIDDEN;
use ishigaki_service::stored;

use crate::shown::shown;
use crate::status::SourceStatus;
use crate::{Config, Error, Result};

const NAME: &str = "sources";

/// The sources of a configuration, as they are written.
pub(crate) fn sources(config: &Config) -> Vec<SourceStatus> {
    let sources = config.sources.iter();
    sources.map(|source| SourceStatus { from: source.from.to_string(), into: shown(&source.into) }).collect()
}

fn path(config: &Config) -> PathBuf {
    config.to.join(HIDDEN).join(NAME)
}

fn words(sources: &[SourceStatus]) -> String {
    let word = |source: &SourceStatus| match source.into.as_str() {
        "" => source.from.clone(),
        into => format!("{} (in {into})", source.from),
    };
    sources.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// Refuses a configuration with other sources than the migration was begun with, if that is known. New ones may stand behind them.
pub(crate) fn check(config: &Config) -> Result<()> {
    let Some(found) = read(config)? else { return Ok(()) };
    let wanted = sources(config);
    if wanted.starts_with(&found) {
        return Ok(());
    }
    Err(Error::OtherSources { to: config.to.clone(), found: words(&found), wanted: words(&wanted) })
}

fn read(config: &Config) -> Result<Option<Vec<SourceStatus>>> {
    let failed = |cause: io::Error| Error::Destination { path: path(config), cause };
    let text = match fs::read(path(config)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let read = serde_json::Deserializer::from_slice(&text).into_iter().collect::<Result<Vec<SourceStatus>, _>>();
    read.map(Some).map_err(|error| failed(error.into()))
}

/// Remembers the sources, when all of them have begun.
pub(crate) fn store(config: &Config) -> Result<()> {
    let (path, sources) = (path(config), sources(config));
    let failed = |cause| Error::Destination { path: path.clone(), cause };
    if read(config)?.is_some_and(|known| known == sources) {
        return stored::settle(&path).map_err(failed);
    }
    let lines = sources.iter().map(|source| serde_json::to_string(source).map(|line| line + "\n"));
    let lines = lines.collect::<Result<String, _>>().map_err(|error| failed(error.into()))?;
    stored::replace(&path, lines.as_bytes()).map_err(failed)
}
