//! The configuration file, `migrate.toml`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::{Config, IdMap, SourceConfig, Windows, values};
use crate::{Error, Result};

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    to: Spanned<PathBuf>,
    at: Spanned<PathBuf>,
    give_up: Option<Spanned<String>>,
    ids: Option<Spanned<PathBuf>>,
    depth: Option<Spanned<String>>,
    passes: Option<Spanned<String>>,
    bandwidth: Option<Spanned<String>>,
    parallel: Option<Spanned<i64>>,
    #[serde(default)]
    paused: bool,
    windows: Option<Spanned<Vec<String>>>,
    first: Option<Spanned<Vec<PathBuf>>>,
    metrics: Option<Spanned<String>>,
    #[serde(default)]
    set_ids_and_devices: bool,
    #[serde(default)]
    source: Vec<Spanned<WrittenSource>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSource {
    from: Spanned<String>,
    #[serde(default)]
    into: PathBuf,
    credentials: Option<Spanned<PathBuf>>,
}

/// A text and its file, so that errors have lines.
struct Text<'a> {
    text: &'a str,
    path: &'a Path,
}

impl Text<'_> {
    /// The line of a place, from 1.
    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
    }

    fn value<T, V>(&self, written: Option<Spanned<T>>, read: impl FnOnce(T) -> Result<V>) -> Result<Option<V>> {
        let Some(written) = written else { return Ok(None) };
        let line = self.line(written.span().start);
        read(written.into_inner()).map(Some).map_err(|error| error.written(self.path, line))
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if it can not be read; those of [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self> {
        let failed =
            |error: std::io::Error| Error::File { path: path.to_owned(), line: None, reason: error.to_string() };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Self::parse(&text, &std::path::absolute(path).map_err(failed)?)
    }

    /// Reads the text of a configuration file. Relative paths begin where the file is.
    ///
    /// # Errors
    ///
    /// [`Error::File`] for what is no TOML or has a key that there is not; [`Error::Setting`] for a value that can not be; both with
    /// the line.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let here = Text { text, path };
        let written: Written = toml::from_str(text).map_err(|error: toml::de::Error| Error::File {
            path: path.to_owned(),
            line: error.span().map(|span| here.line(span.start)),
            reason: error.message().replace('\n', ", "),
        })?;
        let base = path.parent().unwrap_or(Path::new(""));
        let lines = [written.to.span().start, written.at.span().start].map(|at| here.line(at));
        let mut config = Self::of(Vec::new(), base.join(written.to.into_inner()), base.join(written.at.into_inner()));
        config.give_up = here.value(written.give_up, |text| values::duration("give_up", &text))?;
        config.ids = here.value(written.ids, |file| IdMap::read(&base.join(file)))?.unwrap_or_default();
        config.depth = here.value(written.depth, |text| values::depth(&text))?.unwrap_or(config.depth);
        config.passes = here.value(written.passes, |text| values::passes(&text))?.unwrap_or(config.passes);
        config.bandwidth = here.value(written.bandwidth, |text| values::bandwidth(&text))?;
        config.parallel = here.value(written.parallel, values::parallel)?.unwrap_or(config.parallel);
        config.paused = written.paused;
        config.set_ids_and_devices = written.set_ids_and_devices;
        config.windows = here.value(written.windows, |texts| Windows::read(&texts))?.unwrap_or_default();
        let first = |paths: Vec<PathBuf>| paths.iter().try_for_each(|path| values::check_first(path)).map(|()| paths);
        config.first = here.value(written.first, first)?.unwrap_or_default();
        config.metrics = here.value(written.metrics, |text| values::metrics(&text))?;
        if written.source.is_empty() {
            config.validate()?;
        }
        for source in written.source {
            let line = here.line(source.span().start);
            let WrittenSource { from, into, credentials } = source.into_inner();
            let from = here.value(Some(from), |text| text.parse::<super::From>())?;
            let Some(mut from) = from else { continue };
            if credentials.is_some() {
                let with = here.value(credentials, |file| from.clone().with_credentials(base.join(file)))?;
                from = with.unwrap_or(from);
            }
            config.sources.push(SourceConfig { from: from.below(base), into });
            // What was right before the source came is wrong by that source, or by one of the two paths.
            config.validate().map_err(|error| match &error {
                Error::Setting { field: "to", .. } => error.written(path, lines[0]),
                Error::Setting { field: "at", .. } => error.written(path, lines[1]),
                _ => error.written(path, line),
            })?;
        }
        Ok(config)
    }
}
